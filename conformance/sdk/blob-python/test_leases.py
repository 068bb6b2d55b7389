"""Leases on blobs."""

import asyncio
import uuid

import pytest
from azure.core import MatchConditions
from support import collect, put, read, refused


async def test_writing_needs_the_lease(container):
    blob = await put(container, "a", b"one")
    etag = (await blob.get_blob_properties()).etag
    lease = await blob.acquire_lease()
    found = await blob.get_blob_properties()
    assert (found.lease.status, found.lease.state, found.lease.duration) == ("locked", "leased", "infinite")
    assert found.etag == etag
    for call in (
        lambda **lease: blob.upload_blob(b"two", overwrite=True, **lease), lambda **lease: blob.set_blob_metadata({"a": "1"}, **lease),
        lambda **lease: blob.set_http_headers(**lease), lambda **lease: blob.stage_block("1", b"x", **lease),
    ):
        async with refused(412, "LeaseIdMissing"):
            await call()
        async with refused(412, "LeaseIdMismatchWithBlobOperation"):
            await call(lease=str(uuid.uuid4()))
        await call(lease=lease)
    async with refused(412, "LeaseIdMissing"):
        await blob.delete_blob()
    assert await read(blob) == b"two"
    async with refused(412, "LeaseIdMismatchWithBlobOperation"):
        await read(blob, lease=str(uuid.uuid4()))
    await blob.delete_blob(lease=lease)
    assert not await blob.exists()


async def test_life_of_a_lease(container):
    blob = await put(container, "a")
    wanted = str(uuid.uuid4())
    lease = await blob.acquire_lease(15, lease_id=wanted)
    assert lease.id == wanted
    assert (await blob.get_blob_properties()).lease.duration == "fixed"
    async with refused(409, "LeaseAlreadyPresent"):
        await blob.acquire_lease()
    again = await blob.acquire_lease(60, lease_id=wanted)
    await again.renew()
    await lease.change(str(uuid.uuid4()))
    assert lease.id != wanted
    async with refused(409, "LeaseIdMismatchWithLeaseOperation"):
        await again.renew()
    last = lease.id
    await lease.release()
    assert (await blob.get_blob_properties()).lease.state == "available"
    async with refused(412, "LeaseNotPresentWithBlobOperation"):
        await blob.set_blob_metadata({}, lease=last)


async def test_break(container):
    blob = await put(container, "a")
    lease = await blob.acquire_lease()
    assert 0 < await lease.break_lease(lease_break_period=30) <= 30
    assert (await blob.get_blob_properties()).lease.state == "breaking"
    async with refused(409, "LeaseIsBrokenAndCannotBeRenewed"):
        await lease.renew()
    async with refused(409, "LeaseAlreadyPresent"):
        await blob.acquire_lease()
    await blob.set_blob_metadata({"still": "mine"}, lease=lease)
    assert await lease.break_lease(lease_break_period=0) == 0
    assert (await blob.get_blob_properties()).lease.state == "broken"
    async with refused(412, "LeaseLost"):
        await blob.set_blob_metadata({}, lease=lease)
    assert (await blob.get_blob_properties()).metadata == {"still": "mine"}
    await (await blob.acquire_lease()).release()


async def test_break_after_a_while(container):
    blob = await put(container, "a")
    lease = await blob.acquire_lease()
    await lease.break_lease(lease_break_period=1)
    await asyncio.sleep(1.2)
    assert (await blob.get_blob_properties()).lease.state == "broken"
    await blob.set_blob_metadata({"now": "anyone"})


@pytest.mark.parametrize("seconds", [10, 61, 0])
async def test_bad_durations(container, seconds):
    blob = await put(container, "a")
    async with refused(400, "InvalidHeaderValue"):
        await blob.acquire_lease(seconds)


async def test_lease_before_condition(container):
    blob = await put(container, "a", b"one")
    lease = await blob.acquire_lease()
    # Without `overwrite` the client sends If-None-Match: *, which a valid lease makes void.
    await blob.upload_blob(b"two", lease=lease)
    assert await read(blob) == b"two"
    async with refused(412, "LeaseIdMissing"):
        await blob.upload_blob(
            b"x", overwrite=True, etag='"0x8D0000000000000"', match_condition=MatchConditions.IfNotModified)
    listed = (await collect(container.list_blobs()))[0]
    assert (listed.lease.status, listed.lease.state, listed.lease.duration) == ("locked", "leased", "infinite")
    await lease.release()


async def test_no_blob_to_lease(container):
    async with refused(404, "BlobNotFound"):
        await container.get_blob_client("missing").acquire_lease()
