"""Everything that expires does so when the clock is moved, in milliseconds."""

import time

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.data.tables import TableClient, TableSasPermissions, generate_table_sas
from azure.storage.blob import BlobClient, BlobSasPermissions, generate_blob_sas
from support import ACCOUNT, KEY


@pytest.fixture(autouse=True)
def quick():
    """No test here waits for time to pass."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 3


def test_read_set_advance_freeze_resume(admin):
    assert admin.call("GET", "/clock")["frozen"] is False
    assert admin.call("PUT", "/clock", {"now": "2030-01-01T00:00:00Z"})["now"].startswith("2030-01-01T00:00:0")
    assert admin.call("POST", "/clock/freeze")["frozen"] is True
    admin.call("PUT", "/clock", {"now": "2030-01-01T00:00:00Z"})
    assert admin.advance(90.5)["now"] == "2030-01-01T00:01:30.5000000Z"
    assert admin.call("POST", "/clock/resume")["frozen"] is False
    assert admin.call("DELETE", "/clock")["now"] < "2030"


def test_a_lease_expires(server, admin):
    blob = server.container().upload_blob("leased", b"one")
    blob.acquire_lease(lease_duration=60)
    with pytest.raises(HttpResponseError) as refused:
        blob.upload_blob(b"two", overwrite=True)
    assert refused.value.error_code == "LeaseIdMissing"
    admin.advance(60)
    assert blob.get_blob_properties().lease.state == "expired"
    blob.upload_blob(b"two", overwrite=True)


def test_a_sas_expires(server, admin):
    blob = server.container().upload_blob("shared", b"bytes")
    admin.call("POST", "/clock/freeze")
    sas = generate_blob_sas(
        ACCOUNT, blob.container_name, blob.blob_name, account_key=KEY,
        permission=BlobSasPermissions(read=True), expiry=admin.later(600))  # fmt: skip
    reader = BlobClient.from_blob_url(f"{blob.url}?{sas}", retry_total=0)
    assert reader.download_blob().readall() == b"bytes"
    admin.advance(590)
    assert reader.download_blob().readall() == b"bytes"
    admin.advance(10)
    with pytest.raises(ClientAuthenticationError) as refused:
        reader.download_blob()
    assert (refused.value.status_code, refused.value.error_code) == (403, "AuthenticationFailed")
    # Those who sign with the key go on, though their clocks know nothing of it.
    assert blob.download_blob().readall() == b"bytes"


def test_a_sas_of_a_table_expires(server, admin):
    table = server.table()
    table.create_entity({"PartitionKey": "p", "RowKey": "r"})
    sas = generate_table_sas(
        AzureNamedKeyCredential(ACCOUNT, KEY), table.table_name,
        permission=TableSasPermissions(read=True), expiry=admin.later(60))  # fmt: skip
    reader = TableClient(
        server.endpoint("table"), table.table_name, credential=AzureSasCredential(sas), retry_total=0)
    assert reader.get_entity("p", "r")["RowKey"] == "r"
    admin.advance(61)
    with pytest.raises(ClientAuthenticationError):
        reader.get_entity("p", "r")


def test_messages_come_back_and_expire(server, admin):
    queue = server.queue()
    queue.send_message("one", time_to_live=120)
    assert [message.content for message in queue.receive_messages(visibility_timeout=30)] == ["one"]
    assert list(queue.receive_messages()) == []
    admin.advance(30)
    assert [message.dequeue_count for message in queue.receive_messages(visibility_timeout=30)] == [2]
    admin.advance(90)
    assert list(queue.receive_messages()) == []
    assert queue.get_queue_properties().approximate_message_count == 0


def test_timestamps_follow_and_rise(server, admin):
    table = server.table()
    admin.call("PUT", "/clock", {"now": "2030-01-01T00:00:00Z"})
    etags = [table.upsert_entity({"PartitionKey": "p", "RowKey": "r"})["etag"]]
    assert "2030-01-01" in etags[0]
    admin.call("PUT", "/clock", {"now": "2027-01-01T00:00:00Z"})
    etags.append(table.upsert_entity({"PartitionKey": "p", "RowKey": "r"})["etag"])
    # Zeros at the end are left out of the time in an ETag.
    halves = [etag.rstrip("'\"").removesuffix("Z").partition(".") for etag in etags]
    times = [(seconds, fraction.ljust(7, "0")) for seconds, _, fraction in halves]
    assert times[0] < times[1], "the same entity rises"
    assert "2027-01-01" in table.upsert_entity({"PartitionKey": "p", "RowKey": "new"})["etag"]
