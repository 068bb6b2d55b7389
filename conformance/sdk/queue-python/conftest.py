import pytest
import pytest_asyncio

pytest.register_assert_rewrite("support")
from support import Api, unique_name  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--client", choices=("sync", "async"), default="sync", help="which kind of client to test")


@pytest_asyncio.fixture(scope="session")
async def api(request):
    api = Api(request.config.getoption("--client"))
    yield api
    await api.close()


@pytest_asyncio.fixture(scope="session")
async def service(api):
    return api.service()


@pytest_asyncio.fixture
async def queue(api):
    """An empty queue for one test."""
    queue = api.queue(unique_name())
    await queue.create_queue()
    yield queue
    await queue.delete_queue()
