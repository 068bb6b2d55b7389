"""The official clients and SeaweedFS, installed below .work/ at the root of the repository."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORK = HERE.parent.parent / ".work" / "cluster"
PYTHON = WORK / "venv" / "bin" / "python"
WEED = WORK / "venv" / "bin" / "weed"
REQUIREMENTS = HERE / "requirements.txt"
LIMIT_SECONDS = 900


class Missing(Exception):
    """The tools cannot be had here."""


def prepare():
    """Installs them, unless the same were installed before."""
    WORK.mkdir(parents=True, exist_ok=True)
    with open(WORK / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = WORK / "installed"
        wanted = hashlib.sha256(REQUIREMENTS.read_bytes() + os.path.realpath(sys.executable).encode()).hexdigest()
        if stamp.is_file() and stamp.read_text() == wanted:
            return
        shutil.rmtree(WORK / "venv", ignore_errors=True)
        shell(sys.executable, "-m", "venv", WORK / "venv")
        shell(PYTHON, "-m", "pip", "install", "--no-input", "-r", REQUIREMENTS)
        stamp.write_text(wanted)


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
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_SECONDS,
        )
    if done.returncode != 0:
        raise Missing(f"what the tests need cannot be installed, see {log}")
