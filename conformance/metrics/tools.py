"""Prometheus and promtool: those on the path, or those of the Debian package, unpacked below .work/."""

import fcntl
import shutil
import subprocess
from pathlib import Path

WORK = Path(__file__).resolve().parent.parent.parent / ".work" / "prometheus"
UNPACKED = WORK / "package" / "usr" / "bin"
PACKAGE = "prometheus"
LIMIT_SECONDS = 300


class Missing(Exception):
    """The tools cannot be had here."""


def find(name):
    found = shutil.which(name)
    return found if found is not None else str(UNPACKED / name)


def prometheus():
    return find("prometheus")


def promtool():
    return find("promtool")


def are_there():
    return all(Path(find(name)).is_file() for name in ("prometheus", "promtool"))


def prepare():
    """Installs them, unless they are there."""
    if are_there():
        return
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise Missing(f"there is neither Prometheus nor {tool}")
    WORK.mkdir(parents=True, exist_ok=True)
    with open(WORK / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not are_there():
            install()


def install():
    # With the lists of packages of this machine; if there are none, with lists of our own, for which nobody has to be root.
    package = download([])
    if package is None:
        own = own_lists()
        shell("apt-get", *own, "update")
        package = download(own)
    if package is None:
        raise Missing(f"the package {PACKAGE} cannot be downloaded, see {WORK / 'setup.log'}")
    fresh = WORK / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    if not shell("dpkg-deb", "-x", package, fresh):
        raise Missing(f"the package {PACKAGE} cannot be unpacked, see {WORK / 'setup.log'}")
    shutil.rmtree(WORK / "package", ignore_errors=True)
    fresh.rename(WORK / "package")
    package.unlink()
    for folder in ("lists", "cache"):
        shutil.rmtree(WORK / folder, ignore_errors=True)


def own_lists():
    for folder in ("lists/partial", "cache/archives/partial"):
        (WORK / folder).mkdir(parents=True, exist_ok=True)
    return ["-o", f"Dir::State::Lists={WORK / 'lists'}", "-o", f"Dir::Cache={WORK / 'cache'}", "-o", "APT::Sandbox::User="]


def download(options):
    shell("apt-get", *options, "download", PACKAGE)
    return next(iter(sorted(WORK.glob(f"{PACKAGE}_*.deb"))), None)


def shell(*command):
    """One step of the installation. Its output stays in a file: it names this machine's registries."""
    with open(WORK / "setup.log", "ab") as output:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=WORK,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_SECONDS,
        )
    return done.returncode == 0
