"""The application: a task that writes down that it ran."""

import os

from celery import Celery

KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
ENDPOINT = os.environ["TEPUI_ENDPOINT"].rstrip("/")
QUEUE = os.environ.get("SUITE_QUEUE", "celery")

app = Celery("suite", broker=f"azurestoragequeues://{KEY}@{ENDPOINT}")
app.conf.update(
    task_default_queue=QUEUE,
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    worker_send_task_events=False,
    broker_transport_options={"polling_interval": 0.01},
)


@app.task
def note(number):
    # Lines of one write to a file opened for appending do not mix.
    with open(os.environ["SUITE_NOTES"], "a") as notes:
        notes.write(f"{number}\n")
