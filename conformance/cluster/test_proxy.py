"""The proxy knows a COMMIT when it passes, in whichever form it is sent."""

import struct
import unittest

from proxy import Frontend, is_commit_text


def message(kind, body):
    return kind + struct.pack("!I", len(body) + 4) + body


STARTUP = struct.pack("!II", 8, 196608)
SSL = struct.pack("!II", 8, 80877103)


class Commits(unittest.TestCase):
    def commits(self, *messages, size=None):
        data = b"".join((STARTUP, *messages))
        frontend, found, passed = Frontend(), [], b""
        for begin in range(0, len(data), size or len(data)):
            for whole, is_commit in frontend.messages(data[begin : begin + (size or len(data))]):
                passed += whole
                found.append(is_commit)
        self.assertEqual(passed, data)
        return found[1:]

    def test_texts(self):
        for text, expected in ((b"COMMIT", True), (b" commit ;", True), (b"SELECT 1; COMMIT", True), (b"END", True), (b"COMMIT AND NO CHAIN", True),
                               (b"SELECT 'COMMIT'", False), (b"ROLLBACK", False), (b"COMMITS", False), (b"", False)):  # fmt: skip
            self.assertEqual(is_commit_text(text + b"\0"), expected, text)

    def test_simple_queries(self):
        self.assertEqual(self.commits(message(b"Q", b"BEGIN\0"), message(b"Q", b"COMMIT\0")), [False, True])

    def test_prepared_statements(self):
        prepare = message(b"P", b"s1\0COMMIT\0\0\0"), message(b"P", b"s2\0SELECT 1\0\0\0")
        bind = lambda portal, statement: message(b"B", portal + b"\0" + statement + b"\0\0\0\0\0\0\0")
        execute = lambda portal: message(b"E", portal + b"\0\0\0\0\0")
        found = self.commits(*prepare, bind(b"", b"s2"), execute(b""), bind(b"", b"s1"), execute(b""), bind(b"", b"s2"), execute(b""))
        self.assertEqual(found, [False] * 5 + [True] + [False] * 2)

    def test_pieces(self):
        for size in range(1, 20):
            self.assertEqual(self.commits(message(b"Q", b"BEGIN\0"), message(b"Q", b"COMMIT\0"), size=size), [False, True])

    def test_a_request_for_encryption(self):
        frontend = Frontend()
        self.assertEqual(list(frontend.messages(SSL + STARTUP)), [(SSL, False), (STARTUP, False)])
        self.assertEqual([is_commit for _, is_commit in frontend.messages(message(b"Q", b"COMMIT\0"))], [True])


if __name__ == "__main__":
    unittest.main()
