"""Batches: all or nothing."""

import pytest
from azure.cosmosdb.table.models import AzureBatchValidationError
from azure.cosmosdb.table.tablebatch import TableBatch
from support import STALE, WRONG_KEY, connect, entity, properties_of, refused, row_keys, unique_name


def batch_of(*operations):
    batch = TableBatch()
    for name, *args in operations:
        getattr(batch, name)(*args)
    return batch


def test_every_kind_of_operation(service, table):
    for row in "abcde":
        service.insert_entity(table, entity(row, A="1", B="1"))
    answers = service.commit_batch(
        table,
        batch_of(
            ("insert_entity", entity("new", A="2")),
            ("merge_entity", entity("a", A="2")),
            ("update_entity", entity("b", A="2")),
            ("insert_or_merge_entity", entity("c", A="2")),
            ("insert_or_replace_entity", entity("d", A="2")),
            ("delete_entity", "p", "e"),
        ),
    )
    stored = {found["RowKey"]: found for found in service.query_entities(table)}
    assert {row: properties_of(found) for row, found in stored.items()} == {
        "a": {"A": "2", "B": "1"},
        "b": {"A": "2"},
        "c": {"A": "2", "B": "1"},
        "d": {"A": "2"},
        "new": {"A": "2"},
    }
    assert answers == [*(stored[row]["etag"] for row in ("new", "a", "b", "c", "d")), None]


def test_hundred_operations(service, table):
    rows = [f"{number:03}" for number in range(100)]
    service.commit_batch(table, batch_of(*(("insert_entity", entity(row)) for row in rows)))
    assert row_keys(service.query_entities(table)) == rows


FAILURES = {
    "insert of an existing entity": (("insert_entity", entity("old")), 409, "EntityAlreadyExists"),
    "merge of a missing entity": (("merge_entity", entity("gone")), 404, "ResourceNotFound"),
    "delete of a missing entity": (("delete_entity", "p", "gone"), 404, "ResourceNotFound"),
    "stale ETag": (("update_entity", entity("old"), STALE), 412, "UpdateConditionNotSatisfied"),
    "value too large": (("insert_entity", entity("big", A="x" * 32769)), 400, "PropertyValueTooLarge"),
    "forbidden key": (("insert_entity", entity("a/b")), 400, "OutOfRangeInput"),
}


@pytest.mark.parametrize("operation, status, code", FAILURES.values(), ids=FAILURES.keys())
def test_fails_as_one(service, table, operation, status, code):
    service.insert_entity(table, entity("old"))
    with refused(status, code) as info:
        service.commit_batch(table, batch_of(("insert_entity", entity("n0")), ("insert_entity", entity("n1")), operation))
    assert str(info.value).startswith("2:")
    assert row_keys(service.query_entities(table)) == ["old"]


def test_missing_table_and_wrong_key(service, table):
    with refused(404, "TableNotFound"):
        service.commit_batch(unique_name(), batch_of(("insert_entity", entity())))
    with refused(403, "AuthenticationFailed"):
        connect(WRONG_KEY).commit_batch(table, batch_of(("insert_entity", entity())))


@pytest.mark.parametrize("second", [entity("a"), entity("b", "q")], ids=["same entity", "other partition"])
def test_what_the_client_checks_itself(second):
    with pytest.raises(AzureBatchValidationError):
        batch_of(("insert_entity", entity("a")), ("insert_entity", second))


def test_odd_keys(service, table):
    for key in ("it's", "a b", "100%", "日本🦀"):
        service.commit_batch(table, batch_of(("insert_entity", entity(key, A="--batch\r\n"))))
        service.commit_batch(table, batch_of(("merge_entity", entity(key, B="2"))))
        assert properties_of(service.get_entity(table, "p", key)) == {"A": "--batch\r\n", "B": "2"}
        service.commit_batch(table, batch_of(("delete_entity", "p", key)))
    assert list(service.query_entities(table)) == []
