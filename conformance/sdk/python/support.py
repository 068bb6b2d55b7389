"""What the tests of tables share. Some of it is common to all suites and comes from `shared`."""

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.data.tables import TableClient, TableServiceClient
from azure.data.tables import aio
from clients import Clients, collect, refused  # noqa: F401
from server import ACCOUNT, ENDPOINT, KEY, SECONDARY, WRONG_KEY, in_minutes, unique_name  # noqa: F401

CREDENTIAL = AzureNamedKeyCredential(ACCOUNT, KEY)
CONNECTION_STRING = (
    f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};"
    f"TableEndpoint={ENDPOINT};TableSecondaryEndpoint={SECONDARY}"
)


class Api(Clients):
    child = TableClient

    def service(self, endpoint=ENDPOINT, credential=CREDENTIAL, **options):
        return self.keep(self.service_class(endpoint, credential=credential, retry_total=0, **options))

    def table(self, name, endpoint=ENDPOINT, credential=CREDENTIAL, **options):
        return self.keep(self.table_class(endpoint, name, credential=credential, retry_total=0, **options))

    def table_with_sas(self, name, token):
        return self.table(name, credential=AzureSasCredential(token))

    def service_with_sas(self, token):
        return self.service(credential=AzureSasCredential(token))

    def from_connection_string(self, text):
        return self.keep(self.service_class.from_connection_string(text, retry_total=0))

    def table_from_connection_string(self, text, name):
        return self.keep(self.table_class.from_connection_string(text, name, retry_total=0))

    def from_table_url(self, url, **options):
        return self.keep(self.table_class.from_table_url(url, retry_total=0, **options))

    @property
    def service_class(self):
        return TableServiceClient if self.blocking else aio.TableServiceClient

    @property
    def table_class(self):
        return TableClient if self.blocking else aio.TableClient


def entity(partition="p", row="r", **properties):
    return {"PartitionKey": partition, "RowKey": row, **properties}


def properties_of(stored):
    """The entity without its keys."""
    return {name: value for name, value in stored.items() if name not in ("PartitionKey", "RowKey")}


async def row_keys(items):
    return [item["RowKey"] async for item in items]


async def pages_of(items, token=None):
    """Every page as a list, with the token that follows it."""
    pages = items.by_page(token) if token else items.by_page()
    result = []
    async for page in pages:
        result.append((await collect(page), pages.continuation_token))
    return result


async def first_page_of(items, token=None):
    pages = items.by_page(token) if token else items.by_page()
    page = await collect(await pages.__anext__())
    return page, pages.continuation_token
