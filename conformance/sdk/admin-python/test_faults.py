"""Faults of every kind, as an official client meets them."""

import time

import pytest
from azure.core.exceptions import (
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
    ServiceResponseError,
)
from support import NO_RETRIES, RETRIES, STORAGE_RETRIES

ENTITY = {"PartitionKey": "p", "RowKey": "r"}


def write_table(server, options=NO_RETRIES):
    table = server.table(options=options)
    return (lambda: table.upsert_entity(ENTITY)), (lambda: len(list(table.list_entities())))


def write_queue(server, options=NO_RETRIES):
    queue = server.queue(options=options)
    return (lambda: queue.send_message("text")), (lambda: queue.get_queue_properties().approximate_message_count)


def write_blob(server, options=NO_RETRIES):
    container = server.container(options=options)
    return (
        (lambda: container.upload_blob("blob", b"bytes", overwrite=True)),
        (lambda: len(list(container.list_blobs()))),
    )


WRITES = {
    "InsertOrMergeEntity": (write_table, RETRIES),
    "PutMessage": (write_queue, STORAGE_RETRIES),
    "PutBlob": (write_blob, STORAGE_RETRIES),
}
SERVICES = pytest.mark.parametrize("operation", WRITES)


@SERVICES
@pytest.mark.parametrize(
    "code, status",
    [("ServerBusy", 503), ("OperationTimedOut", 500), ("InternalError", 500), ("AuthorizationFailure", 403)])  # fmt: skip
def test_an_error(server, admin, operation, code, status):
    write, count = WRITES[operation][0](server)
    admin.fault(operation=operation, count=1, error={"code": code})
    with pytest.raises(HttpResponseError) as refused:
        write()
    found = refused.value.error_code
    assert (refused.value.status_code, getattr(found, "value", found)) == (status, code)
    assert "RequestId:" in refused.value.message
    assert count() == 0
    write()
    assert count() == 1


@SERVICES
def test_a_client_that_retries_gets_through(server, admin, operation):
    make, retries = WRITES[operation]
    write, count = make(server, retries)
    rule = admin.fault(operation=operation, count=2, error={"code": "ServerBusy"})
    write()
    assert (admin.hits(rule), count()) == (2, 1)


@SERVICES
def test_an_error_after_the_work(server, admin, operation):
    write, count = WRITES[operation][0](server)
    admin.fault(operation=operation, count=1, when="after", error={"code": "OperationTimedOut"})
    with pytest.raises(HttpResponseError) as refused:
        write()
    assert (refused.value.status_code, count()) == (500, 1)


@SERVICES
@pytest.mark.parametrize("when, done", [("before", 0), ("after", 1)])
def test_a_cut_connection(server, admin, operation, when, done):
    write, count = WRITES[operation][0](server)
    admin.fault(operation=operation, count=1, when=when, cut=True)
    with pytest.raises(ServiceResponseError) as broken:
        write()
    assert not isinstance(broken.value, HttpResponseError)
    assert count() == done


def test_it_happened_but_the_client_was_not_told(server, admin):
    """A client that tries again meets what it has done itself."""
    table = server.table(options=RETRIES)
    admin.fault(operation="DeleteTable", count=1, when="after", cut=True)
    table.delete_table()  # The second DELETE finds no table, which this client takes for success.
    queue = server.queue(options=STORAGE_RETRIES)
    admin.fault(operation="PutMessage", count=1, when="after", cut=True)
    queue.send_message("once")
    assert queue.get_queue_properties().approximate_message_count == 2, "the message is there twice"
    container = server.container(options=STORAGE_RETRIES)
    admin.fault(operation="PutBlob", count=1, when="after", cut=True)
    with pytest.raises(ResourceExistsError):
        container.upload_blob("once", b"bytes")
    admin.fault(operation="CreateTable", count=1, when="after", cut=True)
    with pytest.raises((ServiceResponseError, ResourceExistsError)):
        server.table(options=RETRIES, create=False).create_table()


@SERVICES
def test_a_delay(server, admin, operation):
    write, count = WRITES[operation][0](server)
    admin.fault(operation=operation, count=1, delayMs=300)
    began = time.monotonic()
    write()
    assert time.monotonic() - began >= 0.3
    assert count() == 1


@pytest.mark.parametrize("when, done", [("before", 0), ("after", 1)])
def test_a_client_that_does_not_wait(server, admin, when, done):
    table = server.table(options={**NO_RETRIES, "read_timeout": 0.3})
    rule = admin.fault(operation="InsertEntity", count=1, when=when, delayMs=3000)
    with pytest.raises(ServiceResponseError):
        table.create_entity(ENTITY)
    assert admin.hits(rule) == 1
    if done:
        assert len(list(table.list_entities())) == 1


def test_errors_are_those_that_clients_know(server, admin):
    table, container = server.table(), server.container()
    table.create_entity(ENTITY)
    for code, kind in [
        ("ResourceNotFound", ResourceNotFoundError),
        ("EntityAlreadyExists", ResourceExistsError),
        ("UpdateConditionNotSatisfied", ResourceModifiedError),
    ]:
        admin.fault(operation="QueryEntity", count=1, error={"code": code})
        with pytest.raises(kind):
            table.get_entity("p", "r")
        admin.call("DELETE", "/faults")
    blob = container.upload_blob("blob", b"bytes")
    admin.fault(operation="GetBlob", count=1, error={"code": "BlobNotFound"})
    with pytest.raises(ResourceNotFoundError):
        blob.download_blob()
    assert blob.download_blob().readall() == b"bytes"


def test_which_calls_are_hit(server, admin):
    table = server.table()
    busy = {"code": "ServerBusy"}

    def calls(number):
        outcomes = []
        for _ in range(number):
            try:
                table.upsert_entity(ENTITY)
                outcomes.append("ok")
            except HttpResponseError:
                outcomes.append("busy")
        return outcomes

    admin.fault(resource=table.table_name, nth=3, error=busy)
    assert calls(4) == ["ok", "ok", "busy", "ok"]
    admin.call("DELETE", "/faults")
    rule = admin.fault(path=f"/{table.table_name}(PartitionKey='p'", share=0.5, seed=1, error=busy)
    some = calls(40)
    assert 8 <= some.count("busy") == admin.hits(rule) <= 32
    admin.call("DELETE", "/faults")
    admin.fault(resource="Another", error=busy)
    admin.fault(account="another", error=busy)
    admin.fault(service="queue", error=busy)
    assert calls(3) == ["ok"] * 3


def test_a_batch_is_one_request(server, admin):
    table = server.table()
    operations = [("upsert", {"PartitionKey": "p", "RowKey": str(row)}) for row in range(5)]
    admin.fault(operation="InsertOrMergeEntity", error={"code": "ServerBusy"})
    assert len(table.submit_transaction(operations)) == 5
    admin.fault(operation="EntityGroupTransaction", count=1, error={"code": "ServerBusy"})
    with pytest.raises(HttpResponseError) as refused:
        table.submit_transaction(operations)
    assert refused.value.status_code == 503
