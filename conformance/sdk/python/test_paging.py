"""Pages, and continuations that are kept and used later."""

import pytest
import pytest_asyncio
from support import entity, first_page_of, pages_of, refused, unique_name

COUNT = 2500
PARTITIONS = sorted(["p 1", "p'2", "p+3", "p%4", "pé5"])
KEYS = [(partition, f"r{number:04}") for partition in PARTITIONS for number in range(COUNT // len(PARTITIONS))]


def keys_of(page):
    return [(found["PartitionKey"], found["RowKey"]) for found in page]


@pytest_asyncio.fixture(scope="module")
async def filled(service):
    name = unique_name()
    table = await service.create_table(name)
    for start in range(0, COUNT, 100):
        chunk = [entity(*key, Number=start + index) for index, key in enumerate(KEYS[start : start + 100])]
        await table.submit_transaction([("create", each) for each in chunk])
    yield table
    await service.delete_table(name)


@pytest.mark.parametrize(
    "page_size, sizes",
    [
        (None, [1000, 1000, 500]),
        (1000, [1000, 1000, 500]),
        (500, [500] * 5),
        (999, [999, 999, 502]),
    ],
)
async def test_page_sizes(filled, page_size, sizes):
    pages = await pages_of(filled.list_entities(results_per_page=page_size))
    assert [len(page) for page, _ in pages] == sizes
    # No continuation follows the last entity, also when its page is full.
    assert [bool(token) for _, token in pages] == [True] * (len(sizes) - 1) + [False]
    assert [key for page, _ in pages for key in keys_of(page)] == KEYS


async def test_iteration_hides_the_pages(filled):
    numbers = [found["Number"] async for found in filled.list_entities(select="Number")]
    assert numbers == list(range(COUNT))


async def test_another_client_resumes(api, filled):
    seen, token = [], None
    while True:
        client = api.table(filled.table_name)
        page, token = await first_page_of(client.list_entities(results_per_page=700), token)
        seen += keys_of(page)
        if not token:
            break
    assert seen == KEYS


async def test_filtered_pages(filled):
    expected = [key for number, key in enumerate(KEYS) if number >= 1234]
    pages = await pages_of(filled.query_entities("Number ge 1234", results_per_page=300))
    assert [key for page, _ in pages for key in keys_of(page)] == expected
    assert all(len(page) <= 300 for page, _ in pages)


async def test_one_partition(filled):
    query = filled.query_entities("PartitionKey eq @key", parameters={"key": PARTITIONS[1]}, results_per_page=200)
    pages = await pages_of(query)
    assert [len(page) for page, _ in pages] == [200, 200, 100]
    assert [key for page, _ in pages for key in keys_of(page)] == KEYS[500:1000]


async def test_token_outlives_the_entity_it_points_at(table):
    for row in "abcde":
        await table.create_entity(entity(row=row))
    page, token = await first_page_of(table.list_entities(results_per_page=2))
    assert keys_of(page) == [("p", "a"), ("p", "b")]
    await table.delete_entity("p", "c")
    rest = await pages_of(table.list_entities(results_per_page=2), token)
    assert [key for page, _ in rest for key in keys_of(page)] == [("p", "d"), ("p", "e")]


@pytest.mark.parametrize("keys", [["", "a", "b"], ["a b", "c'd", "e%f"], ["é", "日本", "🦀"], ["x", "x+", "x,"]])
async def test_tokens_for_odd_keys(table, keys):
    everything = [(partition, row) for partition in keys for row in keys]
    for key in everything:
        await table.create_entity(entity(*key))
    pages = await pages_of(table.list_entities(results_per_page=1))
    assert [keys_of(page) for page, _ in pages] == [[key] for key in everything]


@pytest.mark.parametrize("page_size", [1001, -1])
async def test_bad_page_sizes(filled, page_size):
    async with refused(400, "InvalidInput"):
        await first_page_of(filled.list_entities(results_per_page=page_size))


async def test_bad_token(filled):
    async with refused(400, "InvalidInput"):
        await first_page_of(filled.list_entities(), {"PartitionKey": "nonsense", "RowKey": "nonsense"})
