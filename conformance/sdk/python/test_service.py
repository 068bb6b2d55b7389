"""Service properties, stats, the secondary endpoint, and credentials."""

from urllib.parse import urlparse

import pytest
import pytest_asyncio
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import ClientAuthenticationError
from azure.data.tables import TableAnalyticsLogging, TableCorsRule, TableMetrics, TableRetentionPolicy
from support import ACCOUNT, KEY, SECONDARY, WRONG_KEY, collect, entity, refused, row_keys

DAYS = TableRetentionPolicy(enabled=True, days=7)
NO_DAYS = TableRetentionPolicy(enabled=False)
OFF = {
    "analytics_logging": TableAnalyticsLogging(read=False, write=False, delete=False, retention_policy=NO_DAYS),
    "hour_metrics": TableMetrics(enabled=False, retention_policy=NO_DAYS),
    "minute_metrics": TableMetrics(enabled=False, retention_policy=NO_DAYS),
    "cors": [],
}
RULES = [
    TableCorsRule(["http://www.example.com"], ["GET"]),
    TableCorsRule(
        ["http://a.example", "http://b.example"],
        ["GET", "PUT", "MERGE"],
        allowed_headers=["x-ms-meta-data*", "x-ms-meta-abc"],
        exposed_headers=["x-ms-meta-*"],
        max_age_in_seconds=500,
    ),
]


@pytest_asyncio.fixture(autouse=True)
async def everything_off_at_the_end(service):
    yield
    await service.set_service_properties(**OFF)


async def test_properties_are_off(service):
    async def check():
        await service.set_service_properties(**OFF)
        stored = await service.get_service_properties()
        logging = stored["analytics_logging"]
        assert (logging.version, logging.read, logging.write, logging.delete) == ("1.0", False, False, False)
        assert logging.retention_policy.enabled is False
        assert stored["hour_metrics"].enabled is False
        assert stored["minute_metrics"].enabled is False
        assert not stored["cors"]

    await agreeing(check)


async def test_logging(service):
    async def check():
        wanted = TableAnalyticsLogging(read=True, write=True, delete=True, retention_policy=DAYS)
        await service.set_service_properties(analytics_logging=wanted)
        stored = (await service.get_service_properties())["analytics_logging"]
        assert (stored.version, stored.read, stored.write, stored.delete) == ("1.0", True, True, True)
        assert (stored.retention_policy.enabled, stored.retention_policy.days) == (True, 7)

    await agreeing(check)


@pytest.mark.parametrize("which", ["hour_metrics", "minute_metrics"])
async def test_metrics(service, which):
    async def check():
        wanted = TableMetrics(enabled=True, include_apis=True, retention_policy=DAYS)
        await service.set_service_properties(**{which: wanted})
        stored = (await service.get_service_properties())[which]
        assert (stored.version, stored.enabled, stored.include_apis) == ("1.0", True, True)
        assert (stored.retention_policy.enabled, stored.retention_policy.days) == (True, 7)

    await agreeing(check)


async def test_cors_rules(service):
    async def check():
        await service.set_service_properties(cors=RULES)
        stored = (await service.get_service_properties())["cors"]
        assert [vars(rule) for rule in stored] == [vars(rule) for rule in RULES]

    await agreeing(check)


async def test_a_group_left_out_keeps_its_setting(service):
    async def check():
        await service.set_service_properties(**{**OFF, "cors": RULES})
        await service.set_service_properties(hour_metrics=OFF["hour_metrics"])
        assert len((await service.get_service_properties())["cors"]) == 2
        await service.set_service_properties(cors=[])
        assert not (await service.get_service_properties())["cors"]

    await agreeing(check)


BAD_PROPERTIES = {
    "six rules": {"cors": [TableCorsRule(["http://www.example.com"], ["GET"])] * 6},
    "366 days": {"hour_metrics": TableMetrics(
        enabled=True, include_apis=True, retention_policy=TableRetentionPolicy(enabled=True, days=366))},
    "metrics without APIs": {"minute_metrics": TableMetrics(enabled=True, retention_policy=DAYS)},
}


@pytest.mark.parametrize("properties", BAD_PROPERTIES.values(), ids=BAD_PROPERTIES.keys())
async def test_bad_properties(service, properties):
    async with refused(400, "InvalidXmlDocument"):
        await service.set_service_properties(**properties)


async def agreeing(check):
    """The properties belong to the whole account: another run may have written between our two steps."""
    for _ in range(5):
        try:
            return await check()
        except AssertionError as error:
            disagreement = error
    raise disagreement


def secondary(api):
    # For addresses with the account in the path the client makes a wrong secondary address
    # unless its first address is the secondary one already.
    return api.service(SECONDARY, secondary_hostname=urlparse(SECONDARY).netloc)


async def test_stats(api):
    replication = (await secondary(api).get_service_stats())["geo_replication"]
    assert replication["status"] in ("live", "bootstrap", "unavailable")
    assert (replication["last_sync_time"] is not None) == (replication["status"] == "live")


async def test_secondary_is_read_only(api, table):
    await table.create_entity(entity())
    copy = secondary(api).get_table_client(table.table_name)
    assert await row_keys(copy.list_entities()) == ["r"]
    assert await copy.get_entity("p", "r") == entity()
    async with refused(403, "InsufficientAccountPermissions"):
        await copy.create_entity(entity(row="new"))


async def test_wrong_key(api, table):
    stranger = api.table(table.table_name, credential=AzureNamedKeyCredential(ACCOUNT, WRONG_KEY))
    for call in (
        lambda: stranger.get_entity("p", "r"),
        lambda: stranger.upsert_entity(entity()),
        lambda: collect(stranger.list_entities()),
        lambda: stranger.get_table_access_policy(),
    ):
        async with refused(403, "AuthenticationFailed", ClientAuthenticationError):
            await call()
    assert await collect(table.list_entities()) == []


async def test_key_of_another_account(api, table):
    stranger = api.table(table.table_name, credential=AzureNamedKeyCredential("somebodyelse", KEY))
    async with refused(403, "AuthenticationFailed", ClientAuthenticationError):
        await stranger.get_entity("p", "r")


@pytest.mark.parametrize("version", ["2019-02-02", "2019-07-07", "2020-12-06"])
async def test_versions(api, table, version):
    client = api.table(table.table_name, api_version=version)
    assert (await client.create_entity(entity()))["version"] == version
    assert await client.get_entity("p", "r") == entity()
