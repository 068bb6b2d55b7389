"""One round: load, a fault, recovery, everything read, and the verdict."""

import time
from dataclasses import dataclass, field

import checker
import faults
from azure.core.exceptions import AzureError
from history import OUTCOMES, History
from load import Load, Names, NotSettled
from processes import CommandFailed, StartFailed

# How long a service may take to be back where no promise is given.
PATIENCE_SECONDS = 60


@dataclass
class Round:
    number: int
    fault: str
    count: dict = field(default_factory=dict)
    # The longest time without an acknowledged write, and how long it took each node to acknowledge one after the fault.
    gap: float = 0.0
    recovery: dict = field(default_factory=dict)
    violations: dict = field(default_factory=dict)
    told: str = ""
    history: History = None

    @property
    def is_sound(self):
        return not self.violations

    def line(self):
        counts = "".join(f"{self.count.get(outcome, 0):>10}" for outcome in OUTCOMES)
        slowest = max((seconds for seconds in self.recovery.values() if seconds is not None), default=0.0)
        back = "never" if None in self.recovery.values() else f"{slowest:.1f} s"
        verdict = "ok" if self.is_sound else "FAILED"
        return f"{self.number:>5}  {self.fault:<14}{counts}{self.gap:>8.1f} s{back:>9}  {verdict}  {self.told}".rstrip()


HEAD = f"{'round':>5}  {'fault':<14}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES) + f"{'gap':>10}{'back':>9}  verdict"


def run(cluster, number, fault_name, seed, seconds):
    """Runs one round and judges it."""
    result = Round(number, fault_name, history=History())
    fault = faults.make(fault_name, cluster, seed)
    load = Load(Names(number), cluster.endpoints, result.history, seed)
    try:
        with fault.around():
            load.prepare()
            begin = time.monotonic()
            load.start()
            try:
                time.sleep(seconds)
                strike(result, fault, cluster)
                time.sleep(seconds)
            finally:
                failures = load.stop()
                result.gap = checker.longest_gap(result.history, begin, time.monotonic())
            if failures:
                result.violations["load"] = failures
            cluster.wait_until_ready()
            load.read_all()
            load.delete_all()
    except (StartFailed, CommandFailed, NotSettled, AzureError) as error:
        result.violations["cluster"] = [str(error)]
    result.violations |= checker.check_all(result.history)
    result.count = result.history.by_outcome()
    return result


def strike(result, fault, cluster):
    """Lets the fault strike, and waits until every node acknowledges writes again."""
    nodes = range(len(cluster.nodes))
    result.told = fault.strike()
    time.sleep(fault.seconds)
    moment = fault.heal()
    if more := fault.tell():
        result.told += f" ({more})"
    while True:
        result.recovery = checker.recovery_seconds(result.history, moment, nodes, fault.folder)
        if None not in result.recovery.values() or time.monotonic() > moment + PATIENCE_SECONDS:
            break
        time.sleep(0.2)
    # Where there is no new primary, nothing but patience was promised.
    limit = checker.MAX_RECOVERY_SECONDS if fault.has_promise else PATIENCE_SECONDS
    if late := checker.check_recovery(result.history, moment, nodes, fault.folder, limit):
        result.violations["recovery"] = late
