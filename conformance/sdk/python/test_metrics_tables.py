"""The tables of Storage Analytics, which the client reads like any others."""

import asyncio
import re

import pytest
import pytest_asyncio
from azure.core.exceptions import HttpResponseError
from azure.data.tables import EdmType, TableMetrics, TableRetentionPolicy
from support import collect, entity, refused

HOUR = "$MetricsHourPrimaryTransactionsTable"
ON = TableMetrics(enabled=True, include_apis=True, retention_policy=TableRetentionPolicy(enabled=False))
OFF = TableMetrics(enabled=False, retention_policy=TableRetentionPolicy(enabled=False))
PATIENCE_SECONDS = 30


@pytest_asyncio.fixture
async def hour(service):
    """The table of hours, with rows of this hour. Other suites switch metrics off now and then, too."""
    table = service.get_table_client(HOUR)
    for _ in range(2 * PATIENCE_SECONDS):
        await service.set_service_properties(hour_metrics=ON)
        if len(await collect(table.query_entities("RowKey eq 'user;All' or RowKey eq 'system;All'"))) >= 2:
            break
        await asyncio.sleep(0.5)
    yield table
    await service.set_service_properties(hour_metrics=OFF)


async def test_rows(hour):
    rows = await collect(hour.query_entities("RowKey eq 'user;All'"))
    assert rows
    for row in rows:
        assert re.fullmatch(r"\d{8}T\d{2}00", row["PartitionKey"])
        assert row["TotalRequests"].edm_type == EdmType.INT64
        assert row["TotalRequests"].value >= row["SASSuccess"].value + row["Success"].value
        assert isinstance(row["Availability"], float) and 0 <= row["Availability"] <= 100
        assert len(row) == 2 + 28 + 10
        assert await hour.get_entity(row["PartitionKey"], row["RowKey"]) == row


async def test_pages(hour):
    pages = hour.list_entities(results_per_page=1).by_page()
    first = await collect(await anext(pages))
    second = await collect(await anext(pages))
    assert len(first) == len(second) == 1 and first != second


async def test_old_name(service, hour):
    assert await collect(service.get_table_client("$MetricsTransactionsTable").query_entities("RowKey eq 'user;All'"))


async def test_not_listed(service, hour):
    assert not [table.name async for table in service.list_tables() if table.name.startswith("$")]


async def test_only_the_service_writes(hour):
    row = entity("20260101T0000", "user;All")
    for call in (
        lambda: hour.create_entity(row),
        lambda: hour.upsert_entity(row),
        lambda: hour.update_entity(row),
        lambda: hour.delete_table(),
        lambda: hour.submit_transaction([("upsert", row)]),
    ):
        with pytest.raises(HttpResponseError) as error:
            await call()
        assert (error.value.status_code, "AuthorizationFailure" in str(error.value)) == (403, True), error.value


async def test_rows_are_deleted(hour):
    # Not of this hour, whose rows others look for.
    await hour.delete_entity("19700101T0000", "user;All")
    async with refused(404, "ResourceNotFound"):
        await hour.get_entity("19700101T0000", "user;All")
