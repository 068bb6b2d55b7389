import pytest

pytest.register_assert_rewrite("support")
from support import connect, unique_name  # noqa: E402


@pytest.fixture(scope="session")
def service():
    return connect()


@pytest.fixture
def table(service):
    """The name of an empty table for one test."""
    name = unique_name()
    service.create_table(name, fail_on_exist=True)
    yield name
    service.delete_table(name)
