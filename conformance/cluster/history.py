"""What clients attempted, when, and what they were told: the material of the checker."""

import threading
import time
from collections import Counter
from dataclasses import dataclass, field

# The service said that it is done.
OK = "ok"
# The service said why it is not done.
REFUSED = "refused"
# Nobody knows: an error of the server, a time-out, a connection that was lost. It may also happen later.
UNKNOWN = "unknown"
# There was no connection on which the request could have been sent, so it did not happen.
UNREACHED = "unreached"
OUTCOMES = (OK, REFUSED, UNKNOWN, UNREACHED)

FOREVER = float("inf")


@dataclass(slots=True)
class Attempt:
    """One request. Times are those of `time.monotonic` of the process that all clients run in."""

    kind: str
    # What it is about: the folder of a register, a queue, a table, and the name in it.
    key: tuple
    node: int
    start: float
    end: float
    outcome: str
    # The status and error code of a refusal, the text of other failures.
    code: str = ""
    # What was asked for, by name: `value`, `expected`, `receipt` and so on.
    given: dict = field(default_factory=dict)
    # What the service told: `value`, `etag`, `messages` and so on.
    got: dict = field(default_factory=dict)

    @property
    def is_ok(self):
        return self.outcome == OK

    @property
    def may_have_happened(self):
        return self.outcome in (OK, UNKNOWN)

    def __str__(self):
        asked = ", ".join(f"{name}={value}" for name, value in self.given.items())
        told = ", ".join(f"{name}={value}" for name, value in self.got.items())
        return f"{self.start:.3f}..{self.end:.3f} node {self.node} {self.kind}({asked}): {self.outcome} {self.code} {told}".rstrip()


class History:
    """All attempts of a round. Threads add to it."""

    def __init__(self, clock=time.monotonic):
        self.clock = clock
        self.attempts = []
        self._lock = threading.Lock()

    def add(self, attempt):
        with self._lock:
            self.attempts.append(attempt)

    def run(self, kind, key, node, call, classify, **given):
        """Carries out an attempt. `call` returns what the service told; `classify` makes an outcome and a code of its exception."""
        start = self.clock()
        got, outcome, code = {}, OK, ""
        try:
            got = call() or {}
        except Exception as error:  # noqa: BLE001: whatever a client raises is an outcome.
            outcome, code = classify(error)
        attempt = Attempt(kind, key, node, start, self.clock(), outcome, code, given, got)
        self.add(attempt)
        return attempt

    def of(self, *kinds):
        """The attempts of some kinds, by their begin."""
        return sorted((attempt for attempt in self.attempts if attempt.kind in kinds), key=lambda attempt: attempt.start)

    def by_outcome(self):
        return Counter(attempt.outcome for attempt in self.attempts)
