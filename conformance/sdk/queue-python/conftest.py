import pytest
import pytest_asyncio

pytest.register_assert_rewrite("clients")
from support import Api, unique_name  # noqa: E402

pytest_plugins = ["clients"]


@pytest.fixture(scope="session")
def api_class():
    return Api


@pytest_asyncio.fixture
async def queue(api):
    """An empty queue for one test."""
    queue = api.queue(unique_name())
    await queue.create_queue()
    yield queue
    await queue.delete_queue()
