"""Downloads: ranges, pieces, conditions."""

import io
from datetime import timedelta

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from support import KIB, PIECE, content, put, read, refused

SIZE = 4 * PIECE + 100
DATA = content(SIZE)


@pytest.mark.parametrize("offset, length", [
    (0, 1), (0, 10), (5, None), (SIZE - 1, 1), (SIZE - 10, 1000), (100, 2 * PIECE), (PIECE - 1, 2), (0, SIZE),
])
async def test_ranges(container, offset, length):
    blob = await put(container, "a", DATA)
    download = await blob.download_blob(offset, length)
    data = await download.readall()
    assert data == DATA[offset:offset + length if length else None]
    assert download.size == len(data)
    assert download.properties.size == len(data)


@pytest.mark.parametrize("size, offset", [(10, 10), (10, 1000), (0, 5)])
async def test_range_after_the_end(container, size, offset):
    blob = await put(container, "a", content(size))
    async with refused(416, "InvalidRange"):
        await read(blob, offset, 5)


async def test_empty(container):
    blob = await put(container, "a", b"")
    download = await blob.download_blob()
    assert (await download.readall(), download.size) == (b"", 0)
    assert [piece async for piece in (await blob.download_blob()).chunks()] == []


async def test_pieces(container):
    blob = await put(container, "a", DATA)
    pieces = [piece async for piece in (await blob.download_blob()).chunks()]
    assert b"".join(pieces) == DATA
    assert [len(piece) for piece in pieces] == [PIECE] * 4 + [100]


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_into_a_stream(container, concurrency):
    blob = await put(container, "a", DATA)
    stream = io.BytesIO()
    assert await (await blob.download_blob(max_concurrency=concurrency)).readinto(stream) == SIZE
    assert stream.getvalue() == DATA


async def test_read_step_by_step(container):
    blob = await put(container, "a", DATA)
    download = await blob.download_blob()
    found = []
    while piece := await download.read(100 * KIB):
        found.append(piece)
    assert len(found[0]) == 100 * KIB
    assert b"".join(found) == DATA


async def test_properties_come_along(container):
    blob = await put(container, "a", b"12345", metadata={"kind": "x"})
    download = await blob.download_blob(1, 2)
    found = await blob.get_blob_properties()
    assert await download.readall() == b"23"
    assert (download.properties.etag, download.properties.metadata) == (found.etag, {"kind": "x"})
    assert download.properties.last_modified == found.last_modified
    assert download.properties.content_range == "bytes 1-2/5"


async def test_a_change_during_the_download(container):
    blob = await put(container, "a", DATA)
    download = await blob.download_blob()
    await blob.upload_blob(content(SIZE, 2), overwrite=True)
    async with refused(412, "ConditionNotMet"):
        await download.readall()


LATER, EARLIER = timedelta(minutes=5), timedelta(minutes=-5)
CONDITIONS = {
    "same ETag": (200, lambda now: {"etag": now.etag, "match_condition": MatchConditions.IfNotModified}),
    "another ETag": (412, lambda now: {"etag": '"0x8D0000000000000"', "match_condition": MatchConditions.IfNotModified}),
    "not the same ETag": (304, lambda now: {"etag": now.etag, "match_condition": MatchConditions.IfModified}),
    "not another ETag": (200, lambda now: {"etag": '"0x8D0000000000000"', "match_condition": MatchConditions.IfModified}),
    "modified since": (200, lambda now: {"if_modified_since": now.last_modified + EARLIER}),
    "modified since then": (304, lambda now: {"if_modified_since": now.last_modified}),
    "modified since later": (304, lambda now: {"if_modified_since": now.last_modified + LATER}),
    "unmodified since": (412, lambda now: {"if_unmodified_since": now.last_modified + EARLIER}),
    "unmodified since then": (200, lambda now: {"if_unmodified_since": now.last_modified}),
}


@pytest.mark.parametrize("status, options", CONDITIONS.values(), ids=CONDITIONS.keys())
async def test_conditions(container, status, options):
    blob = await put(container, "a")
    options = options(await blob.get_blob_properties())
    for call in (lambda: read(blob, **options), lambda: blob.get_blob_properties(**options)):
        if status == 200:
            assert await call()
        else:
            with pytest.raises(HttpResponseError) as info:
                await call()
            assert (info.value.status_code, info.value.error_code) == (status, "ConditionNotMet")
