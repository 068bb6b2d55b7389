#!/usr/bin/env python3
"""Runs all tests of the workspace, several test programs at a time.

`cargo test` runs one test program after the other, and many of them wait: for a disk, for a process that was killed, for a
time to pass. Those that measure time, or put the whole machine under load, run alone at the end.

    .ci/run_tests.py [--jobs N] [--only PACKAGE | --without PACKAGE] [options of cargo test that choose what is built]
"""

import argparse
import concurrent.futures
import functools
import json
import os
import pathlib
import subprocess
import sys
import time

# By package and test program. The longest begins first.
LONGEST = ("tepui-derive", "mistakes")
ALONE = {
    ("tepui", "isolation"),
    ("tepui", "soak"),
    ("tepui", "targets"),
    ("tepui", "hostile"),
    ("tepui-server", "connections"),
}
# Tests of tepui-service that tepui-tikv compiles for itself: those that are not about a store over a network are run where they are.
OF_A_STORE = ("tepui-tikv", "services-", "on_a_database")


def test_programs(options):
    """Builds the test programs. Yields their package, name, directory of the package, and path."""
    command = ["cargo", "test", "--no-run", "--message-format", "json-render-diagnostics", *options]
    build = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if build.returncode:
        sys.exit(build.returncode)
    for line in build.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact" or not message["profile"]["test"]:
            continue
        if message.get("executable"):
            manifest = pathlib.Path(message["manifest_path"])
            yield package_name(message["package_id"]), message["target"]["name"], manifest, message["executable"]


def package_name(package_id):
    """The name in an id such as `path+file:///…/crates/tepui-wire#0.1.0` or `…/crates/other#tepui-wire@0.1.0`."""
    path, _, version = package_id.rpartition("#")
    name, at, _ = version.rpartition("@")
    return name if at else path.rsplit("/", 1)[-1]


def run(program):
    package, name, manifest, executable = program
    environment = {**os.environ, "CARGO_MANIFEST_DIR": str(manifest.parent), "CARGO_PKG_NAME": package}
    # Those of procedural macros are linked against the shared standard library.
    environment["LD_LIBRARY_PATH"] = ":".join(filter(None, [standard_library(), os.environ.get("LD_LIBRARY_PATH")]))
    filters = [OF_A_STORE[2]] if package == OF_A_STORE[0] and name.startswith(OF_A_STORE[1]) else []
    since = time.monotonic()
    done = subprocess.run(
        [executable, *filters], cwd=manifest.parent, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    return program, done.returncode, done.stdout, time.monotonic() - since


@functools.cache
def standard_library():
    """The directory of the standard library for the target, where `cargo test` lets test programs look, too."""
    return subprocess.run(["rustc", "--print", "target-libdir"], capture_output=True, text=True, check=True).stdout.strip()


def summary(output):
    lines = [line for line in output.splitlines() if line.startswith("test result: ")]
    return lines[-1].removeprefix("test result: ").split("; finished in")[0] if lines else "no result"


def report(outcome, failed):
    (package, name, _, _), code, output, seconds = outcome
    if code:
        failed.append(f"{package}::{name}")
        print(output)
    print(f"{package}::{name}: {summary(output)}; {seconds:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 2) + 1)
    parser.add_argument("--only", help="runs the tests of this package only, whatever is built")
    parser.add_argument("--without", help="runs the tests of all packages but this one")
    arguments, options = parser.parse_known_args()
    programs = list(test_programs(options or ["--workspace"]))
    programs = [program for program in programs if arguments.only in (None, program[0]) and program[0] != arguments.without]
    if not programs:
        sys.exit("run_tests: cargo has built no test program")
    failed = []
    programs.sort(key=lambda program: program[:2] != LONGEST)
    alone = [program for program in programs if program[:2] in ALONE]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run, p) for p in programs if p not in alone]):
            report(done.result(), failed)
    for program in alone:
        report(run(program), failed)
    if failed:
        sys.exit(f"run_tests: failed: {', '.join(failed)}")
    print(f"run_tests: {len(programs)} test programs passed")


if __name__ == "__main__":
    main()
