"""Entities, their types, queries and pages."""

import math
import uuid
from datetime import datetime, timezone

import pytest
from azure.cosmosdb.table.models import EdmType, EntityProperty, TablePayloadFormat
from support import STALE, entity, properties_of, refused, row_keys, unique_name


def test_insert_and_get(service, table):
    etag = service.insert_entity(table, entity(A="x"))
    stored = service.get_entity(table, "p", "r")
    assert (stored["etag"], properties_of(stored)) == (etag, {"A": "x"})
    with refused(409, "EntityAlreadyExists"):
        service.insert_entity(table, entity())
    with refused(404, "ResourceNotFound"):
        service.get_entity(table, "p", "gone")
    with refused(404, "TableNotFound"):
        service.get_entity(unique_name(), "p", "r")


@pytest.mark.parametrize(
    "write, expected",
    [
        ("merge_entity", {"A": "1", "B": "3"}),
        ("update_entity", {"B": "3"}),
        ("insert_or_merge_entity", {"A": "1", "B": "3"}),
        ("insert_or_replace_entity", {"B": "3"}),
    ],
)
def test_write_over_an_entity(service, table, write, expected):
    before = service.insert_entity(table, entity(A="1", B="2"))
    after = getattr(service, write)(table, entity(B="3"))
    stored = service.get_entity(table, "p", "r")
    assert properties_of(stored) == expected
    assert before != after == stored["etag"]


@pytest.mark.parametrize("write", ["insert_or_merge_entity", "insert_or_replace_entity"])
def test_upsert_inserts(service, table, write):
    getattr(service, write)(table, entity(A="1"))
    assert properties_of(service.get_entity(table, "p", "r")) == {"A": "1"}


@pytest.mark.parametrize("write", ["merge_entity", "update_entity"])
def test_update_under_an_etag(service, table, write):
    update = getattr(service, write)
    with refused(404, "ResourceNotFound"):
        update(table, entity())
    with refused(404, "ResourceNotFound"):
        update(table, entity(), if_match=STALE)
    first = service.insert_entity(table, entity(A="1"))
    second = update(table, entity(A="2"), if_match=first)
    with refused(412, "UpdateConditionNotSatisfied"):
        update(table, entity(A="3"), if_match=first)
    assert properties_of(service.get_entity(table, "p", "r")) == {"A": "2"}
    update(table, entity(A="4"), if_match=second)


def test_delete(service, table):
    stale = service.insert_entity(table, entity())
    service.insert_or_replace_entity(table, entity())
    with refused(412, "UpdateConditionNotSatisfied"):
        service.delete_entity(table, "p", "r", if_match=stale)
    service.delete_entity(table, "p", "r")
    with refused(404, "ResourceNotFound"):
        service.delete_entity(table, "p", "r")


VALUES = {
    "int32": (EntityProperty(EdmType.INT32, -(2**31)), (EdmType.INT32, -(2**31))),
    "int64 smallest": (-(2**63), -(2**63)),
    "int64 largest": (2**63 - 1, 2**63 - 1),
    "boolean": (False, False),
    "double": (0.1 + 0.2, 0.1 + 0.2),
    "double whole": (3.0, 3.0),
    "double huge": (1e308, 1e308),
    "double tiny": (5e-324, 5e-324),
    "double infinity": (math.inf, math.inf),
    "double minus infinity": (-math.inf, -math.inf),
    "string": ("日本 🦀 it's \"\\\n", "日本 🦀 it's \"\\\n"),
    "string empty": ("", ""),
    "guid": (
        EntityProperty(EdmType.GUID, str(uuid.UUID(int=1))), (EdmType.GUID, str(uuid.UUID(int=1)))),
    "binary": (EntityProperty(EdmType.BINARY, b"\x00\xfb\xff"), (EdmType.BINARY, b"\x00\xfb\xff")),
    "datetime": (
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc), datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)),
}  # fmt: skip


@pytest.mark.parametrize("sent, expected", VALUES.values(), ids=VALUES.keys())
def test_values(service, table, sent, expected):
    service.insert_entity(table, entity(Value=sent))
    assert properties_of(service.get_entity(table, "p", "r")) == {"Value": expected}


def test_nan_and_null(service, table):
    service.insert_entity(table, entity(A=math.nan, B=None))
    stored = properties_of(service.get_entity(table, "p", "r"))
    assert list(stored) == ["A"] and math.isnan(stored["A"])


@pytest.mark.parametrize("key", ["", "a b", "it's", '"x"', "100%", "a%20b", "a+b", "a,b=c(d)&e$", "grüße", "日本語", "🦀"])
def test_keys(service, table, key):
    service.insert_entity(table, entity(key, key, A="1"))
    service.merge_entity(table, entity(key, key, B="2"))
    assert properties_of(service.get_entity(table, key, key)) == {"A": "1", "B": "2"}
    quoted = key.replace("'", "''")
    assert len(list(service.query_entities(table, f"PartitionKey eq '{quoted}' and RowKey eq '{quoted}'"))) == 1
    service.delete_entity(table, key, key)
    assert list(service.query_entities(table)) == []


@pytest.mark.parametrize(
    "properties, code",
    [
        ({"A": "x" * 32769}, "PropertyValueTooLarge"),
        ({f"P{number}": "x" * 32768 for number in range(16)}, "EntityTooLarge"),
        ({"RowKey": "a/b"}, "OutOfRangeInput"),
    ],
    ids=["value", "entity", "key"],
)
def test_limits(service, table, properties, code):
    with refused(400, code):
        service.insert_entity(table, {**entity(), **properties})
    assert list(service.query_entities(table)) == []


@pytest.fixture
def filled(service, table):
    number = EntityProperty(EdmType.INT32, 1)
    service.insert_entity(table, entity("a", Int=number, Text="it's", Flag=True))
    service.insert_entity(table, entity("b", Long=9007199254740993, Text="日本", Flag=False))
    service.insert_entity(table, entity("c", "q", When=datetime(2026, 3, 10, tzinfo=timezone.utc), Real=1.5))
    return table


@pytest.mark.parametrize(
    "text, expected",
    [
        (None, "abc"),
        ("PartitionKey eq 'p'", "ab"),
        ("RowKey gt 'a'", "bc"),
        ("Text eq 'it''s' or RowKey eq 'c'", "ac"),
        ("Text eq '日本'", "b"),
        ("Flag eq true", "a"),
        ("Int eq 1", "a"),
        ("Long eq 9007199254740993L", "b"),
        ("When lt datetime'2026-03-11T00:00:00Z'", "c"),
        ("Real gt 1.0", "c"),
        ("not (PartitionKey eq 'p')", "c"),
    ],
)
def test_filters(service, filled, text, expected):
    assert "".join(row_keys(service.query_entities(filled, text))) == expected


def test_bad_filter(service, filled):
    with refused(400, "InvalidInput"):
        list(service.query_entities(filled, "aaa bbb ccc"))


def test_select(service, filled):
    [found] = service.query_entities(filled, "RowKey eq 'a'", select="RowKey,Text,Missing")
    assert (found["RowKey"], properties_of(found)) == ("a", {"Text": "it's", "Missing": None})
    assert "PartitionKey" not in found
    assert found["etag"] == service.get_entity(filled, "p", "a")["etag"]


@pytest.mark.parametrize("level", ["JSON_NO_METADATA", "JSON_MINIMAL_METADATA", "JSON_FULL_METADATA"])
def test_metadata_levels(service, filled, level):
    accept = getattr(TablePayloadFormat, level)
    stored = service.get_entity(filled, "p", "b", accept=accept)
    assert stored["Long"] == ("9007199254740993" if level == "JSON_NO_METADATA" else 9007199254740993)
    assert len(list(service.query_entities(filled, accept=accept))) == 3


def test_pages(service, table):
    rows = [f"r {number:04}" for number in range(2500)]
    for start in range(0, 2500, 100):
        with service.batch(table) as batch:
            for row in rows[start : start + 100]:
                batch.insert_entity(entity(row))
    assert row_keys(service.query_entities(table)) == rows

    first = service.query_entities(table, num_results=900)
    assert row_keys(first) == rows[:900]
    second = service.query_entities(table, num_results=900, marker=first.next_marker)
    assert row_keys(second) == rows[900:1800]
    last = service.query_entities(table, num_results=900, marker=second.next_marker)
    assert row_keys(last) == rows[1800:]
    assert not last.next_marker
    with refused(400, "InvalidInput"):
        list(service.query_entities(table, num_results=1001))
