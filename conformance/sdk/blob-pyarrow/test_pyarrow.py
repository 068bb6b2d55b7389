"""Arrow's file system for Azure, whose client is the C++ library. It asks HEAD before nearly everything it does."""

import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest
from files import FILES, blobs, files
from pyarrow.fs import AzureFileSystem, FileSelector, FileType, LocalFileSystem, copy_files
from server import ACCOUNT, ENDPOINT, KEY, WRONG_KEY

AUTHORITY = ENDPOINT.split("//")[1].split("/")[0]
DATA = bytes(range(256)) * 20_000


def filesystem(key=KEY):
    return AzureFileSystem(
        ACCOUNT, account_key=key, blob_storage_authority=AUTHORITY, dfs_storage_authority=AUTHORITY,
        blob_storage_scheme="http", dfs_storage_scheme="http",
    )  # fmt: skip


@pytest.fixture(scope="session")
def fs():
    return filesystem()


@pytest.fixture
def root(container):
    return container.container_name


@pytest.fixture
def tree(fs, root, folder):
    copy_files(str(folder), root, source_filesystem=LocalFileSystem(), destination_filesystem=fs)
    return root


def put(fs, path, data, **options):
    with fs.open_output_stream(path, **options) as file:
        file.write(data)


def kind(fs, path):
    return fs.get_file_info(path).type


def test_up_and_down(fs, tree, container, folder, tmp_path):
    # Arrow marks folders with blobs of their names.
    assert {name: sum for name, sum in blobs(container).items() if name in FILES} == files(folder)
    copy_files(tree, str(tmp_path / "back"), source_filesystem=fs, destination_filesystem=LocalFileSystem())
    assert files(tmp_path / "back") == files(folder)


def test_what_is_not_there(fs, root):
    """HEAD of nothing: an answer that the client cannot read would be an exception."""
    for path in (f"{root}/missing", f"{root}/missing/too", "nowhere-at-all", "nowhere-at-all/x"):
        assert kind(fs, path) == FileType.NotFound, path
        with pytest.raises(FileNotFoundError):
            fs.get_file_info(FileSelector(path))
    for path in (f"{root}/missing", f"{root}/missing/too", "nowhere-at-all/x"):
        with pytest.raises(FileNotFoundError):
            fs.open_input_file(path)
        with pytest.raises(FileNotFoundError):
            fs.delete_file(path)
    assert fs.get_file_info(FileSelector(f"{root}/missing", allow_not_found=True)) == []
    with pytest.raises(OSError, match="ContainerNotFound"):
        put(fs, "nowhere-at-all/x", b"x")


def test_write_and_read(fs, root, container):
    with fs.open_output_stream(f"{root}/dir/large") as file:
        for start in range(0, len(DATA), 300_000):
            file.write(DATA[start : start + 300_000])
    assert container.download_blob("dir/large").readall() == DATA
    with fs.open_input_file(f"{root}/dir/large") as file:
        assert file.size() == len(DATA)
        assert file.read(10) == DATA[:10]
        assert file.read_at(1_500_000, 1_000_000) == DATA[1_000_000:2_500_000]
        file.seek(len(DATA) - 5)
        assert file.read() == DATA[-5:]
    with fs.open_input_stream(f"{root}/dir/large") as file:
        assert file.read() == DATA
    put(fs, f"{root}/empty", b"")
    assert fs.get_file_info(f"{root}/empty").size == 0


def test_replace_and_append(fs, root):
    put(fs, f"{root}/a", b"one")
    put(fs, f"{root}/a", b"two")
    with fs.open_append_stream(f"{root}/a") as file:
        file.write(b"three")
    with fs.open_input_stream(f"{root}/a") as file:
        assert file.read() == b"twothree"


def test_lists(fs, tree):
    def found(path, **options):
        listed = fs.get_file_info(FileSelector(path, **options))
        return sorted((info.path[len(tree) + 1 :], info.type == FileType.Directory) for info in listed)

    top = [("a.txt", False), ("b.txt", False), ("empty", False), ("large", False), ("sub", True), ("sub+x", True)]
    assert found(tree) == top
    every = [name for name, is_folder in found(tree, recursive=True) if not is_folder]
    assert every == sorted(FILES)
    assert ("sub/deep", True) in found(f"{tree}/sub")
    sizes = {info.path[len(tree) + 1 :]: info.size for info in fs.get_file_info(FileSelector(f"{tree}/sub")) if info.is_file}
    assert sizes == {name: size for name, size in FILES.items() if name.rpartition("/")[0] == "sub"}
    assert tree in [info.path for info in fs.get_file_info(FileSelector(""))]


def test_questions(fs, tree):
    # Not the folder `sub`: Arrow looks at the first entry that begins so, and here that is `sub+x`.
    for path, expected in (
        (tree, FileType.Directory), (f"{tree}/a.txt", FileType.File), (f"{tree}/sub/deep", FileType.Directory),
        (f"{tree}/sub/with space ü 100%.txt", FileType.File), (f"{tree}/su", FileType.NotFound),
    ):  # fmt: skip
        assert kind(fs, path) == expected, path
    info = fs.get_file_info(f"{tree}/b.txt")
    assert (info.size, info.mtime is not None) == (FILES["b.txt"], True)


def test_properties(fs, root, container):
    put(fs, f"{root}/a", b"x", metadata={"Content-Type": "text/csv", "Cache-Control": "no-cache", "owner": "me"})
    found = container.get_blob_client("a").get_blob_properties()
    assert (found.content_settings.content_type, found.content_settings.cache_control) == ("text/csv", "no-cache")
    assert {name.lower(): value for name, value in found.metadata.items()} == {"owner": "me"}
    with fs.open_input_stream(f"{root}/a") as file:
        said = file.metadata()
    assert (said["Content-Type"], said["Content-Length"], said["Blob-Type"]) == (b"text/csv", b"1", b"BlockBlob")


def test_copy(fs, tree, container, folder):
    fs.copy_file(f"{tree}/large", f"{tree}/copy")
    assert blobs(container)["copy"] == files(folder)["large"]
    with pytest.raises(OSError, match="BlobNotFound"):
        fs.copy_file(f"{tree}/missing", f"{tree}/copy")
    assert blobs(container)["copy"] == files(folder)["large"]


def test_folders(fs, root, container):
    fs.create_dir(f"{root}/x/y")
    assert kind(fs, f"{root}/x/y") == FileType.Directory
    put(fs, f"{root}/x/y/a", b"1")
    put(fs, f"{root}/x/b", b"2")
    fs.delete_dir_contents(f"{root}/x/y")
    assert (kind(fs, f"{root}/x/y/a"), kind(fs, f"{root}/x/b")) == (FileType.NotFound, FileType.File)
    fs.delete_dir(f"{root}/x")
    assert kind(fs, f"{root}/x") == FileType.NotFound
    assert list(container.list_blob_names()) == []


def test_many_are_deleted(fs, root, container):
    """In batches of 256."""
    for number in range(300):
        container.upload_blob(f"many/{number}", b"x")
    fs.delete_dir(f"{root}/many")
    assert list(container.list_blob_names()) == []


def test_containers(fs, root):
    name = f"{root}-new"
    fs.create_dir(name)
    fs.create_dir(name)
    assert kind(fs, name) == FileType.Directory
    fs.delete_dir(name)
    assert kind(fs, name) == FileType.NotFound


def test_parquet(fs, root):
    table = pyarrow.table({"number": list(range(50_000)), "text": [f"row {number} ü" for number in range(50_000)]})
    pyarrow.parquet.write_table(table, f"{root}/dir/rows.parquet", filesystem=fs)
    assert pyarrow.parquet.read_table(f"{root}/dir/rows.parquet", filesystem=fs).equals(table)
    one = pyarrow.parquet.read_table(f"{root}/dir/rows.parquet", filesystem=fs, columns=["number"], filters=[("number", "==", 7)])
    assert one["number"].to_pylist() == [7]


def test_dataset(fs, root):
    table = pyarrow.table({"number": [1, 2, 3, 4], "country": ["de", "de", "fr", "ü"]})
    pyarrow.dataset.write_dataset(
        table, f"{root}/set", filesystem=fs, format="parquet", partitioning=["country"], partitioning_flavor="hive")
    read = pyarrow.dataset.dataset(f"{root}/set", filesystem=fs, format="parquet", partitioning="hive")
    assert len(read.files) == 3
    assert sorted(read.to_table()["number"].to_pylist()) == [1, 2, 3, 4]
    german = read.to_table(filter=pyarrow.dataset.field("country") == "de")
    assert sorted(german["number"].to_pylist()) == [1, 2]


def test_wrong_key(root):
    with pytest.raises(OSError, match="(?i)authenticat|403|forbidden"):
        filesystem(WRONG_KEY).get_file_info(f"{root}/a")
