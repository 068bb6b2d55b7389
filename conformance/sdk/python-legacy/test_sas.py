"""Shared access signatures and stored access policies."""

import pytest
from azure.cosmosdb.table.common.models import AccessPolicy, AccountPermissions, ResourceTypes
from azure.cosmosdb.table.models import TablePermissions
from support import connect, entity, in_minutes, refused, row_keys, unique_name

OPERATIONS = {
    "query": ("r", lambda service, table: list(service.query_entities(table))),
    "get": ("r", lambda service, table: service.get_entity(table, "p", "old")),
    "insert": ("a", lambda service, table: service.insert_entity(table, entity("new"))),
    "merge": ("u", lambda service, table: service.merge_entity(table, entity("old"))),
    "upsert": ("au", lambda service, table: service.insert_or_merge_entity(table, entity("new"))),
    "delete": ("d", lambda service, table: service.delete_entity(table, "p", "old")),
}


def table_sas(service, table, permission="raud", **options):
    options = {"expiry": in_minutes(10), **options}
    token = service.generate_table_shared_access_signature(table, TablePermissions(_str=permission), **options)
    return connect(sas=token)


def account_sas(service, permission, types, **options):
    options = {"expiry": in_minutes(10), **options}
    token = service.generate_account_shared_access_signature(
        ResourceTypes(_str=types), AccountPermissions(_str=permission), **options
    )
    return connect(sas=token)


@pytest.mark.parametrize("needed, call", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_table_rights(service, table, needed, call):
    service.insert_entity(table, entity("old"))
    for missing in needed:
        with refused(403, "AuthorizationPermissionMismatch"):
            call(table_sas(service, table, "raud".replace(missing, "")), table)
    call(table_sas(service, table, needed), table)


@pytest.mark.parametrize("needed, call", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_account_rights(service, table, needed, call):
    service.insert_entity(table, entity("old"))
    with refused(403, "AuthorizationPermissionMismatch"):
        call(account_sas(service, "wl", "o"), table)
    with refused(403, "AuthorizationResourceTypeMismatch"):
        call(account_sas(service, "raud", "sc"), table)
    call(account_sas(service, needed, "o"), table)


@pytest.mark.parametrize(
    "options, code",
    [
        ({"expiry": in_minutes(-1)}, "AuthenticationFailed"),
        ({"start": in_minutes(5)}, "AuthenticationFailed"),
        ({"protocol": "https"}, "AuthorizationProtocolMismatch"),
        ({"ip": "203.0.113.1"}, "AuthorizationSourceIPMismatch"),
    ],
    ids=["expired", "not yet valid", "https only", "another address"],
)
def test_refused_tokens(service, table, options, code):
    with refused(403, code):
        list(table_sas(service, table, "r", **options).query_entities(table))


def test_sas_of_another_table(service, table):
    with refused(403, "AuthorizationFailure"):
        list(table_sas(service, unique_name()).query_entities(table))


def test_key_range(service, table):
    for key in (("a", "p1"), ("b", "p1"), ("a", "p2"), ("b", "p2")):
        service.insert_entity(table, entity(*key))
    limited = table_sas(service, table, start_pk="p1", start_rk="b", end_pk="p2", end_rk="a")
    assert [(found["PartitionKey"], found["RowKey"]) for found in limited.query_entities(table)] == [("p1", "b"), ("p2", "a")]
    limited.insert_or_replace_entity(table, entity("b", "p1"))
    with refused(403, "AuthorizationFailure"):
        limited.insert_or_replace_entity(table, entity("b", "p2"))
    with refused(403, "AuthorizationFailure"):
        limited.delete_entity(table, "p1", "a")


def test_access_policies(service, table):
    service.insert_entity(table, entity())
    assert service.get_table_acl(table) == {}
    service.set_table_acl(table, {"reader": AccessPolicy(TablePermissions.QUERY, in_minutes(10)), "bare": AccessPolicy()})
    stored = service.get_table_acl(table)
    assert list(stored) == ["reader", "bare"]
    assert str(stored["reader"].permission) == "r"

    token = service.generate_table_shared_access_signature(table, id="reader")
    reader = connect(sas=token)
    assert row_keys(reader.query_entities(table)) == ["r"]
    with refused(403, "AuthorizationPermissionMismatch"):
        reader.insert_entity(table, entity("new"))
    service.set_table_acl(table)
    with refused(403, "AuthenticationFailed"):
        list(reader.query_entities(table))
