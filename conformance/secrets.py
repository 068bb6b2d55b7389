#!/usr/bin/env python3
"""Fails if a log of the server shows a secret: a key, a signature, a token.

    tepui serve --log-level trace --log-file LOG ...
    conformance/secrets.py LOG [--secrets FILE]

Beside what always looks like one, it looks for each line of FILE, as it is and percent-encoded. What is found is not shown, only where.
"""

import argparse
import re
import sys
from pathlib import Path
from urllib.parse import quote

DEVELOPMENT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

SHAPES = {
    "the signature of a SAS": re.compile(rb"(?i)(?:\bsig|%26sig)(?:=|%3d)(?!XXXXX)[A-Za-z0-9%+/]{8,}"),
    "a Shared Key": re.compile(rb"SharedKey(?:Lite)? [A-Za-z0-9_-]+:[A-Za-z0-9+/]{8,}"),
    # Three parts in base64url, of which the first begins an object of JSON.
    "a token": re.compile(rb"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}"),
    "a bearer token": re.compile(rb"(?i)\bbearer (?!authorization_uri=)[A-Za-z0-9._~+/=-]{20,}"),
    "an account key": re.compile(rb"AccountKey=(?!XXXXX)[A-Za-z0-9+/]{8,}"),
    "a private key": re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--secrets", type=Path, help="a file with a secret on each line")
    arguments = parser.parse_args()
    known = [DEVELOPMENT_KEY]
    if arguments.secrets:
        known += [line for line in arguments.secrets.read_text().splitlines() if line]
    written = {form.encode() for secret in known for form in (secret, quote(secret, safe=""), quote(secret, safe="").lower())}
    found, lines = 0, 0
    for log in arguments.logs:
        with open(log, "rb") as text:
            for number, line in enumerate(text, 1):
                lines += 1
                what = [name for name, shape in SHAPES.items() if shape.search(line)]
                what += ["a known secret"] if any(secret in line for secret in written) else []
                if what:
                    found += 1
                    print(f"   {log.name}:{number}: {', '.join(what)}")
    if not lines:
        print("   the log is empty, so nothing was shown by it")
        return 1
    print(f"secrets: {lines} lines of log, {found} with a secret")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
