"""rclone: copies, synchronisation and checks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from files import FILES, SERVICE, blobs, files, write
from server import ACCOUNT, ENDPOINT, KEY

SETTINGS = {
    "RCLONE_CONFIG_STORE_TYPE": "azureblob",
    "RCLONE_CONFIG_STORE_ACCOUNT": ACCOUNT,
    "RCLONE_CONFIG_STORE_KEY": KEY,
    "RCLONE_CONFIG_STORE_ENDPOINT": ENDPOINT,
    "RCLONE_CONFIG_STORE_CHUNK_SIZE": "1Mi",
    "RCLONE_CONFIG_STORE_UPLOAD_CUTOFF": "1Mi",
    "RCLONE_RETRIES": "1",
    "RCLONE_LOW_LEVEL_RETRIES": "1",
    "RCLONE_TRANSFERS": "2",
    "RCLONE_CHECKERS": "2",
}


@pytest.fixture
def rclone(tmp_path):
    settings = {**os.environ, **SETTINGS, "RCLONE_CONFIG": str(tmp_path / "rclone.conf"), "HOME": str(tmp_path)}

    def rclone(*words, fails=False):
        done = subprocess.run(
            [Path(sys.executable).with_name("rclone"), *(str(word) for word in words)],
            env=settings, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert (done.returncode != 0) == fails, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    return rclone


def at(container, path=""):
    return f"store:{container.container_name}/{path}"


def test_up_and_down(rclone, folder, container, tmp_path):
    rclone("copy", folder, at(container))
    assert blobs(container) == files(folder)
    assert len(container.get_blob_client("large").get_block_list()[0]) == 5
    rclone("check", folder, at(container))
    rclone("copy", at(container), tmp_path / "back")
    assert files(tmp_path / "back") == files(folder)
    # The times of the files are kept as well.
    assert (tmp_path / "back/a.txt").stat().st_mtime_ns == (folder / "a.txt").stat().st_mtime_ns


def test_check_finds_differences(rclone, folder, container):
    rclone("copy", folder, at(container))
    container.upload_blob("a.txt", b"x" * FILES["a.txt"], overwrite=True)
    rclone("check", folder, at(container), fails=True)
    rclone("check", folder, at(container), "--download", fails=True)


def test_synchronise(rclone, folder, container):
    rclone("sync", folder, at(container, "deep/path"))
    write(folder / "a.txt", 999, "changed")
    write(folder / "sub/new", 5, "new")
    (folder / "sub/one").unlink()
    rclone("sync", folder, at(container, "deep/path"))
    assert blobs(container, "deep/path/") == files(folder)
    # Nothing is left to do.
    before = {blob.name: blob.etag for blob in container.list_blobs()}
    rclone("sync", folder, at(container, "deep/path"))
    assert {blob.name: blob.etag for blob in container.list_blobs()} == before


def test_lists(rclone, folder, container):
    rclone("copy", folder, at(container))
    listed = json.loads(rclone("lsjson", "--recursive", "--hash", at(container)))
    assert {each["Path"]: each["Size"] for each in listed if not each["IsDir"]} == FILES
    assert {each["Path"] for each in listed if each["IsDir"]} == {"sub", "sub/deep", "sub+x"}
    assert sorted(rclone("lsf", at(container)).splitlines()) == ["a.txt", "b.txt", "empty", "large", "sub+x/", "sub/"]
    assert rclone("lsf", at(container, "sub/deep")).split() == ["three"]
    assert container.container_name in rclone("lsf", "store:")
    size = json.loads(rclone("size", "--json", at(container)))
    assert (size["count"], size["bytes"]) == (len(FILES), sum(FILES.values()))


@pytest.mark.parametrize("size", [1, 2])
def test_lists_in_pages(rclone, folder, container, size):
    rclone("copy", folder, at(container))
    found = rclone("lsf", "--recursive", "--files-only", at(container), f"--azureblob-list-chunk={size}")
    assert sorted(found.splitlines()) == sorted(FILES)


# Copy Blob for all, or blocks from an address for what is larger than a mebibyte.
@pytest.mark.parametrize("options", [[], ["--azureblob-copy-cutoff=1Mi"], ["--azureblob-use-copy-blob=false"]],
                         ids=["default", "blocks", "never Copy Blob"])  # fmt: skip
def test_from_container_to_container(rclone, folder, container, other, options):
    rclone("copy", folder, at(container))
    rclone("copy", at(container), at(other, "copy"), *options)
    assert blobs(other, "copy/") == files(folder)
    rclone("check", at(container), at(other, "copy"))


def test_move_and_delete(rclone, folder, container, other):
    rclone("copy", folder, at(container))
    rclone("move", at(container, "sub"), at(other))
    assert blobs(other) == files(folder / "sub")
    assert not any(name.startswith("sub/") for name in blobs(container))
    rclone("moveto", at(container, "a.txt"), at(container, "renamed"))
    assert blobs(container)["renamed"] == files(folder)["a.txt"] and "a.txt" not in blobs(container)
    rclone("deletefile", at(container, "renamed"))
    rclone("delete", at(container), "--include", "*.txt")
    assert sorted(blobs(container)) == ["empty", "large", "sub+x/(y)&z='1'"]
    rclone("purge", at(other))
    assert not other.exists()
    SERVICE.create_container(other.container_name)


def test_pieces(rclone, folder, container):
    rclone("copy", folder, at(container))
    container.upload_blob("number", b"0123456789")
    assert rclone("cat", at(container, "empty")) == ""
    assert rclone("cat", at(container, "number"), "--offset=3", "--count=4") == "3456"
    found = rclone("sha1sum", "--download", at(container, "large")).split()[0]
    assert found == rclone("sha1sum", folder / "large").split()[0]
    assert rclone("md5sum", at(container, "large")).split()[0] == rclone("md5sum", folder / "large").split()[0]


def test_tiers_and_metadata(rclone, folder, container):
    rclone("copyto", folder / "a.txt", at(container, "a"), "--azureblob-access-tier=cool", "--metadata",
           "--metadata-set=content-type=text/csv")  # fmt: skip
    found = container.get_blob_client("a").get_blob_properties()
    assert (found.blob_tier, found.content_settings.content_type) == ("Cool", "text/csv")
    rclone("settier", "hot", at(container, "a"))
    assert container.get_blob_client("a").get_blob_properties().blob_tier == "Hot"
    rclone("touch", "--timestamp=2020-02-02T02:02:02", at(container, "a"))
    assert json.loads(rclone("lsjson", at(container, "a")))[0]["ModTime"].startswith("2020-02-02T02:02:02")


def test_stream(rclone, container, tmp_path):
    write(tmp_path / "data", 3_000_000, 7)
    with open(tmp_path / "data", "rb") as data:
        done = subprocess.run(
            [Path(sys.executable).with_name("rclone"), "rcat", at(container, "stream")],
            env={**os.environ, **SETTINGS, "RCLONE_CONFIG": str(tmp_path / "rclone.conf")}, stdin=data, timeout=120,
        )  # fmt: skip
    assert done.returncode == 0
    assert blobs(container) == {"stream": files(tmp_path)["data"]}


def test_missing(rclone, container):
    container.upload_blob("stays", b"x")
    rclone("deletefile", at(container, "missing"), fails=True)
    rclone("lsf", at(container).rstrip("/") + "-missing", fails=True)
    assert list(blobs(container)) == ["stays"]


def test_containers(rclone, container):
    name = container.container_name + "-new"
    rclone("mkdir", f"store:{name}")
    assert SERVICE.get_container_client(name).exists()
    rclone("rmdir", f"store:{name}")
    assert not SERVICE.get_container_client(name).exists()
