"""What the tests share: how to reach the server, entities, and refusals."""

import os
import re
import uuid
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone

import pytest
from azure.common import AzureException, AzureHttpError
from azure.cosmosdb.table.common.retry import no_retry
from azure.cosmosdb.table.tableservice import TableService

ENDPOINT = os.environ["TEPUI_ENDPOINT"].rstrip("/")
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
WRONG_KEY = "d3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmc="
SYSTEM_PROPERTIES = ("PartitionKey", "RowKey", "Timestamp", "etag")
STALE = "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\""


def connect(key=KEY, sas=None):
    secret = f"SharedAccessSignature={sas}" if sas else f"AccountKey={key}"
    service = TableService(
        connection_string=f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};{secret};"
        f"TableEndpoint={ENDPOINT};TableSecondaryEndpoint={ENDPOINT}-secondary"
    )
    service.retry = no_retry
    return service


def unique_name():
    return f"sdk{uuid.uuid4().hex[:20]}"


def entity(row="r", partition="p", **properties):
    return {"PartitionKey": partition, "RowKey": row, **properties}


def properties_of(stored):
    """The entity without its keys and what the server adds. Typed values become pairs."""
    return {
        name: (value.type, value.value) if hasattr(value, "type") else value
        for name, value in stored.items()
        if name not in SYSTEM_PROPERTIES
    }


def row_keys(entities):
    return [found["RowKey"] for found in entities]


def in_minutes(minutes):
    return datetime.now(timezone.utc) + timedelta(minutes=minutes)


@contextmanager
def refused(status, code):
    with pytest.raises(AzureException) as info:
        yield info
    error = info.value
    assert isinstance(error, AzureHttpError), error
    # The client leaves the body of an answer in the text of its error.
    found = re.search(r'"code":"(\w+)"|code>(\w+)<', str(error))
    seen = getattr(error, "code", None) or (found and (found[1] or found[2]))
    assert (error.status_code, seen) == (status, code)
