"""Tables, service properties and credentials."""

import pytest
from azure.cosmosdb.table.common.models import CorsRule, Logging, Metrics, RetentionPolicy
from support import WRONG_KEY, connect, entity, refused, row_keys, unique_name


def test_table_life(service):
    name = unique_name()
    assert not service.exists(name)
    assert service.create_table(name)
    assert service.exists(name)
    assert not service.create_table(name)
    with refused(409, "TableAlreadyExists"):
        service.create_table(name, fail_on_exist=True)
    assert name in [table.name for table in service.list_tables()]
    assert service.delete_table(name)
    assert not service.delete_table(name)
    with refused(404, "ResourceNotFound"):
        service.delete_table(name, fail_not_exist=True)
    assert name not in [table.name for table in service.list_tables()]


def test_list_tables_with_marker(service):
    names = sorted(unique_name() for _ in range(3))
    for name in names:
        service.create_table(name)
    seen, marker = [], None
    while True:
        page = service.list_tables(num_results=2, marker=marker)
        found = [table.name for table in page]
        assert len(found) <= 2
        seen += found
        marker = page.next_marker
        if not marker:
            break
    assert [name for name in seen if name in names] == names
    for name in names:
        service.delete_table(name)


@pytest.mark.parametrize(
    "name, code", [("my_table", "InvalidResourceName"), ("ab", "OutOfRangeInput"), ("tables", "InvalidInput")]
)
def test_bad_names(service, name, code):
    with refused(400, code):
        service.create_table(name, fail_on_exist=True)


def test_wrong_key(service, table):
    stranger = connect(WRONG_KEY)
    with refused(403, "AuthenticationFailed"):
        stranger.insert_entity(table, entity())
    with refused(403, "AuthenticationFailed"):
        list(stranger.query_entities(table))
    assert list(service.query_entities(table)) == []


def test_service_properties(service):
    week = RetentionPolicy(enabled=True, days=7)
    rule = CorsRule(["http://a.example", "http://b.example"], ["GET", "PUT"], 500, ["x-ms-meta-*"], ["x-ms-meta-abc"])
    # The properties belong to the whole account: another run may have written between our two steps.
    for attempt in range(5):
        service.set_table_service_properties(
            Logging(True, True, True, week), Metrics(True, True, week), Metrics(True, False, week), [rule]
        )
        stored = service.get_table_service_properties()
        if len(stored.cors) == 1 and stored.logging.read:
            break
    service.set_table_service_properties(Logging(), Metrics(), Metrics(), [])
    assert (stored.logging.read, stored.logging.write, stored.logging.delete) == (True, True, True)
    assert (stored.logging.retention_policy.enabled, stored.logging.retention_policy.days) == (True, 7)
    assert (stored.hour_metrics.enabled, stored.hour_metrics.include_apis) == (True, True)
    assert (stored.minute_metrics.enabled, stored.minute_metrics.include_apis) == (True, False)
    assert [vars(found) for found in stored.cors] == [vars(rule)]


def test_stats(service):
    assert service.get_table_service_stats().geo_replication.status in ("live", "bootstrap", "unavailable")


def test_secondary(service, table):
    service.insert_entity(table, entity())
    reader = connect()
    reader.location_mode = "secondary"
    assert row_keys(reader.query_entities(table)) == ["r"]
