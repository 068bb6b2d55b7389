"""Every data type there and back, with its edge values."""

import math
import uuid
from datetime import datetime, timedelta, timezone

import pytest
from azure.data.tables import EdmType, EntityProperty
from support import collect, entity, refused

UTC = timezone.utc


def int64(value):
    return EntityProperty(value, EdmType.INT64)


VALUES = {
    "int32 zero": 0,
    "int32 smallest": -(2**31),
    "int32 largest": 2**31 - 1,
    "int64 zero": int64(0),
    "int64 smallest": int64(-(2**63)),
    "int64 largest": int64(2**63 - 1),
    "int64 beyond a double": int64(2**53 + 1),
    "true": True,
    "false": False,
    "double half": 0.5,
    "double whole": 3.0,
    "double large whole": 1e20,
    "double negative": -2.5,
    "double zero": 0.0,
    "double huge": 1e308,
    "double largest": 1.7976931348623157e308,
    "double tiny": 5e-324,
    "double many digits": 0.1 + 0.2,
    "double infinity": math.inf,
    "double minus infinity": -math.inf,
    "guid": uuid.UUID("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"),
    "guid zero": uuid.UUID(int=0),
    "guid ones": uuid.UUID(int=2**128 - 1),
    "binary empty": b"",
    "binary all bytes": bytes(range(256)),
    "binary unpadded": b"\xfb\xff\xfe\x00",
    "string empty": "",
    "string like a number": "12",
    "string like a date": "2026-01-02T03:04:05Z",
    "string like a guid": "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
    "string quotes": "it's \"quoted\" \\ and / slashed",
    "string control characters": "a\tb\nc\r\nd\x01\x1f",
    "string accents": "naïve café ﬁ",
    "string other scripts": "日本語 עברית ไทย",
    "string surrogate pairs": "🦀𝄞👩‍👩‍👧",
    "string markup": "<a href='x'>&amp;</a>]]>",
    "string spaces": "  two  ",
    "datetime first": datetime(1601, 1, 1, tzinfo=UTC),
    "datetime last": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "datetime whole second": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "datetime tenth": datetime(2026, 1, 2, 3, 4, 5, 100000, tzinfo=UTC),
    "datetime microsecond": datetime(2026, 1, 2, 3, 4, 5, 1, tzinfo=UTC),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
async def test_value_round_trip(shared_table, value):
    await shared_table.upsert_entity(entity(row="value", Value=value), mode="replace")
    stored = (await shared_table.get_entity("p", "value"))["Value"]
    assert stored == value
    assert type(stored) is type(value) or isinstance(value, datetime)
    [listed] = await collect(shared_table.query_entities("RowKey eq 'value'"))
    assert listed["Value"] == value


async def test_nan_round_trip(shared_table):
    await shared_table.upsert_entity(entity(row="nan", Value=math.nan))
    assert math.isnan((await shared_table.get_entity("p", "nan"))["Value"])


async def test_all_types_in_one_entity(table):
    body = entity(**{name.title().replace(" ", ""): value for name, value in VALUES.items()})
    await table.create_entity(body)
    assert await table.get_entity("p", "r") == body


@pytest.mark.parametrize(
    "sent, returned",
    [
        ("2026-01-02T03:04:05.1234567Z", "2026-01-02T03:04:05.1234567Z"),
        ("2026-01-02T03:04:05.0000001Z", "2026-01-02T03:04:05.0000001Z"),
        ("2026-01-02T03:04:05.1200000Z", "2026-01-02T03:04:05.12Z"),
        ("2026-01-02T03:04:05.0000000Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05Z"),
        ("9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.9999999Z"),
    ],
)
async def test_datetime_ticks(shared_table, sent, returned):
    await shared_table.upsert_entity(entity(row="ticks", Value=EntityProperty(sent, EdmType.DATETIME)))
    stored = (await shared_table.get_entity("p", "ticks"))["Value"]
    assert stored.tables_service_value == returned
    # What came from the server goes back to it unchanged, though Python has no ticks.
    await shared_table.upsert_entity(entity(row="ticks", Value=stored))
    assert (await shared_table.get_entity("p", "ticks"))["Value"].tables_service_value == returned


async def test_datetime_with_offset_is_stored_as_utc(shared_table):
    local = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=-5)))
    await shared_table.upsert_entity(entity(row="offset", Value=local))
    stored = (await shared_table.get_entity("p", "offset"))["Value"]
    assert (stored, stored.tables_service_value) == (local, "2026-01-02T08:04:05Z")


@pytest.mark.parametrize("edm, sent, returned", [
    (EdmType.INT32, 5, 5),
    (EdmType.BOOLEAN, True, True),
    (EdmType.STRING, "x", "x"),
    (EdmType.DOUBLE, "1.5", 1.5),
    (EdmType.DOUBLE, 3, 3.0),
    (EdmType.GUID, "0A1B2C3D-4E5F-6071-8293-A4B5C6D7E8F9", uuid.UUID("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9")),
])
async def test_explicit_types(shared_table, edm, sent, returned):
    await shared_table.upsert_entity(entity(row="explicit", Value=EntityProperty(sent, edm)), mode="replace")
    stored = (await shared_table.get_entity("p", "explicit"))["Value"]
    assert (type(stored), stored) == (type(returned), returned)


@pytest.mark.parametrize("value", ["1600-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
async def test_datetime_before_the_first(shared_table, value):
    async with refused(400, "OutOfRangeInput"):
        await shared_table.create_entity(entity(row="early", Value=EntityProperty(value, EdmType.DATETIME)))


@pytest.mark.parametrize("edm, value", [
    (EdmType.DATETIME, "yesterday"),
    (EdmType.GUID, "not-a-guid"),
    (EdmType.DOUBLE, "one"),
])
async def test_values_that_do_not_fit_their_type(shared_table, edm, value):
    async with refused(400, "InvalidInput"):
        await shared_table.create_entity(entity(row="wrong", Value=EntityProperty(value, edm)))
