"""The rest of the API from Python, and every example of the documentation with curl."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support import ACCOUNT, AdminError

DOCS = Path(__file__).resolve().parents[3] / "docs" / "admin.md"


@pytest.mark.parametrize(
    "headers, status, code",
    [
        ({"Authorization": ""}, 401, "Unauthorized"),
        ({"Authorization": "Bearer 0123456789abcdef0123456789abcdef"}, 401, "Unauthorized"),
        ({"Host": "evil.example.com"}, 403, "UnknownHost"),
        ({"Origin": "http://evil.example.com"}, 403, "ForeignOrigin"),
    ],
)  # fmt: skip
def test_who_may_call(admin, headers, status, code):
    before = admin.call("POST", "/clock/freeze")["now"]
    with pytest.raises(AdminError) as refused:
        admin.call("POST", "/clock/advance", {"seconds": 3600}, headers)
    assert (refused.value.status, refused.value.code) == (status, code)
    assert admin.call("GET", "/clock")["now"] == before


@pytest.mark.parametrize(
    "method, path, body, status",
    [
        ("PUT", "/clock", {"now": "tomorrow"}, 400),
        ("PUT", "/clock", {"now": "2030-01-01", "zone": "UTC"}, 400),
        ("POST", "/clock/advance", {"seconds": -5}, 400),
        ("POST", "/clock", None, 405),
        ("POST", "/faults", {"cut": True, "colour": "red"}, 400),
        ("POST", "/faults", {"error": {"code": "Nonsense"}}, 400),
        ("DELETE", "/faults/99", None, 404),
        ("GET", "/queues/devstoreaccount1/nothing/messages", None, 404),
        ("GET", "/requests?status=red", None, 400),
        ("GET", "/nothing", None, 404),
    ],
)  # fmt: skip
def test_bad_input(admin, method, path, body, status):
    with pytest.raises(AdminError) as refused:
        admin.call(method, path, body)
    assert refused.value.status == status
    assert admin.call("GET", "/faults") == {"faults": []}


def test_messages_are_looked_at_without_a_trace(server, admin):
    queue = server.queue()
    for number in range(5):
        queue.send_message(f"message {number}")
    taken = queue.receive_message(visibility_timeout=300)
    messages, after = [], ""
    while after is not None:
        page = admin.call("GET", f"/queues/{ACCOUNT}/{queue.queue_name}/messages?limit=2{after}")
        messages += page["messages"]
        after = page["next"] and f"&after={page['next']}"
    assert sorted(message["text"] for message in messages) == [f"message {number}" for number in range(5)]
    hidden = [message for message in messages if not message["visible"]]
    assert [(message["id"], message["dequeueCount"]) for message in hidden] == [(taken.id, 1)]
    assert [message.dequeue_count for message in queue.peek_messages(32)] == [0] * 4
    assert queue.receive_message().dequeue_count == 1


def test_requests_are_seen_with_their_receipts(server, admin):
    table = server.table()
    with admin.open("GET", f"/requests?service=table&account={ACCOUNT}") as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        assert stream.readline().startswith(b":")
        table.create_entity({"PartitionKey": "p", "RowKey": "r"})
        list(table.query_entities("PartitionKey eq 'p'"))
        events = []
        while len(events) < 2:
            line = stream.readline()
            if line.startswith(b"data: "):
                events.append(json.loads(line[6:]))
    assert [event["operation"] for event in events] == ["InsertEntity", "QueryEntities"]
    assert (events[1]["status"], events[1]["auth"]) == (200, "key")
    assert (events[1]["receipt"]["plan"], events[1]["receipt"]["scanned"]) == ("partition", 1)
    assert "azsdk-python" in events[0]["userAgent"]


def examples():
    blocks = re.findall(r"^```\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("curl ") and "$AUTH" in line]


def test_every_example_of_the_documentation(server, admin):
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    server.queue("jobs")
    server.table("Orders")
    environment = {
        **os.environ, "ADMIN": server.admin, "AUTH": f"Authorization: Bearer {server.token}", "TOKEN": server.token,
    }  # fmt: skip
    assert len(examples()) >= 15
    for example in examples():
        # Rules are numbered from the first one of the server.
        rules = admin.call("GET", "/faults")["faults"]
        line = example.replace("/faults/1", f"/faults/{rules[0]['id'] if rules else 1}")
        # Assignments have ids of their own.
        assigned = admin.call("GET", "/role-assignments")["roleAssignments"]
        line = line.replace("/role-assignments/7d3f…", f"/role-assignments/{assigned[0]['id'] if assigned else ''}")
        endless = " -N " in line
        line = line.replace("curl ", "curl -sS --fail-with-body " + ("--max-time 1 " if endless else ""), 1)
        done = subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True, timeout=30)
        # 28: it was still listening.
        assert done.returncode == (28 if endless else 0), f"{example}\n{done.stdout}{done.stderr}"
