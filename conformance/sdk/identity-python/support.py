"""The clients of all three services with a token, and what they call things."""

import time
import uuid

import requests
from azure.core.credentials import AccessToken
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

ACCOUNT = "devstoreaccount1"
SERVICES = ("table", "queue", "blob")
CLIENTS = {"table": TableServiceClient, "queue": QueueServiceClient, "blob": BlobServiceClient}


class FixedToken:
    """A credential that has one token, whoever asks for what."""

    def __init__(self, token):
        self.token = token
        self.asked = 0

    def get_token(self, *scopes, **options):
        self.asked += 1
        return AccessToken(self.token, int(time.time()) + 3600)


class Server:
    def __init__(self, description):
        self.endpoints = description["endpoints"]
        self.ca = description["ca"]
        self.tokens = description["tokens"]
        self.principals = description["principals"]
        self.admin = description["admin"]

    def client(self, service, token, **options):
        """A client with a token of this name, or with one that is given."""
        credential = token if hasattr(token, "get_token") else FixedToken(self.tokens[token])
        return CLIENTS[service](self.endpoints[service], credential=credential, connection_verify=self.ca, retry_total=0, **options)

    def call_admin(self, method, path, **options):
        headers = {"Authorization": f"Bearer {self.admin['token']}"}
        answer = requests.request(method, f"{self.admin['url']}/admin/v1{path}", headers=headers, verify=self.ca, timeout=10, **options)
        assert answer.status_code < 300, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None


def unique_name():
    return "sdk" + uuid.uuid4().hex[:20]
