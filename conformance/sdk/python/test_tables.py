"""Create, query and delete tables."""

import random
from string import ascii_lowercase, digits

import pytest
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.data.tables import TableClient
from support import CONNECTION_STRING, CREDENTIAL, ENDPOINT, collect, entity, pages_of, refused, unique_name


async def names_like(service, name):
    return [table.name async for table in service.query_tables("TableName eq @name", parameters={"name": name})]


async def test_created_table_is_listed_until_deleted(service):
    name = unique_name("Mixed")
    table = await service.create_table(name)
    assert table.table_name == name
    assert await names_like(service, name) == [name]
    assert name in [item.name async for item in service.list_tables()]
    await service.delete_table(name)
    assert await names_like(service, name) == []


async def test_table_client_creates_and_deletes_its_table(api, service):
    name = unique_name()
    table = api.table(name)
    assert (await table.create_table()).name == name
    assert await names_like(service, name) == [name]
    await table.delete_table()
    assert await names_like(service, name) == []


async def test_second_create_is_refused(service, table):
    async with refused(409, "TableAlreadyExists", ResourceExistsError):
        await service.create_table(table.table_name)


async def test_names_ignore_case(api, service, table):
    async with refused(409, "TableAlreadyExists", ResourceExistsError):
        await service.create_table(table.table_name.upper())
    await table.create_entity(entity(Value=1))
    assert (await api.table(table.table_name.upper()).get_entity("p", "r"))["Value"] == 1


async def test_create_if_not_exists(service):
    name = unique_name()
    for _ in range(2):
        assert (await service.create_table_if_not_exists(name)).table_name == name
    await service.delete_table(name)


async def test_delete_of_missing_table_is_quiet(service):
    await service.delete_table(unique_name())


async def test_recreated_table_is_empty(service):
    name = unique_name()
    table = await service.create_table(name)
    await table.create_entity(entity())
    await service.delete_table(name)
    async with refused(404, "TableNotFound", ResourceNotFoundError):
        await table.get_entity("p", "r")
    await service.create_table(name)
    assert await collect(table.list_entities()) == []
    await service.delete_table(name)


async def test_delete_spares_tables_with_a_longer_name(service, table):
    longer = await service.create_table(table.table_name + "x")
    await table.create_entity(entity(Value=1))
    await longer.delete_table()
    assert (await table.get_entity("p", "r"))["Value"] == 1


# The client turns the server's code for a bad name into its own ValueError.
@pytest.mark.parametrize("name", ["my_table", "1table", "ab", "a" * 64, "has-dash", "tschüss"])
async def test_bad_names(service, name):
    with pytest.raises(ValueError):
        await service.create_table(name)


@pytest.mark.parametrize("length", [3, 63])
async def test_shortest_and_longest_names(service, length):
    name = random.choice(ascii_lowercase) + "".join(random.choices(ascii_lowercase + digits, k=length - 1))
    await service.create_table(name)
    assert await names_like(service, name) == [name]
    await service.delete_table(name)


async def test_reserved_name(service):
    async with refused(400, "InvalidInput"):
        await service.create_table("Tables")


async def test_tables_are_paged_in_order(service):
    prefix = unique_name()
    names = [f"{prefix}{letter}" for letter in "abcde"]
    for name in reversed(names):
        await service.create_table(name)
    wanted = "TableName ge @first and TableName lt @last"
    query = {"query_filter": wanted, "parameters": {"first": prefix, "last": prefix + "{"}, "results_per_page": 2}

    pages = await pages_of(service.query_tables(**query))
    assert [[table.name for table in page] for page, _ in pages] == [names[0:2], names[2:4], names[4:]]
    assert [bool(token) for _, token in pages] == [True, True, False]

    resumed = await pages_of(service.query_tables(**query), token=pages[0][1])
    assert [table.name for page, _ in resumed for table in page] == names[2:]

    for name in names:
        await service.delete_table(name)


@pytest.mark.parametrize(
    "condition, expected",
    [
        ("TableName eq '{b}'", "b"),
        ("TableName ne '{b}' and TableName ge '{a}' and TableName le '{c}'", "ac"),
        ("TableName gt '{a}' and TableName le '{c}'", "bc"),
        ("TableName eq '{a}' or TableName eq '{c}'", "ac"),
        ("TableName ge '{a}' and TableName le '{c}' and not (TableName eq '{b}')", "ac"),
    ],
)
async def test_table_filters(service, condition, expected):
    prefix = unique_name()
    names = {letter: prefix + letter for letter in "abc"}
    for name in names.values():
        await service.create_table(name)
    found = [table.name async for table in service.query_tables(condition.format(**names))]
    for name in names.values():
        await service.delete_table(name)
    assert found == [names[letter] for letter in expected]


async def test_table_filter_with_bad_syntax(service):
    async with refused(400, "InvalidInput"):
        await collect(service.query_tables("aaa bbb ccc"))


async def test_connection_strings_and_urls_reach_the_same_table(api, table):
    await table.create_entity(entity(Value=7))
    name = table.table_name
    clients = [
        api.from_connection_string(CONNECTION_STRING).get_table_client(name),
        api.table_from_connection_string(CONNECTION_STRING, name),
        api.from_table_url(f"{ENDPOINT}/{name}", credential=CREDENTIAL),
    ]
    for client in clients:
        assert (await client.get_entity("p", "r"))["Value"] == 7


def test_blocking_client_works_in_a_with_block(table):
    """The blocking client as most programs use it, without the face of the other tests."""
    with TableClient.from_connection_string(CONNECTION_STRING, table.table_name) as client:
        client.create_entity(entity(Value=1))
        assert [found["Value"] for found in client.list_entities()] == [1]
