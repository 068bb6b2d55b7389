"""Queues: their life, metadata, lists, and the properties of the service."""

import pytest
from azure.core.exceptions import ClientAuthenticationError, ResourceExistsError, ResourceNotFoundError
from azure.storage.queue import CorsRule, Metrics, QueueAnalyticsLogging, RetentionPolicy
from support import ACCOUNT, CONNECTION_STRING, ENDPOINT, SECONDARY, WRONG_KEY
from support import collect, count, refused, texts, unique_name


async def test_create_and_delete(api):
    queue = api.queue(unique_name())
    await queue.create_queue()
    assert await count(queue) == 0
    await queue.delete_queue()
    async with refused(404, "QueueNotFound", ResourceNotFoundError):
        await queue.get_queue_properties()
    async with refused(404, "QueueNotFound", ResourceNotFoundError):
        await queue.delete_queue()


async def test_create_again(api):
    queue = api.queue(unique_name())
    await queue.create_queue(metadata={"team": "core"})
    # The client makes a ResourceExistsError of every 204, which is the service's yes to the same metadata.
    async with refused(204, "QueueAlreadyExists", ResourceExistsError):
        await queue.create_queue(metadata={"team": "core"})
    async with refused(409, "QueueAlreadyExists", ResourceExistsError):
        await queue.create_queue()
    async with refused(409, "QueueAlreadyExists", ResourceExistsError):
        await queue.create_queue(metadata={"team": "other"})
    assert (await queue.get_queue_properties()).metadata == {"team": "core"}
    await queue.delete_queue()


async def test_service_makes_queues(service):
    name = unique_name()
    queue = await service.create_queue(name)
    await queue.send_message("a")
    assert await texts(service.get_queue_client(name)) == ["a"]
    await service.delete_queue(name)


@pytest.mark.parametrize("name, code", [
    ("Upper", "InvalidResourceName"), ("a--b", "InvalidResourceName"), ("-abc", "InvalidResourceName"),
    ("under_score", "InvalidResourceName"), ("ab", "OutOfRangeInput"), ("x" * 64, "OutOfRangeInput"),
])
async def test_bad_names(api, name, code):
    async with refused(400, code):
        await api.queue(name).create_queue()


async def test_metadata(queue):
    metadata = {"team": "core", "Zone": "West", "_x1": "two words"}
    await queue.set_queue_metadata(metadata)
    found = (await queue.get_queue_properties()).metadata
    assert found == metadata
    await queue.set_queue_metadata({})
    assert not (await queue.get_queue_properties()).metadata


async def test_bad_metadata(queue):
    async with refused(400, "InvalidMetadata"):
        await queue.set_queue_metadata({"1bad": "x"})
    async with refused(400, "MetadataTooLarge"):
        await queue.set_queue_metadata({"a": "x" * 4000, "b": "x" * 4200})


async def test_list(service):
    prefix = unique_name()
    names = [f"{prefix}-{number}" for number in range(5)]
    for name in reversed(names):
        await service.create_queue(name, metadata={"number": name[-1]})
    found = await collect(service.list_queues(name_starts_with=prefix))
    assert [queue.name for queue in found] == names
    assert not found[0].metadata
    found = await collect(service.list_queues(name_starts_with=prefix, include_metadata=True))
    assert [queue.metadata["number"] for queue in found] == list("01234")
    pages = [
        [queue.name async for queue in page]
        async for page in service.list_queues(name_starts_with=prefix, results_per_page=2).by_page()
    ]
    assert pages == [names[:2], names[2:4], names[4:]]
    for name in names:
        await service.delete_queue(name)
    assert await collect(service.list_queues(name_starts_with=prefix)) == []


async def test_connection_string_and_url(api, queue):
    await queue.send_message("a")
    service = api.from_connection_string(CONNECTION_STRING)
    assert await texts(service.get_queue_client(queue.queue_name)) == ["a"]
    again = api.from_queue_url(queue.url, credential=queue.credential)
    assert await texts(again) == ["a"]
    slashed = api.queue(queue.queue_name, endpoint=ENDPOINT + "/")
    assert await texts(slashed) == ["a"]


async def test_wrong_key(api, queue):
    stranger = api.queue(queue.queue_name, credential={"account_name": ACCOUNT, "account_key": WRONG_KEY})
    async with refused(403, "AuthenticationFailed", ClientAuthenticationError):
        await stranger.get_queue_properties()


async def test_service_properties(service):
    week = RetentionPolicy(enabled=True, days=7)
    rule = CorsRule(["http://www.example.com"], ["GET", "PUT"], allowed_headers=["x-ms-meta-abc"],
                    exposed_headers=["x-ms-meta-*"], max_age_in_seconds=500)
    try:
        # The properties belong to the whole account: another run may have written between our two steps.
        for _ in range(5):
            await service.set_service_properties(
                QueueAnalyticsLogging(read=True, write=True, delete=True, retention_policy=week),
                Metrics(enabled=True, include_apis=True, retention_policy=week),
                Metrics(enabled=True, include_apis=False, retention_policy=week),
                [rule],
            )
            found = await service.get_service_properties()
            if len(found["cors"]) == 1:
                break
        assert found["analytics_logging"].read and found["analytics_logging"].retention_policy.days == 7
        assert found["hour_metrics"].include_apis and found["minute_metrics"].enabled
        assert found["cors"][0].allowed_origins == "http://www.example.com"
        assert found["cors"][0].max_age_in_seconds == 500
        with pytest.raises(Exception) as info:
            await service.set_service_properties(cors=[rule] * 6)
        assert info.value.status_code == 400
    finally:
        await service.set_service_properties(QueueAnalyticsLogging(), Metrics(), Metrics(), [])
    assert (await service.get_service_properties())["analytics_logging"].read is False


async def test_statistics(api):
    # The client looks for the secondary under another host name, also where the account is in the path.
    service = api.service(SECONDARY, secondary_hostname=SECONDARY.split("/")[2])
    stats = await service.get_service_stats()
    assert stats["geo_replication"]["status"] in ("live", "bootstrap", "unavailable")
