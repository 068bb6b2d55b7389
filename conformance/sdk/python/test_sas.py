"""Shared access signatures and stored access policies."""

from datetime import datetime, timezone

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.data.tables import (
    AccountSasPermissions,
    ResourceTypes,
    TableAccessPolicy,
    TableSasPermissions,
    TableTransactionError,
    generate_account_sas,
    generate_table_sas,
)
from support import ACCOUNT, CREDENTIAL, ENDPOINT, WRONG_KEY
from support import collect, entity, in_minutes, refused, row_keys, unique_name

EVERYTHING = ResourceTypes(service=True, container=True, object=True)


def account_sas(permission, types=EVERYTHING, credential=CREDENTIAL, **options):
    options = {"expiry": in_minutes(10), **options}
    return generate_account_sas(credential, types, AccountSasPermissions(**dict.fromkeys(permission, True)), **options)


def table_sas(table, permission="raud", credential=CREDENTIAL, **options):
    if "policy_id" not in options:
        options = {"permission": TableSasPermissions(_str=permission), "expiry": in_minutes(10), **options}
    return generate_table_sas(credential, table.table_name, **options)


OPERATIONS = {
    "query": lambda table: collect(table.query_entities("RowKey eq 'old'")),
    "get": lambda table: table.get_entity("p", "old"),
    "insert": lambda table: table.create_entity(entity(row="new")),
    "upsert merge": lambda table: table.upsert_entity(entity(row="new"), mode="merge"),
    "upsert replace": lambda table: table.upsert_entity(entity(row="new"), mode="replace"),
    "merge": lambda table: table.update_entity(entity(row="old"), mode="merge"),
    "replace": lambda table: table.update_entity(entity(row="old"), mode="replace"),
    "delete": lambda table: table.delete_entity("p", "old"),
    "batch insert": lambda table: table.submit_transaction([("create", entity(row="new"))]),
}
NEEDED = {
    "query": "r", "get": "r", "insert": "a", "upsert merge": "au", "upsert replace": "au",
    "merge": "u", "replace": "u", "delete": "d", "batch insert": "a",
}  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_table_sas_with_just_enough_rights(api, table, operation):
    await table.create_entity(entity(row="old"))
    await OPERATIONS[operation](api.table_with_sas(table.table_name, table_sas(table, NEEDED[operation])))


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_table_sas_without_the_right(api, table, operation):
    await table.create_entity(entity(row="old"))
    for missing in NEEDED[operation]:
        others = "raud".replace(missing, "")
        client = api.table_with_sas(table.table_name, table_sas(table, others))
        async with refused(403, "AuthorizationPermissionMismatch"):
            await OPERATIONS[operation](client)
    assert await row_keys(table.list_entities()) == ["old"]


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_account_sas_with_just_enough_rights(api, table, operation):
    names = {"r": "read", "a": "add", "u": "update", "d": "delete"}
    await table.create_entity(entity(row="old"))
    token = account_sas([names[letter] for letter in NEEDED[operation]], ResourceTypes(object=True))
    await OPERATIONS[operation](api.table_with_sas(table.table_name, token))


async def test_account_sas_for_tables(api):
    name = unique_name()
    containers = ResourceTypes(container=True)
    await api.service_with_sas(account_sas(["create"], containers)).create_table(name)
    found = api.service_with_sas(account_sas(["list"], containers)).query_tables(f"TableName eq '{name}'")
    assert [table.name async for table in found] == [name]
    await api.service_with_sas(account_sas(["delete"], containers)).delete_table(name)


@pytest.mark.parametrize("types, permission, code", [
    (ResourceTypes(object=True), ["list"], "AuthorizationResourceTypeMismatch"),
    (ResourceTypes(container=True), ["read"], "AuthorizationPermissionMismatch"),
])
async def test_account_sas_that_may_not_list_tables(api, types, permission, code):
    async with refused(403, code):
        await collect(api.service_with_sas(account_sas(permission, types)).list_tables())


async def test_account_sas_for_service_properties(api):
    service = api.service_with_sas(account_sas(["read"], ResourceTypes(service=True)))
    assert (await service.get_service_properties())["analytics_logging"].version == "1.0"
    with pytest.raises(HttpResponseError) as info:
        await service.set_service_properties(cors=[])
    assert info.value.status_code == 403


async def test_sas_in_connection_string_and_in_url(api, table):
    await table.create_entity(entity())
    token = table_sas(table, "r")
    in_text = api.table_from_connection_string(
        f"TableEndpoint={ENDPOINT};SharedAccessSignature={token}", table.table_name
    )
    in_url = api.from_table_url(f"{ENDPOINT}/{table.table_name}?{token}")
    for client in (in_text, in_url):
        assert await row_keys(client.list_entities()) == ["r"]


REFUSED_TOKENS = {
    "expired": (lambda table: table_sas(table, expiry=in_minutes(-1)), "AuthenticationFailed"),
    "not yet valid": (
        lambda table: table_sas(table, start=in_minutes(5), expiry=in_minutes(10)), "AuthenticationFailed"),
    "signed with another key": (
        lambda table: table_sas(table, credential=AzureNamedKeyCredential(ACCOUNT, WRONG_KEY)),
        "AuthenticationFailed",
    ),
    "tampered": (lambda table: table_sas(table, "r").replace("sp=r&", "sp=raud&"), "AuthenticationFailed"),
    "unknown policy": (lambda table: table_sas(table, policy_id="nobody"), "AuthenticationFailed"),
    "https only": (lambda table: table_sas(table, protocol="https"), "AuthorizationProtocolMismatch"),
    "another address": (
        lambda table: table_sas(table, ip_address_or_range="203.0.113.1"), "AuthorizationSourceIPMismatch"),
    "expired account token": (lambda table: account_sas(["read"], expiry=in_minutes(-1)), "AuthenticationFailed"),
    "account token for tables only": (
        lambda table: account_sas(["read", "list"], ResourceTypes(container=True)),
        "AuthorizationResourceTypeMismatch",
    ),
}


@pytest.mark.parametrize("make, code", REFUSED_TOKENS.values(), ids=REFUSED_TOKENS.keys())
async def test_refused_tokens(api, table, make, code):
    kind = ClientAuthenticationError if code == "AuthenticationFailed" else HttpResponseError
    async with refused(403, code, kind):
        await collect(api.table_with_sas(table.table_name, make(table)).list_entities())


@pytest.mark.parametrize("options", [
    {"start": in_minutes(-5)},
    {"protocol": "https,http"},
    {"ip_address_or_range": "0.0.0.0-255.255.255.255"},
])
async def test_accepted_options(api, table, options):
    await table.create_entity(entity())
    client = api.table_with_sas(table.table_name, table_sas(table, "r", **options))
    assert await row_keys(client.list_entities()) == ["r"]


async def test_sas_of_another_table(api, service, table):
    other = await service.create_table(unique_name())
    async with refused(403, "AuthorizationFailure"):
        await collect(api.table_with_sas(table.table_name, table_sas(other)).list_entities())
    await other.delete_table()


async def test_sas_ignores_the_case_of_the_table(api, service):
    name = unique_name("Mixed")
    table = await service.create_table(name)
    token = generate_table_sas(CREDENTIAL, name, permission="r", expiry=in_minutes(5))
    assert await collect(api.table_with_sas(name.upper(), token).list_entities()) == []
    await table.delete_table()


async def test_table_sas_reaches_no_other_operation(api, table):
    token = table_sas(table)
    client = api.table_with_sas(table.table_name, token)
    service = api.service_with_sas(token)
    for call in (
        lambda: collect(service.list_tables()),
        lambda: service.create_table(unique_name()),
        lambda: client.delete_table(),
        lambda: client.get_table_access_policy(),
    ):
        with pytest.raises(HttpResponseError) as info:
            await call()
        assert info.value.status_code == 403


ALL = [(partition, row) for partition in ("p1", "p2", "p3") for row in ("a", "b", "c")]
RANGES = {
    "one partition": (dict(start_pk="p2", end_pk="p2"), ALL[3:6]),
    "from a partition on": (dict(start_pk="p2"), ALL[3:]),
    "up to a partition": (dict(end_pk="p2"), ALL[:6]),
    "within a partition": (dict(start_pk="p2", start_rk="b", end_pk="p2", end_rk="b"), ALL[4:5]),
    "across partitions": (dict(start_pk="p1", start_rk="c", end_pk="p2", end_rk="a"), ALL[2:4]),
}


@pytest.mark.parametrize("bounds, inside", RANGES.values(), ids=RANGES.keys())
async def test_key_ranges(api, table, bounds, inside):
    for key in ALL:
        await table.create_entity(entity(*key, A=0))
    client = api.table_with_sas(table.table_name, table_sas(table, **bounds))

    found = await collect(client.list_entities(results_per_page=2))
    assert [(each["PartitionKey"], each["RowKey"]) for each in found] == inside

    for key in ALL:
        if key in inside:
            await client.update_entity(entity(*key, A=1))
            continue
        for call in (
            lambda key=key: client.update_entity(entity(*key, A=1)),
            lambda key=key: client.upsert_entity(entity(*key, A=1)),
            lambda key=key: client.delete_entity(*key),
            lambda key=key: client.get_entity(*key),
        ):
            async with refused(403, "AuthorizationFailure"):
                await call()
    changed = await collect(table.query_entities("A eq 1"))
    assert [(each["PartitionKey"], each["RowKey"]) for each in changed] == inside


async def test_key_range_binds_inserts_and_batches(api, table):
    client = api.table_with_sas(table.table_name, table_sas(table, start_pk="p", start_rk="b", end_pk="p", end_rk="d"))
    await client.create_entity(entity(row="c"))
    async with refused(403, "AuthorizationFailure"):
        await client.create_entity(entity(row="e"))
    async with refused(403, "AuthorizationFailure", TableTransactionError):
        await client.submit_transaction([("create", entity(row="b")), ("create", entity(row="a"))])
    assert await row_keys(table.list_entities()) == ["c"]


START = datetime(2026, 1, 1, 12, 10, tzinfo=timezone.utc)
EXPIRY = datetime(2036, 1, 1, 12, 10, 30, tzinfo=timezone.utc)


async def test_access_policies_round_trip(table):
    assert await table.get_table_access_policy() == {}
    await table.set_table_access_policy(
        {
            "full": TableAccessPolicy(start=START, expiry=EXPIRY, permission="raud"),
            "read": TableAccessPolicy(expiry=EXPIRY, permission="r"),
            "bare": None,
        }
    )
    stored = await table.get_table_access_policy()
    assert list(stored) == ["full", "read", "bare"]
    assert (stored["full"].start, stored["full"].expiry, stored["full"].permission) == (START, EXPIRY, "raud")
    assert (stored["read"].start, stored["read"].expiry, stored["read"].permission) == (None, EXPIRY, "r")
    assert stored["bare"] is None

    await table.set_table_access_policy({"only": TableAccessPolicy(permission="a")})
    assert list(await table.get_table_access_policy()) == ["only"]
    await table.set_table_access_policy({})
    assert await table.get_table_access_policy() == {}


async def test_five_policies_but_not_six(table):
    policies = {f"policy{number}": TableAccessPolicy(expiry=EXPIRY, permission="r") for number in range(5)}
    await table.set_table_access_policy(policies)
    with pytest.raises(ValueError):  # The client's own words for InvalidXmlDocument.
        await table.set_table_access_policy({**policies, "sixth": TableAccessPolicy(expiry=EXPIRY, permission="r")})
    assert list(await table.get_table_access_policy()) == list(policies)


async def test_policy_id_of_65_characters(table):
    await table.set_table_access_policy({"i" * 64: None})
    async with refused(400, "InvalidXmlDocument"):
        await table.set_table_access_policy({"i" * 65: None})
    assert list(await table.get_table_access_policy()) == ["i" * 64]


async def test_policies_of_a_missing_table(api):
    table = api.table(unique_name())
    for call in (table.get_table_access_policy, lambda: table.set_table_access_policy({})):
        with pytest.raises(HttpResponseError) as info:
            await call()
        assert info.value.status_code == 404


async def test_sas_lives_and_dies_with_its_policy(api, table):
    await table.create_entity(entity())
    client = api.table_with_sas(table.table_name, table_sas(table, policy_id="reader"))

    await table.set_table_access_policy({"reader": TableAccessPolicy(expiry=EXPIRY, permission="r")})
    assert await row_keys(client.list_entities()) == ["r"]
    async with refused(403, "AuthorizationPermissionMismatch"):
        await client.create_entity(entity(row="new"))

    await table.set_table_access_policy({"reader": TableAccessPolicy(expiry=in_minutes(-1), permission="r")})
    async with refused(403, "AuthenticationFailed", ClientAuthenticationError):
        await row_keys(client.list_entities())

    await table.set_table_access_policy({})
    async with refused(403, "AuthenticationFailed", ClientAuthenticationError):
        await row_keys(client.list_entities())


async def test_policy_and_token_complete_each_other(api, table):
    await table.set_table_access_policy({"half": TableAccessPolicy(permission="r")})
    token = generate_table_sas(CREDENTIAL, table.table_name, policy_id="half", expiry=in_minutes(5))
    assert await collect(api.table_with_sas(table.table_name, token).list_entities()) == []
    token = generate_table_sas(CREDENTIAL, table.table_name, policy_id="half")
    async with refused(403, "AuthenticationFailed", ClientAuthenticationError):
        await collect(api.table_with_sas(table.table_name, token).list_entities())


async def test_credential_can_be_renewed(api, table):
    await table.create_entity(entity())
    credential = AzureSasCredential(table_sas(table, expiry=in_minutes(-1)))
    client = api.table(table.table_name, credential=credential)
    async with refused(403, "AuthenticationFailed", ClientAuthenticationError):
        await row_keys(client.list_entities())
    credential.update(table_sas(table))
    assert await row_keys(client.list_entities()) == ["r"]
