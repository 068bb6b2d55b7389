"""The load of a round: threads with clients of all nodes, which write, read, send, receive, upload and list at once."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from azure.data.tables import UpdateMode

from clients import Node, Seen
from history import OK, REFUSED, UNREACHED, Attempt
from linearizable import DELETE, INSERT, PUT, READ, REPLACE

HOT_ENTITIES = 4
HOT_BLOBS = 3
GROUPS = 3
ROWS = [f"{row:02}" for row in range(6)]
# Messages are hidden for one of these times, and longer if they are held.
VISIBILITY_SECONDS = (2, 4)
HOLD_SECONDS = 6
# That much longer than was asked for may a message stay hidden, where several nodes share a store.
CLOCK_SKEW_SECONDS = 1
SMALL_BYTES = (200, 4_000, 70_000, 300_000)
LARGE_BYTES = (2 * (2 << 20) + 12_345, 3 * (2 << 20))


class Names:
    """What a round uses. All of it is its own."""

    def __init__(self, number):
        self.table = f"round{number}"
        self.queue = f"round{number}"
        self.container = f"round{number}"


class Worker(threading.Thread):
    """One thread, which asks the nodes in turn."""

    # Seconds between two steps, so that histories stay small enough to judge and servers are not the only thing on the machine.
    pause = 0.005

    def __init__(self, load, number):
        super().__init__(name=f"{type(self).__name__}-{number}", daemon=True)
        self.load = load
        self.names = load.names
        self.random = random.Random(f"{load.seed}-{self.name}")
        self.nodes = [Node(number, endpoints, load.history) for number, endpoints in enumerate(load.endpoints)]
        self.turn = number
        self.count = 0
        self.failure = None

    def node(self):
        """The next one; not one that has just let a request wait in vain, if another has not."""
        now = time.monotonic()
        for _ in self.nodes:
            self.turn += 1
            node = self.nodes[self.turn % len(self.nodes)]
            if node.avoided_until <= now:
                break
        return node

    def fresh(self):
        """A value that nobody has written."""
        self.count += 1
        return f"{self.name}-{self.count}"

    def run(self):
        try:
            while not self.load.is_over.is_set():
                attempt = self.step()
                time.sleep(0.05 if attempt is not None and attempt.outcome == UNREACHED else self.pause)
        except Exception as error:  # noqa: BLE001: told by the round, which fails.
            self.failure = error
        finally:
            for node in self.nodes:
                node.close()

    def step(self):
        raise NotImplementedError


class Register(Worker):
    """Changes registers that others change, too, on what it has seen last."""

    def __init__(self, load, number):
        super().__init__(load, number)
        self.seen = {}

    def remember(self, name, attempt):
        if attempt.kind == READ and attempt.is_ok and attempt.got["value"] is not None:
            self.seen[name] = Seen(attempt.got["value"], attempt.got["etag"])
        elif attempt.kind in (INSERT, PUT, REPLACE) and attempt.is_ok:
            self.seen[name] = Seen(attempt.given["value"], attempt.got["etag"])
        elif attempt.kind == DELETE or attempt.outcome == REFUSED:
            self.seen.pop(name, None)
        return attempt


class HotEntities(Register):
    folder = "entities"

    def step(self):
        name = f"hot/{self.random.randrange(HOT_ENTITIES)}"
        node, table, seen = self.node(), self.names.table, self.seen.get(name)
        dice = self.random.random()
        if seen is None and dice < 0.8 or dice < 0.3:
            attempt = node.read_entity(table, self.folder, name)
            if attempt.outcome == REFUSED:
                self.remember(name, attempt)
                attempt = self.node().insert_entity(table, self.folder, name, self.fresh())
        elif dice < 0.75 and seen is not None:
            mode = self.random.choice((UpdateMode.REPLACE, UpdateMode.MERGE))
            attempt = node.replace_entity(table, self.folder, name, self.fresh(), seen, mode)
        elif dice < 0.85 and seen is not None:
            attempt = node.delete_entity(table, self.folder, name, seen)
        elif dice < 0.93:
            attempt = node.insert_entity(table, self.folder, name, self.fresh())
        else:
            attempt = node.put_entity(table, self.folder, name, self.fresh())
        return self.remember(name, attempt)


class ManyEntities(Register):
    """Inserts entities of its own, and changes some of them."""

    folder = "many"
    pause = 0.002

    def step(self):
        table = self.names.table
        if self.seen and self.random.random() < 0.3:
            name = self.random.choice(list(self.seen))
            attempt = self.node().replace_entity(table, self.folder, name, self.fresh(), self.seen[name])
            if not attempt.is_ok:
                # Nobody else writes it: what became of the change shows now, if it ever does.
                self.seen.pop(name, None)
                attempt = self.node().read_entity(table, self.folder, name)
        else:
            value = self.fresh()
            name = f"many{self.random.randrange(8)}/{value}"
            attempt = self.node().insert_entity(table, self.folder, name, value)
        return self.remember(name, attempt)


class Batches(Register):
    folder = "groups"
    pause = 0.02

    def step(self):
        table, dice = self.names.table, self.random.random()
        if dice < 0.25:
            group = f"fresh-{self.fresh()}"
            return self.node().write_group(table, self.folder, group, ROWS, self.fresh(), INSERT)
        group = f"group{self.random.randrange(GROUPS)}"
        seen = self.seen.get(group)
        if dice < 0.5:
            attempt = self.node().read_group(table, self.folder, group, ROWS)
        elif dice < 0.8 and seen is not None:
            attempt = self.node().write_group(table, self.folder, group, ROWS, self.fresh(), REPLACE, seen)
        else:
            attempt = self.node().write_group(table, self.folder, group, ROWS, self.fresh(), PUT)
        return self.remember(group, attempt)


class Senders(Worker):
    pause = 0.03

    def step(self):
        return self.node().send(self.names.queue, self.fresh())


class Receivers(Worker):
    pause = 0.02

    def step(self):
        received = self.node().receive(self.names.queue, 8, self.random.choice(VISIBILITY_SECONDS))
        for message in received.got.get("messages", ()):
            dice = self.random.random()
            if dice < 0.08:
                continue  # It comes back when its time is over.
            if dice < 0.16:
                held = self.node().hold(self.names.queue, message, HOLD_SECONDS)
                if held.is_ok:
                    message = {**message, "receipt": held.got["receipt"]}
            self.node().remove(self.names.queue, message)
        return received


class SmallBlobs(Worker):
    folder = "blobs"
    pause = 0.02

    def step(self):
        value = self.fresh()
        return self.node().put_blob(self.names.container, self.folder, f"small/{value}", value, self.random.choice(SMALL_BYTES), INSERT)


class LargeBlobs(Worker):
    folder = "blobs"
    pause = 0.1

    def step(self):
        value = self.fresh()
        written = self.node().put_blocks(self.names.container, self.folder, f"large/{value}", value, self.random.choice(LARGE_BYTES))
        if written.is_ok:
            return self.node().read_blob(self.names.container, self.folder, f"large/{value}")
        return written


class HotBlobs(Register):
    folder = "blobs"
    pause = 0.02

    def step(self):
        name = f"hot/{self.random.randrange(HOT_BLOBS)}"
        node, container, seen = self.node(), self.names.container, self.seen.get(name)
        dice, length = self.random.random(), self.random.choice(SMALL_BYTES)
        if seen is None and dice < 0.5 or dice < 0.3:
            attempt = node.read_blob(container, self.folder, name)
        elif dice < 0.75 and seen is not None:
            attempt = node.put_blob(container, self.folder, name, self.fresh(), length, REPLACE, seen)
        elif dice < 0.85 and seen is not None:
            attempt = node.delete_blob(container, self.folder, name, seen)
        else:
            kind = INSERT if self.random.random() < 0.4 else PUT
            attempt = node.put_blob(container, self.folder, name, self.fresh(), length, kind)
        return self.remember(name, attempt)


class Lists(Worker):
    pause = 0.3

    def step(self):
        node = self.node()
        others = [other for other in self.nodes if other is not node]
        if self.random.random() < 0.5:
            return node.list_entities(self.names.table, "many", MANY, others)
        return node.list_blobs(self.names.container, "blobs", others)


MANY = "PartitionKey ge 'many' and PartitionKey lt 'manz'"
WORKERS = {
    HotEntities: 3,
    ManyEntities: 2,
    Batches: 2,
    Senders: 2,
    Receivers: 3,
    SmallBlobs: 1,
    LargeBlobs: 1,
    HotBlobs: 2,
    Lists: 1,
}


class Load:
    def __init__(self, names, endpoints, history, seed):
        self.names = names
        self.endpoints = endpoints
        self.history = history
        self.seed = seed
        self.is_over = threading.Event()
        self.workers = []

    def prepare(self):
        """Makes what the round uses. Nothing fails yet."""
        node = Node(0, self.endpoints[0], self.history)
        node.tables.create_table(self.names.table)
        node.queues.create_queue(self.names.queue)
        node.blobs.create_container(self.names.container)
        node.close()

    def start(self):
        self.workers = [kind(self, number) for kind, count in WORKERS.items() for number in range(count)]
        for worker in self.workers:
            worker.start()

    def stop(self, seconds=60):
        self.is_over.set()
        give_up = time.monotonic() + seconds
        for worker in self.workers:
            worker.join(max(0.0, give_up - time.monotonic()))
        failures = [f"{worker.name}: {worker.failure!r}" for worker in self.workers if worker.failure is not None]
        failures += [f"{worker.name} does not end" for worker in self.workers if worker.is_alive()]
        return failures

    def read_all(self):
        """What is there when everything is over, read by every node."""
        ended = time.monotonic()
        nodes = [Node(number, endpoints, self.history) for number, endpoints in enumerate(self.endpoints)]
        try:
            self.read_entities(nodes)
            self.read_groups(nodes)
            self.read_blobs(nodes)
            self.empty_queue(nodes, ended)
        finally:
            for node in nodes:
                node.close()

    def keys(self, folder):
        return sorted({attempt.key[1] for attempt in self.history.of(INSERT, PUT, REPLACE) if attempt.key[0] == folder})

    def read_entities(self, nodes):
        names = self.keys("many")
        for number, node in enumerate(nodes):
            for name in range(HOT_ENTITIES):
                must(node.read_entity(self.names.table, "entities", f"hot/{name}"))
            # A list of everything is as good as a read of each.
            listed = must_list(node.list_entities(self.names.table, "many", MANY, nodes[number + 1 :], page=1000))
            for name in names:
                found = listed.got["found"].get(name)
                outcome, code = (OK, "") if found is not None else (REFUSED, "ResourceNotFound")
                self.history.add(Attempt(READ, ("many", name), number, listed.start, listed.end, outcome, code, {}, found or {}))

    def read_groups(self, nodes):
        for turn, group in enumerate(self.keys("groups")):
            must(nodes[turn % len(nodes)].read_group(self.names.table, "groups", group, ROWS))

    def read_blobs(self, nodes):
        names = self.keys("blobs")
        for node in nodes:
            must_list(node.list_blobs(self.names.container, "blobs"))
        with ThreadPoolExecutor(4) as pool:
            read = lambda turn: must(nodes[turn % len(nodes)].read_blob(self.names.container, "blobs", names[turn]))
            list(pool.map(read, range(len(names))))
        for node in nodes:
            for name in range(HOT_BLOBS):
                must(node.read_blob(self.names.container, "blobs", f"hot/{name}"))

    def empty_queue(self, nodes, ended):
        """Receives all messages, when every one is visible again."""
        visible = ended + HOLD_SECONDS + CLOCK_SKEW_SECONDS + 1
        empty_since = None
        while empty_since is None or time.monotonic() < visible or empty_since < visible:
            for node in nodes:
                received = must_list(node.receive(self.names.queue, 32, 600, last=True))
                if received.got["messages"]:
                    empty_since = None
                elif empty_since is None:
                    empty_since = received.start
            if empty_since is not None and empty_since < visible:
                time.sleep(0.2)
                empty_since = None

    def delete_all(self):
        node = Node(0, self.endpoints[0], self.history)
        node.tables.delete_table(self.names.table)
        node.queues.delete_queue(self.names.queue)
        node.blobs.delete_container(self.names.container)
        node.close()


class NotSettled(Exception):
    """A node that should be well does not answer."""


def must_list(attempt):
    if not attempt.is_ok:
        raise NotSettled(f"what was made before the fault is not there: {attempt}")
    return attempt


def must(attempt):
    if attempt.outcome not in (OK, REFUSED):
        raise NotSettled(f"though every fault is over: {attempt}")
    return attempt
