"""Whether everything that nobody refers to goes away, and nothing else, asked of the stores themselves and not of Tepui."""

import time

import checker
from clients import Node
from history import History
from linearizable import INSERT
from rounds import Round
from s3 import PREFIX

# One round of garbage collection waits for readers on other nodes twice, a minute each time, and what is deleted meanwhile is for the next.
GRACE_SECONDS = 280
# What a node writes is in volumes that it has a lease on. What it has left behind is swept when that has expired, by the next look
# for such volumes: when a node starts, and then every ten minutes.
LEASE_SECONDS = 122

# Key spaces of rows that stay when everything was deleted: counters, versions of the catalogue, service properties, leases, numbers
# of nodes, volumes of extents.
LASTING = {0x10, 0x11, 0x12, 0x30, 0x45, 0x46, 0x47}
# Reference counts of extents in other stores than the local one: the number of the store, the volume, the offset.
EXTENT_IN_STORE = 0xAB
# GC records of extents that nothing refers to any more, with the same parts.
FREE_EXTENT_IN_STORE = 0x44

CONTAINER = "kept"
KEPT_BYTES = (300, 300_000, 1_000_000, 3_000_000)


class Garbage:
    """Keeps some blobs over all rounds. At the end, nothing but them may be there."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.history = History()
        self.rows, self.objects, self.later = {}, {}, set()

    def prepare(self):
        nodes = self.nodes()
        nodes[0].blobs.create_container(CONTAINER)
        for number, node in enumerate(nodes):
            for length in KEPT_BYTES:
                value = f"kept-{number}-{length}"
                node.put_blob(CONTAINER, "kept", value, value, length, INSERT)
        close(nodes)
        self.rows, self.objects = self.look_at_rows(), self.look_at_objects()

    def nodes(self):
        return [Node(number, endpoints, self.history) for number, endpoints in enumerate(self.cluster.endpoints)]

    def look_at_rows(self):
        return {space: count for space, count in self.cluster.store.rows().items() if space not in LASTING}

    def look_at_objects(self):
        """The extents in the bucket, as volumes and offsets, with their sizes."""
        return self.below("extents")

    def below(self, folder):
        if self.cluster.objects is None:
            return {}
        prefix = f"{PREFIX}/{folder}/"
        objects = self.cluster.objects.objects().items()
        return {name.removeprefix(prefix): size for name, size in objects if name.startswith(prefix)}

    def left(self, is_brief):
        """What is there that should not be, and the other way round. If it has to be brief, but for what is known to be swept later."""
        referenced = self.extents(EXTENT_IN_STORE) if self.cluster.store.shows_rows else None
        uploads = self.cluster.objects.uploads() if self.cluster.objects is not None else []
        rows, objects = self.look_at_rows(), self.look_at_objects()
        if is_brief:
            leased, recorded = self.below("leases"), self.extents(FREE_EXTENT_IN_STORE)
            is_found = lambda name: name in recorded or name.partition("/")[0] in leased
            self.later = {name for name in objects if name not in self.objects and name not in (referenced or ()) and is_found(name)}
            objects = {name: size for name, size in objects.items() if name not in self.later}
            rows.pop(FREE_EXTENT_IN_STORE, None)
        return checker.check_garbage((self.rows, self.objects), (rows, objects), referenced, uploads)

    def extents(self, space):
        """The volumes and offsets in the keys of a key space."""
        return {f"{key[-16:-8].hex()}/{key[-8:].hex()}" for key in self.cluster.store.keys(space)}

    def check(self, number, is_brief):
        """After everything else was deleted, waits until nothing but what was kept is left."""
        result = Round(number, "garbage", history=self.history)
        if not is_brief and self.cluster.objects is not None:
            # What a commit of unknown outcome may refer to is kept as long as the process lives that made it.
            self.cluster.stop_nodes()
            time.sleep(LEASE_SECONDS)
            self.cluster.start_nodes()
        begin = time.monotonic()
        while (left := self.left(is_brief)) and time.monotonic() < begin + GRACE_SECONDS:
            time.sleep(1)
        if left:
            result.violations["garbage"] = left
        result.told = f"{'nothing' if not left else 'something'} left after {time.monotonic() - begin:.0f} s"
        if self.later:
            result.told += f", but for {len(self.later)} objects that have a record or a lease by which they are found"
        nodes = self.nodes()
        for turn, name in enumerate(sorted({attempt.key[1] for attempt in self.history.of(INSERT)})):
            nodes[turn % len(nodes)].read_blob(CONTAINER, "kept", name)
        close(nodes)
        result.violations |= checker.check_all(self.history)
        result.count = self.history.by_outcome()
        return result


def close(nodes):
    for node in nodes:
        node.close()
