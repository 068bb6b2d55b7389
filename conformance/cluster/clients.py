"""The official clients for Python, without retries, each request as one attempt of a history."""

import contextlib
import json
import random
from dataclasses import dataclass

from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient, UpdateMode
from azure.storage.blob import BlobBlock, BlobServiceClient
from azure.storage.queue import QueueServiceClient

from history import REFUSED, UNKNOWN, UNREACHED
from linearizable import DELETE, INSERT, PUT, READ, REPLACE

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
BLOCK_BYTES = 2 << 20

# Longer than a node needs to find that its store does not answer.
READ_SECONDS = 10
OPTIONS = {"retry_total": 0, "connection_timeout": 5, "read_timeout": READ_SECONDS}


class Refused(Exception):
    """A refusal that the client library keeps to itself."""


def classify(error):
    """The outcome and the code of an attempt that raised an exception."""
    if isinstance(error, Refused):
        return REFUSED, str(error)
    if isinstance(error, HttpResponseError) and error.status_code is not None:
        code = code_of(error)
        is_refusal = 400 <= error.status_code < 500 and error.status_code not in (408, 429)
        return (REFUSED, code) if is_refusal else (UNKNOWN, f"{error.status_code} {code}")
    if "Failed to establish a new connection" in str(error):
        return UNREACHED, ""
    return UNKNOWN, f"{type(error).__name__}: {str(error)[:200]}"


def code_of(error):
    code = getattr(error, "error_code", None)
    if code is None and error.response is not None:
        code = error.response.headers.get("x-ms-error-code")
    if code is None and error.response is not None:
        # Only the body of an error of the Table service has its code.
        with contextlib.suppress(ValueError, KeyError, TypeError):
            code = json.loads(error.response.text())["odata.error"]["code"]
    return str(getattr(code, "value", code) or error.status_code)


def content_of(value, length):
    """The bytes of a blob: made from the value, which they begin with."""
    head = f"{value}\n".encode()
    return head + random.Random(value).randbytes(max(0, length - len(head)))


def value_of(content):
    return content.partition(b"\n")[0].decode(errors="replace")


def padding_of(value):
    """Makes entities larger, and shows whether one is a mixture of two."""
    return f"{value}." * 8


@dataclass(frozen=True)
class Seen:
    """A state of a register that a client knows."""

    value: str
    etag: str


class Node:
    """The clients of one node, for one thread, and the attempts that they make."""

    def __init__(self, number, endpoints, history):
        self.number = number
        self.history = history
        # A thread that waits for a paused node asks nobody else meanwhile, so it is left alone for some time.
        self.avoided_until = 0.0
        credential = AzureNamedKeyCredential(ACCOUNT, KEY)
        self.tables = TableServiceClient(endpoints["table"], credential=credential, **OPTIONS)
        self.queues = QueueServiceClient(endpoints["queue"], credential=credential, **OPTIONS)
        self.blobs = BlobServiceClient(endpoints["blob"], credential=credential, **OPTIONS)

    def close(self):
        for client in (self.tables, self.queues, self.blobs):
            client.close()

    def attempt(self, kind, key, call, **given):
        attempt = self.history.run(kind, key, self.number, call, classify, **given)
        if attempt.outcome == UNKNOWN and attempt.end - attempt.start >= READ_SECONDS:
            self.avoided_until = attempt.end + READ_SECONDS
        return attempt

    # Entities. A name is the PartitionKey and the RowKey with a slash between them.

    def read_entity(self, table, folder, name):
        def call():
            entity = self.tables.get_table_client(table).get_entity(*name.split("/"))
            return seen_entity(entity)

        return self.attempt(READ, (folder, name), call)

    def insert_entity(self, table, folder, name, value):
        def call():
            return told(self.tables.get_table_client(table).create_entity(entity_of(name, value)))

        return self.attempt(INSERT, (folder, name), call, value=value)

    def put_entity(self, table, folder, name, value):
        def call():
            return told(self.tables.get_table_client(table).upsert_entity(entity_of(name, value), mode=UpdateMode.REPLACE))

        return self.attempt(PUT, (folder, name), call, value=value)

    def replace_entity(self, table, folder, name, value, seen, mode=UpdateMode.REPLACE):
        def call():
            client = self.tables.get_table_client(table)
            condition = {"etag": seen.etag, "match_condition": MatchConditions.IfNotModified}
            return told(client.update_entity(entity_of(name, value), mode=mode, **condition))

        return self.attempt(REPLACE, (folder, name), call, value=value, expected=seen.value, etag=seen.etag)

    def delete_entity(self, table, folder, name, seen):
        def call():
            def refuse_absent(response):
                if response.http_response.status_code == 404:
                    raise Refused(response.http_response.headers.get("x-ms-error-code", "ResourceNotFound"))

            condition = {"etag": seen.etag, "match_condition": MatchConditions.IfNotModified}
            self.tables.get_table_client(table).delete_entity(*name.split("/"), raw_response_hook=refuse_absent, **condition)

        return self.attempt(DELETE, (folder, name), call, expected=seen.value)

    def list_entities(self, table, folder, filter, others=(), page=200):
        """All entities of a filter, whose pages are asked of several nodes in turn."""

        def call():
            names, found = [], {}
            for entity in walk(
                [self, *others], lambda node: node.tables.get_table_client(table).query_entities(filter, results_per_page=page)
            ):
                name = f"{entity['PartitionKey']}/{entity['RowKey']}"
                names.append(name)
                found[name] = seen_entity(entity)
            return {"names": names, "found": found}

        return self.attempt("list", (folder,), call)

    # Groups of entities that only batches write: a register each.

    def read_group(self, table, folder, group, rows):
        def call():
            client = self.tables.get_table_client(table)
            (*pages,) = client.query_entities(f"PartitionKey eq '{group}'", results_per_page=len(rows) + 1).by_page()
            entities = {entity["RowKey"]: entity for page in pages for entity in page}
            if not entities:
                raise Refused("ResourceNotFound")
            told = {row: seen_entity(entity) for row, entity in entities.items()}
            first = told.get(rows[0], {"value": None, "etag": None})
            return {
                "value": first["value"],
                "etag": first["etag"],
                "etags": {row: seen["etag"] for row, seen in told.items()},
                "parts": {row: told[row]["value"] if row in told else None for row in rows},
                "sound": all(seen["sound"] for seen in told.values()),
            }

        return self.attempt(READ, (folder, group), call)

    def write_group(self, table, folder, group, rows, value, kind, seen=None):
        """A batch on all rows: inserts, upserts, or upserts after one that has a condition."""

        def call():
            entities = [entity_of(f"{group}/{row}", value) for row in rows]
            if kind == INSERT:
                changes = [("create", entity) for entity in entities]
            else:
                changes = [("upsert", entity, {"mode": UpdateMode.REPLACE}) for entity in entities]
            if kind == REPLACE:
                condition = {"etag": seen.etag, "match_condition": MatchConditions.IfNotModified}
                changes[0] = ("update", entities[0], {"mode": UpdateMode.REPLACE, **condition})
            answers = self.tables.get_table_client(table).submit_transaction(changes)
            etags = {row: answer["etag"] for row, answer in zip(rows, answers)}
            return {"etag": etags[rows[0]], "etags": etags}

        given = {} if seen is None else {"expected": seen.value, "etag": seen.etag}
        return self.attempt(kind, (folder, group), call, value=value, **given)

    # Queues.

    def send(self, queue, text):
        def call():
            return {"id": self.queues.get_queue_client(queue).send_message(text).id}

        return self.attempt("send", (queue,), call, text=text)

    def receive(self, queue, count, seconds, **given):
        def call():
            client = self.queues.get_queue_client(queue)
            page = next(client.receive_messages(messages_per_page=count, visibility_timeout=seconds).by_page(), ())
            return {
                "messages": [
                    {"text": message.content, "id": message.id, "receipt": message.pop_receipt, "count": message.dequeue_count}
                    for message in page
                ]
            }

        return self.attempt("receive", (queue,), call, seconds=seconds, **given)

    def hold(self, queue, message, seconds):
        """Hides a message for longer."""

        def call():
            client = self.queues.get_queue_client(queue)
            updated = client.update_message(message["id"], message["receipt"], content=message["text"], visibility_timeout=seconds)
            return {"receipt": updated.pop_receipt}

        return self.attempt("hold", (queue,), call, id=message["id"], count=message["count"], seconds=seconds)

    def remove(self, queue, message):
        def call():
            self.queues.get_queue_client(queue).delete_message(message["id"], message["receipt"])

        return self.attempt("remove", (queue,), call, id=message["id"], count=message["count"])

    # Blobs.

    def read_blob(self, container, folder, name):
        def call():
            stream = self.blobs.get_blob_client(container, name).download_blob()
            content = stream.readall()
            value = value_of(content)
            return {"value": value, "etag": stream.properties.etag, "sound": content == content_of(value, len(content))}

        return self.attempt(READ, (folder, name), call)

    def put_blob(self, container, folder, name, value, length, kind=PUT, seen=None):
        def call():
            if kind == REPLACE:
                how = {"overwrite": True, "etag": seen.etag, "match_condition": MatchConditions.IfNotModified}
            else:
                how = {"overwrite": kind == PUT}
            return told(self.blobs.get_blob_client(container, name).upload_blob(content_of(value, length), **how))

        # ETags of blobs say nothing about their order.
        given = {} if seen is None else {"expected": seen.value}
        return self.attempt(kind, (folder, name), call, value=value, **given)

    def put_blocks(self, container, folder, name, value, length):
        """A blob in blocks. Nothing is committed if one of them fails."""
        content = content_of(value, length)
        blob = self.blobs.get_blob_client(container, name)
        blocks = []
        for begin in range(0, length, BLOCK_BYTES):
            block = f"{begin:012}"
            staged = self.attempt("stage", (folder, name), lambda: blob.stage_block(block, content[begin : begin + BLOCK_BYTES]) and None)
            if not staged.is_ok:
                return staged
            blocks.append(BlobBlock(block))
        return self.attempt(PUT, (folder, name), lambda: told(blob.commit_block_list(blocks)), value=value)

    def delete_blob(self, container, folder, name, seen):
        def call():
            condition = {"etag": seen.etag, "match_condition": MatchConditions.IfNotModified}
            self.blobs.get_blob_client(container, name).delete_blob(**condition)

        return self.attempt(DELETE, (folder, name), call, expected=seen.value)

    def list_blobs(self, container, folder, others=(), page=100):
        def call():
            def pages(node):
                return node.blobs.get_container_client(container).list_blobs(results_per_page=page)

            return {"names": [blob.name for blob in walk([self, *others], pages)]}

        return self.attempt("list", (folder,), call)


def walk(nodes, listing):
    """What a list names, page by page, each page asked of the next node."""
    continuation, turn = None, 0
    while True:
        pages = listing(nodes[turn % len(nodes)]).by_page(continuation_token=continuation)
        try:
            yield from list(next(pages))
        except StopIteration:
            return
        continuation, turn = pages.continuation_token, turn + 1
        if not continuation:
            return


def entity_of(name, value):
    partition, row = name.split("/")
    return {"PartitionKey": partition, "RowKey": row, "value": value, "padding": padding_of(value)}


def seen_entity(entity):
    value = entity["value"]
    return {"value": value, "etag": entity.metadata["etag"], "sound": entity["padding"] == padding_of(value)}


def told(answer):
    return {"etag": answer["etag"]}
