"""Shared access signatures and stored access policies."""

from datetime import datetime, timezone

import pytest
from azure.storage.queue import (
    AccessPolicy,
    AccountSasPermissions,
    QueueSasPermissions,
    ResourceTypes,
    generate_account_sas,
    generate_queue_sas,
)
from azure.core.credentials import AzureSasCredential
from support import ACCOUNT, KEY, WRONG_KEY, collect, count, in_minutes, refused, texts, unique_name


def queue_sas(queue, permission="raup", key=KEY, **options):
    if "policy_id" not in options:
        options = {"permission": QueueSasPermissions.from_string(permission), "expiry": in_minutes(10), **options}
    return generate_queue_sas(ACCOUNT, queue.queue_name, key, **options)


def account_sas(permission, types):
    return generate_account_sas(
        ACCOUNT, KEY, ResourceTypes.from_string(types), AccountSasPermissions.from_string(permission), in_minutes(10))


def with_token(api, queue, token):
    return api.queue(queue.queue_name, credential=AzureSasCredential(token))


async def update(client, message):
    return await client.update_message(message.id, message.pop_receipt, visibility_timeout=60)


OPERATIONS = {
    "peek": ("r", "r", "o", lambda client, sent: client.peek_messages()),
    "properties": ("r", "r", "c", lambda client, sent: client.get_queue_properties()),
    "put": ("a", "a", "o", lambda client, sent: client.send_message("new")),
    "update": ("u", "u", "o", update),
    "get": ("p", "p", "o", lambda client, sent: client.receive_message()),
    "delete": ("p", "p", "o", lambda client, sent: client.delete_message(sent.id, sent.pop_receipt)),
    "clear": (None, "d", "o", lambda client, sent: client.clear_messages()),
    "set metadata": (None, "w", "c", lambda client, sent: client.set_queue_metadata({"a": "1"})),
}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_rights(api, queue, operation):
    letter, account_letter, types, call = OPERATIONS[operation]
    sent = await queue.send_message("old")
    others = "raup".replace(letter, "") if letter else "raup"
    with pytest.raises(Exception) as info:
        await call(with_token(api, queue, queue_sas(queue, others)), sent)
    assert info.value.status_code == 403
    others = "rwdlacup".replace(account_letter, "")
    async with refused(403, "AuthorizationPermissionMismatch"):
        await call(with_token(api, queue, account_sas(others, "sco")), sent)
    async with refused(403, "AuthorizationResourceTypeMismatch"):
        await call(with_token(api, queue, account_sas("rwdlacup", "sco".replace(types, ""))), sent)
    token = queue_sas(queue, letter) if letter else account_sas(account_letter, types)
    await call(with_token(api, queue, token), sent)


async def test_account_sas_makes_and_lists(api):
    name = unique_name()
    client = api.queue(name, credential=AzureSasCredential(account_sas("cd", "c")))
    await client.create_queue()
    service = api.service(credential=AzureSasCredential(account_sas("l", "s")))
    assert [queue.name for queue in await collect(service.list_queues(name_starts_with=name))] == [name]
    await client.delete_queue()


async def test_policies(api, queue):
    start, expiry = datetime(2026, 1, 1, 12, 10, tzinfo=timezone.utc), datetime(2036, 1, 1, tzinfo=timezone.utc)
    assert await queue.get_queue_access_policy() == {}
    await queue.set_queue_access_policy({
        "reader": AccessPolicy(QueueSasPermissions(read=True), expiry, start),
        "worker": AccessPolicy(QueueSasPermissions(process=True), expiry),
        "empty": AccessPolicy(),
    })
    found = await queue.get_queue_access_policy()
    assert list(found) == ["reader", "worker", "empty"]
    assert found["reader"].permission == "r"
    assert str(found["reader"].expiry).startswith("2036-01-01")

    await queue.send_message("x")
    reader = with_token(api, queue, queue_sas(queue, policy_id="reader"))
    assert await texts(reader) == ["x"]
    async with refused(403, "AuthorizationPermissionMismatch"):
        await reader.receive_message()
    worker = with_token(api, queue, queue_sas(queue, policy_id="worker"))
    await worker.delete_message(await worker.receive_message())
    await queue.set_queue_access_policy({})
    async with refused(403, "AuthenticationFailed"):
        await worker.receive_message()
    assert await count(queue) == 0


REFUSED = {
    "expired": (lambda queue: queue_sas(queue, expiry=in_minutes(-1)), "AuthenticationFailed"),
    "not yet valid": (lambda queue: queue_sas(queue, start=in_minutes(5)), "AuthenticationFailed"),
    "another key": (lambda queue: queue_sas(queue, key=WRONG_KEY), "AuthenticationFailed"),
    "tampered": (lambda queue: queue_sas(queue, "r").replace("sp=r", "sp=rp"), "AuthenticationFailed"),
    "unknown policy": (lambda queue: queue_sas(queue, policy_id="nobody"), "AuthenticationFailed"),
    "https only": (lambda queue: queue_sas(queue, protocol="https"), "AuthorizationProtocolMismatch"),
    "another address": (lambda queue: queue_sas(queue, ip="203.0.113.1"), "AuthorizationSourceIPMismatch"),
}


@pytest.mark.parametrize("make, code", REFUSED.values(), ids=REFUSED.keys())
async def test_refused_tokens(api, queue, make, code):
    async with refused(403, code):
        await with_token(api, queue, make(queue)).receive_message()
