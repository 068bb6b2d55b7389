"""One face for both kinds of Python's clients, and the fixtures that make them.

Every test is written once, against the asynchronous client. In the blocking suite the client is
wrapped by `Blocking`, which calls the blocking client and only makes the answer awaitable.
"""

import re
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
from azure.core.exceptions import HttpResponseError

LISTINGS = (
    "list_entities", "query_entities", "list_tables", "query_tables",
    "list_queues", "receive_messages",
    "list_containers", "list_blobs", "list_blob_names", "walk_blobs", "find_blobs_by_tags", "list_page_ranges", "chunks",
)  # fmt: skip
# These are awaited, and then give items.
BATCHES = ("delete_blobs", "set_standard_blob_tier_blobs")
CHILDREN = ("get_table_client", "get_queue_client", "get_container_client", "get_blob_client")


class Blocking:
    """A blocking client that is used like the asynchronous one. Its answers of type `child` are clients too."""

    def __init__(self, client, child):
        self._client = client
        self._child = child

    def __getattr__(self, name):
        attribute = getattr(self._client, name)
        if name in LISTINGS:
            return lambda *args, **kwargs: BlockingItems(attribute(*args, **kwargs))
        if name in CHILDREN:
            return lambda *args, **kwargs: Blocking(attribute(*args, **kwargs), self._child)
        if not callable(attribute):
            return attribute

        async def call(*args, **kwargs):
            result = attribute(*args, **kwargs)
            if name in BATCHES:
                return BlockingItems(result)
            return Blocking(result, self._child) if isinstance(result, self._child) else result

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


class Clients:
    """Makes clients of one kind, `sync` or `async`, and closes them at the end. A suite says of which service."""

    # The library's blocking client of a single table or queue. Of blobs there are several kinds, in a tuple.
    child = None

    def __init__(self, kind):
        self.blocking = kind == "sync"
        self._opened = []

    def keep(self, client):
        client = Blocking(client, self.child) if self.blocking else client
        self._opened.append(client)
        return client

    async def close(self):
        for client in self._opened:
            await client.close()


def pytest_addoption(parser):
    parser.addoption("--client", choices=("sync", "async"), default="sync", help="which kind of client to test")


# The suite's conftest.py says which `Clients` are its `api_class`.
@pytest_asyncio.fixture(scope="session")
async def api(request, api_class):
    api = api_class(request.config.getoption("--client"))
    yield api
    await api.close()


@pytest_asyncio.fixture(scope="session")
async def service(api):
    return api.service()


async def collect(items):
    return [item async for item in items]


def error_code(error):
    code = getattr(error, "error_code", None)
    if code is None:
        # Insert Entity raises the error of its transport, which has not read the body.
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
