"""What happens to a cluster under load. Each fault strikes, is over after some time, and leaves the cluster as it was."""

import contextlib
import random
import time

# Longer than every time-out and every lease of a node: the volumes of extents that it writes are leased for 120 s, background work for 30 s.
NODE_PAUSE_SECONDS = 130
# Longer than every time-out that a node has for its stores.
STORE_PAUSE_SECONDS = 20


class Fault:
    # Which store it needs, if not any.
    store = None
    # Whether it needs an object store.
    needs_objects = False
    # How long it lasts.
    seconds = 2.0
    # What has to be written again afterwards; None: anything.
    folder = None
    # Whether every node has to be back within ten seconds.
    has_promise = False

    def __init__(self, cluster, random):
        self.cluster = cluster
        self.random = random

    @contextlib.contextmanager
    def around(self):
        """What has to be so before the load starts and until everything was read."""
        yield

    def strike(self):
        """Begins. Says what it has done."""
        raise NotImplementedError

    def heal(self):
        """Ends. Returns the moment from which everything can go well again."""
        raise NotImplementedError

    def tell(self):
        """What there is to say about it afterwards."""
        return ""


class KillNode(Fault):
    def strike(self):
        self.node = self.random.choice(self.cluster.nodes)
        self.node.process.kill()
        return f"node {self.node.number} killed"

    def heal(self):
        return self.node.restart()


class PauseNode(KillNode):
    seconds = NODE_PAUSE_SECONDS

    def strike(self):
        self.node = self.random.choice(self.cluster.nodes)
        self.node.process.pause()
        return f"node {self.node.number} paused"

    def heal(self):
        self.node.process.resume()
        return time.monotonic()


class KillPrimary(Fault):
    store = "postgres"
    seconds = 0.5
    has_promise = True

    @contextlib.contextmanager
    def around(self):
        yield
        self.cluster.store.rebuild()

    def strike(self):
        self.cluster.store.primary.process.kill()
        return "primary killed"

    def heal(self):
        return self.cluster.store.promote()


class HangPrimary(KillPrimary):
    """The machine of the primary is gone without a word: connections to it are neither answered nor reset. It never comes back."""

    def strike(self):
        self.cluster.store.primary.process.pause()
        return "primary gone without a word"


class PausePrimary(Fault):
    store = "postgres"
    seconds = STORE_PAUSE_SECONDS

    def strike(self):
        self.cluster.store.primary.process.pause()
        return "primary paused"

    def heal(self):
        self.cluster.store.primary.process.resume()
        return time.monotonic()


class CutConnections(Fault):
    """Answers of COMMIT are lost: some after it was done, some before it could be, and nobody can tell."""

    store = "postgres"
    seconds = 10.0
    share = 0.1

    @contextlib.contextmanager
    def around(self):
        with self.cluster.behind_proxy() as self.proxy:
            yield

    def strike(self):
        self.proxy.say(f"cut {self.share} {self.random.randrange(1 << 30)}")
        return f"connections cut at {self.share:.0%} of the COMMITs"

    def heal(self):
        self.proxy.say("pass")
        self.count = self.proxy.count()
        return time.monotonic()

    def tell(self):
        return ", ".join(f"{way}: {count}" for way, count in sorted(self.count.items()))


class KillLeader(Fault):
    """The store that leads most regions, right after they were split."""

    store = "tikv"

    def begin(self):
        self.regions = self.cluster.store.region_count()
        self.cluster.store.split()
        self.cluster.store.await_split(self.regions)
        self.leader = self.cluster.store.leader()

    def strike(self):
        self.begin()
        self.leader.kill()
        return f"{self.leader.name} killed"

    def heal(self):
        return self.cluster.store.restart(self.leader)

    def tell(self):
        return f"{self.regions} regions before, {self.cluster.store.region_count()} after"


class KillSplittingLeader(KillLeader):
    """The same while they are being split. Acknowledged writes are lost now and then: see docs/tikv.md."""

    def begin(self):
        self.regions = self.cluster.store.region_count()
        self.leader = self.cluster.store.leader()
        self.cluster.store.split()


class PauseLeader(KillSplittingLeader):
    seconds = STORE_PAUSE_SECONDS

    def strike(self):
        self.begin()
        self.leader.pause()
        return f"{self.leader.name} paused"

    def heal(self):
        self.leader.resume()
        return time.monotonic()


class KillPd(Fault):
    store = "tikv"

    def strike(self):
        self.cluster.store.pd.kill()
        return "PD killed"

    def heal(self):
        return self.cluster.store.restart_pd()


class PausePd(KillPd):
    seconds = STORE_PAUSE_SECONDS

    def strike(self):
        self.cluster.store.pd.pause()
        return "PD paused"

    def heal(self):
        self.cluster.store.pd.resume()
        return time.monotonic()


class KillObjects(Fault):
    needs_objects = True
    folder = "blobs"

    def strike(self):
        self.cluster.objects.process.kill()
        return "S3 server killed"

    def heal(self):
        return self.cluster.objects.restart()


class PauseObjects(Fault):
    needs_objects = True
    folder = "blobs"
    seconds = STORE_PAUSE_SECONDS

    def strike(self):
        self.cluster.objects.process.pause()
        return "S3 server paused"

    def heal(self):
        self.cluster.objects.process.resume()
        return time.monotonic()


FAULTS = {
    "node": KillNode,
    "node-pause": PauseNode,
    "primary": KillPrimary,
    "primary-hang": HangPrimary,
    "primary-pause": PausePrimary,
    "cut": CutConnections,
    "store": KillLeader,
    "store-split": KillSplittingLeader,
    "store-pause": PauseLeader,
    "pd": KillPd,
    "pd-pause": PausePd,
    "s3": KillObjects,
    "s3-pause": PauseObjects,
}


def possible(cluster):
    """The faults that this cluster can have."""
    return [
        name
        for name, fault in FAULTS.items()
        if fault.store in (None, cluster.store.name) and (cluster.objects is not None or not fault.needs_objects)
    ]


def make(name, cluster, seed):
    return FAULTS[name](cluster, random.Random(f"{seed}-{name}"))
