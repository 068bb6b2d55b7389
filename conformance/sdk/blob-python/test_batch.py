"""Batches of deletions and of tiers."""

import pytest
from azure.storage.blob import PartialBatchErrorException
from support import collect, names, put


async def test_delete(container):
    wanted = [f"dir/blob {number}" for number in range(20)]
    for name in [*wanted, "stays"]:
        await put(container, name)
    answers = await collect(await container.delete_blobs(*wanted))
    assert [answer.status_code for answer in answers] == [202] * 20
    assert await names(container) == ["stays"]


async def test_delete_with_snapshots(container):
    blob = await put(container, "a")
    await blob.create_snapshot()
    await put(container, "b")
    await collect(await container.delete_blobs("a", "b", delete_snapshots="include"))
    assert await names(container, "snapshots") == []


async def test_some_are_missing(container):
    for name in ("a", "c"):
        await put(container, name)
    answers = await collect(await container.delete_blobs("a", "b", "c", raise_on_any_failure=False))
    assert [answer.status_code for answer in answers] == [202, 404, 202]
    assert answers[1].headers["x-ms-error-code"] == "BlobNotFound"
    assert await names(container) == []


async def test_failures_are_raised(container):
    await put(container, "a")
    with pytest.raises(PartialBatchErrorException) as info:
        await collect(await container.delete_blobs("a", "missing"))
    assert [part.status_code for part in info.value.parts] == [202, 404]
    assert await names(container) == []


async def test_tiers(container):
    for name in ("a", "b", "ü/%"):
        await put(container, name)
    answers = await collect(await container.set_standard_blob_tier_blobs("Cool", "a", "ü/%"))
    assert [answer.status_code for answer in answers] == [200, 200]
    found = {each.name: each.blob_tier async for each in container.list_blobs()}
    assert found == {"a": "Cool", "b": "Hot", "ü/%": "Cool"}
