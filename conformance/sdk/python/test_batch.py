"""Transactions: all or nothing, with the index of what went wrong."""

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import ClientAuthenticationError
from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import RequestTooLargeError, TableTransactionError, UpdateMode
from support import ACCOUNT, WRONG_KEY, collect, entity, refused, row_keys, unique_name

MERGE, REPLACE = {"mode": UpdateMode.MERGE}, {"mode": UpdateMode.REPLACE}
STALE = "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\""
IF_STALE = {"etag": STALE, "match_condition": MatchConditions.IfNotModified}


async def contents(table):
    return {found["RowKey"]: found.get("A") for found in await collect(table.list_entities())}


async def test_every_kind_of_operation(table):
    for row in "abcdef":
        await table.create_entity(entity(row=row, A=1, B=1))
    answers = await table.submit_transaction(
        [
            ("create", entity(row="new", A=2)),
            ("update", entity(row="a", A=2), MERGE),
            ("update", entity(row="b", A=2), REPLACE),
            ("upsert", entity(row="c", A=2), MERGE),
            ("upsert", entity(row="d", A=2), REPLACE),
            ("upsert", entity(row="other", A=2), MERGE),
            ("delete", entity(row="e")),
        ]
    )
    stored = {found["RowKey"]: found for found in await collect(table.list_entities())}
    assert stored == {
        "a": entity(row="a", A=2, B=1),
        "b": entity(row="b", A=2),
        "c": entity(row="c", A=2, B=1),
        "d": entity(row="d", A=2),
        "f": entity(row="f", A=1, B=1),
        "new": entity(row="new", A=2),
        "other": entity(row="other", A=2),
    }
    etags = [answer.get("etag") for answer in answers]
    assert etags[:6] == [stored[row].metadata["etag"] for row in ("new", "a", "b", "c", "d", "other")]
    assert not etags[6]


async def test_hundred_operations(table):
    rows = [f"{number:03}" for number in range(100)]
    answers = await table.submit_transaction([("create", entity(row=row)) for row in rows])
    assert len(answers) == 100
    assert await row_keys(table.list_entities()) == rows
    await table.submit_transaction([("delete", entity(row=row)) for row in rows])
    assert await row_keys(table.list_entities()) == []


async def test_more_than_a_hundred_operations(table):
    async with refused(400, "InvalidInput", TableTransactionError):
        await table.submit_transaction([("create", entity(row=str(number))) for number in range(101)])
    assert await contents(table) == {}


async def test_empty_transaction(table):
    assert await table.submit_transaction([]) == []


CREATE = [("create", entity(row=row, A=9)) for row in ("n0", "n1", "n2")]
FAILURES = {
    "insert of an existing entity": (("create", entity(row="old")), 409, "EntityAlreadyExists"),
    "update of a missing entity": (("update", entity(row="gone"), MERGE), 404, "ResourceNotFound"),
    "replace of a missing entity": (("update", entity(row="gone"), REPLACE), 404, "ResourceNotFound"),
    "delete of a missing entity": (("delete", entity(row="gone")), 404, "ResourceNotFound"),
    "update under a stale etag": (
        ("update", entity(row="old"), {**MERGE, **IF_STALE}), 412, "UpdateConditionNotSatisfied"),
    "delete under a stale etag": (("delete", entity(row="old"), IF_STALE), 412, "UpdateConditionNotSatisfied"),
    "value too large": (("create", entity(row="big", A="x" * 32769)), 400, "PropertyValueTooLarge"),
    "forbidden key": (("create", entity(row="a/b")), 400, "OutOfRangeInput"),
}


@pytest.mark.parametrize("operation, status, code", FAILURES.values(), ids=FAILURES.keys())
@pytest.mark.parametrize("index", [0, 1, 3])
async def test_failure_names_the_operation_and_applies_nothing(table, operation, status, code, index):
    await table.create_entity(entity(row="old", A=1))
    before = await table.get_entity("p", "old")
    operations = [*CREATE[:index], operation, *CREATE[index:]]
    async with refused(status, code, TableTransactionError) as caught:
        await table.submit_transaction(operations)
    assert caught.error.index == index
    assert caught.error.message.startswith(f"{index}:")
    assert await contents(table) == {"old": 1}
    assert (await table.get_entity("p", "old")).metadata == before.metadata


@pytest.mark.parametrize("operation, status, code", FAILURES.values(), ids=FAILURES.keys())
async def test_failure_of_a_lone_operation(table, operation, status, code):
    await table.create_entity(entity(row="old", A=1))
    async with refused(status, code, TableTransactionError):
        await table.submit_transaction([operation])
    assert await contents(table) == {"old": 1}


@pytest.mark.parametrize("second", ["create", "upsert", "update", "delete"])
async def test_an_entity_appears_once(table, second):
    async with refused(400, "InvalidDuplicateRow", TableTransactionError) as caught:
        await table.submit_transaction(
            [("create", entity(row="a")), ("create", entity(row="b")), (second, entity(row="a"))]
        )
    assert caught.error.index == 2
    assert await contents(table) == {}


async def test_one_partition_only(table):
    with pytest.raises(ValueError):  # The client's own check.
        await table.submit_transaction([("create", entity("p1")), ("create", entity("p2"))])


async def test_transaction_under_fresh_etags(table):
    etag = (await table.create_entity(entity(row="a", A=1)))["etag"]
    same = {"etag": etag, "match_condition": MatchConditions.IfNotModified}
    await table.submit_transaction([("update", entity(row="a", A=2), {**REPLACE, **same})])
    async with refused(412, "UpdateConditionNotSatisfied", TableTransactionError):
        await table.submit_transaction([("delete", entity(row="a"), same)])
    assert await contents(table) == {"a": 2}


async def test_missing_table(api):
    async with refused(404, "TableNotFound", TableTransactionError):
        await api.table(unique_name()).submit_transaction([("create", entity())])


async def test_request_over_4_mib(table):
    body = {f"P{number}": "x" * 32000 for number in range(16)}
    operations = [("create", entity(row=str(row), **body)) for row in range(10)]
    with pytest.raises(RequestTooLargeError):
        await table.submit_transaction(operations)
    assert await contents(table) == {}


async def test_wrong_key(api, table):
    stranger = api.table(table.table_name, credential=AzureNamedKeyCredential(ACCOUNT, WRONG_KEY))
    async with refused(403, "AuthenticationFailed", ClientAuthenticationError):
        await stranger.submit_transaction([("create", entity())])


async def test_odd_text_survives(table):
    texts = {"a": "--changeset\r\n--batch\r\n", "b": "HTTP/1.1 400 Bad Request\r\n\r\n", "c": "日本 🦀 %41 + '"}
    await table.submit_transaction([("create", entity(row=row, A=text)) for row, text in texts.items()])
    assert await contents(table) == texts
