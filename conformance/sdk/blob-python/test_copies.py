"""Copies, by the service and from addresses."""

from datetime import timedelta

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobBlock, ContentSettings
from support import PIECE, content, names, put, read, refused, source

DATA = content(3 * PIECE + 5)


async def test_copy(container, other):
    original = await put(
        container, "dir/a b%ü", DATA, metadata={"from": "here"}, content_settings=ContentSettings("text/plain"))
    copy = other.get_blob_client("copy")
    started = await copy.start_copy_from_url(original.url)
    assert started["copy_status"] == "success" and started["copy_id"]
    assert await read(copy) == DATA
    found = await copy.get_blob_properties()
    assert (found.etag, found.metadata, found.content_settings.content_type) == (
        started["etag"], {"from": "here"}, "text/plain")
    assert (found.copy.id, found.copy.status, found.copy.progress) == (
        started["copy_id"], "success", f"{len(DATA)}/{len(DATA)}")
    assert found.copy.completion_time and found.copy.source.startswith(container.url)
    async with refused(409, "NoPendingCopyOperation"):
        await copy.abort_copy(started["copy_id"])
    listed = [each async for each in other.list_blobs(include=["copy"])][0]
    assert (listed.copy.id, listed.copy.status) == (started["copy_id"], "success")


async def test_metadata_of_the_copy(container, other):
    original = await put(container, "a", metadata={"from": "here"})
    copy = other.get_blob_client("a")
    await copy.start_copy_from_url(original.url, metadata={"to": "there"})
    assert (await copy.get_blob_properties()).metadata == {"to": "there"}
    await copy.upload_blob(b"written anew", overwrite=True)
    assert (await copy.get_blob_properties()).copy.id is None


@pytest.mark.parametrize("kind", ["AppendBlob", "PageBlob"])
async def test_other_types(container, other, kind):
    data = content(20 * 512)
    original = await put(container, "a", data, blob_type=kind)
    copy = other.get_blob_client("a")
    await copy.start_copy_from_url(original.url)
    assert await read(copy) == data
    assert (await copy.get_blob_properties()).blob_type == kind


async def test_blocks_are_copied(container, other):
    original = await put(container, "a", DATA)
    copy = other.get_blob_client("a")
    await copy.start_copy_from_url(original.url)
    sizes = [block.size for block in (await original.get_block_list("committed"))[0]]
    assert [block.size for block in (await copy.get_block_list("committed"))[0]] == sizes
    await original.delete_blob()
    assert await read(copy) == DATA


async def test_missing_source(container, other):
    copy = await put(other, "a", b"stays")
    missing = container.get_blob_client("missing")
    async with refused(404, "BlobNotFound", ResourceNotFoundError):
        await copy.start_copy_from_url(missing.url)
    async with refused(404, "CannotVerifyCopySource", ResourceNotFoundError):
        await copy.start_copy_from_url(source(missing), requires_sync=True)
    assert await read(copy) == b"stays"


async def test_conditions(container, other):
    original = await put(container, "a", b"new")
    copy = await put(other, "a", b"old")
    later = (await original.get_blob_properties()).last_modified + timedelta(minutes=5)
    async with refused(409, "BlobAlreadyExists", ResourceExistsError):
        await copy.start_copy_from_url(original.url, match_condition=MatchConditions.IfMissing)
    async with refused(412, "SourceConditionNotMet"):
        await copy.start_copy_from_url(original.url, source_if_modified_since=later)
    async with refused(412, "ConditionNotMet"):
        await copy.start_copy_from_url(
            original.url, etag='"0x8D0000000000000"', match_condition=MatchConditions.IfNotModified)
    assert await read(copy) == b"old"


@pytest.mark.parametrize("size", [0, 10, len(DATA)])
async def test_at_once(container, other, size):
    original = await put(container, "a", DATA[:size], metadata={"from": "here"})
    copy = other.get_blob_client("a")
    done = await copy.start_copy_from_url(source(original), requires_sync=True)
    assert done["copy_status"] == "success"
    assert await read(copy) == DATA[:size]
    assert (await copy.get_blob_properties()).metadata == {"from": "here"}


async def test_sources_need_a_right(container, other):
    original = await put(container, "a")
    copy = other.get_blob_client("a")
    for address in (source(original, permission="w"), source(original) + "x"):
        with pytest.raises(HttpResponseError) as info:
            await copy.start_copy_from_url(address, requires_sync=True)
        assert (info.value.error_code, info.value.status_code) in (
            ("CannotVerifyCopySource", 401), ("CannotVerifyCopySource", 403), ("CannotVerifyCopySource", 404))
    assert await names(other) == []


async def test_blob_from_url(container, other):
    original = await put(
        container, "a", DATA, metadata={"from": "here"}, content_settings=ContentSettings("text/plain"))
    copy = other.get_blob_client("a")
    await copy.upload_blob_from_url(source(original))
    assert await read(copy) == DATA
    found = await copy.get_blob_properties()
    assert found.content_settings.content_type == "text/plain"
    async with refused(409, "BlobAlreadyExists", ResourceExistsError):
        await copy.upload_blob_from_url(source(original))
    await copy.upload_blob_from_url(source(original), overwrite=True, metadata={"to": "there"})
    assert (await copy.get_blob_properties()).metadata == {"to": "there"}


async def test_blocks_from_url(container, other):
    original = await put(container, "a", DATA)
    copy = other.get_blob_client("a")
    await copy.stage_block_from_url("1", source(original), 1000, 2000)
    await copy.stage_block_from_url("2", source(original))
    await copy.stage_block("3", b"end")
    await copy.commit_block_list([BlobBlock("1"), BlobBlock("2"), BlobBlock("3")])
    assert await read(copy) == DATA[1000:3000] + DATA + b"end"


async def test_blocks_from_a_wrong_url(container, other):
    copy = other.get_blob_client("a")
    async with refused(404, "CannotVerifyCopySource"):
        await copy.stage_block_from_url("1", source(container.get_blob_client("missing")))
    original = await put(container, "a")
    async with refused(400, "Md5Mismatch"):
        await copy.stage_block_from_url("1", source(original), source_content_md5=bytearray(16))
    assert await names(other, "uncommittedblobs") == []
