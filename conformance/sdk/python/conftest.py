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
async def table(service):
    """An empty table for one test."""
    name = unique_name()
    yield await service.create_table(name)
    await service.delete_table(name)


@pytest_asyncio.fixture(scope="module")
async def shared_table(service):
    """One table for the tests of a file that keep out of each other's way."""
    name = unique_name()
    yield await service.create_table(name)
    await service.delete_table(name)
