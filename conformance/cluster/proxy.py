"""A proxy before PostgreSQL that loses answers: it cuts connections at a COMMIT, in a process of its own.

    python proxy.py LISTEN:TARGET ...

Lines on its standard input say what to do: `cut SHARE SEED` begins to cut at that share of the COMMITs, `pass` ends it,
and `count` prints how often it has cut, in which way, as JSON. It ends with its input.
"""

import asyncio
import json
import random
import struct
import sys
from collections import Counter

# Ways to lose an answer. The client cannot tell them apart.
ANSWER_LOST = "answer lost"  # PostgreSQL has committed.
NOT_AWAITED = "not awaited"  # COMMIT was sent, and the connection cut at once.
NEVER_SENT = "never sent"  # PostgreSQL rolls back.
WAYS = (ANSWER_LOST, NOT_AWAITED, NEVER_SENT)

CHUNK = 1 << 16
SSL_REQUEST, GSS_REQUEST = 80877103, 80877104


class Plan:
    """Which COMMITs are cut, and how."""

    def __init__(self):
        self.share = 0.0
        self.random = random.Random(0)
        self.count = Counter()

    def way(self):
        if self.share and self.random.random() < self.share:
            way = self.random.choice(WAYS)
            self.count[way] += 1
            return way
        self.count["passed"] += 1
        return None


class Frontend:
    """What a client sends, cut into messages. Knows which of them carry out a COMMIT."""

    def __init__(self):
        self.buffer = bytearray()
        self.has_started = False
        # Prepared statements and portals that commit.
        self.statements, self.portals = set(), set()

    def messages(self, data):
        """Whole messages of all that was received: the bytes, and whether it is a COMMIT."""
        self.buffer += data
        while True:
            head = 1 if self.has_started else 0
            if len(self.buffer) < head + 4:
                return
            (length,) = struct.unpack_from("!I", self.buffer, head)
            if len(self.buffer) < head + length:
                return
            message = bytes(self.buffer[: head + length])
            del self.buffer[: head + length]
            if not self.has_started:
                (code,) = struct.unpack_from("!I", message, 4)
                # After a request for encryption the real beginning follows.
                self.has_started = code not in (SSL_REQUEST, GSS_REQUEST)
                yield message, False
            else:
                yield message, self.is_commit(message[:1], message[5:])

    def is_commit(self, kind, body):
        if kind == b"Q":
            return is_commit_text(body)
        if kind == b"P":  # Parse: statement, text
            name, _, rest = body.partition(b"\0")
            self.statements.discard(name)
            if is_commit_text(rest):
                self.statements.add(name)
        elif kind == b"B":  # Bind: portal, statement
            portal, _, rest = body.partition(b"\0")
            self.portals.discard(portal)
            if rest.partition(b"\0")[0] in self.statements:
                self.portals.add(portal)
        elif kind == b"E":  # Execute: portal
            return body.partition(b"\0")[0] in self.portals
        return False


def is_commit_text(text):
    """Whether a text commits: alone, or after other statements."""
    statements = [statement.strip().upper() for statement in text.partition(b"\0")[0].split(b";")]
    return any(statement in (b"COMMIT", b"END") or statement.startswith((b"COMMIT ", b"END ")) for statement in statements)


class Cut(Exception):
    """The connection is to be cut now."""


class Connection:
    def __init__(self, plan):
        self.plan = plan
        # Set while the answer to a COMMIT is held back.
        self.awaited = None

    async def forward_client(self, reader, writer):
        frontend = Frontend()
        while data := await reader.read(CHUNK):
            for message, is_commit in frontend.messages(data):
                way = self.plan.way() if is_commit else None
                if way == NEVER_SENT:
                    raise Cut
                if way == ANSWER_LOST:
                    self.awaited = asyncio.get_running_loop().create_future()
                writer.write(message)
                if way is not None:
                    # A Sync follows, if it is the extended protocol; PostgreSQL answers without waiting for it only if asked.
                    if message[:1] == b"E":
                        writer.write(b"S\x00\x00\x00\x04")
                    await writer.drain()
                if way == ANSWER_LOST:
                    await asyncio.wait_for(self.awaited, 10)
                if way is not None:
                    raise Cut
            await writer.drain()

    async def forward_server(self, reader, writer):
        swallowed = b""
        while data := await reader.read(CHUNK):
            if self.awaited is None:
                writer.write(data)
                await writer.drain()
                continue
            swallowed += data
            # What completes a transaction says how, in whichever form it was asked.
            if any(tag in swallowed for tag in (b"COMMIT\0", b"ROLLBACK\0")) and not self.awaited.done():
                self.awaited.set_result(None)


async def serve(plan, target, reader, writer):
    try:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", target)
    except OSError:
        writer.transport.abort()
        return
    connection = Connection(plan)
    tasks = [
        asyncio.create_task(connection.forward_client(reader, server_writer)),
        asyncio.create_task(connection.forward_server(server_reader, writer)),
    ]
    _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    # To the server what was written still goes; the client is cut off without a word.
    server_writer.close()
    writer.transport.abort()


async def main(routes):
    plan = Plan()
    for listen, target in routes:
        await asyncio.start_server(lambda reader, writer, target=target: serve(plan, target, reader, writer), "127.0.0.1", listen)
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        match line.split():
            case ["cut", share, seed]:
                plan.share, plan.random, plan.count = float(share), random.Random(int(seed)), Counter()
            case ["pass"]:
                plan.share = 0.0
            case ["count"]:
                print(json.dumps(plan.count), flush=True)


if __name__ == "__main__":
    asyncio.run(main([tuple(map(int, route.split(":"))) for route in sys.argv[1:]]))
