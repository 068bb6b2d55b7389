"""AzCopy: folders up and down, synchronised, and from container to container."""

import json
import os
import subprocess

import pytest
from files import address, blobs, files, write

# The server's name is none of Azure's, so that AzCopy needs --from-to to know what is what.
QUIET = ["--skip-version-check", "--output-type=json", "--log-level=ERROR"]


@pytest.fixture
def azcopy(tmp_path):
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "AZCOPY_LOG_LOCATION": str(tmp_path / "logs"),
        "AZCOPY_JOB_PLAN_LOCATION": str(tmp_path / "plans"),
        "AZCOPY_CONCURRENCY_VALUE": "4",
        "AZCOPY_BUFFER_GB": "0.3",
        "AZCOPY_DISABLE_SYSLOG": "true",
    }

    def azcopy(*words, fails=False):
        done = subprocess.run(
            [os.environ["AZCOPY"], *(str(word) for word in words), *QUIET],
            env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        logs = "".join(path.read_text() for path in (tmp_path / "logs").glob("*.log"))
        assert (done.returncode != 0) == fails, done.stdout[-2000:] + logs[-4000:]
        return [json.loads(line) for line in done.stdout.splitlines()]

    return azcopy


def summary(messages):
    """What AzCopy says at the end of a job."""
    return json.loads([each for each in messages if each["MessageType"] == "EndOfJob"][-1]["MessageContent"])


def up(azcopy, folder, container, *options):
    return summary(azcopy(
        "copy", f"{folder}/*", address(container), "--from-to=LocalBlob", "--recursive", "--put-md5",
        "--block-size-mb=1", "--put-blob-size-mb=1", *options))


def test_up_and_down(azcopy, folder, container, tmp_path):
    done = up(azcopy, folder, container)
    assert (int(done["TransfersCompleted"]), int(done["TransfersFailed"])) == (len(files(folder)), 0)
    assert blobs(container) == files(folder)
    large = container.get_blob_client("large")
    assert len(large.get_block_list()[0]) == 5
    assert large.get_blob_properties().content_settings.content_md5
    azcopy(
        "copy", address(container, "/*"), tmp_path / "back", "--from-to=BlobLocal", "--recursive", "--block-size-mb=1",
        "--check-md5=FailIfDifferent",
    )  # fmt: skip
    assert files(tmp_path / "back") == files(folder)


def test_wrong_checksum(azcopy, folder, container, tmp_path):
    up(azcopy, folder, container, "--include-pattern=a.txt")
    blob = container.get_blob_client("a.txt")
    settings = blob.get_blob_properties().content_settings
    settings.content_md5 = bytearray(16)
    blob.set_http_headers(settings)
    azcopy("copy", address(container, "/a.txt"), tmp_path / "a", "--from-to=BlobLocal", "--check-md5=FailIfDifferent",
           fails=True)  # fmt: skip


def test_synchronise(azcopy, folder, container, tmp_path):
    up(azcopy, folder, container)
    write(folder / "a.txt", 1000, "changed")
    write(folder / "sub/new", 5, "new")
    (folder / "sub/one").unlink()
    done = summary(azcopy(
        "sync", folder, address(container), "--from-to=LocalBlob", "--delete-destination=true", "--compare-hash=MD5",
        "--put-md5", "--local-hash-storage-mode=HiddenFiles", f"--hash-meta-dir={tmp_path / 'hashes'}"))
    assert (int(done["TotalTransfers"]), int(done["DeleteTransfersCompleted"])) == (2, 1)
    assert blobs(container) == files(folder)

    # And the other way.
    container.upload_blob("sub/two", b"changed", overwrite=True)
    container.delete_blob("b.txt")
    azcopy("sync", address(container), folder, "--from-to=BlobLocal", "--delete-destination=true",
           "--mirror-mode")  # fmt: skip
    assert blobs(container) == files(folder)
    assert (folder / "sub/two").read_bytes() == b"changed" and not (folder / "b.txt").exists()


def test_from_container_to_container(azcopy, folder, container, other):
    up(azcopy, folder, container)
    container.get_blob_client("a.txt").set_blob_metadata({"kept": "yes"})
    container.get_blob_client("log").create_append_blob()
    container.get_blob_client("log").append_block(b"line")
    container.get_blob_client("disk").create_page_blob(4096)
    container.get_blob_client("disk").upload_page(b"page" * 128, 1024, 512)
    done = summary(azcopy(
        "copy", address(container, "/*"), address(other), "--from-to=BlobBlob", "--recursive", "--block-size-mb=1",
        "--put-blob-size-mb=1"))
    assert int(done["TransfersFailed"]) == 0
    assert blobs(other) == blobs(container)
    assert other.get_blob_client("a.txt").get_blob_properties().metadata == {"kept": "yes"}
    assert [other.get_blob_client(name).get_blob_properties().blob_type for name in ("log", "disk", "large")] == [
        "AppendBlob", "PageBlob", "BlockBlob"]


@pytest.mark.parametrize("kind", ["AppendBlob", "PageBlob"])
def test_other_types(azcopy, tmp_path, container, kind):
    write(tmp_path / "data", 2_000_384, kind)
    azcopy("copy", tmp_path / "data", address(container, "/data"), "--from-to=LocalBlob", f"--blob-type={kind}",
           "--block-size-mb=1")  # fmt: skip
    assert container.get_blob_client("data").get_blob_properties().blob_type == kind
    assert blobs(container) == {"data": files(tmp_path)["data"]}


def test_properties(azcopy, tmp_path, container):
    write(tmp_path / "data", 10, 1)
    azcopy("copy", tmp_path / "data", address(container, "/data"), "--from-to=LocalBlob", "--metadata=a=1;b=2",
           "--content-type=text/plain", "--cache-control=no-cache", "--blob-tags=k=v", "--block-blob-tier=Cool")  # fmt: skip
    blob = container.get_blob_client("data")
    found = blob.get_blob_properties()
    assert (found.metadata, found.blob_tier, blob.get_blob_tags()) == ({"a": "1", "b": "2"}, "Cool", {"k": "v"})
    assert (found.content_settings.content_type, found.content_settings.cache_control) == ("text/plain", "no-cache")
    azcopy("set-properties", address(container, "/data"), "--from-to=BlobNone", "--metadata=c=3", "--block-blob-tier=Hot")
    found = blob.get_blob_properties()
    assert (found.metadata, found.blob_tier) == ({"c": "3"}, "Hot")


def test_list_and_remove(azcopy, folder, container):
    up(azcopy, folder, container)
    listed = [
        json.loads(each["MessageContent"])["Path"] for each in azcopy("list", address(container), "--location=Blob")
        if each["MessageType"] == "ListObject"
    ]  # fmt: skip
    assert sorted(listed) == sorted(files(folder))
    azcopy("remove", address(container, "/sub"), "--from-to=BlobTrash", "--recursive")
    assert sorted(blobs(container)) == sorted(name for name in files(folder) if not name.startswith("sub/"))
    azcopy("remove", address(container, "/a.txt"), "--from-to=BlobTrash")
    assert "a.txt" not in blobs(container)


def test_refused(azcopy, folder, container):
    token = address(container).partition("?")[2]
    azcopy("copy", f"{folder}/*", address(container).replace(token, token.replace("sp=rwd", "sp=r")), "--from-to=LocalBlob",
           "--recursive", fails=True)  # fmt: skip
    assert blobs(container) == {}
