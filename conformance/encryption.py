#!/usr/bin/env python3
"""Exchanges encrypted entities between our client and an old one, azure-cosmosdb-table, in both directions.

    tepui serve --in-memory
    conformance/encryption.py --endpoint http://127.0.0.1:10002/devstoreaccount1 \\
        --program target/release/examples/encryption_exchange

The old client is the one that conformance/sdk/run installs: .work/sdk/python-legacy/venv/bin/python.
"""

import argparse
import base64
import json
import logging
import os
import subprocess
import uuid
from contextlib import contextmanager

from azure.common import AzureException
from azure.cosmosdb.table.common.retry import no_retry
from azure.cosmosdb.table.models import EdmType, EntityProperty
from azure.cosmosdb.table.tableservice import TableService
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap, aes_key_wrap

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
# Of all lengths around a block of AES, of all planes, and with what JSON escapes.
TEXTS = ["", "a", "x" * 15, "x" * 16, "x" * 17, "é大😀", 'a "quoted" \\ text\n', "[a, b]", "z" * 20_000]


class WrappingKey:
    """An AES key as the old client wants it."""

    def __init__(self, kid, bits=256):
        self.kid, self.bits, self.key = kid, bits, os.urandom(bits // 8)

    def wrap_key(self, key):
        return aes_key_wrap(self.key, key)

    def unwrap_key(self, key, algorithm):
        assert algorithm == self.get_key_wrap_algorithm(), algorithm
        return aes_key_unwrap(self.key, key)

    def get_kid(self):
        return self.kid

    def get_key_wrap_algorithm(self):
        return f"A{self.bits}KW"

    def text(self):
        return f"{self.kid}={base64.b64encode(self.key).decode()}"


def entities():
    for number, text in enumerate(TEXTS):
        # One key is the end of another: the order in which they are hashed shows.
        yield {
            "PartitionKey": f"p{number}",
            "RowKey": "ü" * number + "r",
            "Plain": text,
            "Secret": text,
            "SecretÄ": "second",
            "Number": number,
        }


class Exchange:
    def __init__(self, endpoint, program):
        self.connection_string = f"AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint={endpoint}"
        self.program = program
        self.service = self.old_client()

    def old_client(self, key=None, required=True):
        service = TableService(connection_string=f"DefaultEndpointsProtocol=http;{self.connection_string}")
        service.retry = no_retry
        if key is not None:
            service.key_encryption_key = key
            service.require_encryption = required
            service.encryption_resolver_function = lambda partition, row, name: name.startswith("Secret")
        return service

    @contextmanager
    def table(self):
        name = "Encryption" + uuid.uuid4().hex
        self.service.create_table(name, fail_on_exist=True)
        yield name
        self.service.delete_table(name)

    def ours(self, table, command, *keys, lines=()):
        done = subprocess.run(
            [self.program, self.connection_string, table, command],
            env={**os.environ, "EXCHANGE_KEYS": ",".join(key.text() for key in keys)},
            input="".join(json.dumps(line) + "\n" for line in lines),
            capture_output=True,
            encoding="utf-8",
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def read_by_old(self, table, key, select=None):
        found = self.old_client(key).query_entities(table, select=select)
        return [properties_of(entity) for entity in found]


def properties_of(entity):
    """Without what the server adds. A number has its type beside it."""
    return {
        name: value.value if isinstance(value, EntityProperty) and value.type == EdmType.INT32 else value
        for name, value in entity.items()
        if name not in ("Timestamp", "etag")
    }


def same(found, expected):
    found, expected = ({entity["PartitionKey"]: entity for entity in entities} for entities in (found, expected))
    assert found.keys() == expected.keys(), (found.keys(), expected.keys())
    for key, entity in expected.items():
        assert found[key] == entity, f"{found[key]!r:.500} and not {entity!r:.500}"


def old_writes_and_we_read(exchange, bits):
    key = WrappingKey("key-1", bits)
    with exchange.table() as table:
        service = exchange.old_client(key)
        for entity in entities():
            service.insert_entity(table, {**entity, "Number": EntityProperty(EdmType.INT32, entity["Number"])})
        same(exchange.ours(table, "read", key), entities())


def we_write_and_old_reads(exchange, bits):
    key = WrappingKey("key-1", bits)
    with exchange.table() as table:
        exchange.ours(table, "write-v1", key, lines=entities())
        same(exchange.read_by_old(table, key), entities())
        names = ("PartitionKey", "RowKey", "Secret")
        selected = exchange.read_by_old(table, key, select=",".join(names))
        same(selected, [{name: entity[name] for name in names} for entity in entities()])
        # What is stored is not what was written.
        stored = exchange.service.get_entity(table, "p1", "ür")
        assert stored["Secret"].type == EdmType.BINARY and stored["Plain"] == "a"


def rotated_keys_are_read_by_both(exchange):
    old, new = WrappingKey("key-1"), WrappingKey("key-2")
    with exchange.table() as table:
        service = exchange.old_client(old)
        for entity in entities():
            service.insert_entity(table, {**entity, "Number": EntityProperty(EdmType.INT32, entity["Number"])})
        assert exchange.ours(table, "rotate", new, old) == [len(TEXTS)]
        same(exchange.read_by_old(table, new), entities())
        same(exchange.ours(table, "read", new), entities())


def our_format_is_refused_by_the_old(exchange):
    key = WrappingKey("key-1")
    with exchange.table() as table:
        exchange.ours(table, "write", key, lines=entities())
        same(exchange.ours(table, "read", key), entities())
        try:
            exchange.read_by_old(table, key)
        except AzureException as error:
            assert "ecrypt" in str(error), error
        else:
            raise AssertionError("the old client has read what it cannot know")
        # Unless it is told to require encryption, it hands out the bytes as they are.
        lenient = exchange.old_client(key, required=False).get_entity(table, "p1", "ür")
        assert lenient["Secret"].type == EdmType.BINARY


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoint", required=True, help="of the Table service")
    parser.add_argument("--program", required=True, help="the example encryption_exchange of tepui-client")
    options = parser.parse_args()
    # It reports each refusal, and one is expected.
    logging.getLogger("azure").setLevel(logging.CRITICAL)
    exchange = Exchange(options.endpoint, options.program)
    for bits in (128, 192, 256):
        old_writes_and_we_read(exchange, bits)
        we_write_and_old_reads(exchange, bits)
    rotated_keys_are_read_by_both(exchange)
    our_format_is_refused_by_the_old(exchange)
    print(f"encryption: {len(TEXTS)} entities read in both directions with each of 3 lengths of keys, and rotated")


if __name__ == "__main__":
    main()
