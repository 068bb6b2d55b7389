"""Delta Lake: tables of Parquet files, whose log rests on writes that happen only if the blob is new."""

import random
import threading

import pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake
from server import ACCOUNT, ENDPOINT, KEY

OPTIONS = {
    "azure_storage_account_name": ACCOUNT, "azure_storage_account_key": KEY, "azure_storage_endpoint": ENDPOINT,
    "azure_allow_http": "true", "max_retries": "0",
}  # fmt: skip


@pytest.fixture
def place(container):
    return f"az://{container.container_name}/dir/table"


def rows(start, count):
    numbers = list(range(start, start + count))
    return pyarrow.table({"number": numbers, "text": [f"row {number} ü" for number in numbers]})


def write(place, data, **options):
    write_deltalake(place, data, storage_options=OPTIONS, **options)


def opened(place, **options):
    return DeltaTable(place, storage_options=OPTIONS, **options)


def numbers(table):
    return sorted(table.to_pyarrow_table()["number"].to_pylist())


def test_write_and_read(place, container):
    write(place, rows(0, 1000))
    table = opened(place)
    assert (table.version(), numbers(table)) == (0, list(range(1000)))
    found = table.to_pyarrow_table().sort_by("number")
    assert found["text"].to_pylist() == rows(0, 1000)["text"].to_pylist()
    names = list(container.list_blob_names())
    assert "dir/table/_delta_log/00000000000000000000.json" in names
    assert len([name for name in names if name.endswith(".parquet")]) == 1


def test_append_and_overwrite(place):
    write(place, rows(0, 10))
    write(place, rows(10, 10), mode="append")
    assert numbers(opened(place)) == list(range(20))
    write(place, rows(100, 5), mode="overwrite")
    assert numbers(opened(place)) == list(range(100, 105))


def test_time_travel(place):
    for step in range(4):
        write(place, rows(step, 1), mode="append")
    for step in range(4):
        assert numbers(opened(place, version=step)) == list(range(step + 1))
    table = opened(place)
    assert [entry["version"] for entry in table.history()] == [3, 2, 1, 0]
    table.restore(1)
    assert numbers(opened(place)) == [0, 1]


def test_large_file(place, container):
    text = pyarrow.table({"number": list(range(30)), "text": [noise(number) for number in range(30)]})
    write(place, text)
    found = opened(place).to_pyarrow_table().sort_by("number")
    assert found.equals(text)
    assert max(blob.size for blob in container.list_blobs()) > 6_000_000


def noise(seed):
    return random.Random(seed).randbytes(150_000).hex()


def test_partitions(place, container):
    data = pyarrow.table({"number": [1, 2, 3, 4], "country": ["de", "de", "fr/x y", "ü"]})
    write(place, data, partition_by=["country"])
    table = opened(place)
    assert sorted(part["country"] for part in table.partitions()) == ["de", "fr/x y", "ü"]
    assert table.to_pyarrow_table(partitions=[("country", "=", "de")])["number"].to_pylist() == [1, 2]
    assert numbers(table) == [1, 2, 3, 4]


def test_delete_and_update(place):
    write(place, rows(0, 10))
    table = opened(place)
    table.delete("number >= 5")
    assert numbers(opened(place)) == [0, 1, 2, 3, 4]
    table.update(updates={"text": "'changed'"}, predicate="number = 2")
    assert opened(place).to_pyarrow_table().sort_by("number")["text"].to_pylist()[1:4] == ["row 1 ü", "changed", "row 3 ü"]


def test_merge(place):
    write(place, rows(0, 5))
    table = opened(place)
    new = pyarrow.table({"number": [3, 100], "text": ["new 3", "new 100"]})
    table.merge(new, "t.number = s.number", source_alias="s", target_alias="t").when_matched_update_all(
    ).when_not_matched_insert_all().execute()  # fmt: skip
    found = opened(place).to_pyarrow_table().sort_by("number").to_pylist()
    assert [row["number"] for row in found] == [0, 1, 2, 3, 4, 100]
    assert found[3]["text"] == "new 3"


def test_compact_and_vacuum(place, container):
    for step in range(5):
        write(place, rows(step, 1), mode="append")
    table = opened(place)
    assert table.optimize.compact()["numFilesRemoved"] == 5
    removed = table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert len(removed) == 5
    parquet = [name for name in container.list_blob_names() if name.endswith(".parquet")]
    assert len(parquet) == 1
    assert numbers(opened(place)) == list(range(5))


def test_checkpoint(place, container):
    for step in range(3):
        write(place, rows(step, 1), mode="append")
    opened(place).create_checkpoint()
    names = list(container.list_blob_names(name_starts_with="dir/table/_delta_log/"))
    assert "dir/table/_delta_log/_last_checkpoint" in names
    write(place, rows(3, 1), mode="append")
    assert numbers(opened(place)) == [0, 1, 2, 3]


def test_many_writers(place):
    """Every writer puts the next file of the log only if it is new, and tries the following one if it is not."""
    write(place, rows(0, 1))
    problems = []

    def append(number):
        try:
            write(place, rows(number, 1), mode="append")
        except Exception as error:  # noqa: BLE001
            problems.append(error)

    writers = [threading.Thread(target=append, args=(number,)) for number in range(1, 9)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert problems == []
    table = opened(place)
    assert (table.version(), numbers(table)) == (8, list(range(9)))


def test_conflict(place):
    write(place, rows(0, 10))
    one, two = opened(place), opened(place)
    one.delete("number = 1")
    with pytest.raises(Exception, match="(?i)conflict|concurrent"):
        two.delete("number = 2")
    assert numbers(opened(place)) == [0, 2, 3, 4, 5, 6, 7, 8, 9]


def test_no_table(place):
    assert not DeltaTable.is_deltatable(place, OPTIONS)
    with pytest.raises(Exception, match="(?i)not a delta table|no files|no snapshot"):
        opened(place)


def test_wrong_key(place):
    write(place, rows(0, 1))
    with pytest.raises(Exception, match="403|(?i:forbidden|authenticat|unauthor)"):
        DeltaTable(place, storage_options={**OPTIONS, "azure_storage_account_key": "d3Jvbmc="})
