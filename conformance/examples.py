#!/usr/bin/env python3
"""Runs the examples of README.md and docs/insight.md as they stand there, twice each, against a server that is listening.

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
    text = "\n".join((ROOT / name).read_text() for name in ("README.md", "docs/insight.md"))
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)


def block(language, beginning):
    return next(code for code in blocks(language) if re.match(beginning, code, re.S))


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
    cache = {"GOMODCACHE": str(SDK / "go-cache" / "modules"), "GOCACHE": str(SDK / "go-cache" / "build")}
    return run(["go", "run", "."], folder, env=os.environ | cache | {"GOFLAGS": "-mod=mod", "GOPROXY": "off"})


def shell(code, folder):
    return run(["bash", "-euo", "pipefail", "-c", code], folder)


# The language's tool, its mark, how the block with that mark begins, how to run it, what it must print.
EXAMPLES = [
    ("python3", "python", "from azure.data.tables", python, "Ada 36"),
    ("python3", "python", r".*QueueClient\b", queue_python, "resize photo 7"),
    ("python3", "python", r".*ContainerClient\b", blob_python, "2026/ada.jpg 20 b'not really a picture'"),
    ("node", "js", "", javascript, "Ada 36"),
    ("go", "go", "", go, '"Name":"Ada"'),
    ("curl", "sh", "SAS=", shell, '"Name":"Ada","Age":36'),
    ("curl", "sh", "URL=.*tepui-receipt", shell, "tepui-receipt: plan=partition, ranges=1, scanned=0"),
    ("python3", "python", ".*raw_response_hook", python, "plan=partition, ranges=1, scanned=0"),
    ("node", "js", ".*onResponse", javascript, "plan=partition, ranges=1, scanned=0"),
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
    for tool, mark, beginning, runner, expected in EXAMPLES:
        if shutil.which(tool) is None:
            missing = "failed" if os.environ.get("CI") == "true" else "skipped"
            print(f"example in {mark}: {missing}, {tool} is not on this machine")
            skipped, failed = skipped + (missing == "skipped"), failed + (missing == "failed")
            continue
        code = block(mark, beginning).replace(TABLES_IN_README, endpoints.endpoint)
        code = code.replace(QUEUES_IN_README, endpoints.queue_endpoint).replace(BLOBS_IN_README, endpoints.blob_endpoint)
        # Twice: people try what they have tried before, and then what it makes is there already.
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder:
                status, output = runner(code, Path(folder))
            good = status == 0 and expected in output and "odata.error" not in output
            if not good:
                break
        if good:
            passed += 1
            print(f"example in {mark}: ok")
        else:
            failed += 1
            print(f"example in {mark}: failed with {status}, expected {expected!r} in:\n{output}")
    print(f"examples: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
