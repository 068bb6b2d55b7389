import pytest
import pytest_asyncio

pytest.register_assert_rewrite("clients")
from support import Api, unique_name  # noqa: E402

pytest_plugins = ["clients"]


@pytest.fixture(scope="session")
def api_class():
    return Api


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
