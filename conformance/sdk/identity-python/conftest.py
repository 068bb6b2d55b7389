import json
import os
from pathlib import Path

import pytest
from support import Server


@pytest.fixture(scope="session")
def server():
    """The server that conformance/identity/run has started: addresses, the certificate authority, and tokens by what they are for."""
    return Server(json.loads(Path(os.environ["TEPUI_ENDPOINT"]).read_text()))


def pytest_generate_tests(metafunc):
    if "refused" in metafunc.fixturenames:
        cases = json.loads(Path(os.environ["TEPUI_ENDPOINT"]).read_text())["refused"]
        metafunc.parametrize("refused", cases, ids=[case["name"] for case in cases])
