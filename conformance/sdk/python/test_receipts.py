"""Receipts: what the server says about the cost of a request, as a program of this library reads it."""

import pytest
from support import entity, row_keys


def members(header):
    """A dictionary of structured fields, as far as receipts use them."""
    pairs = (member.partition("=") for member in header.split(", "))
    return {key: value if equals else True for key, equals, value in pairs}


class Receipts:
    """A hook that keeps the receipts of the answers it sees. Not a list itself: an empty one is no hook."""

    def __init__(self):
        self.seen = []

    def __call__(self, response):
        header = response.http_response.headers.get("tepui-receipt")
        if header is not None:
            self.seen.append(members(header))


def foreseen(receipt):
    """What a test can know of a receipt before it comes."""
    return {key: value for key, value in receipt.items() if key not in ("bytes", "ms")}


@pytest.mark.parametrize(
    "filter, page_size, expected",
    [
        (
            "PartitionKey eq 'p'",
            None,
            [{"plan": "partition", "ranges": "1", "scanned": "5", "returned": "5", "units": "5"}],
        ),
        (
            "PartitionKey eq 'p' and Number eq 3",
            None,
            [{"plan": "partition", "ranges": "1", "scanned": "5", "returned": "1", "units": "5"}],
        ),
        (
            "PartitionKey eq 'p' and (RowKey eq '1' or RowKey eq '3')",
            None,
            [{"plan": "point", "ranges": "2", "scanned": "2", "returned": "2", "units": "2", "hint": "use-point"}],
        ),
        (
            "",
            3,
            [
                {"plan": "table", "ranges": "1", "scanned": "4", "returned": "3", "units": "4", "more": True},
                {"plan": "table", "ranges": "1", "scanned": "2", "returned": "2", "units": "2"},
            ],
        ),
    ],
)
async def test_queries(table, filter, page_size, expected):
    for number in range(5):
        await table.create_entity(entity(row=str(number), Number=number))
    receipts = Receipts()
    await row_keys(table.query_entities(filter, results_per_page=page_size, raw_response_hook=receipts))
    assert [foreseen(receipt) for receipt in receipts.seen] == expected
    assert all(float(receipt["ms"]) >= 0 and int(receipt["bytes"]) > 0 for receipt in receipts.seen)


async def test_reads_changes_and_batches(table):
    receipts = Receipts()
    await table.create_entity(entity(row="1", Text="x" * 3072), raw_response_hook=receipts)
    await table.get_entity("p", "1", raw_response_hook=receipts)
    changes = [("upsert", entity(row=str(number))) for number in range(100)]
    await table.submit_transaction(changes, raw_response_hook=receipts)
    assert [foreseen(receipt) for receipt in receipts.seen] == [
        {"ranges": "0", "scanned": "0", "returned": "0", "units": "3"},
        {"plan": "point", "ranges": "1", "scanned": "1", "returned": "1", "units": "3"},
        {"ranges": "0", "scanned": "0", "returned": "0", "units": "100", "operations": "100"},
    ]


async def test_server_timing_is_there_when_asked_for(table):
    seen = []

    def hook(response):
        seen.append(response.http_response.headers.get("server-timing"))

    await row_keys(table.list_entities(raw_response_hook=hook))
    await row_keys(table.list_entities(raw_response_hook=hook, headers={"tepui-receipt": "timing"}))
    assert seen[0] is None
    names = [metric.partition(";dur=")[0] for metric in seen[1].split(", ")]
    assert names == ["auth", "body", "plan", "read", "commit", "reply"]
