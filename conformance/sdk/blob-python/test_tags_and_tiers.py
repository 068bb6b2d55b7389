"""Tags, searches by them, and tiers."""

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import StandardBlobTier
from support import collect, names, put, read, refused, unique_name


async def test_tags(container):
    blob = await put(container, "a", tags={"env": "prod", "team": "a/b:c"})
    etag = (await blob.get_blob_properties()).etag
    assert await blob.get_blob_tags() == {"env": "prod", "team": "a/b:c"}
    await blob.set_blob_tags({"env": "test", "empty": ""})
    assert await blob.get_blob_tags() == {"env": "test", "empty": ""}
    found = await blob.get_blob_properties()
    assert (found.tag_count, found.etag) == (2, etag)
    await blob.set_blob_tags({})
    assert await blob.get_blob_tags() == {}
    await blob.set_blob_tags({"k": "v"})
    await blob.upload_blob(b"replaced", overwrite=True)
    assert await blob.get_blob_tags() == {}


@pytest.mark.parametrize("tags", [
    {f"k{number}": "v" for number in range(11)}, {"bad!": "v"}, {"k": "bad<"}, {"k" * 129: "v"}, {"k": "v" * 257},
], ids=["too many", "key", "value", "long key", "long value"])
async def test_bad_tags(container, tags):
    blob = await put(container, "a", tags={"old": "1"})
    with pytest.raises(HttpResponseError) as info:
        await blob.set_blob_tags(tags)
    assert info.value.status_code == 400
    assert await blob.get_blob_tags() == {"old": "1"}


async def test_find(service, container, other):
    mark = unique_name()
    for where, name, number in ((container, "a", "10"), (container, "b", "20"), (other, "c", "30")):
        await put(where, name, tags={"mark": mark, "number": number})
    await put(container, "untagged")
    cases = [
        (f"\"mark\"='{mark}'", ["a", "b", "c"]),
        (f"\"mark\"='{mark}' AND \"number\">'10'", ["b", "c"]),
        (f"\"mark\"='{mark}' AND \"number\">='10' AND \"number\"<'30'", ["a", "b"]),
        (f"@container='{other.container_name}' AND \"mark\"='{mark}'", ["c"]),
        (f"\"mark\"='{mark}' AND \"number\"='x'", []),
    ]
    for expression, wanted in cases:
        found = await collect(service.find_blobs_by_tags(expression))
        assert sorted(each.name for each in found) == wanted, expression
    found = (await collect(service.find_blobs_by_tags(cases[3][0])))[0]
    assert (found.container_name, found.tags) == (other.container_name, {"mark": mark})
    assert [each.name for each in await collect(container.find_blobs_by_tags(cases[0][0]))] == ["a", "b"]
    pages = [
        [each.name async for each in page]
        async for page in container.find_blobs_by_tags(cases[0][0], results_per_page=1).by_page()
    ]
    assert [name for page in pages for name in page] == ["a", "b"]
    async with refused(400, "InvalidQueryParameterValue"):
        await collect(service.find_blobs_by_tags("mark is"))


async def test_conditions_on_tags(container):
    blob = await put(container, "a", tags={"state": "draft"})
    async with refused(412, "ConditionNotMet"):
        await read(blob, if_tags_match_condition="\"state\"='final'")
    async with refused(412, "ConditionNotMet"):
        await blob.delete_blob(if_tags_match_condition="\"state\"<>'draft'")
    assert await read(blob, if_tags_match_condition="\"state\"='draft'") == b"content"
    await blob.delete_blob(if_tags_match_condition="\"state\"='draft'")
    assert await names(container) == []


async def test_condition_beyond_ascii(container):
    """The blocking client sends it in Latin-1, the other one in UTF-8. No tag can be so, but the condition counts."""
    blob = await put(container, "a", tags={"city": "Berlin"})
    with pytest.raises(HttpResponseError) as info:
        await blob.delete_blob(if_tags_match_condition="\"city\"='Köln'")
    assert info.value.status_code in (400, 412)
    assert await blob.get_blob_tags() == {"city": "Berlin"}


async def test_tiers(container):
    blob = await put(container, "a")
    found = await blob.get_blob_properties()
    assert (found.blob_tier, found.blob_tier_inferred) == ("Hot", True)
    for tier in ("Cool", "Cold", "Hot"):
        await blob.set_standard_blob_tier(tier)
        after = await blob.get_blob_properties()
        assert (after.blob_tier, bool(after.blob_tier_inferred), after.etag) == (tier, False, found.etag)
        assert after.blob_tier_change_time
    assert [each.blob_tier async for each in container.list_blobs()] == ["Hot"]
    await put(container, "b", standard_blob_tier=StandardBlobTier.COOL)
    assert (await container.get_blob_client("b").get_blob_properties()).blob_tier == "Cool"
    async with refused(400, "InvalidHeaderValue"):
        await blob.set_standard_blob_tier("Lukewarm")


async def test_archive(container):
    blob = await put(container, "a", b"frozen")
    await blob.set_standard_blob_tier("Archive")
    assert (await blob.get_blob_properties()).blob_tier == "Archive"
    async with refused(409, "BlobArchived"):
        await read(blob)
    await blob.set_standard_blob_tier("Hot", rehydrate_priority="High")
    found = await blob.get_blob_properties()
    # A server may have finished already.
    assert (found.archive_status, found.blob_tier) in (("rehydrate-pending-to-hot", "Archive"), (None, "Hot"))
