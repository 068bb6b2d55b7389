"""What the tests of blobs share. Some of it is common to all suites and comes from `shared`."""

import hashlib
import random

from azure.storage.blob import (
    AccountSasPermissions,
    BlobClient,
    BlobLeaseClient,
    BlobSasPermissions,
    BlobServiceClient,
    ContainerClient,
    ContainerSasPermissions,
    ResourceTypes,
    StorageStreamDownloader,
    aio,
    generate_account_sas,
    generate_blob_sas,
    generate_container_sas,
)
from clients import Clients, collect, refused  # noqa: F401
from server import ACCOUNT, ENDPOINT, KEY, SECONDARY, WRONG_KEY, in_minutes, unique_name  # noqa: F401

CREDENTIAL = {"account_name": ACCOUNT, "account_key": KEY}
CONNECTION_STRING = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={ENDPOINT};"
KIB = 1024
# Small pieces, so that blobs of moderate size travel in several.
PIECE = 256 * KIB
PIECES = {
    "max_single_put_size": PIECE, "max_block_size": PIECE, "max_single_get_size": PIECE, "max_chunk_get_size": PIECE,
    "min_large_block_upload_threshold": PIECE,
}  # fmt: skip


class Api(Clients):
    child = (ContainerClient, BlobClient, BlobLeaseClient, StorageStreamDownloader)

    def service(self, endpoint=ENDPOINT, credential=CREDENTIAL, **options):
        return self.keep(self.library.BlobServiceClient(endpoint, credential=credential, retry_total=0, **options))

    def container(self, name, endpoint=ENDPOINT, credential=CREDENTIAL, **options):
        return self.keep(
            self.library.ContainerClient(endpoint, name, credential=credential, retry_total=0, **{**PIECES, **options}))

    def blob(self, container, name, endpoint=ENDPOINT, credential=CREDENTIAL, **options):
        return self.keep(
            self.library.BlobClient(
                endpoint, container, name, credential=credential, retry_total=0, **{**PIECES, **options}))

    def from_connection_string(self, text):
        return self.keep(self.library.BlobServiceClient.from_connection_string(text, retry_total=0))

    def from_blob_url(self, url, **options):
        return self.keep(self.library.BlobClient.from_blob_url(url, retry_total=0, **options))

    @property
    def library(self):
        return Library if self.blocking else aio


class Library:
    BlobServiceClient, ContainerClient, BlobClient = BlobServiceClient, ContainerClient, BlobClient


def content(size, seed=1):
    return random.Random(seed).randbytes(size)


def md5(data):
    return bytearray(hashlib.md5(data).digest())


async def put(container, name, data=b"content", **options):
    """A client of a new blob."""
    blob = container.get_blob_client(name)
    await blob.upload_blob(data, **options)
    return blob


async def read(blob, *place, **options):
    return await (await blob.download_blob(*place, **options)).readall()


async def names(container, *include, **options):
    return [blob.name async for blob in container.list_blobs(include=list(include), **options)]


def blob_sas(blob, permission="r", key=KEY, **options):
    if "policy_id" not in options:
        options = {"permission": BlobSasPermissions.from_string(permission), "expiry": in_minutes(10), **options}
    return generate_blob_sas(ACCOUNT, blob.container_name, blob.blob_name, account_key=key, **options)


def container_sas(container, permission="r", key=KEY, **options):
    if "policy_id" not in options:
        options = {"permission": ContainerSasPermissions.from_string(permission), "expiry": in_minutes(10), **options}
    return generate_container_sas(ACCOUNT, container.container_name, account_key=key, **options)


def account_sas(permission, types="sco", key=KEY, **options):
    return generate_account_sas(
        ACCOUNT, key, ResourceTypes.from_string(types), AccountSasPermissions.from_string(permission),
        options.pop("expiry", in_minutes(10)), **options)  # fmt: skip


def source(blob, **options):
    """The address of a blob for a copy that reads it with a token."""
    return f"{blob.url.split('?')[0]}?{blob_sas(blob, **options)}"
