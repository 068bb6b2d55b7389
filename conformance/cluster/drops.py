"""A table, queue or container is dropped by one node while all of them write into it, and made again, over and over."""

import random
import threading
import time

import checker
from clients import Node, classify, content_of
from history import OK, REFUSED, UNKNOWN, History
from load import NotSettled
from rounds import Round

# A name may be refused for some time after its deletion.
CREATE_SECONDS = 60
WRITERS_PER_NODE = 2


class Dropped:
    """How one kind is made, dropped, written into and looked through."""

    def __init__(self, node, name):
        self.node = node
        self.name = name


class Table(Dropped):
    def create(self):
        self.node.tables.create_table(self.name)

    def drop(self):
        # This client says nothing about a table that is not there.
        self.node.tables.get_table_client(self.name).delete_table()

    def write(self, value):
        self.node.tables.get_table_client(self.name).create_entity({"PartitionKey": value[-1], "RowKey": value})

    def look(self):
        entities = self.node.tables.get_table_client(self.name).list_entities(results_per_page=1000)
        return {"values": [entity["RowKey"] for entity in entities]}


class Queue(Dropped):
    def create(self):
        self.node.queues.create_queue(self.name)

    def drop(self):
        self.node.queues.delete_queue(self.name)

    def write(self, value):
        self.node.queues.get_queue_client(self.name).send_message(value)

    def look(self):
        messages = self.node.queues.get_queue_client(self.name).peek_messages(max_messages=32)
        return {"values": [message.content for message in messages], "complete": len(messages) < 32}


class Container(Dropped):
    def create(self):
        self.node.blobs.create_container(self.name)

    def drop(self):
        self.node.blobs.delete_container(self.name)

    def write(self, value):
        # Some are stored as rows, some as objects.
        length = 300_000 if int(value.rpartition("-")[2]) % 4 == 0 else 500
        self.node.blobs.get_blob_client(self.name, value).upload_blob(content_of(value, length), overwrite=False)

    def look(self):
        return {"values": [blob.name for blob in self.node.blobs.get_container_client(self.name).list_blobs()]}


KINDS = {"drop-table": Table, "drop-queue": Queue, "drop-container": Container}


class Drops:
    def __init__(self, cluster, kind, seed):
        self.kind = KINDS[kind]
        self.key = (kind,)
        self.name = kind.replace("-", "")
        self.endpoints = cluster.endpoints
        self.history = History()
        self.random = random.Random(f"{seed}-{kind}")
        self.is_over = threading.Event()
        self.failures = []

    def target(self, number):
        return self.kind(Node(number, self.endpoints[number], self.history), self.name)

    def attempt(self, what, target, call, **given):
        return self.history.run(what, self.key, target.node.number, call, classify, **given)

    def run(self, rounds):
        """Returns the lives that it had."""
        writers = [
            threading.Thread(target=self.write, args=(number, writer), daemon=True)
            for number in range(len(self.endpoints))
            for writer in range(WRITERS_PER_NODE)
        ]
        targets = [self.target(number) for number in range(len(self.endpoints))]
        try:
            self.settle("create", targets[0])
            for writer in writers:
                writer.start()
            for turn in range(rounds):
                if turn > 0:
                    self.settle("create", self.random.choice(targets))
                time.sleep(self.random.uniform(0.02, 0.25))
                for target in self.random.sample(targets, min(2, len(targets))):
                    self.attempt("look", target, target.look)
                time.sleep(self.random.uniform(0.0, 0.05))
                self.settle("drop", self.random.choice(targets))
        finally:
            self.is_over.set()
            for writer in writers:
                if writer.ident is not None:
                    writer.join(60)
            for target in targets:
                target.node.close()

    def settle(self, what, target):
        """Creates or drops for certain: a second attempt shows what became of one that is not known."""
        give_up = time.monotonic() + CREATE_SECONDS
        begin = None
        while True:
            attempt = History().run(what, self.key, target.node.number, getattr(target, what), classify)
            if attempt.outcome == UNKNOWN and begin is None:
                begin = attempt.start
            is_settled = begin is not None and attempt.code in (EXISTS if what == "create" else GONE)
            if attempt.is_ok or is_settled:
                attempt.outcome, attempt.start = OK, attempt.start if begin is None else begin
                self.history.add(attempt)
                return
            if attempt.outcome == REFUSED and attempt.code not in BEING_DELETED or time.monotonic() > give_up:
                raise NotSettled(f"cannot {what}: {attempt}")
            time.sleep(0.02)

    def write(self, number, writer):
        target, count = self.target(number), 0
        try:
            while not self.is_over.is_set():
                count += 1
                value = f"{number}-{writer}-{count}"
                written = self.attempt("write", target, lambda: target.write(value) and None, value=value)
                if written.outcome == REFUSED:
                    time.sleep(0.005)
        except Exception as error:  # noqa: BLE001: told by the round, which fails.
            self.failures.append(repr(error))
        finally:
            target.node.close()


# What is told of something that was dropped, that is being dropped, and that is there.
BEING_DELETED = ("TableBeingDeleted", "QueueBeingDeleted", "ContainerBeingDeleted")
GONE = ("TableNotFound", "ResourceNotFound", "QueueNotFound", "ContainerNotFound", *BEING_DELETED)
EXISTS = ("TableAlreadyExists", "QueueAlreadyExists", "ContainerAlreadyExists")


def run(cluster, number, kind, seed, rounds):
    result = Round(number, kind)
    drops = Drops(cluster, kind, seed)
    begin = time.monotonic()
    try:
        drops.run(rounds)
    except NotSettled as error:
        result.violations["cluster"] = [str(error)]
    result.history = drops.history
    result.count = result.history.by_outcome()
    result.gap = checker.longest_gap(result.history, begin, time.monotonic())
    result.told = f"{rounds} lives"
    found = checker.check_drops(result.history)
    found += [f"refused for no reason: {attempt}" for attempt in result.history.of("write") if attempt.outcome == REFUSED and attempt.code not in GONE]
    if drops.failures:
        result.violations["load"] = drops.failures
    if found:
        result.violations["drops"] = found
    return result
