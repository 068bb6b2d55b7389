"""Append blobs."""

import asyncio

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError
from azure.storage.blob import ContentSettings
from support import PIECE, content, put, read, refused, source


async def log(container, name="log"):
    blob = container.get_blob_client(name)
    await blob.create_append_blob()
    return blob


async def test_append(container):
    blob = await log(container)
    pieces = [content(100 + number, number) for number in range(5)]
    offset = 0
    for number, piece in enumerate(pieces, 1):
        done = await blob.append_block(piece)
        assert (int(done["blob_append_offset"]), done["blob_committed_block_count"]) == (offset, number)
        offset += len(piece)
    found = await blob.get_blob_properties()
    assert (found.blob_type, found.size, found.append_blob_committed_block_count) == ("AppendBlob", offset, 5)
    assert found.etag == done["etag"]
    assert await read(blob) == b"".join(pieces)


async def test_upload(container):
    blob = await put(container, "a", content(2 * PIECE + 1), blob_type="AppendBlob")
    await blob.upload_blob(b"more", blob_type="AppendBlob")
    assert await read(blob) == content(2 * PIECE + 1) + b"more"
    await blob.upload_blob(b"anew", blob_type="AppendBlob", overwrite=True)
    assert await read(blob) == b"anew"


async def test_create_only_if_new(container):
    blob = await log(container)
    await blob.append_block(b"kept")
    async with refused(409, "BlobAlreadyExists", ResourceExistsError):
        await blob.create_append_blob(match_condition=MatchConditions.IfMissing)
    assert await read(blob) == b"kept"
    await blob.create_append_blob(metadata={"a": "1"}, content_settings=ContentSettings("text/plain"))
    found = await blob.get_blob_properties()
    assert (found.size, found.metadata, found.content_settings.content_type) == (0, {"a": "1"}, "text/plain")


async def test_positions(container):
    blob = await log(container)
    await blob.append_block(b"12345", appendpos_condition=0)
    async with refused(412, "AppendPositionConditionNotMet"):
        await blob.append_block(b"x", appendpos_condition=0)
    async with refused(412, "MaxBlobSizeConditionNotMet"):
        await blob.append_block(b"67890", maxsize_condition=9)
    await blob.append_block(b"67890", appendpos_condition=5, maxsize_condition=10)
    assert await read(blob) == b"1234567890"


async def test_many_writers(api, container):
    blob = await log(container)
    await asyncio.gather(*(blob.append_block(b"%03d;" % number) for number in range(20)))
    assert sorted((await read(blob)).split(b";")[:-1]) == [b"%03d" % number for number in range(20)]


async def test_only_if_unchanged(container):
    blob = await log(container)
    old = (await blob.get_blob_properties()).etag
    new = (await blob.append_block(b"a"))["etag"]
    async with refused(412, "ConditionNotMet"):
        await blob.append_block(b"b", etag=old, match_condition=MatchConditions.IfNotModified)
    await blob.append_block(b"c", etag=new, match_condition=MatchConditions.IfNotModified)
    assert await read(blob) == b"ac"


async def test_validated_content(container):
    blob = await log(container)
    await blob.append_block(b"right", validate_content=True)
    async with refused(400, "Md5Mismatch"):
        await blob.append_block(b"wrong", headers={"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="})
    assert await read(blob) == b"right"


async def test_seal(container):
    blob = await log(container)
    await blob.append_block(b"final")
    sealed = await blob.seal_append_blob()
    assert sealed["blob_sealed"] is True
    async with refused(409, "BlobIsSealed"):
        await blob.append_block(b"x")
    found = await blob.get_blob_properties()
    assert (found.is_append_blob_sealed, found.size) == (True, 5)


async def test_from_url(container):
    data = content(10_000)
    whole = await put(container, "source", data)
    blob = await log(container)
    await blob.append_block(b"start")
    await blob.append_block_from_url(source(whole), source_offset=1000, source_length=5000)
    assert await read(blob) == b"start" + data[1000:6000]


@pytest.mark.parametrize("name", ["block", "missing"])
async def test_nothing_to_append_to(container, name):
    await put(container, "block")
    async with refused(*(409, "InvalidBlobType") if name == "block" else (404, "BlobNotFound")):
        await container.get_blob_client(name).append_block(b"x")
