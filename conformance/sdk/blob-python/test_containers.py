"""Containers: make, delete, metadata, list, policies, public access."""

from datetime import datetime, timezone

import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import AccessPolicy, ContainerSasPermissions
from support import ACCOUNT, CONNECTION_STRING, ENDPOINT, WRONG_KEY, collect, names, put, read, refused, unique_name


async def test_create_and_delete(api):
    container = api.container(unique_name())
    assert not await container.exists()
    made = await container.create_container()
    assert await container.exists()
    found = await container.get_container_properties()
    assert (found.etag, found.last_modified) == (made["etag"], made["last_modified"])
    assert (found.lease.status, found.lease.state, found.public_access) == ("unlocked", "available", None)
    assert not found.has_legal_hold and not found.has_immutability_policy
    async with refused(409, "ContainerAlreadyExists", ResourceExistsError):
        await container.create_container()
    await container.delete_container()
    for call in (container.get_container_properties, container.delete_container, lambda: put(container, "x")):
        async with refused(404, "ContainerNotFound", ResourceNotFoundError):
            await call()
    async with refused(404, "ContainerNotFound", ResourceNotFoundError):
        await names(container)


async def test_a_name_is_free_again(api):
    container = api.container(unique_name())
    await container.create_container(metadata={"round": "one"})
    await put(container, "old")
    await container.delete_container()
    await container.create_container()
    assert await names(container) == []
    assert not (await container.get_container_properties()).metadata
    await container.delete_container()


@pytest.mark.parametrize("name, code", [
    ("Upper", "InvalidResourceName"), ("a--b", "InvalidResourceName"), ("-abc", "InvalidResourceName"),
    ("under_score", "InvalidResourceName"), ("ab", "OutOfRangeInput"), ("x" * 64, "OutOfRangeInput"),
])
async def test_bad_names(api, name, code):
    async with refused(400, code):
        await api.container(name).create_container()


async def test_metadata(container):
    before = await container.get_container_properties()
    changed = await container.set_container_metadata({"team": "core", "Zone": "West", "_x1": "two words"})
    found = await container.get_container_properties()
    assert found.etag == changed["etag"] != before.etag
    assert found.metadata == {"team": "core", "Zone": "West", "_x1": "two words"}
    await container.set_container_metadata({})
    assert not (await container.get_container_properties()).metadata
    async with refused(400, "InvalidMetadata"):
        await container.set_container_metadata({"1bad": "x"})
    async with refused(400, "MetadataTooLarge"):
        await container.set_container_metadata({"a": "x" * 4000, "b": "x" * 4200})


async def test_list(service):
    prefix = unique_name()
    wanted = [f"{prefix}-{number}" for number in range(5)]
    for name in reversed(wanted):
        await service.create_container(name, metadata={"number": name[-1]})
    found = await collect(service.list_containers(name_starts_with=prefix))
    assert [each.name for each in found] == wanted
    assert not found[0].metadata and found[0].etag and found[0].last_modified
    found = await collect(service.list_containers(name_starts_with=prefix, include_metadata=True))
    assert [each.metadata["number"] for each in found] == list("01234")
    pages = [
        [each.name async for each in page]
        async for page in service.list_containers(name_starts_with=prefix, results_per_page=2).by_page()
    ]
    assert pages == [wanted[:2], wanted[2:4], wanted[4:]]
    for name in wanted:
        await service.delete_container(name)
    assert await collect(service.list_containers(name_starts_with=prefix)) == []


async def test_the_list_says_what_the_container_says(service, container):
    lease = await container.acquire_lease()
    await container.set_container_access_policy({}, public_access="blob")
    listed = (await collect(service.list_containers(name_starts_with=container.container_name)))[0]
    found = await container.get_container_properties()
    # Lists of containers quote the ETag, as headers do.
    assert listed.etag.strip('"') == found.etag.strip('"')
    for name in ("last_modified", "public_access"):
        assert getattr(listed, name) == getattr(found, name)
    assert (listed.lease.status, listed.lease.state, listed.lease.duration) == ("locked", "leased", "infinite")
    assert (found.lease.status, found.lease.state, found.lease.duration) == ("locked", "leased", "infinite")
    await lease.release()


async def test_policies(container):
    start, expiry = datetime(2026, 1, 1, 12, 10, tzinfo=timezone.utc), datetime(2036, 1, 1, tzinfo=timezone.utc)
    assert await container.get_container_access_policy() == {"public_access": None, "signed_identifiers": []}
    await container.set_container_access_policy({
        "reader": AccessPolicy(ContainerSasPermissions(read=True, list=True), expiry, start),
        "writer": AccessPolicy(ContainerSasPermissions(write=True), expiry),
        "empty": AccessPolicy(),
    })
    found = (await container.get_container_access_policy())["signed_identifiers"]
    assert [each.id for each in found] == ["reader", "writer", "empty"]
    assert found[0].access_policy.permission == "rl"
    assert str(found[0].access_policy.expiry).startswith("2036-01-01")
    assert str(found[0].access_policy.start).startswith("2026-01-01T12:10")
    await container.set_container_access_policy({})
    assert (await container.get_container_access_policy())["signed_identifiers"] == []


# What a stranger may do: read a blob, list the container, write.
@pytest.mark.parametrize("access, reads, lists", [
    (None, False, False), ("blob", True, False), ("container", True, True),
])
async def test_public_access(api, container, access, reads, lists):
    await put(container, "a", b"for everyone")
    await container.set_container_access_policy({}, public_access=access)
    assert (await container.get_container_access_policy())["public_access"] == access
    stranger = api.container(container.container_name, credential=None)
    await allowed(reads, read(stranger.get_blob_client("a")), b"for everyone")
    await allowed(lists, names(stranger), ["a"])
    await allowed(False, put(stranger, "b"))
    await allowed(False, stranger.get_container_access_policy())
    assert await names(container) == ["a"]


async def allowed(allowed, call, wanted=None):
    if allowed:
        assert await call == wanted
    else:
        with pytest.raises(HttpResponseError) as info:
            await call
        assert info.value.status_code in (401, 403, 404)


async def test_lease(container):
    lease = await container.acquire_lease(lease_duration=15)
    async with refused(409, "LeaseAlreadyPresent"):
        await container.acquire_lease()
    async with refused(412, "LeaseIdMissing"):
        await container.delete_container()
    await put(container, "writes need no lease")
    before = lease.id
    await lease.change("00000000-0000-4000-8000-000000000001")
    assert lease.id == "00000000-0000-4000-8000-000000000001" != before
    await lease.renew()
    async with refused(412, "LeaseIdMismatchWithContainerOperation"):
        await container.delete_container(lease=before)
    assert await lease.break_lease(lease_break_period=0) == 0
    assert (await container.get_container_properties()).lease.state == "broken"
    await lease.release()
    assert (await container.get_container_properties()).lease.state == "available"


async def test_connection_string_and_url(api, container):
    blob = await put(container, "dir/a", b"x")
    service = api.from_connection_string(CONNECTION_STRING)
    assert await read(service.get_blob_client(container.container_name, "dir/a")) == b"x"
    again = api.from_blob_url(blob.url, credential=blob.credential)
    assert (again.container_name, again.blob_name) == (container.container_name, "dir/a")
    assert await read(again) == b"x"
    assert await names(api.container(container.container_name, endpoint=ENDPOINT + "/")) == ["dir/a"]


async def test_wrong_key(api, container):
    stranger = api.container(
        container.container_name, credential={"account_name": ACCOUNT, "account_key": WRONG_KEY})
    async with refused(403, "AuthenticationFailed", ClientAuthenticationError):
        await stranger.get_container_properties()
