"""Page blobs: pages, ranges, differences, sizes, sequence numbers."""

import pytest
from azure.storage.blob import SequenceNumberAction
from support import KIB, content, put, read, refused, source

PAGE = 512


async def disk(container, size=16 * PAGE, **options):
    blob = container.get_blob_client("disk")
    await blob.create_page_blob(size, **options)
    return blob


async def ranges(blob, **options):
    """Numbers of pages, from and to; a range that was cleared comes with a minus."""
    return [
        (each.start // PAGE * (-1 if each.cleared else 1), (each.end + 1) // PAGE * (-1 if each.cleared else 1))
        async for each in blob.list_page_ranges(**options)
    ]


async def write(blob, first, count, seed=1):
    data = content(count * PAGE, seed)
    await blob.upload_page(data, first * PAGE, count * PAGE)
    return data


async def test_create(container):
    blob = await disk(container, sequence_number=7, metadata={"os": "none"})
    found = await blob.get_blob_properties()
    assert (found.blob_type, found.size, found.page_blob_sequence_number) == ("PageBlob", 16 * PAGE, 7)
    assert found.metadata == {"os": "none"}
    assert await read(blob) == bytes(16 * PAGE)
    assert await ranges(blob) == []


async def test_pages(container):
    blob = await disk(container)
    whole = bytearray(16 * PAGE)
    for first, count in ((0, 2), (4, 3), (6, 4)):
        whole[first * PAGE:(first + count) * PAGE] = await write(blob, first, count, first + 1)
    assert await ranges(blob) == [(0, 2), (4, 10)]
    assert await read(blob) == whole
    await blob.clear_page(5 * PAGE, 2 * PAGE)
    whole[5 * PAGE:7 * PAGE] = bytes(2 * PAGE)
    assert await ranges(blob) == [(0, 2), (4, 5), (7, 10)]
    assert await ranges(blob, offset=4 * PAGE, length=4 * PAGE) == [(4, 5), (7, 8)]
    assert await read(blob) == whole
    assert await read(blob, 100, 4000) == whole[100:4100]


async def test_ranges_in_pages(container):
    blob = await disk(container, 64 * PAGE)
    for number in range(0, 20, 2):
        await write(blob, number, 1)
    assert await ranges(blob, results_per_page=3) == [(number, number + 1) for number in range(0, 20, 2)]


async def test_upload(container):
    # The client leaves out pieces that hold only zeros.
    data = content(8 * KIB) + bytes(600 * KIB) + content(8 * KIB, 2)
    blob = await put(container, "a", data, blob_type="PageBlob", max_concurrency=2)
    assert await read(blob) == data
    assert (await blob.get_blob_properties()).blob_type == "PageBlob"


async def test_differences(container):
    blob = await disk(container)
    await write(blob, 0, 4)
    first = (await blob.create_snapshot())["snapshot"]
    await write(blob, 2, 4, 2)
    await blob.clear_page(0, PAGE)
    second = (await blob.create_snapshot())["snapshot"]
    await write(blob, 10, 1)
    assert await ranges(blob, previous_snapshot=first) == [(0, -1), (2, 6), (10, 11)]
    assert await ranges(blob, previous_snapshot=second) == [(10, 11)]
    await blob.delete_blob(delete_snapshots="include")


@pytest.mark.parametrize("size", [8, 4, 32])
async def test_resize(container, size):
    blob = await disk(container)
    data = await write(blob, 0, 16)
    await blob.resize_blob(size * PAGE)
    assert await read(blob) == data[:size * PAGE] + bytes(max(0, size - 16) * PAGE)
    # What was cut off does not come back.
    await blob.resize_blob(16 * PAGE)
    assert await read(blob) == data[:size * PAGE] + bytes(max(0, 16 - size) * PAGE)


async def test_sequence_numbers(container):
    blob = await disk(container)
    for action, value, wanted in (
        (SequenceNumberAction.Update, "5", 5), (SequenceNumberAction.Max, "3", 5), (SequenceNumberAction.Max, "9", 9),
        (SequenceNumberAction.Increment, None, 10),
    ):
        assert (await blob.set_sequence_number(action, value))["blob_sequence_number"] == wanted
    page = content(PAGE)
    for condition in ({"if_sequence_number_lte": 9}, {"if_sequence_number_lt": 10}, {"if_sequence_number_eq": 11}):
        async with refused(412, "SequenceNumberConditionNotMet"):
            await blob.upload_page(page, 0, PAGE, **condition)
    assert await ranges(blob) == []
    for condition in ({"if_sequence_number_lte": 10}, {"if_sequence_number_lt": 11}, {"if_sequence_number_eq": 10}):
        done = await blob.upload_page(page, 0, PAGE, **condition)
        assert done["blob_sequence_number"] == 10
    assert await read(blob, 0, PAGE) == page


async def test_refused_pages(container):
    blob = await disk(container)
    async with refused(416, "InvalidPageRange"):
        await blob.upload_page(bytes(PAGE), 16 * PAGE, PAGE)
    async with refused(400, "Md5Mismatch"):
        await blob.upload_page(bytes(PAGE), 0, PAGE, headers={"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="})
    assert await ranges(blob) == []


async def test_validated_content(container):
    blob = await disk(container)
    data = content(PAGE)
    await blob.upload_page(data, PAGE, PAGE, validate_content=True)
    assert await read(blob, PAGE, PAGE, validate_content=True) == data


async def test_from_url(container):
    data = content(8 * PAGE)
    whole = await put(container, "source", data)
    blob = await disk(container)
    await blob.upload_pages_from_url(source(whole), 4 * PAGE, 2 * PAGE, 3 * PAGE)
    assert await read(blob, 4 * PAGE, 2 * PAGE) == data[3 * PAGE:5 * PAGE]
    assert await ranges(blob) == [(4, 6)]
