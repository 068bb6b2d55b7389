#!/usr/bin/env python3
"""Asks a server with small targets for more than they allow, by the official client for Python with its own retries.

    tepui serve --in-memory --targets conformance/retries.toml
    conformance/retries.py --endpoint http://127.0.0.1:10002/devstoreaccount1

Everything gets through in the end, though much was refused on the way. The client is the one that conformance/sdk/run installs:
.work/sdk/python/venv/bin/python.
"""

import argparse
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

from azure.core.credentials import AzureNamedKeyCredential
from azure.core.pipeline.transport import RequestsTransport
from azure.data.tables import TableServiceClient

KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
CLIENTS = 4
ROUNDS = 3
BATCH = 20


class Counting(RequestsTransport):
    """Sends requests, and counts how they are answered."""

    lock = threading.Lock()
    statuses = {}

    def send(self, request, **options):
        response = super().send(request, **options)
        with self.lock:
            status = response.status_code
            self.statuses[status] = self.statuses.get(status, 0) + 1
        return response


def work(service, table, number):
    client = service.get_table_client(table)
    for turn in range(ROUNDS):
        rows = [f"{number}-{turn}-{row}" for row in range(BATCH)]
        client.submit_transaction([("create", {"PartitionKey": "p", "RowKey": row}) for row in rows])
        client.upsert_entity({"PartitionKey": "p", "RowKey": f"{number}-{turn}-{BATCH}"})
        assert client.get_entity("p", rows[0])["RowKey"] == rows[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoint", required=True, help="of the Table service")
    endpoint = parser.parse_args().endpoint
    credential = AzureNamedKeyCredential("devstoreaccount1", KEY)
    service = TableServiceClient(endpoint, credential=credential, transport=Counting())
    table = "Retries" + uuid.uuid4().hex
    service.create_table(table)
    begun = time.monotonic()
    try:
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda number: work(service, table, number), range(CLIENTS)))
        found = sum(1 for _ in service.get_table_client(table).list_entities())
    finally:
        service.delete_table(table)
    seconds, refused = time.monotonic() - begun, Counting.statuses.get(503, 0)
    expected = CLIENTS * ROUNDS * (BATCH + 1)
    print(f"retries: {found} entities in {seconds:.1f} s, {refused} requests refused, answers {Counting.statuses}")
    assert found == expected, f"{found} entities, not {expected}"
    assert refused > 0, "nothing was refused: does the server have targets?"


if __name__ == "__main__":
    main()
