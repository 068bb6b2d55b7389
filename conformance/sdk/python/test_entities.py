"""Insert, get, update, upsert and delete one entity."""

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import UpdateMode
from support import collect, entity, properties_of, refused, row_keys, unique_name

MERGE, REPLACE = UpdateMode.MERGE, UpdateMode.REPLACE
STALE = "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\""


async def test_insert_answers_with_the_etag_of_the_entity(table):
    answer = await table.create_entity(entity(Name="x"))
    stored = await table.get_entity("p", "r")
    assert answer["etag"].startswith("W/\"datetime'")
    assert stored.metadata["etag"] == answer["etag"]
    assert stored == entity(Name="x")


@pytest.mark.parametrize("preference", ["return-content", "return-no-content"])
async def test_insert_with_preference(table, preference):
    answer = await table.create_entity(entity(Name="x"), response_preference=preference)
    assert answer["preference_applied"] == preference
    if preference == "return-content":
        assert answer["content"]["Name"] == "x"
    else:
        assert not answer["content"]
    assert (await table.get_entity("p", "r"))["Name"] == "x"


async def test_etag_is_the_timestamp(table):
    """Clients that ask for no metadata rebuild the ETag from the Timestamp."""
    await table.create_entity(entity())
    plain = await table.get_entity("p", "r", headers={"Accept": "application/json;odata=nometadata"})
    usual = await table.get_entity("p", "r")
    assert plain.metadata["etag"] == usual.metadata["etag"]
    await table.update_entity(plain, match_condition=MatchConditions.IfNotModified)


async def test_second_insert_is_refused(table):
    await table.create_entity(entity(Value=1))
    async with refused(409, "EntityAlreadyExists", ResourceExistsError):
        await table.create_entity(entity(Value=2))
    assert (await table.get_entity("p", "r"))["Value"] == 1


@pytest.mark.parametrize(
    "write, mode, expected",
    [
        ("upsert_entity", MERGE, {"A": 1, "B": 3, "C": 4}),
        ("upsert_entity", REPLACE, {"B": 3, "C": 4}),
        ("update_entity", MERGE, {"A": 1, "B": 3, "C": 4}),
        ("update_entity", REPLACE, {"B": 3, "C": 4}),
    ],
)
async def test_write_over_an_entity(table, write, mode, expected):
    before = await table.create_entity(entity(A=1, B=2))
    after = await getattr(table, write)(entity(B=3, C=4), mode=mode)
    stored = await table.get_entity("p", "r")
    assert properties_of(stored) == expected
    assert after["etag"] != before["etag"]
    assert stored.metadata["etag"] == after["etag"]


@pytest.mark.parametrize("mode", [MERGE, REPLACE])
async def test_upsert_inserts_a_missing_entity(table, mode):
    answer = await table.upsert_entity(entity(A=1), mode=mode)
    stored = await table.get_entity("p", "r")
    assert (stored, stored.metadata["etag"]) == (entity(A=1), answer["etag"])


@pytest.mark.parametrize("mode", [MERGE, REPLACE])
async def test_update_of_a_missing_entity(table, mode):
    async with refused(404, "ResourceNotFound", ResourceNotFoundError):
        await table.update_entity(entity(A=1), mode=mode)
    assert await collect(table.list_entities()) == []


@pytest.mark.parametrize("mode", [MERGE, REPLACE])
async def test_update_under_an_etag(table, mode):
    first = (await table.create_entity(entity(A=1)))["etag"]
    same = {"mode": mode, "match_condition": MatchConditions.IfNotModified}
    second = (await table.update_entity(entity(A=2), etag=first, **same))["etag"]
    async with refused(412, "UpdateConditionNotSatisfied", ResourceModifiedError):
        await table.update_entity(entity(A=3), etag=first, **same)
    assert (await table.get_entity("p", "r"))["A"] == 2
    await table.update_entity(entity(A=4), etag=second, **same)
    assert (await table.get_entity("p", "r"))["A"] == 4


async def test_update_uses_the_etag_that_came_with_the_entity(table):
    await table.create_entity(entity(A=1))
    mine, theirs = await table.get_entity("p", "r"), await table.get_entity("p", "r")
    theirs["A"] = 2
    await table.update_entity(theirs, match_condition=MatchConditions.IfNotModified)
    mine["A"] = 3
    async with refused(412, "UpdateConditionNotSatisfied", ResourceModifiedError):
        await table.update_entity(mine, match_condition=MatchConditions.IfNotModified)
    assert (await table.get_entity("p", "r"))["A"] == 2


async def test_etags_from_a_listing_are_good_for_updates(table):
    await table.create_entity(entity(A=1))
    [listed] = await collect(table.list_entities())
    listed["A"] = 2
    await table.update_entity(listed, match_condition=MatchConditions.IfNotModified)
    assert (await table.get_entity("p", "r"))["A"] == 2


async def test_every_write_gives_a_new_etag(table):
    etags = [(await table.upsert_entity(entity(A=1)))["etag"] for _ in range(20)]
    assert len(set(etags)) == 20


async def test_a_missing_entity_wins_over_a_stale_etag(table):
    async with refused(404, "ResourceNotFound", ResourceNotFoundError):
        await table.update_entity(entity(), etag=STALE, match_condition=MatchConditions.IfNotModified)


async def test_delete(table):
    await table.create_entity(entity())
    await table.delete_entity("p", "r")
    async with refused(404, "ResourceNotFound", ResourceNotFoundError):
        await table.get_entity("p", "r")
    await table.delete_entity("p", "r")  # The client hides the 404.


async def test_delete_under_an_etag(table):
    stale = (await table.create_entity(entity(A=1)))["etag"]
    fresh = (await table.upsert_entity(entity(A=2)))["etag"]
    same = {"match_condition": MatchConditions.IfNotModified}
    async with refused(412, "UpdateConditionNotSatisfied", ResourceModifiedError):
        await table.delete_entity("p", "r", etag=stale, **same)
    assert (await table.get_entity("p", "r"))["A"] == 2
    await table.delete_entity("p", "r", etag=fresh, **same)
    assert await collect(table.list_entities()) == []


async def test_delete_by_the_entity_itself(table):
    await table.create_entity(entity())
    await table.delete_entity(await table.get_entity("p", "r"), match_condition=MatchConditions.IfNotModified)
    assert await collect(table.list_entities()) == []


async def test_missing_table(api):
    table = api.table(unique_name())
    calls = {
        "get": lambda: table.get_entity("p", "r"),
        "insert": lambda: table.create_entity(entity()),
        "upsert": lambda: table.upsert_entity(entity()),
        "update": lambda: table.update_entity(entity()),
        "query": lambda: collect(table.list_entities()),
    }
    for call in calls.values():
        async with refused(404, "TableNotFound", ResourceNotFoundError):
            await call()


async def test_nulls_are_not_stored_and_do_not_remove(table):
    await table.create_entity(entity(A=1, B=None))
    assert await table.get_entity("p", "r") == entity(A=1)
    await table.upsert_entity(entity(A=None, C=3), mode=MERGE)
    assert await table.get_entity("p", "r") == entity(A=1, C=3)
    await table.upsert_entity(entity(A=None, C=3), mode=REPLACE)
    assert await table.get_entity("p", "r") == entity(C=3)


async def test_merge_may_change_a_type(table):
    await table.create_entity(entity(A=1))
    await table.update_entity(entity(A="one"))
    assert (await table.get_entity("p", "r"))["A"] == "one"


async def test_property_names_keep_their_case(table):
    await table.create_entity(entity(Birthday=1, birthday=2))
    assert properties_of(await table.get_entity("p", "r")) == {"Birthday": 1, "birthday": 2}


async def test_timestamp_is_the_servers(table):
    await table.create_entity(entity(Timestamp="2001-01-01T00:00:00Z"))
    stored = await table.get_entity("p", "r")
    assert "Timestamp" not in stored
    assert stored.metadata["timestamp"].year > 2020


@pytest.mark.parametrize(
    "select, expected",
    [
        (["A"], {"A": 1}),
        (["PartitionKey", "A"], {"PartitionKey": "p", "A": 1}),
        (["RowKey", "Missing"], {"RowKey": "r", "Missing": None}),
        ("A, B", {"A": 1, "B": "two"}),
        ("*", {"PartitionKey": "p", "RowKey": "r", "A": 1, "B": "two"}),
        (["a"], {"a": None}),
    ],
)
async def test_select(table, select, expected):
    etag = (await table.create_entity(entity(A=1, B="two")))["etag"]
    stored = await table.get_entity("p", "r", select=select)
    [listed] = await collect(table.list_entities(select=select))
    assert (stored, listed) == (expected, expected)
    assert stored.metadata["etag"] == listed.metadata["etag"] == etag


@pytest.mark.parametrize("level", ["nometadata", "minimalmetadata", "fullmetadata"])
async def test_metadata_levels(table, level):
    etag = (await table.create_entity(entity(A=b"bytes")))["etag"]
    accept = {"headers": {"Accept": f"application/json;odata={level}"}}
    [listed] = await collect(table.list_entities(**accept))
    for stored in (await table.get_entity("p", "r", **accept), listed):
        assert stored.metadata["etag"] == etag
        assert stored["A"] == ("Ynl0ZXM=" if level == "nometadata" else b"bytes")
        if level == "fullmetadata":
            assert stored.metadata["type"].endswith(f".{table.table_name}")
            assert stored.metadata["editLink"] == f"{table.table_name}(PartitionKey='p',RowKey='r')"
            assert stored.metadata["id"].endswith("/" + stored.metadata["editLink"])
        else:
            assert "id" not in stored.metadata


KEYS = {
    "empty": "",
    "space": "a b",
    "leading and trailing space": " a ",
    "quote": "it's",
    "only quotes": "''",
    "double quote": 'say "x"',
    "percent": "100%",
    "percent escape": "a%20b%2Fc",
    "plus": "a+b",
    "punctuation": "a,b=c(d)e;f:g@h&i$j!k*l~m|n^o`p[q]r{s}t<u>v",
    "accents": "grüße ñ",
    "other scripts": "日本語 Ελλάδα",
    "outside the basic plane": "🦀𝄞",
    "dots": "..",
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
async def test_keys(table, key):
    both = {"partition": key, "row": key}
    await table.create_entity(entity(**both, A=1))
    assert await table.get_entity(key, key) == entity(**both, A=1)

    wanted = "PartitionKey eq @key and RowKey eq @key"
    assert await row_keys(table.query_entities(wanted, parameters={"key": key})) == [key]

    await table.update_entity(entity(**both, A=2), match_condition=MatchConditions.Unconditionally)
    await table.upsert_entity(entity(**both, B=3), mode=MERGE)
    assert await table.get_entity(key, key) == entity(**both, A=2, B=3)

    await table.submit_transaction([("update", entity(**both, A=4), {"mode": REPLACE})])
    assert await table.get_entity(key, key) == entity(**both, A=4)
    await table.submit_transaction([("delete", entity(**both))])
    assert await collect(table.list_entities()) == []

    await table.upsert_entity(entity(**both))
    await table.delete_entity(key, key)
    assert await collect(table.list_entities()) == []


async def test_entities_are_listed_in_ordinal_order(table):
    keys = ["", "1", "10", "2", "B", "a", "é", "日", "🦀", "\uff5e"]
    for key in reversed(keys):
        await table.create_entity(entity(row=key))
    assert await row_keys(table.list_entities()) == keys


@pytest.mark.parametrize("character", ["/", "\\", "#", "?", "\t", "\n", "\x7f", "\x85"])
@pytest.mark.parametrize("which", ["PartitionKey", "RowKey"])
async def test_forbidden_key_characters(shared_table, which, character):
    async with refused(400, "OutOfRangeInput"):
        await shared_table.create_entity({**entity(), which: f"a{character}b"})


@pytest.mark.parametrize("missing", ["PartitionKey", "RowKey"])
async def test_insert_without_a_key(shared_table, missing):
    body = entity()
    del body[missing]
    with pytest.raises(ValueError, match=missing):  # The client's own words for PropertiesNeedValue.
        await shared_table.create_entity(body)


LIMITS = {
    "key of 512 characters": ({"RowKey": "k" * 512}, None),
    "key of 2048 characters": ({"RowKey": "k" * 2048}, "PropertyValueTooLarge"),
    "string of 32768 characters": ({"A": "x" * 32768}, None),
    "string of 32769 characters": ({"A": "x" * 32769}, "PropertyValueTooLarge"),
    "string of 16384 pairs": ({"A": "🦀" * 16384}, None),
    "string of 16385 pairs": ({"A": "🦀" * 16385}, "PropertyValueTooLarge"),
    "binary of 65536 bytes": ({"A": b"x" * 65536}, None),
    "binary of 65537 bytes": ({"A": b"x" * 65537}, "PropertyValueTooLarge"),
    "252 properties": ({f"P{n}": n for n in range(252)}, None),
    "253 properties": ({f"P{n}": n for n in range(253)}, "TooManyProperties"),
    "name of 255 characters": ({"n" * 255: 1}, None),
    "name of 256 characters": ({"n" * 256: 1}, "PropertyNameTooLong"),
    "entity under 1 MiB": ({f"P{n}": "x" * 32000 for n in range(16)}, None),
    "entity over 1 MiB": ({f"P{n}": "x" * 32768 for n in range(16)}, "EntityTooLarge"),
}


@pytest.mark.parametrize("properties, code", LIMITS.values(), ids=LIMITS.keys())
async def test_limits(table, properties, code):
    body = {**entity(), **properties}
    if code is None:
        await table.create_entity(body)
        assert await table.get_entity("p", body["RowKey"]) == body
    else:
        async with refused(400, code):
            await table.create_entity(body)
        assert await collect(table.list_entities()) == []


async def test_merge_counts_properties_together(table):
    await table.create_entity(entity(**{f"P{n}": n for n in range(200)}))
    async with refused(400, "TooManyProperties"):
        await table.update_entity(entity(**{f"Q{n}": n for n in range(53)}))
    assert len(await table.get_entity("p", "r")) == 202


@pytest.mark.parametrize("name", ["has space", "has-dash", "1first", "a.b"])
async def test_bad_property_names(shared_table, name):
    async with refused(400, "PropertyNameInvalid"):
        await shared_table.create_entity({**entity(), name: 1})
