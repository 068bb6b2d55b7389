"""User delegation keys and signatures made with them."""

from contextlib import contextmanager
from datetime import datetime, timedelta, timezone

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobClient, BlobSasPermissions, ContainerClient, ContainerSasPermissions, generate_blob_sas, generate_container_sas
from support import ACCOUNT, unique_name


def now():
    return datetime.now(timezone.utc)


@pytest.fixture
def container(server):
    service = server.client("blob", "contributor")
    container = service.create_container(unique_name())
    container.upload_blob("a.txt", b"content")
    yield container
    container.delete_container()


def key_of(server, token):
    return server.client("blob", token).get_user_delegation_key(now() - timedelta(minutes=1), now() + timedelta(hours=1))


def signed(server, container, key, letters, blob="a.txt"):
    sas = generate_blob_sas(
        ACCOUNT, container.container_name, blob, user_delegation_key=key,
        permission=BlobSasPermissions.from_string(letters), expiry=now() + timedelta(minutes=30),
    )  # fmt: skip
    url = f"{server.endpoints['blob']}/{container.container_name}/{blob}?{sas}"
    return BlobClient.from_blob_url(url, connection_verify=server.ca, retry_total=0)


@contextmanager
def refused(status, code):
    with pytest.raises(HttpResponseError) as raised:
        yield
    assert (raised.value.status_code, raised.value.error_code) == (status, code)


def test_a_signature_reads_and_writes(server, container):
    blob = signed(server, container, key_of(server, "contributor"), "rw")
    assert blob.download_blob().readall() == b"content"
    blob.upload_blob(b"other", overwrite=True)
    assert blob.download_blob().readall() == b"other"


def test_a_signature_is_cut_to_its_own_letters(server, container):
    blob = signed(server, container, key_of(server, "contributor"), "r")
    with refused(403, "AuthorizationPermissionMismatch"):
        blob.upload_blob(b"other", overwrite=True)


def test_a_signature_is_cut_to_the_roles(server, container):
    blob = signed(server, container, key_of(server, "reader"), "rwd")
    assert blob.download_blob().readall() == b"content"
    with refused(403, "AuthorizationPermissionMismatch"):
        blob.upload_blob(b"other", overwrite=True)
    with refused(403, "AuthorizationPermissionMismatch"):
        blob.delete_blob()


def test_a_container_is_listed(server, container):
    key = key_of(server, "contributor")
    sas = generate_container_sas(
        ACCOUNT, container.container_name, user_delegation_key=key,
        permission=ContainerSasPermissions(read=True, list=True), expiry=now() + timedelta(minutes=30),
    )  # fmt: skip
    url = f"{server.endpoints['blob']}/{container.container_name}?{sas}"
    shared = ContainerClient.from_container_url(url, connection_verify=server.ca, retry_total=0)
    assert [blob.name for blob in shared.list_blobs()] == ["a.txt"]
    with refused(403, "AuthorizationFailure"):
        shared.delete_container()


def test_without_a_role_there_is_no_key(server):
    with refused(403, "AuthorizationPermissionMismatch"):
        key_of(server, "nobody")


def test_a_signature_ends_with_the_role(server, container):
    assignment = server.call_admin(
        "POST",
        "/role-assignments",
        json={"principal": f"oid:{server.principals['nobody']}", "role": "Storage Blob Data Reader", "scope": f"/{ACCOUNT}/blob"},
    )
    blob = signed(server, container, key_of(server, "nobody"), "r")
    assert blob.download_blob().readall() == b"content"
    server.call_admin("DELETE", f"/role-assignments/{assignment['id']}")
    with refused(403, "AuthorizationPermissionMismatch"):
        blob.download_blob()


def test_a_signature_ends_when_keys_are_revoked(server, container):
    blob = signed(server, container, key_of(server, "contributor"), "r")
    assert blob.download_blob().readall() == b"content"
    server.call_admin("POST", f"/accounts/{ACCOUNT}/delegation-keys/revoke")
    with refused(403, "AuthenticationFailed"):
        blob.download_blob()
    blob = signed(server, container, key_of(server, "contributor"), "r")
    assert blob.download_blob().readall() == b"content"
