"""What the tests need, installed below .work/identity at the root of the repository: a provider from npm, clients from PyPI."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORK = HERE.parent.parent / ".work" / "identity"
PYTHON = WORK / "venv" / "bin" / "python"
MANIFESTS = ("package.json", "package-lock.json", ".npmrc", "requirements.txt")
LIMIT_SECONDS = 900


class Missing(Exception):
    """What is needed cannot be had here."""


def prepare():
    """Installs it, unless the same was installed before."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            raise Missing(f"there is no {tool}")
    WORK.mkdir(parents=True, exist_ok=True)
    with open(WORK.parent / "identity.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = WORK / "installed"
        digest = hashlib.sha256(os.path.realpath(sys.executable).encode())
        for name in MANIFESTS:
            digest.update((HERE / name).read_bytes())
        if stamp.is_file() and stamp.read_text() == digest.hexdigest():
            return
        shutil.rmtree(WORK)
        WORK.mkdir()
        for name in MANIFESTS:
            shutil.copy(HERE / name, WORK)
        shell("npm", "ci", "--prefix", WORK, "--ignore-scripts", "--no-audit", "--no-fund")
        shell(sys.executable, "-m", "venv", WORK / "venv")
        shell(PYTHON, "-m", "pip", "install", "--no-input", "-r", HERE / "requirements.txt")
        stamp.write_text(digest.hexdigest())


def enter():
    """Goes on in the Python that has the clients."""
    if Path(sys.prefix).resolve() != (WORK / "venv").resolve():
        prepare()
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        os.execv(PYTHON, [str(PYTHON), *sys.argv])


def shell(*command):
    """One step of the installation. Its output stays in a file: it names this machine's registries."""
    log = WORK / "setup.log"
    with open(log, "ab") as output:
        done = subprocess.run(
            [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            timeout=LIMIT_SECONDS,
        )  # fmt: skip
    if done.returncode != 0:
        raise Missing(f"what the tests need cannot be installed, see {log}")
