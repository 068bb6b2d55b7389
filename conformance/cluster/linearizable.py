"""Whether what clients saw of one register can have happened one after another.

A register has a value or is absent. Each attempt takes effect at one moment between its begin and its end; one of unknown
outcome at any moment after its begin, or never. No two writes write the same value, which prunes the search (of Wing and Gong,
with Lowe's memory of configurations): a value that was left does not come back, and a write whose value somebody saw has happened
before that.
"""

from dataclasses import dataclass, replace

from history import FOREVER

# What an operation found or did.
DONE = "done"
PRESENT = "present"  # An insert was refused.
ABSENT = "absent"  # There was nothing to change, or to read.
MISMATCH = "mismatch"  # The value was not the one expected.
# The outcome is not known.
OPEN = "open"

READ, INSERT, PUT, REPLACE, DELETE = "read", "insert", "put", "replace", "delete"


@dataclass(frozen=True, slots=True)
class Operation:
    kind: str
    start: float
    end: float
    result: str
    # What was written, or read.
    value: object = None
    # What a change asked for; None if it took any.
    expected: object = None
    # For messages.
    source: object = None

    def apply(self, state):
        """The state after the operation. Raises `Impossible` if the result does not fit the state before."""
        match self.result:
            case "present":
                fits = state is not None
            case "absent":
                fits = state is None
            case "mismatch":
                fits = state != self.expected
            case _:
                fits = self.can_change(state)
                if fits and self.kind != READ:
                    return None if self.kind == DELETE else self.value
        if not fits:
            raise Impossible
        return state

    def can_change(self, state):
        match self.kind:
            case "read":
                return state == self.value
            case "insert":
                return state is None
            case "put":
                return True
            case "replace" | "delete":
                return state is not None and self.expected in (None, state)

    @property
    def changes(self):
        return self.kind != READ and self.result in (DONE, OPEN)

    @property
    def needs(self):
        """The value that must be there when it takes effect, if that is known."""
        if self.result != DONE:
            return None
        return self.value if self.kind == READ else self.expected


class Impossible(Exception):
    """The operation cannot have had its result in that state."""


class NotLinearizable(Exception):
    """No order explains what was seen."""


class Undecided(Exception):
    """The search took too long."""


def check(operations, initial=None, max_configurations=200_000):
    """Raises `NotLinearizable` if the history of a register is not linearizable."""
    required, optional = settle(operations, initial)
    required.sort(key=lambda operation: operation.start)
    everything = (1 << len(required)) - 1
    # Those that need a value: it cannot be left before all of them are done.
    needing = {}
    for index, operation in enumerate(required):
        if operation.needs is not None:
            needing[operation.needs] = needing.get(operation.needs, 0) | 1 << index

    seen = set()
    stack = [(0, 0, 0, initial)]
    furthest = (0, None)
    while stack:
        first, done, applied, state = stack.pop()
        # What changes nothing and fits is done at once: it can never be in the way.
        while True:
            while done >> first & 1:
                first += 1
            candidates, horizon = candidates_of(required, first, done)
            idle = [index for index in candidates if not required[index].changes and fits(required[index], state)]
            if not idle:
                break
            for index in idle:
                done |= 1 << index
        if done == everything:
            return
        if (done, applied, state) in seen:
            continue
        seen.add((done, applied, state))
        if len(seen) > max_configurations:
            raise Undecided(f"more than {max_configurations} configurations of {len(required)} operations")
        if done.bit_count() >= furthest[0]:
            furthest = (done.bit_count(), (state, [required[index] for index in candidates]))

        still_needed = needing.get(state, 0) & ~done if state is not None else 0
        following = []
        for index, operation in enumerate(optional):
            if applied >> index & 1 or operation.start > horizon or still_needed or not fits(operation, state):
                continue
            following.append((first, done, applied | 1 << index, operation.apply(state)))
        for index in sorted(candidates, key=lambda index: -required[index].end):
            operation = required[index]
            if not operation.changes or still_needed & ~(1 << index) or not fits(operation, state):
                continue
            following.append((first, done | 1 << index, applied, operation.apply(state)))
        # The last one is tried first: a definite one, with the earliest end.
        stack.extend(following)
    count, (state, candidates) = furthest
    said = "\n".join(f"    {operation.source or operation}" for operation in candidates[:12])
    raise NotLinearizable(f"after {count} of {len(required)} operations the value is {state}, and none of these fits:\n{said}")


def fits(operation, state):
    try:
        operation.apply(state)
    except Impossible:
        return False
    return True


def candidates_of(required, first, done):
    """What may come next: nothing else that is not done has ended before it began. And until when others may begin."""
    candidates, horizon = [], FOREVER
    for index in range(first, len(required)):
        operation = required[index]
        if operation.start > horizon:
            break
        if not done >> index & 1:
            candidates.append(index)
            horizon = min(horizon, operation.end)
    return candidates, horizon


def settle(operations, initial):
    """Splits operations into those that have happened, and those of which nobody knows."""
    # When somebody first knew a value, or has asked for it, which needs knowing it.
    known = {}
    for operation in operations:
        for value in {operation.needs, operation.expected} - {None}:
            # Who expects a value has seen it before the begin.
            moment = operation.start if value == operation.expected else operation.end
            known[value] = min(known.get(value, FOREVER), moment)
    written = {}
    for operation in operations:
        if operation.changes and operation.kind != DELETE:
            if operation.value in written:
                raise NotLinearizable(f"two writes of one value, which the load must not do: {operation.value}")
            written[operation.value] = operation
    for value in known:
        if value not in written and value != initial:
            refused = [operation for operation in operations if operation.kind != READ and operation.value == value]
            told = f"was refused: {refused[0].source or refused[0]}" if refused else "was never written"
            raise NotLinearizable(f"a value was seen that {told}: {value}")

    settled = []
    for operation in operations:
        if operation.result == OPEN and operation.kind not in (READ, DELETE) and operation.value in known:
            operation = replace(operation, result=DONE, end=known[operation.value])
        settled.append(operation)
    # The values that a change has taken away. They never come back.
    followed = {
        operation.expected for operation in settled if operation.changes and operation.result == DONE
    } - {None}
    required = [operation for operation in settled if operation.result != OPEN]
    optional = [
        replace(operation, end=FOREVER)
        for operation in settled
        if operation.result == OPEN and operation.kind != READ and operation.expected not in followed
    ]
    return required, optional
