"""Messages: put, get, peek, update, delete, clear."""

import asyncio
from datetime import datetime, timedelta, timezone

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.storage.queue import (
    BinaryBase64DecodePolicy,
    BinaryBase64EncodePolicy,
    TextBase64DecodePolicy,
    TextBase64EncodePolicy,
)
from support import CLOCK_TOLERANCE_SECONDS, collect, count, refused, texts, unique_name


async def test_put_and_get(queue):
    sent = await queue.send_message("hello")
    assert sent.id and sent.pop_receipt
    week = sent.expires_on - sent.inserted_on
    assert week == timedelta(days=7)
    message = await queue.receive_message()
    assert (message.id, message.content, message.dequeue_count) == (sent.id, "hello", 1)
    assert message.pop_receipt != sent.pop_receipt
    wait = message.next_visible_on - datetime.now(timezone.utc)
    assert timedelta(seconds=20) < wait < timedelta(seconds=40)
    assert await queue.receive_message() is None
    await queue.delete_message(message)
    assert await count(queue) == 0


async def test_missing_queue(api):
    queue = api.queue(unique_name())
    async with refused(404, "QueueNotFound", ResourceNotFoundError):
        await queue.send_message("x")
    async with refused(404, "QueueNotFound", ResourceNotFoundError):
        await queue.receive_message()


async def test_peek(queue):
    await queue.send_message("one")
    await queue.send_message("two")
    for _ in range(2):
        found = await queue.peek_messages(max_messages=5)
        assert [(each.content, each.dequeue_count, each.pop_receipt) for each in found] == [
            ("one", 0, None), ("two", 0, None)]


async def test_receive_in_pages(queue):
    for number in range(40):
        await queue.send_message(str(number))
    received = await collect(queue.receive_messages(messages_per_page=32, visibility_timeout=300))
    assert [message.content for message in received] == [str(number) for number in range(40)]
    assert len({message.pop_receipt for message in received}) == 40
    assert await count(queue) == 40
    for message in received:
        await queue.delete_message(message.id, message.pop_receipt)
    assert await count(queue) == 0


async def test_max_messages(queue):
    for number in range(5):
        await queue.send_message(str(number))
    received = await collect(queue.receive_messages(max_messages=3))
    assert [message.content for message in received] == ["0", "1", "2"]


async def test_progress_is_saved(queue):
    await queue.send_message("step 0")
    message = await queue.receive_message()
    for step in range(1, 4):
        message = await queue.update_message(message, visibility_timeout=300, content=f"step {step}")
        assert message.next_visible_on > datetime.now(timezone.utc)
    await queue.update_message(message, visibility_timeout=0)
    again = await queue.receive_message()
    assert (again.content, again.dequeue_count) == ("step 3", 2)


async def test_update_without_text(queue):
    await queue.send_message("stays")
    message = await queue.receive_message()
    await queue.update_message(message.id, pop_receipt=message.pop_receipt, visibility_timeout=0)
    assert await texts(queue) == ["stays"]


async def test_old_receipts(queue):
    sent = await queue.send_message("x")
    first = await queue.receive_message()
    second = await queue.update_message(first, visibility_timeout=100)
    for receipt in (sent.pop_receipt, first.pop_receipt):
        async with refused(404, "MessageNotFound", ResourceNotFoundError):
            await queue.delete_message(sent.id, receipt)
        async with refused(404, "MessageNotFound", ResourceNotFoundError):
            await queue.update_message(sent.id, receipt, content="stale")
    await queue.delete_message(second)
    async with refused(404, "MessageNotFound", ResourceNotFoundError):
        await queue.delete_message(second)


async def test_receipt_of_put(queue):
    sent = await queue.send_message("x", visibility_timeout=600)
    updated = await queue.update_message(sent, visibility_timeout=500, content="y")
    await queue.delete_message(updated)
    assert await count(queue) == 0


async def test_malformed_receipt(queue):
    sent = await queue.send_message("x")
    async with refused(400, "InvalidQueryParameterValue"):
        await queue.delete_message(sent.id, "invalid")
    assert await texts(queue) == ["x"]


async def test_visibility(queue):
    await queue.send_message("later", visibility_timeout=600)
    await queue.send_message("now")
    assert [message.content async for message in queue.receive_messages(visibility_timeout=1)] == ["now"]
    assert await texts(queue) == []
    assert await count(queue) == 2
    await asyncio.sleep(1.2 + CLOCK_TOLERANCE_SECONDS)
    again = await queue.receive_message()
    assert (again.content, again.dequeue_count) == ("now", 2)


async def test_time_to_live(queue):
    forever = await queue.send_message("x", time_to_live=-1)
    assert forever.expires_on.year == 9999
    hour = await queue.send_message("y", time_to_live=3600)
    assert hour.expires_on - hour.inserted_on == timedelta(hours=1)


@pytest.mark.parametrize("options, code", [
    ({"visibility_timeout": 604801, "time_to_live": -1}, "OutOfRangeQueryParameterValue"),
    ({"time_to_live": -2}, "InvalidQueryParameterValue"),
    ({"time_to_live": 0}, "InvalidQueryParameterValue"),
])
async def test_bad_times(queue, options, code):
    async with refused(400, code):
        await queue.send_message("x", **options)
    assert await count(queue) == 0


@pytest.mark.parametrize("number", [0, 33])
async def test_bad_numbers(queue, number):
    with pytest.raises(Exception) as info:  # The client refuses some of them itself.
        await queue.peek_messages(max_messages=number)
    assert isinstance(info.value, ValueError) or info.value.error_code == "OutOfRangeQueryParameterValue"
    async with refused(400, "OutOfRangeQueryParameterValue"):
        await collect(queue.receive_messages(messages_per_page=number or 33))


@pytest.mark.parametrize("visibility", [0, 604801])
async def test_bad_visibility(queue, visibility):
    async with refused(400, "OutOfRangeQueryParameterValue"):
        await queue.receive_message(visibility_timeout=visibility)


async def test_clear(queue):
    for number in range(10):
        await queue.send_message(str(number))
    message = await queue.receive_message()
    await queue.clear_messages()
    assert await count(queue) == 0
    async with refused(404, "MessageNotFound", ResourceNotFoundError):
        await queue.delete_message(message)


TEXTS = ["", " ", "  two  ", "a\nb", "<a>&amp;</a>", "日本語 🎉 é", '{"json": [1]}', "aGVsbG8=", "]]>", "a" * 65536, "é" * 32768]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
async def test_texts(queue, text):
    await queue.send_message(text)
    assert await texts(queue) == [text]
    message = await queue.receive_message()
    assert message.content == text


async def test_too_large(queue):
    for text in ("a" * 65537, "é" * 32769):
        async with refused(413, "RequestBodyTooLarge"):
            await queue.send_message(text)
    assert await count(queue) == 0


async def test_base64(api, queue):
    encoded = api.queue(
        queue.queue_name, message_encode_policy=TextBase64EncodePolicy(), message_decode_policy=TextBase64DecodePolicy())
    await encoded.send_message("<hé>")
    assert await texts(queue) == ["PGjDqT4="]
    assert (await encoded.receive_message()).content == "<hé>"


async def test_binary(api, queue):
    encoded = api.queue(
        queue.queue_name, message_encode_policy=BinaryBase64EncodePolicy(), message_decode_policy=BinaryBase64DecodePolicy())
    data = bytes(range(256)) * 192
    await encoded.send_message(data)
    assert (await encoded.receive_message()).content == data
    async with refused(413, "RequestBodyTooLarge"):
        await encoded.send_message(data + b"x")
