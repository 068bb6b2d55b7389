"""What the tests share: how to reach the server, and one face for both kinds of client.

Every test is written once, against the asynchronous client. In the blocking suite the client is
wrapped by `Blocking`, which calls the blocking client and only makes the answer awaitable.
"""

import os
import uuid
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.queue import QueueClient, QueueServiceClient, aio

ENDPOINT = os.environ["TEPUI_ENDPOINT"].rstrip("/")
SECONDARY = ENDPOINT + "-secondary"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
WRONG_KEY = "d3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmc="
CREDENTIAL = {"account_name": ACCOUNT, "account_key": KEY}
CONNECTION_STRING = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};QueueEndpoint={ENDPOINT};"

LISTINGS = ("receive_messages", "list_queues")


class Blocking:
    """A blocking client that is used like the asynchronous one."""

    def __init__(self, client):
        self._client = client

    def __getattr__(self, name):
        attribute = getattr(self._client, name)
        if name in LISTINGS:
            return lambda *args, **kwargs: BlockingItems(attribute(*args, **kwargs))
        if name == "get_queue_client":
            return lambda *args, **kwargs: Blocking(attribute(*args, **kwargs))
        if not callable(attribute):
            return attribute

        async def call(*args, **kwargs):
            result = attribute(*args, **kwargs)
            return Blocking(result) if isinstance(result, QueueClient) else result

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


class Api:
    """Makes clients of one kind, `sync` or `async`, and closes them at the end."""

    def __init__(self, kind):
        self._blocking = kind == "sync"
        self._opened = []

    def service(self, endpoint=ENDPOINT, credential=CREDENTIAL, **options):
        return self._keep(self.service_class(endpoint, credential=credential, retry_total=0, **options))

    def queue(self, name, endpoint=ENDPOINT, credential=CREDENTIAL, **options):
        return self._keep(self.queue_class(endpoint, name, credential=credential, retry_total=0, **options))

    def from_connection_string(self, text):
        return self._keep(self.service_class.from_connection_string(text, retry_total=0))

    def from_queue_url(self, url, **options):
        return self._keep(self.queue_class.from_queue_url(url, retry_total=0, **options))

    @property
    def service_class(self):
        return QueueServiceClient if self._blocking else aio.QueueServiceClient

    @property
    def queue_class(self):
        return QueueClient if self._blocking else aio.QueueClient

    def _keep(self, client):
        client = Blocking(client) if self._blocking else client
        self._opened.append(client)
        return client

    async def close(self):
        for client in self._opened:
            await client.close()


def unique_name(prefix="sdk"):
    return f"{prefix}{uuid.uuid4().hex[:20]}"


def in_minutes(minutes):
    return datetime.now(timezone.utc) + timedelta(minutes=minutes)


async def collect(items):
    return [item async for item in items]


async def count(queue):
    return (await queue.get_queue_properties()).approximate_message_count


async def texts(queue):
    """What is visible, without taking it."""
    return [message.content for message in await queue.peek_messages(max_messages=32)]


@asynccontextmanager
async def refused(status, code, kind=HttpResponseError):
    with pytest.raises(kind) as info:
        yield
    assert (info.value.status_code, getattr(info.value.error_code, "value", info.value.error_code)) == (status, code)
