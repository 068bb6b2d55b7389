"""The service: its properties, the account, statistics."""

from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobAnalyticsLogging, CorsRule, Metrics, RetentionPolicy, StaticWebsite
import pytest
from support import SECONDARY


async def test_service_properties(service):
    week = RetentionPolicy(enabled=True, days=7)
    rule = CorsRule(["http://www.example.com"], ["GET", "PUT"], allowed_headers=["x-ms-meta-abc"],
                    exposed_headers=["x-ms-meta-*"], max_age_in_seconds=500)
    try:
        # The properties belong to the whole account: another run may have written between our two steps.
        for _ in range(5):
            await service.set_service_properties(
                BlobAnalyticsLogging(read=True, write=True, delete=True, retention_policy=week),
                Metrics(enabled=True, include_apis=True, retention_policy=week),
                Metrics(enabled=True, include_apis=False, retention_policy=week),
                [rule],
                static_website=StaticWebsite(enabled=True, index_document="index.html", error_document404_path="404.html"),
            )
            found = await service.get_service_properties()
            if len(found["cors"]) == 1 and found["static_website"].enabled:
                break
        assert found["analytics_logging"].read and found["analytics_logging"].retention_policy.days == 7
        assert found["hour_metrics"].include_apis and found["minute_metrics"].enabled
        assert found["cors"][0].allowed_origins == "http://www.example.com"
        assert found["cors"][0].max_age_in_seconds == 500
        assert found["static_website"].index_document == "index.html"
        assert found["static_website"].error_document404_path == "404.html"
        with pytest.raises(HttpResponseError) as info:
            await service.set_service_properties(cors=[rule] * 6)
        assert info.value.status_code == 400
    finally:
        await service.set_service_properties(
            BlobAnalyticsLogging(), Metrics(), Metrics(), [], static_website=StaticWebsite(enabled=False))
    assert (await service.get_service_properties())["analytics_logging"].read is False


async def test_account_information(service, container):
    blob = container.get_blob_client("a")
    for client in (service, container, blob):
        found = await client.get_account_information()
        assert (found["sku_name"], found["account_kind"]) == ("Standard_LRS", "StorageV2")
        assert not found["is_hns_enabled"]


async def test_statistics(api):
    # The client looks for the secondary under another host name, also where the account is in the path.
    service = api.service(SECONDARY, secondary_hostname=SECONDARY.split("/")[2])
    stats = await service.get_service_stats()
    assert stats["geo_replication"]["status"] in ("live", "bootstrap", "unavailable")
