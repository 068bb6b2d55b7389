"""Filters, and what they mean for every type."""

import uuid
from datetime import datetime, timedelta, timezone

import pytest
import pytest_asyncio
from azure.data.tables import EdmType, EntityProperty
from support import collect, entity, refused, row_keys, unique_name

FIRST = uuid.UUID("00000000-0000-0000-0000-000000000001")
SECOND = uuid.UUID("f0000000-0000-0000-0000-000000000000")
NOON = datetime(2026, 3, 10, 12, 0, 0, 500000, tzinfo=timezone.utc)
LARGE = 9007199254740993

# One letter per entity, so that an expected result is a short word.
ENTITIES = [
    entity("p1", "a", Int=1, Long=EntityProperty(1, EdmType.INT64), Real=1.5, Flag=True, Text="apple"),
    entity("p1", "b", Int=2, Long=EntityProperty(LARGE, EdmType.INT64), Real=-2.0, Flag=False, Text="Banana"),
    entity("p1", "c", Int=-3, Long=EntityProperty(-LARGE, EdmType.INT64), Real=1e300, Flag=True, Text="it's"),
    entity("p2", "d", When=NOON, Id=FIRST, Data=b"\x01\x02\xff", Text=""),
    entity("p2", "e", When=NOON + timedelta(microseconds=1), Id=SECOND, Data=b"\x01\x02", Text="日本"),
    entity("p2", "f", _under=1, Text="a+b&c=d%20e#f"),
    entity("p3", "g", Mixed=1),
    entity("p3", "h", Mixed="1"),
    entity("p3", "i", Mixed=1.0),
]


@pytest_asyncio.fixture(scope="module")
async def filled(service):
    name = unique_name()
    table = await service.create_table(name)
    for each in ENTITIES:
        await table.create_entity(each)
    yield table
    await service.delete_table(name)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", "abcdefghi"),
        ("PartitionKey eq 'p1'", "abc"),
        ("PartitionKey eq 'p1' and RowKey eq 'b'", "b"),
        ("PartitionKey eq 'p1' and RowKey gt 'a'", "bc"),
        ("PartitionKey eq 'p1' and RowKey ge 'a' and RowKey lt 'c'", "ab"),
        ("PartitionKey gt 'p1' and PartitionKey le 'p3'", "defghi"),
        ("PartitionKey ne 'p2'", "abcghi"),
        ("RowKey eq 'a' or RowKey eq 'i'", "ai"),
        ("'p2' eq PartitionKey", "def"),
        ("2 gt Int", "ac"),
        ("(PartitionKey eq 'p1')and(Int eq 2)", "b"),
        ("PartitionKey eq 'p1' or PartitionKey eq 'p2' and RowKey eq 'd'", "abcd"),
        ("(PartitionKey eq 'p1' or PartitionKey eq 'p2') and RowKey eq 'd'", "d"),
        ("not (PartitionKey eq 'p1')", "defghi"),
        ("PartitionKey eq 'p1' and not (RowKey eq 'a' or RowKey eq 'b')", "c"),
        ("PartitionKey eq 'nowhere'", ""),
        # Every comparison of every type.
        ("Int eq 2", "b"),
        ("Int ne 2", "ac"),
        ("Int lt 1", "c"),
        ("Int le 1", "ac"),
        ("Int gt -3", "ab"),
        ("Int ge -3", "abc"),
        (f"Long eq {LARGE}L", "b"),
        (f"Long eq {LARGE - 1}L", ""),
        ("Long lt 0L", "c"),
        ("Long eq 1", "a"),
        ("Real eq 1.5", "a"),
        ("Real gt 1e299", "c"),
        ("Real lt 0", "b"),
        ("Real eq -2.0", "b"),
        ("Flag eq true", "ac"),
        ("Flag eq false", "b"),
        ("Flag", "ac"),
        ("not Flag and PartitionKey eq 'p1'", "b"),
        ("Text eq 'apple'", "a"),
        ("Text eq 'APPLE'", ""),
        ("Text eq 'it''s'", "c"),
        ("Text eq ''", "d"),
        ("Text eq '日本'", "e"),
        ("Text eq 'a+b&c=d%20e#f'", "f"),
        ("Text ge 'B' and Text lt 'b'", "abf"),
        ("When eq datetime'2026-03-10T12:00:00.5Z'", "d"),
        ("When gt datetime'2026-03-10T12:00:00.5Z'", "e"),
        ("When gt datetime'2026-03-10T12:00:00.5000009Z'", "e"),
        ("When lt datetime'2026-03-10T13:00:00.6+01:00'", "de"),
        (f"Id eq guid'{FIRST}'", "d"),
        (f"Id gt guid'{FIRST}'", "e"),
        ("Data eq X'0102ff'", "d"),
        ("Data eq binary'0102'", "e"),
        ("Data gt X'0102'", "d"),
        ("_under eq 1", "f"),
        # A missing property compares as false, whatever the operator.
        ("Nothing eq 1", ""),
        ("Nothing ne 1", ""),
        ("not (Nothing eq 1)", "abcdefghi"),
        ("not (Int ge -100)", "defghi"),
        # Types are never converted to text or from it, but a constant is widened.
        ("Mixed eq 1", "gi"),
        ("Mixed eq '1'", "h"),
        ("Mixed eq 1.0", "i"),
        ("false", ""),
        ("true", "abcdefghi"),
    ],
)
async def test_filters(filled, text, expected):
    assert "".join(await row_keys(filled.query_entities(text))) == expected


@pytest.mark.parametrize(
    "text, value, expected",
    [
        ("RowKey eq @value", "a", "a"),
        ("Text eq @value", "it's", "c"),
        ("Text eq @value", "日本", "e"),
        ("Int eq @value", 2, "b"),
        ("Long eq @value", LARGE, "b"),
        ("Real ge @value", 1.5, "ac"),
        ("Flag eq @value", False, "b"),
        ("When ge @value", NOON, "de"),
        ("When eq @value", NOON + timedelta(microseconds=1), "e"),
        ("Id eq @value", SECOND, "e"),
        ("Data eq @value", b"\x01\x02\xff", "d"),
    ],
)
async def test_parameters(filled, text, value, expected):
    assert "".join(await row_keys(filled.query_entities(text, parameters={"value": value}))) == expected


@pytest.mark.parametrize(
    "text, status, code",
    [
        ("aaa bbb ccc", 400, "InvalidInput"),
        ("PartitionKey eq", 400, "InvalidInput"),
        ("PartitionKey eq 'p", 400, "InvalidInput"),
        ("(PartitionKey eq 'p'", 400, "InvalidInput"),
        ("Text eq null", 400, "InvalidInput"),
        ("Id eq guid'1'", 400, "InvalidInput"),
        ("startswith(Text,'a')", 501, "NotImplemented"),
        ("Int eq Long", 501, "NotImplemented"),
        ("1 eq 1", 501, "NotImplemented"),
    ],
)
async def test_bad_filters(filled, text, status, code):
    async with refused(status, code):
        await collect(filled.query_entities(text))


async def test_filter_and_select_together(filled):
    found = await collect(filled.query_entities("Int gt 0", select=["RowKey", "Text", "When"]))
    assert found == [
        {"RowKey": "a", "Text": "apple", "When": None},
        {"RowKey": "b", "Text": "Banana", "When": None},
    ]


async def test_filter_by_timestamp(filled):
    first = await filled.get_entity("p1", "a")
    stamp = first.metadata["timestamp"].tables_service_value
    assert "a" in await row_keys(filled.query_entities(f"Timestamp le datetime'{stamp}'"))
    assert "a" not in await row_keys(filled.query_entities(f"Timestamp gt datetime'{stamp}'"))


async def test_many_comparisons(filled):
    text = " or ".join(f"RowKey eq '{letter}'" for letter in "abcdefghijklmnopqrstuvwxyz")
    assert "".join(await row_keys(filled.query_entities(text))) == "abcdefghi"
