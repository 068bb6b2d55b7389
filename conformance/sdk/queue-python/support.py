"""What the tests of queues share. Some of it is common to all suites and comes from `shared`."""

from azure.storage.queue import QueueClient, QueueServiceClient, aio
from clients import Clients, collect, refused  # noqa: F401
from server import ACCOUNT, CLOCK_TOLERANCE_SECONDS, ENDPOINT, KEY, SECONDARY, WRONG_KEY, in_minutes, unique_name  # noqa: F401

CREDENTIAL = {"account_name": ACCOUNT, "account_key": KEY}
CONNECTION_STRING = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};QueueEndpoint={ENDPOINT};"


class Api(Clients):
    child = QueueClient

    def service(self, endpoint=ENDPOINT, credential=CREDENTIAL, **options):
        return self.keep(self.service_class(endpoint, credential=credential, retry_total=0, **options))

    def queue(self, name, endpoint=ENDPOINT, credential=CREDENTIAL, **options):
        return self.keep(self.queue_class(endpoint, name, credential=credential, retry_total=0, **options))

    def from_connection_string(self, text):
        return self.keep(self.service_class.from_connection_string(text, retry_total=0))

    def from_queue_url(self, url, **options):
        return self.keep(self.queue_class.from_queue_url(url, retry_total=0, **options))

    @property
    def service_class(self):
        return QueueServiceClient if self.blocking else aio.QueueServiceClient

    @property
    def queue_class(self):
        return QueueClient if self.blocking else aio.QueueClient


async def count(queue):
    return (await queue.get_queue_properties()).approximate_message_count


async def texts(queue):
    """What is visible, without taking it."""
    return [message.content for message in await queue.peek_messages(max_messages=32)]
