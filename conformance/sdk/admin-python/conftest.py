import pytest
from support import Admin, Server


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A test bench for this suite alone: its tests change the clock of all clients."""
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


@pytest.fixture
def admin(server):
    """The admin API, with a clock that runs as the machine's and no faults before and after each test."""
    admin = Admin(server)
    admin.reset()
    yield admin
    admin.reset()
