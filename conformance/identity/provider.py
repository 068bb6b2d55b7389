"""An OpenID provider that can be stopped, started and told to take new keys: `provider.mjs`, from Python.

    with Provider(folder, secure=True) as provider:
        token = provider.token("https://storage.azure.com", "RS256")
        provider.rotate()
"""

import base64
import datetime
import ipaddress
import json
import os
import ssl
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path

import tools
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HERE = Path(__file__).resolve().parent
SECRET = "a secret of tests, which is long enough"
ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA")
LIMIT_SECONDS = 20


class Provider:
    """A provider on a free port of this machine, over TLS with an authority of its own if it is to be `secure`."""

    def __init__(self, folder, secure=False):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.process = None
        self.port = 0
        self.ca_file = write_certificates(self.folder) if secure else None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        """Starts it, at the same place as before."""
        command = ["node", HERE / "provider.mjs", "--keys", self.folder / "keys.json", "--port", str(self.port)]
        if self.ca_file:
            command += ["--cert", self.folder / "server.pem", "--key", self.folder / "server-key.pem"]
        with open(self.folder / "provider.log", "ab") as log:
            self.process = subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                env={**os.environ, "PROVIDER_MODULES": str(tools.WORK)},
            )  # fmt: skip
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the provider does not start, see {self.folder / 'provider.log'}")
        self.issuer = json.loads(line)["issuer"]
        self.port = urllib.parse.urlsplit(self.issuer).port

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process = None

    def rotate(self):
        """New keys sign from now on; the old ones stay known."""
        self.post("/control/rotate", b"")

    def forget(self):
        """Only the keys that sign stay known."""
        self.post("/control/forget", b"")

    def token(self, audience, algorithm="RS256"):
        """A token of the client that has this algorithm."""
        credentials = f"app-{algorithm}:{urllib.parse.quote_plus(SECRET)}"
        body = {"grant_type": "client_credentials", "resource": audience, "scope": "storage"}
        answer = self.post(
            "/token", urllib.parse.urlencode(body).encode(),
            Authorization="Basic " + base64.b64encode(credentials.encode()).decode(),
        )  # fmt: skip
        return json.loads(answer)["access_token"]

    def post(self, path, body, **headers):
        context = ssl.create_default_context(cafile=self.ca_file) if self.ca_file else None
        request = urllib.request.Request(self.issuer + path, body, headers)
        with urllib.request.build_opener(
            urllib.request.ProxyHandler({}), *([urllib.request.HTTPSHandler(context=context)] if context else [])
        ).open(request, timeout=LIMIT_SECONDS) as answer:
            return answer.read()


def write_certificates(folder):
    """An authority and a certificate for this machine. Returns the file with that of the authority."""
    now = datetime.datetime.now(datetime.timezone.utc)

    def certificate(name, key, issuer, issuer_key, *extensions):
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder().subject_name(subject).issuer_name(issuer or subject).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )  # fmt: skip
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(issuer_key, hashes.SHA256())

    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = certificate("tests of Tepui", ca_key, None, ca_key, (x509.BasicConstraints(ca=True, path_length=0), True))
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    leaf = certificate(
        "localhost", key, ca.subject, ca_key, (x509.SubjectAlternativeName(names), False),
        (x509.BasicConstraints(ca=False, path_length=None), True),
    )  # fmt: skip
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(ca.public_bytes(pem))
    (folder / "server.pem").write_bytes(leaf.public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "server-key.pem").touch(0o600)
    (folder / "server-key.pem").write_bytes(private)
    return folder / "ca.pem"
