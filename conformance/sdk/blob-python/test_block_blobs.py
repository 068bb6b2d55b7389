"""Block blobs: upload whole and in blocks, block lists, conditions, properties, checksums."""

import base64

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.storage.blob import BlobBlock, ContentSettings
from support import KIB, PIECE, content, md5, names, put, read, refused

ALL = ContentSettings(
    content_type="text/plain; charset=utf-8", content_encoding="identity", content_language="de-DE",
    content_disposition='attachment; filename="a.txt"', cache_control="max-age=60")


@pytest.mark.parametrize("size", [0, 1, 1000, PIECE - 1, PIECE])
async def test_upload_whole(container, size):
    data = content(size)
    blob = container.get_blob_client("a")
    made = await blob.upload_blob(data)
    assert await read(blob) == data
    found = await blob.get_blob_properties()
    assert (found.size, found.blob_type, found.etag) == (size, "BlockBlob", made["etag"])
    assert found.content_settings.content_type == "application/octet-stream"
    assert found.content_settings.content_md5 == md5(data)
    assert found.last_modified == made["last_modified"] >= found.creation_time
    assert (await blob.get_block_list("all")) == ([], [])


@pytest.mark.parametrize("size, concurrency", [(PIECE + 1, 1), (9 * PIECE + 17, 4)])
async def test_upload_in_blocks(container, size, concurrency):
    data = content(size)
    blob = await put(container, "large", data, max_concurrency=concurrency, metadata={"kind": "large"})
    assert await read(blob, max_concurrency=concurrency) == data
    found = await blob.get_blob_properties()
    assert (found.size, found.metadata, found.content_settings.content_md5) == (size, {"kind": "large"}, None)
    committed, uncommitted = await blob.get_block_list("all")
    assert [block.size for block in committed] == [PIECE] * (size // PIECE) + [size % PIECE]
    assert uncommitted == []


async def test_upload_of_unknown_length(container):
    pieces = [content(70 * KIB, seed) for seed in range(20)]
    blob = container.get_blob_client("stream")
    await blob.upload_blob(iter(pieces))
    assert await read(blob) == b"".join(pieces)


async def test_upload_text(container):
    blob = await put(container, "text", "Größe 文", encoding="utf-8", content_settings=ContentSettings("text/plain"))
    assert await read(blob, encoding="utf-8") == "Größe 文"


@pytest.mark.parametrize("size", [10, 2 * PIECE])
async def test_upload_only_if_new(container, size):
    blob = await put(container, "a", content(size, 1))
    async with refused(409, "BlobAlreadyExists", ResourceExistsError):
        await blob.upload_blob(content(size, 2))
    assert await read(blob) == content(size, 1)
    await blob.upload_blob(content(size + 1, 2), overwrite=True)
    assert await read(blob) == content(size + 1, 2)


@pytest.mark.parametrize("size", [10, 2 * PIECE])
async def test_upload_only_if_unchanged(container, size):
    blob = container.get_blob_client("a")
    old = await blob.upload_blob(b"one")
    new = await blob.upload_blob(b"two", overwrite=True)
    assert old["etag"] != new["etag"]
    async with refused(412, "ConditionNotMet", ResourceModifiedError):
        await blob.upload_blob(
            content(size), overwrite=True, etag=old["etag"], match_condition=MatchConditions.IfNotModified)
    assert await read(blob) == b"two"
    await blob.upload_blob(
        content(size), overwrite=True, etag=new["etag"], match_condition=MatchConditions.IfNotModified)
    assert await read(blob) == content(size)
    async with refused(412, "ConditionNotMet"):
        await container.get_blob_client("missing").upload_blob(
            b"x", overwrite=True, match_condition=MatchConditions.IfPresent)


async def test_stage_and_commit(container):
    blob = container.get_blob_client("a")
    for number in range(4):
        await blob.stage_block(f"{number:03}", content(1000, number))
    async with refused(404, "BlobNotFound", ResourceNotFoundError):
        await blob.get_blob_properties()
    assert await names(container) == []
    assert await names(container, "uncommittedblobs") == ["a"]
    committed, uncommitted = await blob.get_block_list("all")
    assert (committed, [(block.id, block.size) for block in uncommitted]) == (
        [], [(f"{number:03}", 1000) for number in range(4)])

    # In another order, one twice, one not at all.
    await blob.commit_block_list([BlobBlock("002"), BlobBlock("000"), BlobBlock("002")], metadata={"a": "1"})
    assert await read(blob) == content(1000, 2) + content(1000, 0) + content(1000, 2)
    committed, uncommitted = await blob.get_block_list("all")
    assert ([block.id for block in committed], uncommitted) == (["002", "000", "002"], [])

    # A new block among committed ones.
    await blob.stage_block("009", b"new")
    assert await read(blob, 0, 1000) == content(1000, 2)
    await blob.commit_block_list([BlobBlock("000"), BlobBlock("009")])
    assert await read(blob) == content(1000, 0) + b"new"
    assert not (await blob.get_blob_properties()).metadata


async def test_bad_block_lists(container):
    blob = await put(container, "a", b"stays")
    await blob.stage_block("one", b"1")
    async with refused(400, "InvalidBlockList"):
        await blob.commit_block_list([BlobBlock("one"), BlobBlock("two")])
    async with refused(400, "InvalidBlobOrBlock"):
        await blob.stage_block("another length", b"2")
    assert await read(blob) == b"stays"
    await blob.commit_block_list([])
    assert await read(blob) == b""


async def test_content_settings(container):
    blob = await put(container, "a", content_settings=ALL)
    await has_settings(blob, ALL)
    await container.get_blob_client("b").stage_block("1", b"x")
    await container.get_blob_client("b").commit_block_list([BlobBlock("1")], content_settings=ALL)
    await has_settings(container.get_blob_client("b"), ALL)
    await blob.set_http_headers(ContentSettings(content_type="image/png"))
    await has_settings(blob, ContentSettings(content_type="image/png"))
    assert await read(blob) == b"content"
    listed = {each.name: each.content_settings async for each in container.list_blobs()}
    assert listed["b"].content_language == "de-DE" and listed["a"].content_type == "image/png"


async def has_settings(blob, wanted):
    found = (await blob.get_blob_properties()).content_settings
    for name in ("content_type", "content_encoding", "content_language", "content_disposition", "cache_control"):
        assert getattr(found, name) == getattr(wanted, name), name


async def test_metadata(container):
    blob = await put(container, "a", metadata={"Team": "core", "size": "10 x 10"})
    found = await blob.get_blob_properties()
    assert found.metadata == {"Team": "core", "size": "10 x 10"}
    listed = [blob.metadata async for blob in container.list_blobs(include=["metadata"])]
    assert listed == [{"Team": "core", "size": "10 x 10"}]
    changed = await blob.set_blob_metadata({"only": "this"})
    found = await blob.get_blob_properties()
    assert (found.metadata, found.etag) == ({"only": "this"}, changed["etag"])
    assert await read(blob) == b"content"
    await blob.set_blob_metadata({})
    assert not (await blob.get_blob_properties()).metadata
    async with refused(400, "InvalidMetadata"):
        await blob.set_blob_metadata({"1bad": "x"})


@pytest.mark.parametrize("size", [1000, 3 * PIECE + 5])
async def test_validated_content(container, size):
    data = content(size)
    blob = await put(container, "a", data, validate_content=True)
    assert await read(blob, validate_content=True) == data
    assert await read(blob, 100, 500, validate_content=True) == data[100:600]


async def test_wrong_checksums(container):
    blob = container.get_blob_client("a")
    async with refused(400, "Md5Mismatch"):
        await blob.upload_blob(b"data", content_settings=ContentSettings(content_md5=bytearray(16)))
    wrong = base64.b64encode(bytes(16)).decode()
    async with refused(400, "Md5Mismatch"):
        await blob.stage_block("1", b"data", headers={"Content-MD5": wrong})
    async with refused(400, "InvalidMd5"):
        await blob.stage_block("1", b"data", headers={"Content-MD5": "c2hvcnQ="})
    assert await names(container, "uncommittedblobs") == []
    # The checksum of a blob of blocks is taken on trust.
    await blob.stage_block("1", b"data")
    await blob.commit_block_list([BlobBlock("1")], content_settings=ContentSettings(content_md5=bytearray(16)))
    assert (await blob.get_blob_properties()).content_settings.content_md5 == bytearray(16)


async def test_delete(container):
    blob = await put(container, "a")
    assert await blob.exists()
    await blob.delete_blob()
    assert not await blob.exists()
    for call in (blob.delete_blob, blob.get_blob_properties, lambda: read(blob), lambda: blob.set_blob_metadata({})):
        async with refused(404, "BlobNotFound", ResourceNotFoundError):
            await call()
    await put(container, "b")
    await container.delete_blob("b")
    assert await names(container) == []


async def test_delete_only_if_unchanged(container):
    blob = container.get_blob_client("a")
    old = await blob.upload_blob(b"one")
    new = await blob.set_blob_metadata({"a": "1"})
    async with refused(412, "ConditionNotMet"):
        await blob.delete_blob(etag=old["etag"], match_condition=MatchConditions.IfNotModified)
    assert await read(blob) == b"one"
    await blob.delete_blob(etag=new["etag"], match_condition=MatchConditions.IfNotModified)
    assert not await blob.exists()


async def test_the_type_stays(container):
    blob = await put(container, "a")
    async with refused(409, "InvalidBlobType"):
        await blob.append_block(b"x")
    async with refused(409, "InvalidBlobType"):
        await blob.upload_page(bytes(512), 0, 512)
    assert await read(blob) == b"content"
