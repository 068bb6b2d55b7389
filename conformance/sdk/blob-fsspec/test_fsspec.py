"""adlfs: blobs as a file system of fsspec."""

import fsspec
import pytest
from files import FILES, blobs, files
from server import ACCOUNT, ENDPOINT, KEY

CONNECTION_STRING = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={ENDPOINT};"
DATA = bytes(range(256)) * 20_000


def filesystem(**options):
    return fsspec.filesystem(
        "abfs", connection_string=CONNECTION_STRING, skip_instance_cache=True, blocksize=1 << 20, **options)


@pytest.fixture
def fs():
    # Without caches, so that every question reaches the server.
    return filesystem(use_listings_cache=False)


@pytest.fixture
def root(container):
    return container.container_name


@pytest.fixture
def tree(fs, root, folder):
    fs.put(f"{folder}/", f"{root}/", recursive=True)
    return root


def test_up_and_down(fs, tree, container, folder, tmp_path):
    assert blobs(container) == files(folder)
    fs.get(f"{tree}/", f"{tmp_path}/back", recursive=True)
    assert files(tmp_path / "back") == files(folder)


def test_write_and_read(fs, root, container):
    with fs.open(f"{root}/dir/large", "wb") as file:
        for start in range(0, len(DATA), 300_000):
            file.write(DATA[start:start + 300_000])
    assert container.download_blob("dir/large").readall() == DATA
    with fs.open(f"{root}/dir/large") as file:
        assert file.size == len(DATA)
        assert file.read(10) == DATA[:10]
        file.seek(1_000_000)
        assert file.read(1_500_000) == DATA[1_000_000:2_500_000]
        file.seek(-5, 2)
        assert file.read() == DATA[-5:]


def test_text(fs, root):
    with fs.open(f"{root}/text", "w", encoding="utf-8") as file:
        file.write("one\nzwölf\n")
    with fs.open(f"{root}/text", "r", encoding="utf-8") as file:
        assert file.readlines() == ["one\n", "zwölf\n"]


def test_append(fs, root):
    for piece in (b"one", b"two"):
        with fs.open(f"{root}/log", "ab") as file:
            file.write(piece)
    assert fs.cat(f"{root}/log") == b"onetwo"


def test_write_only_if_new(fs, root):
    fs.pipe_file(f"{root}/a", b"first", mode="create")
    with pytest.raises(FileExistsError):
        fs.pipe_file(f"{root}/a", b"second", mode="create")
    assert fs.cat(f"{root}/a") == b"first"


def test_lists(fs, tree):
    names = lambda *entries: sorted(f"{tree}/{name}" for name in entries)  # noqa: E731
    assert sorted(fs.ls(tree, detail=False)) == names("a.txt", "b.txt", "empty", "large", "sub", "sub+x")
    assert sorted(fs.find(tree)) == names(*FILES)
    assert sorted(fs.glob(f"{tree}/*.txt")) == names("a.txt", "b.txt")
    assert sorted(fs.glob(f"{tree}/sub/**/three")) == names("sub/deep/three")
    found = {each["name"]: (each["type"], each["size"]) for each in fs.ls(f"{tree}/sub", detail=True)}
    assert found[f"{tree}/sub/two"] == ("file", 2000)
    assert found[f"{tree}/sub/deep"][0] == "directory"
    assert fs.du(tree) == sum(FILES.values())
    walked = {folder: (sorted(folders), sorted(names)) for folder, folders, names in fs.walk(f"{tree}/sub")}
    assert walked[f"{tree}/sub"][0] == ["deep"]
    assert walked[f"{tree}/sub/deep"] == ([], ["three"])


def test_questions(fs, tree):
    assert fs.exists(f"{tree}/a.txt") and not fs.exists(f"{tree}/missing")
    assert fs.isfile(f"{tree}/a.txt") and not fs.isdir(f"{tree}/a.txt")
    assert fs.isdir(f"{tree}/sub") and not fs.isfile(f"{tree}/sub")
    assert fs.info(f"{tree}/b.txt")["size"] == FILES["b.txt"]
    assert fs.size(f"{tree}/empty") == 0
    with pytest.raises(FileNotFoundError):
        fs.info(f"{tree}/missing")
    with pytest.raises(FileNotFoundError):
        fs.cat(f"{tree}/missing")


def test_ranges(fs, root):
    fs.pipe_file(f"{root}/a", DATA)
    fs.pipe_file(f"{root}/b", DATA[::-1])
    found = fs.cat_ranges([f"{root}/a", f"{root}/b", f"{root}/a"], [0, 100, 5_000_000], [10, 1_000_100, 5_000_500])
    assert found == [DATA[:10], DATA[::-1][100:1_000_100], DATA[5_000_000:5_000_500]]
    assert fs.cat_file(f"{root}/a", start=5_000_000) == DATA[5_000_000:]
    assert fs.head(f"{root}/a", 7) == DATA[:7]
    assert fs.tail(f"{root}/a", 7) == DATA[-7:]
    assert fs.cat([f"{root}/a", f"{root}/b"]) == {f"{root}/a": DATA, f"{root}/b": DATA[::-1]}


def test_copy_and_move(fs, tree, container, folder):
    fs.cp(f"{tree}/large", f"{tree}/copy")
    assert blobs(container)["copy"] == files(folder)["large"]
    fs.mv(f"{tree}/a.txt", f"{tree}/moved")
    assert blobs(container)["moved"] == files(folder)["a.txt"] and not fs.exists(f"{tree}/a.txt")


def test_remove(fs, tree, container):
    fs.rm(f"{tree}/sub", recursive=True)
    assert sorted(blobs(container)) == ["a.txt", "b.txt", "empty", "large", "sub+x/(y)&z='1'"]
    fs.rm(f"{tree}/a.txt")
    fs.rm([f"{tree}/b.txt", f"{tree}/empty"])
    assert sorted(blobs(container)) == ["large", "sub+x/(y)&z='1'"]


def test_containers(fs, root):
    fs.mkdir(f"{root}-new")
    # adlfs reads the list of containers out of its cache, also where it has been told to have none.
    assert f"{root}-new" in [name.rstrip("/") for name in filesystem().ls("", detail=False)]
    fs.rmdir(f"{root}-new")
    assert not fs.exists(f"{root}-new")


def test_metadata(fs, root, container):
    fs.pipe_file(f"{root}/a", b"x")
    fs.setxattrs(f"{root}/a", owner="me")
    assert container.get_blob_client("a").get_blob_properties().metadata["owner"] == "me"
    assert fs.getxattr(f"{root}/a", "owner") == "me"


def test_url(container):
    container.upload_blob("dir/a", b"by address")
    with fsspec.open(f"abfs://{container.container_name}/dir/a", connection_string=CONNECTION_STRING) as file:
        assert file.read() == b"by address"
