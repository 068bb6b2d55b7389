"""Shared access signatures."""

import pytest
from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import AccessPolicy, ContainerSasPermissions
from support import (
    KEY, WRONG_KEY, account_sas, blob_sas, collect, container_sas, in_minutes, names, put, read, refused, unique_name,
)  # fmt: skip

ALL = "racwdxltmei"


def blob_with(api, blob, token, **options):
    return api.blob(blob.container_name, blob.blob_name, credential=AzureSasCredential(token), **options)


def container_with(api, container, token):
    return api.container(container.container_name, credential=AzureSasCredential(token))


# The letters of which any one is enough, and the call.
OPERATIONS = {
    "read": ("r", lambda blob: read(blob)),
    "properties": ("r", lambda blob: blob.get_blob_properties()),
    "block list": ("r", lambda blob: blob.get_block_list()),
    "overwrite": ("w", lambda blob: blob.upload_blob(b"new", overwrite=True)),
    "metadata": ("w", lambda blob: blob.set_blob_metadata({"a": "1"})),
    "headers": ("w", lambda blob: blob.set_http_headers()),
    "lease": ("w", lambda blob: blob.acquire_lease(15)),
    "tier": ("w", lambda blob: blob.set_standard_blob_tier("Cool")),
    "snapshot": ("cw", lambda blob: blob.create_snapshot()),
    "tags": ("t", lambda blob: blob.get_blob_tags()),
    "delete": ("d", lambda blob: blob.delete_blob(delete_snapshots="include")),
}


@pytest.mark.parametrize("kind", ["blob", "container", "account"])
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_rights(api, container, operation, kind):
    letters, call = OPERATIONS[operation]
    blob = await put(container, "dir/a ü", b"old")

    def token(permission):
        if kind == "account":
            return account_sas(permission, "o")
        return blob_sas(blob, permission) if kind == "blob" else container_sas(container, permission)

    others = "".join(letter for letter in ALL if letter not in letters)
    with pytest.raises(HttpResponseError) as info:
        await call(blob_with(api, blob, token(others)))
    # A right to create makes another code of a refused overwrite.
    assert (info.value.status_code, info.value.error_code) in (
        (403, "AuthorizationPermissionMismatch"), (403, "UnauthorizedBlobOverwrite"))
    assert await read(blob) == b"old"
    await call(blob_with(api, blob, token(letters[-1])))


async def test_create_but_not_overwrite(api, container):
    blob = container.get_blob_client("a")
    client = blob_with(api, blob, blob_sas(blob, "c"))
    await client.upload_blob(b"first")
    async with refused(403, "UnauthorizedBlobOverwrite"):
        await client.upload_blob(b"second", overwrite=True)
    assert await read(blob) == b"first"


async def test_append(api, container):
    blob = container.get_blob_client("a")
    await blob.create_append_blob()
    for letters in ("a", "w"):
        await blob_with(api, blob, blob_sas(blob, letters)).append_block(b"x")
    async with refused(403, "AuthorizationPermissionMismatch"):
        await blob_with(api, blob, blob_sas(blob, "rcd")).append_block(b"x")
    assert await read(blob) == b"xx"


async def test_list(api, container):
    await put(container, "a")
    assert await names(container_with(api, container, container_sas(container, "l"))) == ["a"]
    async with refused(403, "AuthorizationPermissionMismatch"):
        await names(container_with(api, container, container_sas(container, "rcwd")))
    with pytest.raises(HttpResponseError) as info:
        await names(container_with(api, container, blob_sas(container.get_blob_client("a"), "rcwd")))
    assert info.value.status_code == 403


async def test_one_blob_only(api, container):
    blob = await put(container, "a")
    await put(container, "b")
    stranger = api.blob(container.container_name, "b", credential=AzureSasCredential(blob_sas(blob, "r")))
    async with refused(403, "AuthenticationFailed"):
        await read(stranger)


async def test_snapshot(api, container):
    blob = await put(container, "a", b"old")
    taken = (await blob.create_snapshot())["snapshot"]
    await blob.upload_blob(b"new", overwrite=True)
    token = blob_sas(blob, "r", snapshot=taken)
    assert await read(blob_with(api, blob, token, snapshot=taken)) == b"old"
    async with refused(403, "AuthenticationFailed"):
        await read(blob_with(api, blob, token))
    await blob.delete_blob(delete_snapshots="include")


async def test_account(api):
    name = unique_name()
    container = api.container(name, credential=AzureSasCredential(account_sas("cd", "c")))
    await container.create_container()
    service = api.service(credential=AzureSasCredential(account_sas("l", "s")))
    assert [each.name for each in await collect(service.list_containers(name_starts_with=name))] == [name]
    async with refused(403, "AuthorizationResourceTypeMismatch"):
        await put(api.container(name, credential=AzureSasCredential(account_sas("rwdlac", "sc"))), "a")
    async with refused(403, "AuthorizationPermissionMismatch"):
        await container.get_container_properties()
    await container.delete_container()


async def test_policies(api, container):
    blob = await put(container, "a", b"x")
    await container.set_container_access_policy({
        "reader": AccessPolicy(ContainerSasPermissions(read=True, list=True), in_minutes(10), in_minutes(-10)),
        "past": AccessPolicy(ContainerSasPermissions(read=True), in_minutes(-1)),
        "writer": AccessPolicy(ContainerSasPermissions(write=True), in_minutes(10)),
    })
    assert await read(blob_with(api, blob, blob_sas(blob, policy_id="reader"))) == b"x"
    reader = container_with(api, container, container_sas(container, policy_id="reader"))
    assert await names(reader) == ["a"]
    async with refused(403, "AuthorizationPermissionMismatch"):
        await put(reader, "b")
    await put(container_with(api, container, container_sas(container, policy_id="writer")), "b")
    for policy in ("past", "nobody"):
        async with refused(403, "AuthenticationFailed"):
            await read(blob_with(api, blob, blob_sas(blob, policy_id=policy)))
    await container.set_container_access_policy({})
    async with refused(403, "AuthenticationFailed"):
        await names(reader)


async def test_other_headers(api, container):
    blob = await put(container, "a")
    wanted = {
        "cache_control": "no-cache", "content_disposition": 'attachment; filename="x y.txt"', "content_encoding": "identity",
        "content_language": "fr", "content_type": "text/csv; charset=utf-8",
    }  # fmt: skip
    client = blob_with(api, blob, blob_sas(blob, "r", **wanted))
    assert await read(client) == b"content"
    found = (await client.get_blob_properties()).content_settings
    assert {name: getattr(found, name) for name in wanted} == wanted
    assert (await blob.get_blob_properties()).content_settings.content_type == "application/octet-stream"


REFUSED = {
    "expired": (lambda blob: blob_sas(blob, expiry=in_minutes(-1)), "AuthenticationFailed"),
    "not yet valid": (lambda blob: blob_sas(blob, start=in_minutes(5)), "AuthenticationFailed"),
    "another key": (lambda blob: blob_sas(blob, key=WRONG_KEY), "AuthenticationFailed"),
    "tampered": (lambda blob: blob_sas(blob).replace("sp=r", "sp=rw"), "AuthenticationFailed"),
    "https only": (lambda blob: blob_sas(blob, protocol="https"), "AuthorizationProtocolMismatch"),
    "another address": (lambda blob: blob_sas(blob, ip="203.0.113.1"), "AuthorizationSourceIPMismatch"),
    "account, expired": (lambda blob: account_sas("r", expiry=in_minutes(-1)), "AuthenticationFailed"),
    "account, another key": (lambda blob: account_sas("r", key=WRONG_KEY), "AuthenticationFailed"),
    "account, another service": (lambda blob: account_sas("r", services="q"), "AuthorizationServiceMismatch"),
}


@pytest.mark.parametrize("make, code", REFUSED.values(), ids=REFUSED.keys())
async def test_refused_tokens(api, container, make, code):
    blob = await put(container, "a")
    async with refused(403, code):
        await read(blob_with(api, blob, make(blob)))


async def test_from_url(api, container):
    blob = await put(container, "dir/ü %", b"x")
    assert await read(api.from_blob_url(f"{blob.url}?{blob_sas(blob)}")) == b"x"
    assert KEY not in blob.url
