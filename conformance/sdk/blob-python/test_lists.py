"""Lists of blobs, flat and by folder, and the names in them."""

import pytest
from azure.storage.blob import BlobPrefix, aio
from support import content, names, put, read, refused

TREE = ["a.txt", "b.txt", "dir-x", "dir/1", "dir/2", "dir/sub/3", "dir/sub/4", "dir/z", "dir0", "e/f/g", "z"]


@pytest.fixture
async def tree(container):
    for number, name in enumerate(TREE):
        await put(container, name, content(number))
    return container


async def test_flat(tree):
    found = [each async for each in tree.list_blobs()]
    assert [(each.name, each.size) for each in found] == [(name, number) for number, name in enumerate(TREE)]
    one = await tree.get_blob_client("dir/1").get_blob_properties()
    assert found[3].etag == one.etag.strip('"')
    for name in ("last_modified", "creation_time", "blob_type", "blob_tier"):
        assert getattr(found[3], name) == getattr(one, name), name
    assert found[3].content_settings.content_md5
    assert [name async for name in tree.list_blob_names()] == TREE


@pytest.mark.parametrize("prefix", ["dir", "dir/", "dir/sub/3", "e/f/g", "nothing", "z"])
async def test_prefix(tree, prefix):
    assert await names(tree, name_starts_with=prefix) == [name for name in TREE if name.startswith(prefix)]


@pytest.mark.parametrize("size", [1, 2, 3, 10, 11, 100])
async def test_pages(tree, size):
    pages = [[each.name async for each in page] async for page in tree.list_blobs(results_per_page=size).by_page()]
    assert pages == [TREE[start:start + size] for start in range(0, len(TREE), size)]


async def test_continue_later(tree):
    pages = tree.list_blobs(results_per_page=4).by_page()
    first = [each.name async for each in await anext(aiter(pages))]
    assert first == TREE[:4]
    rest = tree.list_blobs().by_page(pages.continuation_token)
    assert [each.name async for page in rest async for each in page] == TREE[4:]


FOLDERS = {
    "": ["a.txt", "b.txt", "dir-x", "dir/", "dir0", "e/", "z"],
    "dir/": ["dir/1", "dir/2", "dir/sub/", "dir/z"],
    "dir": ["dir-x", "dir/", "dir0"],
    "dir/sub/": ["dir/sub/3", "dir/sub/4"],
    "e/": ["e/f/"],
    "none/": [],
}


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("folder", FOLDERS)
async def test_folders(tree, folder, size):
    # The client gives the folders of a page before its blobs.
    pages = [
        [each async for each in page]
        async for page in tree.walk_blobs(name_starts_with=folder, results_per_page=size).by_page()
    ]
    found = [each for page in pages for each in page]
    assert sorted(each.name for each in found) == sorted(FOLDERS[folder])
    assert all(isinstance(each, (BlobPrefix, aio.BlobPrefix)) == each.name.endswith("/") for each in found)
    assert len(pages) == max(1, -(-len(FOLDERS[folder]) // size))


async def test_another_delimiter(tree):
    found = [each.name async for each in tree.walk_blobs(delimiter="ir")]
    assert sorted(found) == ["a.txt", "b.txt", "dir", "e/f/g", "z"]


async def test_include(container):
    await put(container, "a", metadata={"Team": "core", "x_1": "y"}, tags={"k": "v"})
    await put(container, "b")
    plain = [each async for each in container.list_blobs()]
    assert [(each.metadata, each.tags, each.tag_count) for each in plain] == [({}, None, 1), ({}, None, None)]
    found = [each async for each in container.list_blobs(include=["metadata", "tags"])]
    assert found[0].metadata == {"Team": "core", "x_1": "y"} or found[0].metadata == {"team": "core", "x_1": "y"}
    assert (found[0].tags, found[1].metadata or {}, found[1].tags) == ({"k": "v"}, {}, None)


NAMES = [
    "plain.txt", "with space", " leading", "ünï/文件.txt", "100%", "a%20b", "a%2Fb", "a+b&c=d", "q?x#y;z", "it's \"quoted\"",
    "folder/", "dots.../.hidden", "a//b", "~!$()*,:@[]{}|^`", "😀/🎉", "<tag>&amp;", "\u00e9", "e\u0301",
    "x" * 1000,
]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:12].encode("unicode_escape").decode())
async def test_names(container, name):
    blob = await put(container, name, name.encode())
    assert await read(blob) == name.encode()
    assert (await blob.get_blob_properties()).name == name
    assert await names(container) == [name]
    assert await names(container, name_starts_with=name) == [name]
    copy = container.get_blob_client("copy of " + name)
    await copy.start_copy_from_url(blob.url)
    assert await read(copy) == name.encode()
    await container.delete_blob(name)
    assert await names(container) == ["copy of " + name]


async def test_names_in_order(container):
    for name in reversed(NAMES):
        await put(container, name)
    assert await names(container) == sorted(NAMES, key=lambda name: name.encode())
    assert await names(container, results_per_page=1) == sorted(NAMES, key=lambda name: name.encode())


async def test_a_backslash_is_a_slash(container):
    blob = await put(container, "back\\slash", b"content")
    assert await names(container) == ["back/slash"]
    assert await read(blob) == await read(container.get_blob_client("back/slash")) == b"content"
    copy = container.get_blob_client("copy")
    await copy.start_copy_from_url(blob.url)
    assert await read(copy) == b"content"
    await container.delete_blob("back\\slash")
    assert await names(container) == ["copy"]


async def test_case_matters(container):
    await put(container, "a", b"small")
    await put(container, "A", b"large")
    assert await names(container) == ["A", "a"]
    assert await read(container.get_blob_client("A")) == b"large"


async def test_too_long_a_name(container):
    async with refused(400, "OutOfRangeInput"):
        await put(container, "x" * 1025)
