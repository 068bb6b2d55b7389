"""sslscan: the one on the path, or that of the Debian package, unpacked below .work/."""

import fcntl
import shutil
import subprocess
from pathlib import Path

WORK = Path(__file__).resolve().parent.parent.parent / ".work" / "sslscan"
UNPACKED = WORK / "package" / "usr" / "bin" / "sslscan"
LIMIT_SECONDS = 300


def sslscan():
    """The program, or None if it cannot be had here."""
    found = shutil.which("sslscan")
    if found is not None:
        return found
    if any(shutil.which(tool) is None for tool in ("apt-get", "dpkg-deb")):
        return None
    WORK.mkdir(parents=True, exist_ok=True)
    with open(WORK / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not UNPACKED.is_file():
            install()
    return str(UNPACKED) if UNPACKED.is_file() and runs() else None


def runs():
    """It is linked to the OpenSSL of the system, which every Debian has."""
    done = subprocess.run([UNPACKED, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LIMIT_SECONDS)
    return done.returncode == 0


def install():
    # With the lists of packages of this machine; if there are none, with lists of our own, for which nobody has to be root.
    if not download([]):
        for folder in ("lists/partial", "cache/archives/partial"):
            (WORK / folder).mkdir(parents=True, exist_ok=True)
        own = ["-o", f"Dir::State::Lists={WORK / 'lists'}", "-o", f"Dir::Cache={WORK / 'cache'}", "-o", "APT::Sandbox::User="]
        shell("apt-get", *own, "update")
        download(own)
    for package in WORK.glob("sslscan_*.deb"):
        fresh = WORK / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        if shell("dpkg-deb", "-x", package, fresh):
            shutil.rmtree(WORK / "package", ignore_errors=True)
            fresh.rename(WORK / "package")
        package.unlink()
    for folder in ("lists", "cache"):
        shutil.rmtree(WORK / folder, ignore_errors=True)


def download(options):
    return shell("apt-get", *options, "download", "sslscan")


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
