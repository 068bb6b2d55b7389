"""Snapshots, and what soft delete keeps."""

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import RetentionPolicy
from support import collect, names, put, read, refused


async def test_snapshot(api, container):
    blob = await put(container, "a", b"one", metadata={"version": "1"})
    etag = (await blob.get_blob_properties()).etag
    taken = await blob.create_snapshot()
    assert taken["etag"] == etag
    await blob.upload_blob(b"two", overwrite=True)
    old = api.blob(container.container_name, "a", snapshot=taken["snapshot"])
    assert (await read(old), await read(blob)) == (b"one", b"two")
    found = await old.get_blob_properties()
    assert (found.snapshot, found.metadata, found.etag) == (taken["snapshot"], {"version": "1"}, etag)
    assert await old.exists()
    await blob.delete_blob(delete_snapshots="include")
    assert not await old.exists()


async def test_with_metadata(api, container):
    blob = await put(container, "a", metadata={"of": "base"})
    taken = await blob.create_snapshot(metadata={"of": "snapshot"})
    old = api.blob(container.container_name, "a", snapshot=taken)
    assert (await old.get_blob_properties()).metadata == {"of": "snapshot"}
    assert (await blob.get_blob_properties()).metadata == {"of": "base"}
    await blob.delete_blob(delete_snapshots="include")


async def test_list(container):
    blob = await put(container, "a", b"0")
    await put(container, "b")
    taken = []
    for number in (b"1", b"2"):
        taken.append((await blob.create_snapshot())["snapshot"])
        await blob.upload_blob(number, overwrite=True)
    found = [(each.name, each.snapshot) async for each in container.list_blobs(include=["snapshots"])]
    assert found == [("a", taken[0]), ("a", taken[1]), ("a", None), ("b", None)]
    assert await names(container) == ["a", "b"]
    pages = [
        [(each.name, each.snapshot) async for each in page]
        async for page in container.list_blobs(include=["snapshots"], results_per_page=1).by_page()
    ]
    assert [item for page in pages for item in page] == found
    await blob.delete_blob(delete_snapshots="include")


async def test_delete(api, container):
    blob = await put(container, "a", b"base")
    taken = [await blob.create_snapshot() for _ in range(3)]
    async with refused(409, "SnapshotsPresent"):
        await blob.delete_blob()
    one = api.blob(container.container_name, "a", snapshot=taken[0])
    await one.delete_blob()
    async with refused(404, "BlobNotFound", ResourceNotFoundError):
        await read(one)
    assert len(await names(container, "snapshots")) == 3
    await blob.delete_blob(delete_snapshots="only")
    assert await names(container, "snapshots") == ["a"]
    assert await read(blob) == b"base"
    await blob.delete_blob()


async def test_go_back(api, container):
    blob = await put(container, "a", b"good")
    taken = (await blob.create_snapshot())["snapshot"]
    await blob.upload_blob(b"bad", overwrite=True)
    await blob.start_copy_from_url(f"{blob.url}?snapshot={taken}")
    assert await read(blob) == b"good"
    assert len(await names(container, "snapshots")) == 2
    await blob.delete_blob(delete_snapshots="include")


@pytest.fixture
async def kept(service):
    """Deleted blobs are kept. The property belongs to the whole account: another run may switch it off."""

    async def switch_on():
        await service.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=True, days=3))

    await switch_on()
    yield switch_on
    await service.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=False))


async def deleted(kept, container, blob, data):
    """Deletes the blob so that it is kept."""
    for _ in range(5):
        await kept()
        await blob.upload_blob(data, overwrite=True)
        await blob.delete_blob()
        found = [each async for each in container.list_blobs(include=["deleted"]) if each.name == blob.blob_name]
        if found:
            return found[-1]
    pytest.fail("the deleted blob is not kept")


async def test_undelete(kept, container):
    blob = container.get_blob_client("a")
    found = await deleted(kept, container, blob, b"precious")
    assert found.deleted and found.deleted_time and found.remaining_retention_days in (2, 3)
    assert await names(container) == []
    async with refused(404, "BlobNotFound", ResourceNotFoundError):
        await read(blob)
    await blob.undelete_blob()
    assert await read(blob) == b"precious"
    assert await names(container) == ["a"]


async def test_nothing_to_undelete(kept, container):
    blob = await put(container, "a")
    await blob.undelete_blob()
    assert await read(blob) == b"content"
    async with refused(404, "BlobNotFound", ResourceNotFoundError):
        await container.get_blob_client("never").undelete_blob()


async def test_undelete_with_snapshots(api, kept, container):
    blob = container.get_blob_client("a")
    await deleted(kept, container, blob, b"base")
    await blob.undelete_blob()
    taken = await blob.create_snapshot()
    await kept()
    await blob.delete_blob(delete_snapshots="include")
    await blob.undelete_blob()
    assert await read(api.blob(container.container_name, "a", snapshot=taken)) == b"base"
    assert [each.snapshot for each in await collect(container.list_blobs(include=["snapshots"]))][-1] is None
    await blob.delete_blob(delete_snapshots="include")
