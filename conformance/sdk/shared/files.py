"""Folders of files, and containers of blobs to compare them with. For the suites of tools."""

import hashlib
import random

import pytest
from azure.storage.blob import (
    AccountSasPermissions, BlobServiceClient, ResourceTypes, generate_account_sas,
)  # fmt: skip
from server import ACCOUNT, ENDPOINT, KEY, in_minutes, unique_name

SERVICE = BlobServiceClient(ENDPOINT, credential={"account_name": ACCOUNT, "account_key": KEY}, retry_total=0)
# Names and sizes. The largest one travels in several blocks.
FILES = {
    "a.txt": 1000, "b.txt": 70_000, "empty": 0, "large": 5_000_001, "sub/one": 10, "sub/two": 2_000, "sub/deep/three": 33,
    "sub/with space ü 100%.txt": 1, "sub+x/(y)&z='1'": 500,
}  # fmt: skip


@pytest.fixture
def container():
    """An empty container for one test."""
    with made() as container:
        yield container


@pytest.fixture
def other():
    """A second one, to copy to."""
    with made() as container:
        yield container


class made:
    def __enter__(self):
        self.container = SERVICE.create_container(unique_name())
        return self.container

    def __exit__(self, *error):
        self.container.delete_container()


@pytest.fixture
def folder(tmp_path):
    """A folder with files of random bytes."""
    folder = tmp_path / "files"
    for number, (name, size) in enumerate(FILES.items()):
        write(folder / name, size, number)
    return folder


def write(path, size, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(random.Random(seed).randbytes(size))


def files(folder):
    """The checksum of every file."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*") if path.is_file()
    }  # fmt: skip


def blobs(container, prefix=""):
    """The checksum of every blob, by its name after the prefix."""
    return {
        name[len(prefix):]: hashlib.sha256(container.download_blob(name).readall()).hexdigest()
        for name in container.list_blob_names(name_starts_with=prefix)
    }  # fmt: skip


def address(container, path=""):
    """With a token that allows everything."""
    rights = AccountSasPermissions.from_string("rwdlacupxtf")
    token = generate_account_sas(ACCOUNT, KEY, ResourceTypes.from_string("sco"), rights, in_minutes(60))
    return f"{container.url}{path}?{token}"
