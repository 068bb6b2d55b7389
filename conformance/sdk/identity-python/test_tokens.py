"""Tokens of a directory over TLS: ordinary work, roles, and each way in which a token is refused."""

import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from support import SERVICES, FixedToken, unique_name


def test_tables(server):
    service = server.client("table", "contributor")
    name = unique_name()
    table = service.create_table(name)
    table.create_entity({"PartitionKey": "p", "RowKey": "1", "Name": "Ada"})
    table.submit_transaction([("upsert", {"PartitionKey": "p", "RowKey": str(row)}) for row in range(2, 20)])
    assert len(list(table.query_entities("PartitionKey eq 'p'"))) == 19
    assert table.get_entity("p", "1")["Name"] == "Ada"
    table.delete_entity("p", "1")
    assert name in [table.name for table in service.list_tables()]
    service.delete_table(name)


def test_queues(server):
    service = server.client("queue", "contributor")
    name = unique_name()
    queue = service.create_queue(name)
    queue.send_message("work")
    assert [message.content for message in queue.peek_messages()] == ["work"]
    message = queue.receive_message()
    message = queue.update_message(message, content="more work", visibility_timeout=0)
    message = queue.receive_message()
    assert message.content == "more work" and message.dequeue_count == 2
    queue.delete_message(message)
    assert name in [queue.name for queue in service.list_queues()]
    service.delete_queue(name)


def test_blobs(server):
    service = server.client("blob", "contributor")
    name = unique_name()
    container = service.create_container(name)
    container.upload_blob("a.txt", b"content")
    assert container.download_blob("a.txt").readall() == b"content"
    blob = container.get_blob_client("a.txt")
    blob.stage_block("MDE=", b"one")
    blob.stage_block("MDI=", b"two")
    blob.commit_block_list(["MDE=", "MDI="])
    assert blob.download_blob().readall() == b"onetwo"
    copy = container.get_blob_client("b.txt")
    copy.start_copy_from_url(blob.url)
    assert [blob.name for blob in container.list_blobs()] == ["a.txt", "b.txt"]
    container.delete_blobs("a.txt", "b.txt")
    assert list(container.list_blobs()) == []
    service.delete_container(name)


def requests_of(server, service, token):
    """A read and a write of a service."""
    client = server.client(service, token)
    name = unique_name()
    if service == "table":
        return (lambda: list(client.list_tables())), (lambda: client.create_table(name))
    if service == "queue":
        return (lambda: list(client.list_queues())), (lambda: client.create_queue(name))
    return (lambda: list(client.list_containers())), (lambda: client.create_container(name))


@pytest.mark.parametrize("service", SERVICES)
def test_readers_read(server, service):
    read, write = requests_of(server, service, "reader")
    read()
    with pytest.raises(HttpResponseError) as refused:
        write()
    assert (refused.value.status_code, refused.value.error_code) == (403, "AuthorizationPermissionMismatch")


@pytest.mark.parametrize("service", SERVICES)
def test_without_a_role_nothing_is_allowed(server, service):
    for request in requests_of(server, service, "nobody"):
        with pytest.raises(HttpResponseError) as refused:
            request()
        assert (refused.value.status_code, refused.value.error_code) == (403, "AuthorizationPermissionMismatch")


@pytest.mark.parametrize("service", SERVICES)
def test_roles_of_a_group_count(server, service):
    for request in requests_of(server, service, "member"):
        request()


@pytest.mark.parametrize("service", SERVICES)
def test_bad_tokens(server, service, refused):
    credential = FixedToken(refused["token"])
    read, _ = requests_of(server, service, credential)
    with pytest.raises(HttpResponseError) as raised:
        read()
    response = raised.value.response
    if service == "table":
        # This client speaks a version without the challenge.
        assert (response.status_code, raised.value.error_code) == (403, "AuthenticationFailed")
        assert "WWW-Authenticate" not in response.headers
        return
    assert (response.status_code, response.headers["x-ms-error-code"]) == (401, "InvalidAuthenticationInfo")
    assert isinstance(raised.value, ClientAuthenticationError)
    assert response.headers["WWW-Authenticate"] == refused["challenge"]
    assert f"<AuthenticationErrorDetail>{refused['detail']}</AuthenticationErrorDetail>" in response.text()
    # It has understood the challenge, asked for another token and tried once more.
    assert credential.asked == 2


def test_a_batch_is_refused_as_a_whole(server):
    name = unique_name()
    contributor = server.client("table", "contributor")
    contributor.create_table(name)
    table = server.client("table", "reader").get_table_client(name)
    with pytest.raises(HttpResponseError) as refused:
        table.submit_transaction([("create", {"PartitionKey": "p", "RowKey": "1"})])
    assert refused.value.error_code == "AuthorizationPermissionMismatch"
    assert list(contributor.get_table_client(name).list_entities()) == []
    contributor.delete_table(name)
