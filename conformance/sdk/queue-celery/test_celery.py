"""A worker that executes a thousand tasks."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path

import pytest
from azure.storage.queue import QueueServiceClient

TASKS = 1000
LIMIT_SECONDS = 200


@pytest.fixture
def application(tmp_path, monkeypatch):
    monkeypatch.setenv("SUITE_QUEUE", f"celery-{uuid.uuid4().hex[:16]}")
    monkeypatch.setenv("SUITE_NOTES", str(tmp_path / "notes"))
    sys.modules.pop("tasks", None)
    import tasks

    yield tasks
    service = queue_service(tasks)
    for queue in list(service.list_queues(name_starts_with=tasks.QUEUE)):
        service.delete_queue(queue.name)


def queue_service(tasks):
    credential = {"account_name": "devstoreaccount1", "account_key": tasks.KEY}
    return QueueServiceClient(tasks.ENDPOINT, credential=credential)


def executed():
    notes = Path(os.environ["SUITE_NOTES"])
    return notes.read_text().split() if notes.is_file() else []


def test_each_task_once(application):
    queue = queue_service(application).get_queue_client(application.QUEUE)
    with application.app.producer_pool.acquire(block=True) as producer:
        for number in range(TASKS):
            application.note.apply_async((number,), producer=producer)
    assert queue.get_queue_properties().approximate_message_count == TASKS

    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--pool=threads", "--concurrency=4",
         "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=WARNING"],
        cwd=Path(__file__).parent,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + LIMIT_SECONDS
        while len(executed()) < TASKS and time.monotonic() < deadline:
            assert worker.poll() is None, "the worker has ended"
            time.sleep(0.2)
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(timeout=60)

    times = Counter(int(number) for number in executed())
    assert times == dict.fromkeys(range(TASKS), 1)
    assert queue.get_queue_properties().approximate_message_count == 0
