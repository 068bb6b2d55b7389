"""Snapshots, reset and seeds, as clients of all three services see them."""

import io
import json
import tarfile
import urllib.request

import pytest
from azure.core.exceptions import ResourceNotFoundError
from support import AdminError


@pytest.fixture(autouse=True)
def no_snapshots(admin):
    yield
    for snapshot in admin.call("GET", "/snapshots")["snapshots"]:
        admin.call("DELETE", f"/snapshots/{snapshot['name']}")


def archive(files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def seed(admin, files):
    headers = {"Authorization": f"Bearer {admin.token}"}
    request = urllib.request.Request(admin.url + "/seed", data=archive(files), method="POST", headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_a_snapshot_is_gone_back_to(server, admin):
    table, queue, container = server.table(), server.queue(), server.container()
    table.create_entity({"PartitionKey": "p", "RowKey": "kept", "Value": 1})
    queue.send_message("kept")
    container.upload_blob("kept", b"k" * 100_000)
    before = table.get_entity("p", "kept")
    assert admin.call("PUT", "/snapshots/base") == {"name": "base"}
    for round in range(3):
        table.upsert_entity({"PartitionKey": "p", "RowKey": "kept", "Value": 2})
        table.create_entity({"PartitionKey": "p", "RowKey": f"new {round}"})
        assert queue.receive_message().content == "kept"
        queue.send_message("new")
        container.delete_blob("kept")
        container.upload_blob("new", b"n" * 100_000)
        if round == 1:
            container.delete_container()
        answer = admin.call("POST", "/snapshots/base/restore")
        assert answer["changedRows"] > 0
        entities = list(table.list_entities())
        assert [entity["RowKey"] for entity in entities] == ["kept"]
        assert (entities[0]["Value"], entities[0].metadata["etag"]) == (1, before.metadata["etag"])
        assert [message.content for message in queue.peek_messages(32)] == ["kept"]
        assert [blob.name for blob in container.list_blobs()] == ["kept"]
        assert container.download_blob("kept").readall() == b"k" * 100_000
    admin.call("DELETE", "/snapshots/base")
    with pytest.raises(AdminError) as refused:
        admin.call("POST", "/snapshots/base/restore")
    assert refused.value.status == 404


def test_reset(server, admin):
    table, queue, container = server.table(), server.queue(), server.container()
    container.upload_blob("blob", b"b" * 100_000)
    counts = admin.call("POST", "/reset", {"service": "table"})
    assert counts["tables"] >= 1 and counts["queues"] == 0
    with pytest.raises(ResourceNotFoundError):
        list(table.list_entities())
    queue.send_message("still there")
    counts = admin.call("POST", "/reset")
    assert counts["queues"] >= 1 and counts["containers"] >= 1
    with pytest.raises(ResourceNotFoundError):
        queue.peek_messages()
    with pytest.raises(ResourceNotFoundError):
        container.get_blob_client("blob").download_blob()
    container.create_container()
    assert list(container.list_blobs()) == []


def test_seed(server, admin):
    files = {
        "tables/Seeded.csv": b"PartitionKey,RowKey,Age:Int32,Name\np,r,42,Ann\n",
        "queues/seeded.txt": b"first\nsecond\n",
        "blobs/seeded/a/b.json": b"{}",
    }
    counts = seed(admin, files)
    assert (counts["entitiesWritten"], counts["messagesWritten"], counts["blobsWritten"]) == (1, 2, 1)
    entity = server.table("Seeded", create=False).get_entity("p", "r")
    assert (entity["Age"], entity["Name"]) == (42, "Ann")
    texts = [message.content for message in server.queue("seeded", create=False).peek_messages(32)]
    assert texts == ["first", "second"]
    blob = server.container("seeded", create=False).get_blob_client("a/b.json")
    assert blob.download_blob().readall() == b"{}"
    assert blob.get_blob_properties().content_settings.content_type == "application/json"
    again = seed(admin, files)
    assert (again["entitiesWritten"], again["messagesWritten"], again["blobsWritten"]) == (0, 0, 0)
    admin.call("POST", "/reset")


@pytest.mark.parametrize(
    "method, path, body, status",
    [
        ("PUT", "/snapshots/a%20b", None, 400),
        ("PUT", "/snapshots/new", {"a": 1}, 400),
        ("POST", "/snapshots/none/restore", None, 404),
        ("DELETE", "/snapshots/none", None, 404),
        ("POST", "/reset", {"service": "file"}, 400),
        ("POST", "/reset", {"account": "nobody"}, 404),
        ("POST", "/seed", "no archive", 400),
        ("POST", "/seed?account=nobody", "no archive", 404),
    ],
)  # fmt: skip
def test_bad_input(admin, method, path, body, status):
    with pytest.raises(AdminError) as refused:
        admin.call(method, path, body)
    assert refused.value.status == status
    assert admin.call("GET", "/snapshots") == {"snapshots": []}
