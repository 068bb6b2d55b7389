"""The checker finds what is planted, and nothing in what is sound. Each rule is broken at least once."""

import random
import unittest

import checker
import linearizable
from history import OK, REFUSED, UNKNOWN, UNREACHED, Attempt, History
from linearizable import ABSENT, DELETE, DONE, INSERT, MISMATCH, OPEN, PRESENT, PUT, READ, REPLACE, Operation


def history(*attempts):
    made = History()
    made.attempts = list(attempts)
    return made


def attempt(kind, start, end, outcome=OK, code="", key=("t", "e"), node=0, got=None, **given):
    return Attempt(kind, key, node, start, end, outcome, code, given, got or {})


def written(kind, start, end, value, etag=None, **more):
    return attempt(kind, start, end, value=value, got={"etag": etag}, **more)


def read(start, end, value, etag=None, **more):
    if value is None:
        return attempt(READ, start, end, REFUSED, "ResourceNotFound", **more)
    return attempt(READ, start, end, got={"value": value, "etag": etag}, **more)


class Registers(unittest.TestCase):
    def check(self, *operations):
        linearizable.check([Operation(*operation) for operation in operations])

    def refuse(self, *operations, said=""):
        with self.assertRaisesRegex(linearizable.NotLinearizable, said):
            self.check(*operations)

    def test_one_after_another(self):
        self.check(
            (INSERT, 0, 1, DONE, "a"),
            (READ, 2, 3, DONE, "a"),
            (REPLACE, 4, 5, DONE, "b", "a"),
            (REPLACE, 6, 7, MISMATCH, "c", "a"),
            (INSERT, 8, 9, PRESENT, "d"),
            (DELETE, 10, 11, DONE, None, "b"),
            (READ, 12, 13, ABSENT),
        )

    def test_overlapping_in_any_order(self):
        self.check((PUT, 0, 10, DONE, "a"), (PUT, 0, 10, DONE, "b"), (READ, 1, 2, DONE, "b"), (READ, 3, 4, DONE, "a"))

    def test_a_value_does_not_come_back(self):
        self.refuse((PUT, 0, 10, DONE, "a"), (PUT, 0, 10, DONE, "b"), (READ, 1, 2, DONE, "b"), (READ, 3, 4, DONE, "a"), (READ, 5, 6, DONE, "b"))

    def test_a_stale_read(self):
        self.refuse((INSERT, 0, 1, DONE, "a"), (REPLACE, 2, 3, DONE, "b", "a"), (READ, 4, 5, DONE, "a"), said="none of these fits")

    def test_a_lost_update(self):
        # Both changes were told that the value is still the one they had read.
        self.refuse((INSERT, 0, 1, DONE, "a"), (REPLACE, 2, 5, DONE, "b", "a"), (REPLACE, 2, 5, DONE, "c", "a"))

    def test_a_lost_insert(self):
        self.refuse((INSERT, 0, 1, DONE, "a"), (READ, 2, 3, ABSENT))

    def test_a_deleted_one_that_comes_back(self):
        self.refuse((INSERT, 0, 1, DONE, "a"), (DELETE, 2, 3, DONE, None, "a"), (READ, 4, 5, DONE, "a"))

    def test_a_refusal_for_no_reason(self):
        for refused in ((INSERT, 0, 1, PRESENT, "a"), (REPLACE, 2, 3, MISMATCH, "c", "b"), (DELETE, 2, 3, ABSENT, None, "b")):
            self.refuse((PUT, 1.2, 1.8, DONE, "b"), refused)

    def test_a_refused_write_that_happened(self):
        self.refuse((INSERT, 0, 1, DONE, "a"), (REPLACE, 2, 3, MISMATCH, "b", "a"), (READ, 4, 5, DONE, "b"), said="was refused")

    def test_a_value_from_nowhere(self):
        self.refuse((READ, 0, 1, DONE, "a"), said="never written")

    def test_a_value_before_it_was_written(self):
        self.refuse((READ, 0, 1, DONE, "a"), (INSERT, 2, 3, OPEN, "a"))

    def test_unknown_outcomes_happen_late_or_never(self):
        unknown = (REPLACE, 2, 3, OPEN, "b", "a")
        self.check((INSERT, 0, 1, DONE, "a"), unknown, (READ, 4, 5, DONE, "a"), (READ, 6, 7, DONE, "a"))
        self.check((INSERT, 0, 1, DONE, "a"), unknown, (READ, 4, 5, DONE, "a"), (READ, 6, 7, DONE, "b"))
        self.refuse((INSERT, 0, 1, DONE, "a"), unknown, (READ, 4, 5, DONE, "b"), (READ, 6, 7, DONE, "a"))

    def test_unknown_outcomes_explain_refusals_only_while_they_can(self):
        unknown = (REPLACE, 2, 3, OPEN, "b", "a")
        mismatch = (REPLACE, 4, 5, MISMATCH, "c", "a")
        self.check((INSERT, 0, 1, DONE, "a"), unknown, mismatch)
        self.refuse((INSERT, 0, 1, DONE, "a"), unknown, mismatch, (READ, 6, 7, DONE, "a"))
        # A blind write may cover what nobody saw.
        self.check((INSERT, 0, 1, DONE, "a"), unknown, mismatch, (PUT, 6, 7, DONE, "d"), (READ, 8, 9, DONE, "d"))

    def test_an_unknown_deletion(self):
        self.check((INSERT, 0, 1, DONE, "a"), (DELETE, 2, 3, OPEN, None, "a"), (INSERT, 4, 5, DONE, "b"), (READ, 6, 7, DONE, "b"))
        self.refuse((INSERT, 0, 1, DONE, "a"), (DELETE, 6, 7, OPEN, None, "a"), (INSERT, 4, 5, DONE, "b"))

    def test_long_histories_of_a_real_register(self):
        for seed in range(20):
            operations = simulate(random.Random(seed), clients=6, steps=400)
            linearizable.check(operations)
            reads = [operation for operation in operations if operation.kind == READ and operation.result == DONE]
            early, late = reads[len(reads) // 4], reads[-1]
            if early.value != late.value:
                # The last read sees what was there long before.
                operations[operations.index(late)] = Operation(READ, late.start, late.end, DONE, early.value)
                with self.assertRaises(linearizable.NotLinearizable, msg=f"seed {seed}"):
                    linearizable.check(operations)


def simulate(random, clients, steps):
    """A register that clients really use at once: each attempt takes effect at one moment between begin and end, or at any later one."""
    state, now, number, operations, late = None, 0.0, 0, [], []
    known = [None] * clients
    for _ in range(steps):
        now += 1
        if late and random.random() < 0.2:
            state = late.pop(random.randrange(len(late)))(state)
        client = random.randrange(clients)
        number += 1
        kind = random.choice((READ, READ, REPLACE, REPLACE, REPLACE, PUT, INSERT, DELETE))
        value, expected = f"v{number}", known[client]
        if kind in (REPLACE, DELETE) and expected is None:
            kind = READ
        start, end = now - random.random() * clients / 2, now + random.random() * clients / 2
        # A client knows only what has ended before it begins.
        start = max(start, max((operation.end for operation in operations if operation.source == client and operation.result != OPEN), default=start))
        if start > now:
            continue
        before = state
        if kind == READ:
            result, value = (ABSENT, None) if state is None else (DONE, state)
            known[client] = state
        elif kind == INSERT:
            result = DONE if state is None else PRESENT
        elif kind == PUT:
            result = DONE
        elif state is None:
            result = ABSENT
        else:
            result = DONE if state == expected else MISMATCH
        if kind == DELETE:
            value = None
        if kind != READ and result == DONE:
            state = value
        expects = expected if kind in (REPLACE, DELETE) else None
        if kind != READ and random.random() < 0.15:
            result = OPEN
            if random.random() < 0.5:
                state = before  # It has not happened, and may happen later.
                late.append(lambda state, kind=kind, value=value, expects=expects: value if kind == PUT or kind == INSERT and state is None or kind in (REPLACE, DELETE) and state == expects else state)
        elif kind != READ and result == DONE:
            known[client] = value
        operations.append(Operation(kind, start, end, result, value, expects, client))
    return operations


class Rules(unittest.TestCase):
    def sound(self, *attempts):
        self.assertEqual(checker.check_all(history(*attempts)), {})

    def broken(self, rule, said, *attempts):
        found = checker.check_all(history(*attempts))
        self.assertIn(rule, found)
        self.assertRegex("\n".join(found[rule]), said)

    def test_refusals(self):
        self.sound(attempt(INSERT, 0, 1, UNKNOWN, value="a"), attempt(INSERT, 2, 3, REFUSED, "EntityAlreadyExists", value="b"))
        self.broken("refusals", "TableNotFound", attempt(INSERT, 0, 1, REFUSED, "TableNotFound", value="a"))

    def test_lost_writes(self):
        self.sound(written(INSERT, 0, 1, "a", "1"), read(2, 3, "a", "1"))
        self.broken("lost writes", "lost", written(INSERT, 0, 1, "a", "1"), read(2, 3, None))
        self.broken("lost writes", "lost", written(INSERT, 0, 1, "a", "1"), attempt(INSERT, 0, 1, UNREACHED, value="b"), read(2, 3, "b"))

    def test_linearizability_of_each_key(self):
        self.sound(written(INSERT, 0, 1, "a", "1"), read(2, 3, None, key=("t", "other")))
        self.broken(
            "linearizability", "none of these fits",
            written(INSERT, 0, 1, "a", "1"), written(REPLACE, 2, 3, "b", "2", expected="a"), read(4, 5, "a", "1"),
        )  # fmt: skip

    def test_a_lost_etag_condition(self):
        self.broken(
            "linearizability", "none of these fits",
            written(INSERT, 0, 1, "a", "1"),
            written(REPLACE, 2, 3, "b", "2", expected="a"),
            written(REPLACE, 2, 3, "c", "3", expected="a"),
        )  # fmt: skip

    def test_etags(self):
        self.sound(written(INSERT, 0, 1, "a", "1"), read(2, 3, "a", "1"), written(REPLACE, 4, 5, "b", "2", expected="a", etag_before="1"))
        self.broken("ETags", "two states", written(INSERT, 0, 1, "a", "1"), written(REPLACE, 2, 3, "b", "1", expected="a"))
        self.sound(written(INSERT, 0, 1, "a", "1"), written(INSERT, 2, 3, "b", "1", key=("t", "other")))

    def test_etags_rise(self):
        etag = lambda fraction: f"W/\"datetime'2026-11-18T12%3A50%3A27{fraction}Z'\""
        for before, after, is_later in ((".1", ".2", True), (".2", ".1", False), (".123", ".1230001", True), (".1230001", ".123", False), (".1", ".1", False)):
            changed = attempt(REPLACE, 2, 3, value="b", expected="a", etag=etag(before), got={"etag": etag(after)})
            found = "\n".join(checker.check_etags(history(written(INSERT, 0, 1, "a", "other"), changed)))
            self.assertEqual("not later" not in found, is_later, (before, after))

    def test_etags_of_the_rows_of_a_batch(self):
        put = lambda start, value, **etags: attempt(PUT, start, start + 1, value=value, got={"etags": etags})
        self.sound(put(0, "a", r1="1", r2="1"), put(2, "b", r1="2", r2="2"))
        self.broken("ETags", "r2", put(0, "a", r1="1", r2="1"), put(2, "b", r1="2", r2="1"))

    def test_batches(self):
        page = lambda **parts: attempt(READ, 2, 3, got={"value": parts["r1"], "parts": parts})
        put = written(PUT, 0, 1, "a"), written(PUT, 0, 1, "b")
        self.sound(*put, page(r1="a", r2="a"))
        self.broken("batches", "half", *put, page(r1="a", r2="b"))
        self.broken("batches", "half", *put, page(r1="a", r2=None))

    def test_bytes(self):
        self.sound(written(PUT, 0, 1, "a"), attempt(READ, 2, 3, got={"value": "a", "sound": True}))
        self.broken("bytes", "other bytes", written(PUT, 0, 1, "a"), attempt(READ, 2, 3, got={"value": "a", "sound": False}))

    def test_listings(self):
        listing = lambda start, *names: attempt("list", start, start + 1, key=("t",), got={"names": list(names)})
        put = written(INSERT, 0, 1, "a", key=("t", "x"))
        self.sound(put, listing(2, "x"), listing(0.5), listing(0.5, "x"))
        self.broken("listings", "missing", put, listing(2))
        self.broken("listings", "nobody wrote", put, listing(2, "x", "y"))
        self.broken("listings", "twice", put, listing(2, "x", "x"))
        self.broken("listings", "nobody wrote", attempt(INSERT, 0, 1, REFUSED, "EntityAlreadyExists", key=("t", "x"), value="a"), listing(2, "x"))
        self.sound(put, attempt(DELETE, 2, 3, UNKNOWN, key=("t", "x")), listing(4))
        self.sound(attempt(INSERT, 0, 1, UNKNOWN, key=("t", "x"), value="a"), listing(2), listing(3, "x"))


QUEUE = ("q",)


def send(start, text, outcome=OK):
    return attempt("send", start, start + 1, outcome, key=QUEUE, text=text, got={"id": f"id-{text}"} if outcome == OK else {})


def receive(start, *messages, seconds=10, length=1, **given):
    told = [{"text": text, "id": f"id-{text}", "receipt": f"{text}{count}", "count": count} for text, count in messages]
    return attempt("receive", start, start + length, key=QUEUE, seconds=seconds, got={"messages": told}, **given)


def remove(start, text, count, outcome=OK, code=""):
    return attempt("remove", start, start + 1, outcome, code, key=QUEUE, id=f"id-{text}", count=count)


class Queues(Rules):
    def test_lost_messages(self):
        last = lambda *messages: receive(100, *messages, last=True)
        self.sound(send(0, "a"), last(("a", 1)))
        self.broken("messages", "lost", send(0, "a"), last())
        self.broken("messages", "lost", send(0, "a"), receive(2, ("a", 1)), last())
        self.sound(send(0, "a"), receive(2, ("a", 1)), remove(4, "a", 1), last())
        self.sound(send(0, "a"), receive(2, ("a", 1)), remove(4, "a", 1, UNKNOWN), last())
        self.broken("messages", "lost", send(0, "a"), receive(2, ("a", 1)), remove(4, "a", 1, REFUSED, "MessageNotFound"), last())
        self.sound(send(0, "a", UNKNOWN), last())
        self.sound(send(0, "a", UNKNOWN), last(("a", 1)))

    def test_messages_from_nowhere(self):
        self.broken("messages", "nobody has sent", receive(2, ("a", 1)))
        self.broken("messages", "nobody has sent", send(0, "a", REFUSED), receive(2, ("a", 1)))

    def test_one_message_becomes_several(self):
        twice = receive(2, ("a", 1))
        twice.got["messages"].append({"text": "a", "id": "other", "receipt": "r", "count": 2})
        self.broken("messages", "became several", send(0, "a", UNKNOWN), twice)

    def test_two_consumers_at_once(self):
        self.sound(send(0, "a"), receive(2, ("a", 1)), receive(13, ("a", 2)))
        self.broken("messages", "within its time", send(0, "a"), receive(2, ("a", 1)), receive(10, ("a", 2)))
        self.broken("messages", "two consumers", send(0, "a"), receive(2, ("a", 1)), receive(20, ("a", 1)))
        # It may have been received at the begin of one attempt and at the end of the other.
        self.sound(send(0, "a"), receive(2, ("a", 1)), receive(3, ("a", 2), length=10))

    def test_held_messages(self):
        hold = lambda seconds: attempt("hold", 4, 5, key=QUEUE, id="id-a", count=1, seconds=seconds, got={"receipt": "r"})
        self.sound(send(0, "a"), receive(2, ("a", 1)), hold(20), receive(30, ("a", 2)))
        self.broken("messages", "though held", send(0, "a"), receive(2, ("a", 1)), hold(20), receive(15, ("a", 2)))

    def test_deleted_messages(self):
        self.broken("messages", "back after", send(0, "a"), receive(2, ("a", 1)), remove(4, "a", 1), receive(20, ("a", 2)))
        self.sound(send(0, "a"), receive(2, ("a", 1)), remove(13, "a", 1), receive(13.5, ("a", 2)))
        self.broken("messages", "old receipt", send(0, "a"), receive(2, ("a", 1)), receive(20, ("a", 2)), remove(30, "a", 1))


class Recovery(unittest.TestCase):
    def test_recovery(self):
        acknowledged = lambda start, node: written(PUT, start, start + 1, f"{start}", node=node)
        both = history(acknowledged(1, 0), acknowledged(12, 0), acknowledged(14, 1))
        self.assertEqual(checker.recovery_seconds(both, 10, [0, 1]), {0: 3, 1: 5})
        self.assertEqual(checker.check_recovery(both, 10, [0, 1]), [])
        self.assertRegex(checker.check_recovery(both, 2.5, [0, 1])[0], "node 0 .* after 10.5 s")
        self.assertRegex(checker.check_recovery(both, 14, [0, 1])[0], "node 0 acknowledged no write")
        self.assertRegex(checker.check_recovery(both, 10, [0, 1], "blobs")[1], "node 1 acknowledged no write")
        self.assertEqual(checker.check_recovery(both, 10, [0, 1], "t"), [])
        self.assertEqual(checker.longest_gap(both, 0, 20), 11)


class Drops(unittest.TestCase):
    def setUp(self):
        self.lives = [attempt("create", 0, 1), attempt("drop", 10, 11), attempt("create", 20, 21), attempt("drop", 30, 31)]

    def found(self, *attempts):
        return "\n".join(checker.check_drops(history(*self.lives, *attempts)))

    def look(self, start, *values, **more):
        return attempt("look", start, start + 1, got={"values": list(values), **more})

    def test_sound(self):
        write = attempt("write", 2, 3, value="a")
        late = attempt("write", 12, 13, REFUSED, "TableNotFound", value="b")
        unknown = attempt("write", 9, 12, UNKNOWN, value="c")
        crossing = attempt("write", 10.5, 12, value="d")
        self.assertEqual(self.found(write, late, unknown, crossing, self.look(4, "a"), self.look(22), self.look(25, "c")), "")

    def test_acknowledged_by_what_is_not_there(self):
        self.assertRegex(self.found(attempt("write", 12, 13, value="a")), "nothing was there")
        self.assertRegex(self.found(attempt("write", 32, 33, value="a")), "nothing was there")

    def test_refused_by_what_is_there(self):
        self.assertRegex(self.found(attempt("write", 2, 3, REFUSED, "TableNotFound", value="a")), "refused though")

    def test_what_comes_back(self):
        self.assertRegex(self.found(attempt("write", 2, 3, value="a"), self.look(22, "a")), "came back")
        self.assertRegex(self.found(self.look(22, "a")), "nobody wrote")

    def test_what_is_lost(self):
        self.assertRegex(self.found(attempt("write", 2, 3, value="a"), self.look(4)), "lost")
        self.assertEqual(self.found(attempt("write", 2, 3, value="a"), self.look(4, complete=False)), "")

    def test_lives_must_be_known(self):
        self.assertRegex("\n".join(checker.check_drops(history(*self.lives[:3]))), "2 creations, but 1 deletions")


class Garbage(unittest.TestCase):
    def check(self, rows=None, objects=None, said="", **more):
        before = {0xA0: 3}, {"v/1": 10, "v/2": 20}
        found = "\n".join(checker.check_garbage(before, (rows or before[0], objects or before[1]), **more))
        self.assertRegex(found, said or "^$")

    def test_nothing_is_left(self):
        self.check()
        self.check(referenced={"v/1", "v/2"})

    def test_rows_are_left_or_lost(self):
        self.check(rows={0xA0: 3, 0x80: 1}, said="0x80: 1, but 0")
        self.check(rows={0xA0: 2}, said="0xa0: 2, but 3")

    def test_objects_are_left_or_lost(self):
        self.check(objects={"v/1": 10, "v/2": 20, "w/1": 5}, said="1 objects of 5 bytes are left")
        self.check(objects={"v/1": 10}, said="1 objects of 20 bytes are lost")
        self.check(objects={"v/1": 10, "v/2": 21}, said="31 bytes of objects, but 30")

    def test_references_are_those_of_objects(self):
        self.check(referenced={"v/1", "v/3"}, said="refer to 2 objects, and there are 2, of which 1")

    def test_uploads_are_ended(self):
        self.check(uploads=["v/9"], said="1 uploads")


if __name__ == "__main__":
    unittest.main()
