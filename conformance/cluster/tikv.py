"""PD with three stores that speak TiKV's protocol, as conformance/tikv/build makes them."""

import collections
import contextlib
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from processes import Process, StartFailed, free_port, wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
STORES = 3
# What all keys of Tepui begin with, `m` and the prefix after its length, in hexadecimal digits as PD has them, and what comes after all of them.
FIRST_KEY, AFTER_KEYS = "6D057465707569", "6D05746570756A"
# About how many regions there are at most: the stores share one machine.
MAX_REGIONS = 12
# How long it is waited for splits.
SPLIT_SECONDS = 3
# A store may panic while the first replicas are made. Then all of them start from nothing.
ATTEMPTS = 5
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))

CONFIGURATION = """
[schedule]
merge-schedule-limit = 0
max-store-down-time = "30m"
enable-joint-consensus = false

[replication]
max-replicas = 3

[pd-server]
dashboard-address = "none"

[dashboard]
enable-telemetry = false
"""


class Panicked(StartFailed):
    """A store has ended by itself: that says nothing about Tepui."""


def build():
    """Builds the programs, unless that was done. Returns where they are."""
    folder = ROOT / ".work" / "tikv"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "build.log", "ab") as log:
        done = subprocess.run([ROOT / "conformance" / "tikv" / "build"], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, timeout=1800)
    if done.returncode != 0:
        raise StartFailed(f"PD and the stores cannot be built, see {folder / 'build.log'}")
    return folder


class TikvStore:
    name = "tikv"
    nodes = 3
    shows_rows = False

    def __init__(self, folder, programs):
        self.folder = Path(folder) / "tikv"
        self.programs = Path(programs)
        self.pd = None
        self.stores = []

    def start(self):
        for attempt in range(ATTEMPTS):
            try:
                self.start_once()
                return
            except StartFailed:
                # A store has panicked while the first replicas were made, or one of them was never made.
                self.stop()
                if attempt == ATTEMPTS - 1:
                    raise

    def start_once(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.port, peer = free_port(), free_port()
        (self.folder / "pd.toml").write_text(CONFIGURATION)
        here, there = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{peer}"
        self.pd = Process(
            "pd",
            [
                self.programs / "pd", "-name", "pd1", "-data-dir", self.folder / "pd", "-config", self.folder / "pd.toml",
                "-client-urls", here, "-advertise-client-urls", here, "-peer-urls", there, "-advertise-peer-urls", there,
                "-initial-cluster", f"pd1={there}",
            ],
            self.folder,
        )  # fmt: skip
        self.pd.start()
        wait_until(lambda: self.ask("health"), "PD", self.pd)
        self.addresses = [f"127.0.0.1:{free_port()}" for _ in range(STORES)]
        self.stores = []
        for number, address in enumerate(self.addresses):
            command = [
                self.programs / "store", "-pd", f"127.0.0.1:{self.port}", "-address", address,
                "-data-dir", self.folder / f"data{number}", "-log-level", "info",
            ]  # fmt: skip
            self.stores.append(Process(f"store{number}", command, self.folder))
            self.stores[-1].start()
        wait_until(lambda: self.is_whole, "three replicas of each region", self.stores[-1], seconds=120)

    def ask(self, what):
        with OPENER.open(f"http://127.0.0.1:{self.port}/pd/api/v1/{what}", timeout=5) as answer:
            return json.loads(answer.read())

    @property
    def is_whole(self):
        """All stores are up, and every region has a leader and a replica on each."""
        for store in self.stores:
            if not store.is_running:
                raise Panicked(f"{store.name} panicked, which says nothing about Tepui") if self.has_panicked(store) else StartFailed(f"{store.name} has ended")
        stores = self.ask("stores")["stores"] or []
        regions = self.ask("regions")["regions"] or []
        up = [store for store in stores if store["store"]["state_name"] == "Up"]
        is_replicated = all(
            region.get("leader", {}).get("store_id") and len(region["peers"]) == STORES and not region.get("down_peers") and not region.get("pending_peers")
            for region in regions
        )
        return len(up) == STORES and bool(regions) and is_replicated

    def regions(self):
        """Those that have keys of Tepui."""
        regions = self.ask("regions")["regions"]
        return [region for region in regions if region["start_key"] < AFTER_KEYS and (not region["end_key"] or region["end_key"] > FIRST_KEY)]

    def region_count(self):
        return len(self.regions())

    def split(self):
        """Lets every region be split in the middle, as long as they are few. That takes a moment."""
        regions = self.regions()
        for region in regions[: max(MAX_REGIONS - len(regions), 1)]:
            order = {"name": "split-region", "region_id": region["id"], "policy": "scan"}
            request = urllib.request.Request(f"http://127.0.0.1:{self.port}/pd/api/v1/operators", json.dumps(order).encode())
            # Refused if PD is about something else with it.
            with contextlib.suppress(urllib.error.HTTPError), OPENER.open(request, timeout=5):
                pass

    def await_split(self, before):
        """Waits until regions that were told to split have done so, and are whole. Some do not: PD may have refused."""
        deadline = time.monotonic() + SPLIT_SECONDS
        while time.monotonic() < deadline and not (self.region_count() > before and self.is_whole):
            time.sleep(0.05)

    def leader(self):
        """The store that leads most of the regions."""
        leaders = collections.Counter(region["leader"]["store_id"] for region in self.regions() if region.get("leader", {}).get("store_id"))
        addresses = {store["store"]["id"]: store["store"]["address"] for store in self.ask("stores")["stores"]}
        (busiest, _), *_ = leaders.most_common(1)
        return self.stores[self.addresses.index(addresses[busiest])]

    def has_panicked(self, store):
        return not store.is_running and re.search(r"^panic|^fatal error", store.log.read_text(errors="replace"), re.M) is not None

    def restart(self, store):
        number = self.stores.index(store)
        # What a killed store was sending is of no use, and in its way.
        shutil.rmtree(self.folder / f"data{number}" / "snap", ignore_errors=True)
        store.start()
        wait_until(lambda: self.is_whole, f"{store.name} with all its replicas", store, seconds=120)
        return time.monotonic()

    def restart_pd(self):
        self.pd.start()
        wait_until(lambda: self.is_whole, "PD", self.pd)
        return time.monotonic()

    def stop(self):
        for process in [*self.stores, *([self.pd] if self.pd else [])]:
            process.kill()

    def initialize(self, program):
        pass

    def arguments(self, proxied=False):
        return ["--storage", f"tikv://127.0.0.1:{self.port}"]

    def rows(self):
        """Nobody but Tepui can read them."""
        return {}

    def keys(self, space):
        return []
