"""Processes that are started, killed, paused and started again. Only what was started here is ever signalled."""

import os
import random
import signal
import socket
import subprocess
import time
from pathlib import Path

PATIENCE_SECONDS = 60


class StartFailed(Exception):
    """A process does not start, or does not become ready."""


class CommandFailed(Exception):
    """A program that was run to its end has failed."""


# Below the ports that Linux gives to outgoing connections: one of those could take the port of a process that is down.
PORTS = range(15_000, 32_000)
# Those that a process of ours has. It may be down, and takes it again.
given_ports = set()


def free_port():
    for _ in range(1000):
        port = random.choice(PORTS)
        if port in given_ports:
            continue
        with socket.socket() as probe:
            # Without SO_REUSEADDR, so that ports with connections that linger are not taken either.
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        given_ports.add(port)
        return port
    raise StartFailed("no free port")


def can_connect(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def wait_until(condition, what, process=None, seconds=PATIENCE_SECONDS):
    """Waits until a condition holds. Its exceptions mean not yet, but for `StartFailed`: never."""
    give_up = time.monotonic() + seconds
    last = None
    while True:
        try:
            found = condition()
            if found:
                return found
        except StartFailed:
            raise
        except Exception as error:  # noqa: BLE001: a server that starts may answer in any way.
            last = error
        if process is not None and not process.is_running:
            raise StartFailed(f"{what}: {process.name} has ended\n{process.end_of_log()}")
        if time.monotonic() > give_up:
            log = "" if process is None else f"\n{process.end_of_log()}"
            raise StartFailed(f"{what}: not after {seconds} s{'' if last is None else f': {last}'}{log}")
        time.sleep(0.05)


class Process:
    """A program with the processes that it starts in turn, which are all killed or paused together."""

    def __init__(self, name, command, folder, environment=None, user=None):
        self.name = name
        self.command = [str(part) for part in command]
        self.folder = Path(folder)
        self.environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")} | (environment or {})
        self.user = user
        self.log = self.folder / f"{name}.log"
        self.child = None

    def start(self):
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=self.user,
            )
        return self

    @property
    def is_running(self):
        return self.child is not None and self.child.poll() is None

    def end_of_log(self):
        return self.log.read_text(errors="replace")[-3000:] if self.log.is_file() else ""

    def kill(self):
        """Kill -9, all of it at once."""
        if self.is_running:
            # Paused first: what a parent that is alive does about a killed child is not part of the test.
            for pid in self.pause():
                send(pid, signal.SIGKILL)
            self.child.wait()

    def terminate(self, seconds=30):
        """As an operator stops it."""
        if self.is_running:
            self.child.send_signal(signal.SIGCONT)
            self.child.terminate()
            try:
                self.child.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                self.kill()

    def pause(self):
        """Stops it and all below it, until `resume`. Returns their numbers."""
        paused = []
        if self.is_running:
            pending = [self.child.pid]
            while pending:
                pid = pending.pop(0)
                if send(pid, signal.SIGSTOP):
                    paused.append(pid)
                    wait_for_stop(pid)
                    # Only now can it have no more children than these.
                    pending += children_of(pid)
        return paused

    def resume(self):
        if self.is_running:
            for pid in reversed(descendants(self.child.pid)):
                send(pid, signal.SIGCONT)


def send(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def wait_for_stop(pid):
    give_up = time.monotonic() + 5
    while time.monotonic() < give_up and state_of(pid)[0] not in "TtZX":
        time.sleep(0.001)


def state_of(pid):
    """The state and the parent of a process, as in /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0], int(fields[1])
    except (OSError, IndexError):
        return "X", 0


def children_of(pid):
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [number for number in numbers if state_of(number)[1] == pid]


def descendants(pid):
    found = [pid]
    for child in children_of(pid):
        found += descendants(child)
    return found
