"""What the tests share: a connection, entities, and refusals."""

import re
from contextlib import contextmanager

import pytest
from azure.common import AzureException, AzureHttpError
from azure.cosmosdb.table.common.retry import no_retry
from azure.cosmosdb.table.tableservice import TableService
from server import ACCOUNT, ENDPOINT, KEY, SECONDARY, WRONG_KEY, in_minutes, unique_name  # noqa: F401

SYSTEM_PROPERTIES = ("PartitionKey", "RowKey", "Timestamp", "etag")
STALE = "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\""


def connect(key=KEY, sas=None):
    secret = f"SharedAccessSignature={sas}" if sas else f"AccountKey={key}"
    service = TableService(
        connection_string=f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};{secret};"
        f"TableEndpoint={ENDPOINT};TableSecondaryEndpoint={SECONDARY}"
    )
    service.retry = no_retry
    return service


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
