"""ClickHouse inside Python: tables that are blobs, read and written by the C++ library."""

import chdb
import pytest
from files import SERVICE
from server import ACCOUNT, ENDPOINT, KEY, WRONG_KEY

COLUMNS = "number UInt64, text String"


def connection(key=KEY):
    return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={key};BlobEndpoint={ENDPOINT}/;"


@pytest.fixture
def blob(container):
    """Makes the table function that is a blob, or those that a pattern names."""

    def made(path, form="CSV", columns=COLUMNS, key=KEY):
        return f"azureBlobStorage('{connection(key)}', '{container.container_name}', '{path}', '{form}', 'auto', '{columns}')"

    return made


def run(query):
    """The rows of the answer, all of them text."""
    answer = str(chdb.query(query, "TabSeparated"))
    return [tuple(line.split("\t")) for line in answer.splitlines()]


def fill(table, count, start=0, settings=""):
    run(f"INSERT INTO FUNCTION {table} {settings} SELECT number + {start}, concat('row ', toString(number), ' ü') FROM numbers({count})")


@pytest.mark.parametrize("form", ["CSV", "Parquet", "JSONEachRow", "Native"])
def test_write_and_read(blob, container, form):
    table = blob("dir/rows", form)
    fill(table, 1000)
    assert list(container.list_blob_names()) == ["dir/rows"]
    assert run(f"SELECT count(), sum(number) FROM {table}") == [("1000", "499500")]
    assert run(f"SELECT text FROM {table} WHERE number = 7") == [("row 7 ü",)]


def test_compressed(blob, container):
    table = blob("rows.csv.gz")
    fill(table, 1000)
    assert container.download_blob("rows.csv.gz").readall()[:2] == b"\x1f\x8b"
    assert run(f"SELECT count() FROM {table}") == [("1000",)]


def test_large(blob, container):
    """In several blocks, and read in ranges."""
    table = blob("large.parquet", "Parquet", "number UInt64, noise UInt64")
    run(f"INSERT INTO FUNCTION {table} SELECT number, rand64() FROM numbers(2000000)")
    assert container.get_blob_client("large.parquet").get_blob_properties().size > 8_000_000
    assert run(f"SELECT count(), max(number), uniq(noise) > 1000000 FROM {table}") == [("2000000", "1999999", "1")]
    assert run(f"SELECT number FROM {table} WHERE number = 1234567") == [("1234567",)]


def test_schema(container):
    run(f"INSERT INTO FUNCTION azureBlobStorage('{connection()}', '{container.container_name}', 'a.parquet') SELECT 1 AS x, 'one' AS y")
    place = f"azureBlobStorage('{connection()}', '{container.container_name}', 'a.parquet')"
    assert [row[:2] for row in run(f"DESCRIBE TABLE {place}")] == [("x", "UInt8"), ("y", "String")]


def test_patterns(blob):
    for number in range(4):
        fill(blob(f"part-{number}.csv"), 10, 10 * number)
    assert run(f"SELECT count(), max(number) FROM {blob('part-*.csv')}") == [("40", "39")]
    assert run(f"SELECT count() FROM {blob('part-{1..2}.csv')}") == [("20",)]
    assert run(f"SELECT _file, count() FROM {blob('part-{0,3}.csv')} GROUP BY _file ORDER BY _file") == [
        ("part-0.csv", "10"), ("part-3.csv", "10"),
    ]  # fmt: skip
    assert run(f"SELECT count() FROM {blob('nothing-*.csv')}") == [("0",)]


def test_partitions(blob, container):
    table = blob("by/{_partition_id}.csv")
    run(f"INSERT INTO FUNCTION {table} PARTITION BY number % 3 SELECT number, 'x' FROM numbers(30)")
    assert sorted(container.list_blob_names()) == ["by/0.csv", "by/1.csv", "by/2.csv"]
    assert run(f"SELECT count() FROM {blob('by/*.csv')}") == [("30",)]


def test_replace(blob, container):
    """A blob that exists is not written over unless that is asked for."""
    table = blob("rows.csv")
    fill(table, 10)
    with pytest.raises(Exception, match="(?i)already exists"):
        fill(table, 5)
    assert run(f"SELECT count() FROM {table}") == [("10",)]
    fill(table, 5, settings="SETTINGS azure_truncate_on_insert = 1")
    assert run(f"SELECT count() FROM {table}") == [("5",)]
    fill(table, 7, settings="SETTINGS azure_create_new_file_on_insert = 1")
    assert len(list(container.list_blob_names())) == 2


def test_missing(blob):
    with pytest.raises(Exception, match="404"):
        run(f"SELECT count() FROM {blob('missing.csv')}")


def test_container_is_made(container):
    name = f"{container.container_name}-new"
    place = f"azureBlobStorage('{connection()}', '{name}', 'a.csv', 'CSV', 'auto', '{COLUMNS}')"
    fill(place, 3)
    assert list(SERVICE.get_container_client(name).list_blob_names()) == ["a.csv"]
    SERVICE.delete_container(name)


def test_wrong_key(blob):
    with pytest.raises(Exception, match="(?i)authenticat|403"):
        run(f"SELECT count() FROM {blob('a.csv', key=WRONG_KEY)}")
