"""What the tests share: how to reach the server, and one face for both kinds of client.

Every test is written once, against the asynchronous client. In the blocking suite the client is
wrapped by `Blocking`, which calls the blocking client and only makes the answer awaitable.
"""

import os
import re
import uuid
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableClient, TableServiceClient
from azure.data.tables import aio

ENDPOINT = os.environ["TEPUI_ENDPOINT"].rstrip("/")
SECONDARY = ENDPOINT + "-secondary"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
WRONG_KEY = "d3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmc="
CREDENTIAL = AzureNamedKeyCredential(ACCOUNT, KEY)
CONNECTION_STRING = (
    f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};"
    f"TableEndpoint={ENDPOINT};TableSecondaryEndpoint={SECONDARY}"
)

LISTINGS = ("list_entities", "query_entities", "list_tables", "query_tables")


class Blocking:
    """A blocking client that is used like the asynchronous one."""

    def __init__(self, client):
        self._client = client

    def __getattr__(self, name):
        attribute = getattr(self._client, name)
        if name in LISTINGS:
            return lambda *args, **kwargs: BlockingItems(attribute(*args, **kwargs))
        if name == "get_table_client":
            return lambda *args, **kwargs: Blocking(attribute(*args, **kwargs))
        if not callable(attribute):
            return attribute

        async def call(*args, **kwargs):
            result = attribute(*args, **kwargs)
            return Blocking(result) if isinstance(result, TableClient) else result

        return call


class BlockingItems:
    def __init__(self, items):
        self._items = items

    async def __aiter__(self):
        for item in self._items:
            yield item

    def by_page(self, continuation_token=None):
        return BlockingPages(self._items.by_page(continuation_token))


class BlockingPages:
    def __init__(self, pages):
        self._pages = pages

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            page = next(self._pages)
        except StopIteration:
            raise StopAsyncIteration from None
        return BlockingItems(page)

    @property
    def continuation_token(self):
        return self._pages.continuation_token


class Api:
    """Makes clients of one kind, `sync` or `async`, and closes them at the end."""

    def __init__(self, kind):
        self._blocking = kind == "sync"
        self._opened = []

    def service(self, endpoint=ENDPOINT, credential=CREDENTIAL, **options):
        kind = TableServiceClient if self._blocking else aio.TableServiceClient
        return self._keep(kind(endpoint, credential=credential, retry_total=0, **options))

    def table(self, name, endpoint=ENDPOINT, credential=CREDENTIAL, **options):
        return self._keep(self.table_class(endpoint, name, credential=credential, retry_total=0, **options))

    def table_with_sas(self, name, token):
        return self.table(name, credential=AzureSasCredential(token))

    def service_with_sas(self, token):
        return self.service(credential=AzureSasCredential(token))

    def from_connection_string(self, text):
        kind = TableServiceClient if self._blocking else aio.TableServiceClient
        return self._keep(kind.from_connection_string(text, retry_total=0))

    def table_from_connection_string(self, text, name):
        return self._keep(self.table_class.from_connection_string(text, name, retry_total=0))

    def from_table_url(self, url, **options):
        return self._keep(self.table_class.from_table_url(url, retry_total=0, **options))

    @property
    def table_class(self):
        return TableClient if self._blocking else aio.TableClient

    def _keep(self, client):
        client = Blocking(client) if self._blocking else client
        self._opened.append(client)
        return client

    async def close(self):
        for client in self._opened:
            await client.close()


def unique_name(prefix="sdk"):
    return f"{prefix}{uuid.uuid4().hex[:20]}"


def entity(partition="p", row="r", **properties):
    return {"PartitionKey": partition, "RowKey": row, **properties}


def properties_of(stored):
    """The entity without its keys."""
    return {name: value for name, value in stored.items() if name not in ("PartitionKey", "RowKey")}


def in_minutes(minutes):
    return datetime.now(timezone.utc) + timedelta(minutes=minutes)


async def collect(items):
    return [item async for item in items]


async def row_keys(items):
    return [item["RowKey"] async for item in items]


async def pages_of(items, token=None):
    """Every page as a list, with the token that follows it."""
    pages = items.by_page(token) if token else items.by_page()
    result = []
    async for page in pages:
        result.append((await collect(page), pages.continuation_token))
    return result


async def first_page_of(items, token=None):
    pages = items.by_page(token) if token else items.by_page()
    page = await collect(await pages.__anext__())
    return page, pages.continuation_token


def error_code(error):
    code = getattr(error, "error_code", None)
    if code is None:
        # Insert raises the error of its transport, which has not read the body.
        found = re.search(r'"code":"(\w+)"|code>(\w+)<', error.response.text())
        code = found and (found[1] or found[2])
    return getattr(code, "value", code)


@asynccontextmanager
async def refused(status, code, kind=HttpResponseError):
    """The block is refused with this status and code. Yields an object whose `error` is set at the end."""
    caught = Caught()
    with pytest.raises(kind) as info:
        yield caught
    caught.error = info.value
    assert (info.value.status_code, error_code(info.value)) == (status, code)


class Caught:
    error = None
