"""Clients of all three services, which count what they do. Plain HTTP, so that no library sends what it does not say."""

import base64
import hashlib
import hmac
import http.client
import json
import threading
import time
import urllib.parse
import uuid
import xml.etree.ElementTree as ElementTree
from collections import Counter

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2021-12-02"
CLIENTS = 4
JSON = {"Accept": "application/json;odata=nometadata", "Content-Type": "application/json"}


def account_sas():
    """A shared access signature with every right."""
    said = {"sv": VERSION, "ss": "btq", "srt": "sco", "sp": "rwdlacupt", "se": "2099-01-01T00:00:00Z"}
    lines = [ACCOUNT, said["sp"], said["ss"], said["srt"], "", said["se"], "", "", said["sv"], "", ""]
    digest = hmac.new(base64.b64decode(KEY), "\n".join(lines).encode(), hashlib.sha256).digest()
    return urllib.parse.urlencode(said | {"sig": base64.b64encode(digest).decode()})


class Counted:
    """What clients have counted."""

    KINDS = ("requests", "callers", "codes", "bytes_in", "bytes_out", "messages", "batched", "returned", "auth_failures")

    def __init__(self):
        for kind in self.KINDS:
            setattr(self, kind, Counter())

    def add(self, other):
        for kind in self.KINDS:
            getattr(self, kind).update(getattr(other, kind))

    def total(self):
        return sum(self.requests.values())


class Client:
    """One client with a connection to each service."""

    def __init__(self, ports, sas):
        self.connections = {
            service: http.client.HTTPConnection("127.0.0.1", ports[service]["port"], timeout=60)
            for service in ("table", "queue", "blob")
        }
        self.sas = sas
        self.counted = Counted()

    def close(self):
        for connection in self.connections.values():
            connection.close()

    def ask(self, service, operation, method, path, body=b"", headers={}, auth="sas", **query):
        """Sends a request and counts it. Returns the status, the headers and the body."""
        query = urllib.parse.urlencode(query, safe="$'() ", quote_via=urllib.parse.quote).replace(" ", "%20")
        target = f"/{ACCOUNT}{path}?" + "&".join(part for part in (query, self.sas if auth == "sas" else "") if part)
        connection = self.connections[service]
        sent = {"x-ms-version": VERSION, "Content-Length": str(len(body)), **headers}
        connection.request(method, target, body, sent)
        answer = connection.getresponse()
        received = answer.read()
        counted = self.counted
        counted.requests[service, operation, f"{answer.status // 100}xx"] += 1
        counted.callers[service, auth] += 1
        counted.bytes_in[service] += len(body)
        counted.bytes_out[service] += len(received)
        # A condition that is not met by a GET is no error, though it has a code.
        code = answer.headers.get("x-ms-error-code") or error_code(answer.status, received)
        if answer.status >= 300 and code:
            counted.codes[service, code] += 1
        return answer.status, answer.headers, received


def error_code(status, body):
    """The code in the body of an error of the Table service."""
    if status < 400 or not body.startswith(b"{"):
        return None
    return json.loads(body)["odata.error"]["code"]


def expect(found, *statuses):
    assert found[0] in statuses, f"{found[0]} instead of {statuses}: {found[2][:500]}"
    return found


class Load:
    """Several clients at once, each with resources of its own."""

    def __init__(self, ports):
        self.ports = ports
        self.sas = account_sas()
        self.counted = Counted()
        self.stop = False
        self.failure = None

    def run(self, seconds, is_enough):
        """Asks for at least so long, and until it is enough."""
        threads = [threading.Thread(target=self.work, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        give_up = time.monotonic() + 60
        end = time.monotonic() + seconds
        while self.failure is None and time.monotonic() < give_up and (time.monotonic() < end or not is_enough()):
            time.sleep(0.2)
        self.stop = True
        for thread in threads:
            thread.join()
        if self.failure is not None:
            raise self.failure

    def work(self, number):
        client = Client(self.ports, self.sas)
        try:
            name = f"load{number}{uuid.uuid4().hex[:12]}"
            prepare(client, name)
            round_number = 0
            while not self.stop:
                table_round(client, name, round_number)
                queue_round(client, name)
                blob_round(client, name, round_number)
                refused_round(client)
                round_number += 1
        except Exception as error:
            self.failure = error
        finally:
            client.close()
            self.counted.add(client.counted)


def prepare(client, name):
    expect(client.ask("table", "CreateTable", "POST", "/Tables", json.dumps({"TableName": name}).encode(), JSON), 201)
    expect(client.ask("queue", "CreateQueue", "PUT", f"/{name}"), 201)
    expect(client.ask("queue", "CreateQueue", "PUT", f"/{name}"), 204)
    expect(client.ask("blob", "CreateContainer", "PUT", f"/{name}", restype="container"), 201)
    expect(client.ask("blob", "CreateContainer", "PUT", f"/{name}", restype="container"), 409)


def table_round(client, table, number):
    partition, keys = f"p{number % 7}", [f"{number}-{row}" for row in range(3)]
    ask = lambda *arguments, **more: client.ask("table", *arguments, **more)
    path = lambda key: f"/{table}(PartitionKey='{partition}',RowKey='{key}')"
    for key in keys:
        entity = json.dumps({"PartitionKey": partition, "RowKey": key, "Value": number, "Text": "x" * 100}).encode()
        expect(ask("InsertEntity", "POST", f"/{table}", entity, JSON | {"Prefer": "return-no-content"}), 204)
    expect(ask("InsertEntity", "POST", f"/{table}", entity, JSON), 409)
    expect(ask("QueryEntity", "GET", path(keys[0]), headers=JSON), 200)
    client.counted.returned["point"] += 1
    expect(ask("QueryEntity", "GET", path("none"), headers=JSON), 404)
    expect(ask("MergeEntity", "MERGE", path(keys[1]), b'{"Value":-1}', JSON | {"If-Match": "*"}), 204)
    expect(ask("UpdateEntity", "PUT", path(keys[1]), b'{"Value":-2}', JSON | {"If-Match": "W/\"datetime'2000-01-01T00%3A00%3A00Z'\""}), 412)
    expect(ask("InsertOrReplaceEntity", "PUT", path(keys[2]), b'{"Value":-3}', JSON), 204)
    expect(ask("DeleteEntity", "DELETE", path(keys[0]), headers=JSON | {"If-Match": "*"}), 204)
    for plan, query in (
        ("partition", {"$filter": f"PartitionKey eq '{partition}'", "$top": "20"}),
        ("row-range", {"$filter": f"PartitionKey eq '{partition}' and RowKey ge '{number}' and RowKey lt '{number}-9'"}),
        ("table", {"$filter": f"Value eq {number}", "$top": "5"}),
    ):
        _, _, body = expect(ask("QueryEntities", "GET", f"/{table}()", headers=JSON, **query), 200)
        client.counted.returned[plan] += len(json.loads(body)["value"])
    batch(client, table, partition, [f"{number}-b{row}" for row in range(5)])


def batch(client, table, partition, keys):
    parts = []
    for key in keys:
        entity = json.dumps({"PartitionKey": partition, "RowKey": key, "Value": 0})
        parts.append(
            "--changes\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
            f"PUT http://127.0.0.1/{ACCOUNT}/{table}(PartitionKey='{partition}',RowKey='{key}') HTTP/1.1\r\n"
            f"Content-Type: application/json\r\nAccept: application/json;odata=nometadata\r\n\r\n{entity}\r\n"
        )
    changes = "".join(parts) + "--changes--\r\n"
    body = f"--batch\r\nContent-Type: multipart/mixed; boundary=changes\r\n\r\n{changes}--batch--\r\n".encode()
    headers = {"Content-Type": "multipart/mixed; boundary=batch", "Accept": "application/json;odata=nometadata"}
    expect(client.ask("table", "EntityGroupTransaction", "POST", "/$batch", body, headers), 202)
    client.counted.batched["table"] += len(keys)


def queue_round(client, queue):
    messages = f"/{queue}/messages"
    ask = lambda *arguments, **more: client.ask("queue", *arguments, **more)
    message = b"<QueueMessage><MessageText>hello</MessageText></QueueMessage>"
    for _ in range(2):
        expect(ask("PutMessage", "POST", messages, message), 201)
    expect(ask("PeekMessages", "GET", messages, peekonly="true"), 200)
    _, _, body = expect(ask("GetMessages", "GET", messages, numofmessages="2", visibilitytimeout="600"), 200)
    got = [(found.findtext("MessageId"), found.findtext("PopReceipt")) for found in ElementTree.fromstring(body.removeprefix(b"\xef\xbb\xbf"))]
    (first, receipt), (second, _) = got
    expect(ask("UpdateMessage", "PUT", f"{messages}/{first}", message, popreceipt=receipt, visibilitytimeout="300"), 204)
    # The receipt is not the last one any more.
    expect(ask("DeleteMessage", "DELETE", f"{messages}/{first}", popreceipt=receipt), 400, 404)
    expect(ask("DeleteMessage", "DELETE", f"{messages}/{second}", popreceipt=got[1][1]), 204)
    client.counted.messages.update({"put": 2, "got": 2, "updated": 1, "deleted": 1})


def blob_round(client, container, number):
    blob = f"/{container}/blob{number % 10}"
    ask = lambda *arguments, **more: client.ask("blob", *arguments, **more)
    content = bytes([number % 256]) * (300_000 if number % 4 == 0 else 2_000)
    _, headers, _ = expect(ask("PutBlob", "PUT", blob, content, {"x-ms-blob-type": "BlockBlob"}), 201)
    etag = headers["ETag"]
    _, _, body = expect(ask("GetBlob", "GET", blob), 200)
    assert body == content
    expect(ask("GetBlob", "GET", blob, headers={"x-ms-range": "bytes=10-19"}), 206)
    expect(ask("GetBlob", "GET", blob, headers={"If-None-Match": etag}), 304)
    expect(ask("GetBlob", "GET", f"{blob}x"), 404)
    expect(ask("GetBlobProperties", "HEAD", blob), 200)
    expect(ask("ListBlobs", "GET", f"/{container}", restype="container", comp="list"), 200)
    if number % 3 == 0:
        expect(ask("DeleteBlob", "DELETE", blob), 202)


def refused_round(client):
    """Requests whose caller is not let in."""
    expect(client.ask("table", "Unknown", "GET", "/Tables", headers=JSON, auth="unknown"), 401)
    expect(client.ask("queue", "Unknown", "GET", "/", headers={"Authorization": "Bearer x"}, auth="unknown", comp="list"), 403)
    client.counted.auth_failures.update({("table", "missing"): 1, ("queue", "token"): 1})
