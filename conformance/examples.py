#!/usr/bin/env python3
"""Runs the examples of README.md as they stand there, against a server that is listening.

    conformance/examples.py --endpoint http://127.0.0.1:PORT/devstoreaccount1 \\
        --queue-endpoint http://127.0.0.1:PORT/devstoreaccount1 \\
        --blob-endpoint http://127.0.0.1:PORT/devstoreaccount1

Only the ports are exchanged. The clients are those that conformance/sdk/run installs.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SDK = ROOT / ".work" / "sdk"
TABLES_IN_README = "http://127.0.0.1:10002/devstoreaccount1"
QUEUES_IN_README = "http://127.0.0.1:10001/devstoreaccount1"
BLOBS_IN_README = "http://127.0.0.1:10000/devstoreaccount1"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "README.md").read_text(), re.S | re.M)


def run(command, folder, **options):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, **options)
    return done.returncode, done.stdout + done.stderr


def python(code, folder, suite="python"):
    (folder / "example.py").write_text(code)
    return run([SDK / suite / "venv" / "bin" / "python", "example.py"], folder)


def queue_python(code, folder):
    return python(code, folder, "queue-python")


def blob_python(code, folder):
    return python(code, folder, "blob-python")


def javascript(code, folder):
    (folder / "example.js").write_text(code)
    return run(["node", "example.js"], folder, env=os.environ | {"NODE_PATH": str(SDK / "javascript" / "node_modules")})


def go(code, folder):
    # Inside a copy of the suite's module, so that its pinned versions are used.
    for name in ("go.mod", "go.sum"):
        shutil.copy(HERE / "sdk" / "go" / name, folder / name)
    (folder / "main.go").write_text(code)
    cache = {"GOMODCACHE": str(SDK / "go" / "modules"), "GOCACHE": str(SDK / "go" / "build")}
    return run(["go", "run", "."], folder, env=os.environ | cache | {"GOFLAGS": "-mod=mod", "GOPROXY": "off"})


def shell(code, folder):
    return run(["bash", "-euo", "pipefail", "-c", code], folder)


# The language's tool, its mark in README.md, which block with that mark, how to run it, what it must print.
EXAMPLES = [
    ("python3", "python", 0, python, "Ada 36"),
    ("python3", "python", 1, queue_python, "resize photo 7"),
    ("python3", "python", 2, blob_python, "2026/ada.jpg 20 b'not really a picture'"),
    ("node", "js", 0, javascript, "Ada 36"),
    ("go", "go", 0, go, '"Name":"Ada"'),
    ("curl", "sh", 1, shell, '"Name":"Ada","Age":36'),
]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--endpoint", required=True)
    options.add_argument("--queue-endpoint", required=True)
    options.add_argument("--blob-endpoint", required=True)
    endpoints = options.parse_args()
    passed = failed = skipped = 0
    # Only what is missing.
    suites = ["python-sync", "queue-python-sync", "blob-python-sync", "javascript", "go"]
    subprocess.run([HERE / "sdk" / "run", "--prepare", *suites], check=True)
    for tool, mark, index, runner, expected in EXAMPLES:
        if shutil.which(tool) is None:
            missing = "failed" if os.environ.get("CI") == "true" else "skipped"
            print(f"example in {mark}: {missing}, {tool} is not on this machine")
            skipped, failed = skipped + (missing == "skipped"), failed + (missing == "failed")
            continue
        code = blocks(mark)[index].replace(TABLES_IN_README, endpoints.endpoint)
        code = code.replace(QUEUES_IN_README, endpoints.queue_endpoint).replace(BLOBS_IN_README, endpoints.blob_endpoint)
        with tempfile.TemporaryDirectory() as folder:
            status, output = runner(code, Path(folder))
        if status == 0 and expected in output:
            passed += 1
            print(f"example in {mark}: ok")
        else:
            failed += 1
            print(f"example in {mark}: failed with {status}, expected {expected!r} in:\n{output}")
    print(f"examples: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
