#!/usr/bin/env python3
"""Checks the licences of all dependencies, from `cargo metadata` on standard input, by the list in deny.toml."""

import json
import re
import sys
import tomllib
from pathlib import Path

DENY = Path(__file__).resolve().parent.parent / "deny.toml"
ACCEPTED = set(tomllib.loads(DENY.read_text())["licenses"]["allow"])


def acceptable(expression):
    """An expression of SPDX: any side of an OR will do, all sides of an AND are needed."""
    expression = expression.replace("/", " OR ").replace(" WITH LLVM-exception", "")
    tokens = re.findall(r"[()]|[^\s()]+", expression)

    def either():
        value = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            value = both() or value
        return value

    def both():
        value = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            value = one() and value
        return value

    def one():
        token = tokens.pop(0)
        if token == "(":
            value = either()
            tokens.pop(0)
            return value
        return token in ACCEPTED

    return either()


def main():
    packages = json.load(sys.stdin)["packages"]
    refused = [p for p in packages if not (p["license"] and acceptable(p["license"]))]
    for package in refused:
        print(f"licence not accepted: {package['name']} {package['version']}: {package['license']}")
    print(f"licences: {len(packages) - len(refused)} passed, {len(refused)} failed")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
