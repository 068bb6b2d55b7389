"""Judges what clients saw. Knows no server and no client: only attempts, and what was there at the end.

Each rule returns its violations as texts, of which there should be none.
"""

from collections import defaultdict

import linearizable
from history import FOREVER, OK, REFUSED, UNKNOWN
from linearizable import ABSENT, DELETE, DONE, INSERT, MISMATCH, OPEN, PRESENT, PUT, READ, REPLACE, Operation

# The refusals that a register explains, by the codes of the three services.
RESULTS = {
    "EntityAlreadyExists": PRESENT,
    "BlobAlreadyExists": PRESENT,
    "ResourceNotFound": ABSENT,
    "BlobNotFound": ABSENT,
    "UpdateConditionNotSatisfied": MISMATCH,
    "ConditionNotMet": MISMATCH,
}
REGISTER_KINDS = (READ, INSERT, PUT, REPLACE, DELETE)
WRITES = (INSERT, PUT, REPLACE, DELETE, "send", "remove", "hold", "write")

# Service is back so long after there is a new primary.
MAX_RECOVERY_SECONDS = 10.0


def check_all(history):
    """All violations of the rules about histories, by the name of the rule."""
    rules = {
        "refusals": check_refusals,
        "lost writes": check_lost_writes,
        "linearizability": check_linearizability,
        "ETags": check_etags,
        "batches": check_batches,
        "bytes": check_bytes,
        "listings": check_listings,
        "messages": check_messages,
    }
    return {name: found for name, rule in rules.items() if (found := rule(history))}


# Registers: entities, groups of entities that batches write, and blobs. The attempts have `value`, `expected` in what was
# given, and `value`, `etag` in what was told.


def registers(history):
    """The attempts on each register, by its key."""
    found = defaultdict(list)
    for attempt in history.of(*REGISTER_KINDS):
        found[attempt.key].append(attempt)
    return found


def operation_of(attempt):
    """The attempt as an operation of a register, or None if it did not happen or nobody knows what it read."""
    expected = attempt.given.get("expected")
    value = attempt.got.get("value") if attempt.kind == READ else attempt.given.get("value")
    if attempt.outcome == OK:
        result = DONE
    elif attempt.outcome == UNKNOWN and attempt.kind != READ:
        result = OPEN
    elif attempt.outcome == REFUSED and attempt.code in RESULTS:
        result = RESULTS[attempt.code]
    else:
        return None
    return Operation(attempt.kind, attempt.start, attempt.end, result, value, expected, attempt)


def check_refusals(history):
    """Nothing is refused for a reason that cannot be: tables, queues, containers and receipts are as the load made them."""
    allowed = set(RESULTS) | {"MessageNotFound", "PopReceiptMismatch"}
    return [f"refused for no reason: {attempt}" for attempt in history.attempts if attempt.outcome == REFUSED and attempt.code not in allowed]


def check_lost_writes(history):
    """A register that was written once and read at the end has that value. (The others are a matter of linearizability.)"""
    violations = []
    for key, attempts in registers(history).items():
        writes = [attempt for attempt in attempts if attempt.kind != READ and attempt.may_have_happened]
        if len(writes) != 1 or not writes[0].is_ok:
            continue
        for read in attempts:
            if read.kind == READ and read.start > writes[0].end and read.outcome in (OK, REFUSED):
                if read.got.get("value") != writes[0].given.get("value"):
                    violations.append(f"lost: {key}: {writes[0]}\n    but {read}")
                    break
    return violations


def check_linearizability(history):
    violations = []
    for key, attempts in registers(history).items():
        operations = [operation for attempt in attempts if (operation := operation_of(attempt)) is not None]
        try:
            linearizable.check(operations)
        except (linearizable.NotLinearizable, linearizable.Undecided) as error:
            violations.append(f"{key}: {error}")
    return violations


def check_etags(history):
    """An ETag is given for one state of an entity or a blob only, and a change gives a later one than it expected."""
    violations = []
    states = {}
    for attempt in history.of(*REGISTER_KINDS):
        if not attempt.is_ok:
            continue
        value = attempt.got.get("value") if attempt.kind == READ else attempt.given.get("value")
        etags = attempt.got.get("etags") or {"": attempt.got.get("etag")}
        for part, etag in etags.items():
            if etag is None:
                continue
            other = states.setdefault((attempt.key, part, etag), (value, attempt))
            if other[0] != value:
                violations.append(f"one ETag for two states of {attempt.key} {part}: {other[1]}\n    and {attempt}")
        before, after = attempt.given.get("etag"), attempt.got.get("etag")
        if attempt.kind == REPLACE and before is not None and after is not None and moment_of(after) <= moment_of(before):
            violations.append(f"an ETag that is not later than the one before: {attempt}")
    return violations


def moment_of(etag):
    """The time that is the ETag of an entity, with all digits, so that texts compare as times."""
    whole, point, fraction = etag.partition(".")
    return f"{whole}.{fraction.partition('Z')[0]:0<7}" if point else etag


def check_batches(history):
    """Who reads all rows of a batch sees the same one in all of them. `parts` is what was read in each."""
    violations = []
    for attempt in history.of(READ):
        parts = attempt.got.get("parts")
        if parts is not None and len(set(parts.values())) > 1:
            violations.append(f"half a batch: {attempt}")
    return violations


def check_bytes(history):
    """What was read of a blob is what was written, to the last byte: `sound` is the comparison by the reader."""
    return [f"other bytes than were written: {attempt}" for attempt in history.of(READ) if attempt.got.get("sound") is False]


# Listings: attempts of kind `list` with `names` told, about the folder that is the first part of the keys of registers.


def check_listings(history):
    """A list has all that was there before it began and was never deleted, and nothing that nobody wrote."""
    created, written, deleted = {}, {}, set()
    for attempt in history.of(INSERT, PUT, REPLACE, DELETE):
        if not attempt.may_have_happened:
            continue
        if attempt.kind == DELETE:
            deleted.add(attempt.key)
            continue
        written[attempt.key] = min(written.get(attempt.key, attempt.start), attempt.start)
        if attempt.is_ok:
            created[attempt.key] = min(created.get(attempt.key, attempt.end), attempt.end)
    folders = defaultdict(list)
    for key in written:
        folders[key[0]].append(key)
    violations = []
    for attempt in history.of("list"):
        if not attempt.is_ok:
            continue
        (folder,) = attempt.key
        names = attempt.got["names"]
        listed = set(names)
        if len(listed) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            violations.append(f"listed twice: {twice[:5]}: {brief(attempt)}")
        missing = [
            key for key in folders[folder] if key not in deleted and created.get(key, attempt.start) < attempt.start and key[1] not in listed
        ]
        if missing:
            violations.append(f"{len(missing)} missing in a list, such as {missing[:3]}: {brief(attempt)}")
        strange = [name for name in listed if written.get((folder, name), attempt.end) >= attempt.end]
        if strange:
            violations.append(f"{len(strange)} listed that nobody wrote, such as {sorted(strange)[:3]}: {brief(attempt)}")
    return violations


def brief(attempt):
    return f"{attempt.start:.3f}..{attempt.end:.3f} node {attempt.node} {attempt.kind} {attempt.key}"


# Queues. `send` gives a text and is told an id; `receive` is told messages (id, text, receipt, count), hidden for `seconds`;
# `hold` (Update Message) and `remove` give an id and a receipt. A round ends with receives until the queue is empty, when
# everything is visible again; they are marked `last`.


def check_messages(history):
    return [*check_lost_messages(history), *check_deliveries(history)]


def received_messages(history):
    """All deliveries of each message, by its queue and text: the attempt and what it was told."""
    found = defaultdict(list)
    for attempt in history.of("receive"):
        if attempt.is_ok:
            for message in attempt.got["messages"]:
                found[attempt.key, message["text"]].append((attempt, message))
    return found


def check_lost_messages(history):
    """A message that was acknowledged and not deleted is there at the end; one that nobody sent is never there."""
    violations = []
    deliveries = received_messages(history)
    sends = {(attempt.key, attempt.given["text"]): attempt for attempt in history.of("send")}
    for (queue, text), found in deliveries.items():
        send = sends.get((queue, text))
        if send is None or not send.may_have_happened:
            violations.append(f"a message that nobody has sent: {text}: {found[0][0]}")
        ids = {message["id"] for _, message in found} | ({send.got["id"]} if send is not None and send.is_ok else set())
        if len(ids) > 1:
            violations.append(f"one message became several: {text}: {sorted(ids)}")
    removed = {(attempt.key, attempt.given["id"]) for attempt in history.of("remove") if attempt.may_have_happened}
    emptied = {attempt.key for attempt in history.of("receive") if attempt.given.get("last")}
    for (queue, text), send in sends.items():
        if not send.is_ok or (queue, send.got["id"]) in removed or queue not in emptied:
            continue
        if not any(attempt.given.get("last") for attempt, _ in deliveries.get((queue, text), [])):
            violations.append(f"a message is lost: {send}")
    return violations


def check_deliveries(history):
    """No message is handed to two consumers within its time, nor after its deletion, and receipts are those of the last delivery."""
    violations = []
    removals, holds = defaultdict(list), defaultdict(list)
    for attempt in history.of("remove"):
        removals[attempt.key, attempt.given["id"]].append(attempt)
    for attempt in history.of("hold"):
        if attempt.is_ok:
            holds[attempt.key, attempt.given["id"]].append(attempt)
    for (queue, text), found in received_messages(history).items():
        found.sort(key=lambda delivery: delivery[1]["count"])
        identity = found[0][1]["id"]
        for (first, message), (second, next_message) in zip(found, found[1:]):
            if message["count"] == next_message["count"]:
                violations.append(f"one delivery to two consumers: {text}: {first}\n    and {second}")
            # The first took effect after its begin, the second before its end.
            elif second.end - first.start < first.given["seconds"]:
                violations.append(f"handed out again within its time: {text}: {brief(first)}\n    and {brief(second)}")
        for hold in holds[queue, identity]:
            for delivery, message in found:
                # A delivery after the hold, by its number, and before the end of the time that was asked for.
                is_later = message["count"] > hold.given["count"]
                if is_later and delivery.start > hold.end and delivery.end - hold.start < hold.given["seconds"]:
                    violations.append(f"handed out though held: {text}: {hold}\n    and {brief(delivery)}")
        for removal in removals[queue, identity]:
            if not removal.is_ok:
                continue
            for delivery, message in found:
                if delivery.start > removal.end:
                    violations.append(f"back after its deletion: {text}: {removal}\n    and {brief(delivery)}")
                elif message["count"] > removal.given["count"] and delivery.end < removal.start:
                    violations.append(f"deleted with an old receipt: {text}: {removal}\n    after {brief(delivery)}")
    return violations


# Recovery.


def recovery_seconds(history, moment, nodes, folder=None):
    """For each node, how long after a moment the first write (in a folder) was acknowledged; None if none was."""
    found = dict.fromkeys(nodes)
    for attempt in history.of(*WRITES):
        if attempt.is_ok and attempt.end >= moment and folder in (None, attempt.key[0]) and attempt.node in found:
            seconds = attempt.end - moment
            found[attempt.node] = seconds if found[attempt.node] is None else min(seconds, found[attempt.node])
    return found


def check_recovery(history, moment, nodes, folder=None, limit=MAX_RECOVERY_SECONDS):
    """Every node acknowledges writes again soon after a moment."""
    violations = []
    for node, seconds in recovery_seconds(history, moment, nodes, folder).items():
        if seconds is None:
            violations.append(f"node {node} acknowledged no write any more")
        elif seconds > limit:
            violations.append(f"node {node} acknowledged the first write after {seconds:.1f} s, more than {limit:.0f} s")
    return violations


def longest_gap(history, begin, end):
    """The longest time in which no write was acknowledged by any node."""
    moments = sorted(attempt.end for attempt in history.of(*WRITES) if attempt.is_ok and begin <= attempt.end <= end)
    edges = [begin, *moments, end]
    return max(later - earlier for earlier, later in zip(edges, edges[1:]))


# Incarnations of a table, queue or container that is dropped while others write into it: `create` and `drop` on the key, writes
# of kind `write` with a `value`, and reads of kind `look` with the `values` that were there (all of them, unless `complete` is False).


def check_drops(history, lenient_codes=()):
    """Nothing is acknowledged by what is not there, and nothing comes back with the next incarnation."""
    violations = []
    creations = [attempt for attempt in history.of("create") if attempt.is_ok]
    drops = [attempt for attempt in history.of("drop") if attempt.is_ok]
    if len(creations) != len(drops):
        return [f"{len(creations)} creations, but {len(drops)} deletions: the load must settle those of unknown outcome"]
    lives = list(zip(creations, drops))
    if any(dropped.start < created.end for created, dropped in lives):
        return ["a deletion before its creation: the load must not do that"]
    gaps = [(dropped.end, created.start) for (_, dropped), (created, _) in zip(lives, lives[1:])]
    gaps.append((lives[-1][1].end if lives else 0, FOREVER))
    written = {}
    for attempt in history.of("write"):
        written[attempt.given["value"]] = attempt
        if attempt.is_ok:
            for begin, end in gaps:
                if begin < attempt.start and attempt.end < end:
                    violations.append(f"acknowledged though nothing was there: {attempt}")
        elif attempt.outcome == REFUSED and attempt.code not in lenient_codes:
            for created, dropped in lives:
                if created.end < attempt.start and attempt.end < dropped.start:
                    violations.append(f"refused though it was there: {attempt}")
    for attempt in history.of("look"):
        if not attempt.is_ok:
            continue
        life = next(((created, dropped) for created, dropped in lives if created.end <= attempt.start and attempt.end <= dropped.start), None)
        if life is None:
            continue
        values = set(attempt.got["values"])
        for value in values:
            write = written.get(value)
            if write is None or not write.may_have_happened:
                violations.append(f"there though nobody wrote it: {value}: {brief(attempt)}")
            elif write.outcome == OK and write.end < life[0].start:
                violations.append(f"came back with the next incarnation: {write}\n    in {brief(attempt)}")
        for write in written.values() if attempt.got.get("complete", True) else ():
            if write.is_ok and life[0].end < write.start and write.end < attempt.start and write.given["value"] not in values:
                violations.append(f"lost: {write}\n    not in {brief(attempt)}")
    return violations


# What is left when everything was deleted but what was there at the beginning: rows as counts by key space, objects as sizes by name.


def check_garbage(before, after, referenced=None, uploads=()):
    """Nothing is left that was not there before, and nothing of that is lost. `referenced` are the objects that rows refer to."""
    (rows_before, objects_before), (rows, objects) = before, after
    found = []
    for space in sorted(set(rows) | set(rows_before)):
        if rows.get(space, 0) != rows_before.get(space, 0):
            found.append(f"rows of key space 0x{space:02x}: {rows.get(space, 0)}, but {rows_before.get(space, 0)} at the beginning")
    for what, names in (("left", set(objects) - set(objects_before)), ("lost", set(objects_before) - set(objects))):
        if names:
            size = sum((objects | objects_before)[name] for name in names)
            found.append(f"{len(names)} objects of {size} bytes are {what}, such as {sorted(names)[:3]}")
    if sum(objects.values()) != sum(objects_before.values()):
        found.append(f"{sum(objects.values())} bytes of objects, but {sum(objects_before.values())} at the beginning")
    if referenced is not None and referenced != set(objects):
        found.append(f"rows refer to {len(referenced)} objects, and there are {len(objects)}, of which {len(referenced & set(objects))} are the same")
    if uploads:
        found.append(f"{len(uploads)} uploads in parts are neither completed nor given up, such as {uploads[:3]}")
    return found
