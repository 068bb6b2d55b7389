"""Tepui nodes on one store, and the store behind a small interface, so that others can be added.

A store is started and stopped, says by which arguments a node uses it, and shows its rows:

    start(), stop()
    arguments(proxied)   the arguments of `tepui serve`; if `proxied`, by way of the proxy that loses answers
    initialize(program)  what is done once before the first node starts
    shows_rows           whether the following two are known
    rows()               how many rows there are, by the first byte of their keys
    keys(space)          the keys that begin with a byte
"""

import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path

from clients import Node
from history import History
from postgres import PostgresPair
from processes import CommandFailed, Process, StartFailed, free_port, wait_until

HERE = Path(__file__).resolve().parent
SERVICES = ("blob", "queue", "table")


class LocalStore:
    """A data directory, for one node: to try the tests themselves."""

    name = "local"
    nodes = 1
    shows_rows = False

    def __init__(self, folder):
        self.data = Path(folder) / "data"

    def start(self):
        pass

    def stop(self):
        pass

    def initialize(self, program):
        pass

    def arguments(self, proxied=False):
        return ["--data-dir", self.data]

    def rows(self):
        return {}

    def keys(self, space):
        return []


class MemoryStore(LocalStore):
    """Loses everything with its process, which the tests must notice."""

    name = "memory"

    def arguments(self, proxied=False):
        return ["--in-memory"]


class PostgresStore(PostgresPair):
    nodes = 3
    shows_rows = True

    def __init__(self, folder, binaries=None):
        super().__init__(folder, binaries)
        self.proxy = None

    def initialize(self, program):
        done = subprocess.run(
            [program, "storage", "init", "--storage", self.url()],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
        )  # fmt: skip
        if done.returncode != 0:
            raise CommandFailed(f"tepui storage init: {done.stdout.decode(errors='replace')}")

    def arguments(self, proxied=False):
        return ["--storage", self.url(self.proxy.ports if proxied else None)]

    def start_proxy(self):
        self.proxy = Proxy({server.port: free_port() for server in self.servers})

    def stop(self):
        if self.proxy is not None:
            self.proxy.stop()
        super().stop()


class Proxy:
    """The process of `proxy.py`. `ports` are those to connect to, by those of the servers."""

    def __init__(self, ports):
        self.ports = ports
        routes = [f"{listen}:{target}" for target, listen in ports.items()]
        self.child = subprocess.Popen(
            [sys.executable, HERE / "proxy.py", *routes], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self.child.stdout.readline().strip() != "ready":
            raise StartFailed("the proxy does not start")

    def say(self, line):
        self.child.stdin.write(f"{line}\n")
        self.child.stdin.flush()

    def count(self):
        self.say("count")
        return json.loads(self.child.stdout.readline())

    def stop(self):
        self.child.kill()
        self.child.wait()


class TepuiNode:
    """One `tepui serve`, which keeps its ports over restarts."""

    def __init__(self, number, program, folder):
        self.number = number
        self.folder = Path(folder) / f"node{number}"
        self.folder.mkdir()
        self.program = program
        self.ports = {service: free_port() for service in SERVICES}
        self.process = None

    @property
    def endpoints(self):
        return {service: f"http://127.0.0.1:{port}/devstoreaccount1" for service, port in self.ports.items()}

    def start(self, arguments, environment):
        ports = [part for service, port in self.ports.items() for part in (f"--{service}-port", port)]
        command = [self.program, "serve", "--silent", *ports, *arguments]
        self.process = Process(f"node{self.number}", command, self.folder, environment)
        self.process.start()

    def restart(self):
        self.process.start()
        self.wait_until_ready()
        return time.monotonic()

    def wait_until_ready(self):
        """Waits until it answers for all three services."""
        node = Node(self.number, self.endpoints, History())

        def answers():
            next(node.tables.list_tables().by_page())
            next(node.queues.list_queues().by_page())
            next(node.blobs.list_containers().by_page())
            return True

        try:
            wait_until(answers, f"node {self.number}", self.process)
        finally:
            node.close()


class Cluster:
    def __init__(self, folder, program, store, objects):
        self.program = program
        self.store = store
        # None if the store has the bytes of blobs, too.
        self.objects = objects
        self.nodes = [TepuiNode(number, program, folder) for number in range(store.nodes)]

    def __enter__(self):
        try:
            self.store.start()
            if self.objects is not None:
                self.objects.start()
            self.store.initialize(self.program)
            self.start_nodes()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        for node in self.nodes:
            if node.process is not None:
                node.process.kill()
        if self.objects is not None:
            self.objects.stop()
        self.store.stop()

    def start_nodes(self, proxied=False):
        arguments, environment = self.store.arguments(proxied), {}
        if self.objects is not None:
            arguments = [*arguments, "--blobs", self.objects.url]
            environment = self.objects.environment
        for node in self.nodes:
            node.start(arguments, environment)
        self.wait_until_ready()

    def stop_nodes(self):
        """As an operator does: each may end what it is about."""
        for node in self.nodes:
            node.process.terminate()

    def wait_until_ready(self):
        for node in self.nodes:
            node.wait_until_ready()

    @property
    def endpoints(self):
        return [node.endpoints for node in self.nodes]

    @contextlib.contextmanager
    def behind_proxy(self):
        """The nodes reach the store by way of the proxy only."""
        self.stop_nodes()
        self.store.start_proxy()
        self.start_nodes(proxied=True)
        yield self.store.proxy
        self.stop_nodes()
        self.store.proxy.stop()
        self.start_nodes()
