import pytest
import pytest_asyncio

pytest.register_assert_rewrite("clients")
from support import Api, unique_name  # noqa: E402

pytest_plugins = ["clients"]


@pytest.fixture(scope="session")
def api_class():
    return Api


@pytest_asyncio.fixture
async def container(api):
    """An empty container for one test."""
    container = api.container(unique_name())
    await container.create_container()
    yield container
    await container.delete_container()


@pytest_asyncio.fixture
async def other(api):
    """A second one, to copy to."""
    container = api.container(unique_name())
    await container.create_container()
    yield container
    await container.delete_container()
