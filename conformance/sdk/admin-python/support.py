"""A test bench, its admin API with nothing but Python's own library, and clients of the services."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from datetime import datetime, timedelta, timezone

from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import TableClient, TableServiceClient
from azure.storage.blob import ContainerClient
from azure.storage.queue import QueueClient

# This suite is given the program, and starts a server of its own.
PROGRAM = os.environ["TEPUI_ENDPOINT"]
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
CREDENTIAL = {"account_name": ACCOUNT, "account_key": KEY}
# Retries that do not wait, for the clients that are to retry.
RETRIES = {"retry_total": 3, "retry_backoff_factor": 0.01}
NO_RETRIES = {"retry_total": 0}
STORAGE_RETRIES = {"retry_total": 3, "initial_backoff": 0, "increment_base": 0, "random_jitter_range": 0}


def unique_name(prefix="sdk"):
    return f"{prefix}{uuid.uuid4().hex[:20]}"


class Server:
    def __init__(self, directory):
        ports = directory / "ports.json"
        command = [
            PROGRAM, "serve", "--in-memory", "--silent", "--test-bench", "--dev-issuer", "--ports-file", ports,
            "--admin-port", "0", "--blob-port", "0", "--queue-port", "0", "--table-port", "0",
        ]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        until = time.monotonic() + 30
        while not ports.exists():
            assert self.process.poll() is None and time.monotonic() < until, "the server does not start"
            time.sleep(0.01)
        self.ports = json.loads(ports.read_text())
        self.token = self.ports["admin"]["token"]
        self.admin = f"http://127.0.0.1:{self.ports['admin']['port']}/admin/v1"

    def endpoint(self, service):
        return f"http://127.0.0.1:{self.ports[service]['port']}/{ACCOUNT}"

    def stop(self):
        self.process.terminate()
        assert self.process.wait(timeout=30) == 0

    def tables(self):
        return TableServiceClient(self.endpoint("table"), credential=AzureNamedKeyCredential(ACCOUNT, KEY))

    def table(self, name=None, options=NO_RETRIES, create=True):
        credential = AzureNamedKeyCredential(ACCOUNT, KEY)
        client = TableClient(self.endpoint("table"), name or unique_name(), credential=credential, **options)
        if create:
            self.tables().create_table_if_not_exists(client.table_name)
        return client

    def queue(self, name=None, options=NO_RETRIES, create=True):
        client = QueueClient(self.endpoint("queue"), name or unique_name(), credential=CREDENTIAL, **options)
        if create:
            client.create_queue()
        return client

    def container(self, name=None, options=NO_RETRIES, create=True):
        client = ContainerClient(self.endpoint("blob"), name or unique_name(), credential=CREDENTIAL, **options)
        if create:
            client.create_container()
        return client


class AdminError(Exception):
    def __init__(self, status, error):
        super().__init__(f"{status}: {error}")
        self.status = status
        self.code = error["code"]
        self.message = error["message"]


class Admin:
    def __init__(self, server):
        self.url = server.admin
        self.token = server.token

    def open(self, method, path, body=None, headers=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        return urllib.request.urlopen(request, timeout=30)

    def call(self, method, path, body=None, headers=None):
        try:
            with self.open(method, path, body, headers) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise AdminError(error.code, json.load(error)["error"]) from None
        return json.loads(text) if text else None

    def reset(self):
        self.call("DELETE", "/clock")
        self.call("DELETE", "/faults")

    def fault(self, **rule):
        return self.call("POST", "/faults", rule)["id"]

    def hits(self, rule):
        return self.call("GET", f"/faults/{rule}")["hits"]

    def advance(self, seconds):
        return self.call("POST", "/clock/advance", {"seconds": seconds})

    def now(self):
        """The time of the server."""
        text = self.call("GET", "/clock")["now"]
        return datetime.fromisoformat(text[:26]).replace(tzinfo=timezone.utc)

    def later(self, seconds):
        return self.now() + timedelta(seconds=seconds)
