"""A Prometheus of its own, which scrapes one server every second."""

import json
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import tools

PATIENCE_SECONDS = 60
# Traffic stays on this machine.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(url):
    """The body of an answer, and its media type."""
    with OPENER.open(url, timeout=10) as answer:
        return answer.read(), answer.headers.get("Content-Type")


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Prometheus:
    def __init__(self, folder, target, rules):
        self.folder = folder
        # JSON is YAML.
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": "tepui", "static_configs": [{"targets": [target]}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))
        self.process = None

    def __enter__(self):
        # Another process may take the port before Prometheus does.
        for _ in range(5):
            if self.start(free_port()):
                return self
        raise SystemExit(f"Prometheus does not start:\n{(self.folder / 'log').read_text()[-4000:]}")

    def start(self, port):
        self.url = f"http://127.0.0.1:{port}"
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                [
                    tools.prometheus(),
                    f"--config.file={self.folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self.folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        give_up = time.monotonic() + PATIENCE_SECONDS
        while self.process.poll() is None and time.monotonic() < give_up:
            try:
                get(f"{self.url}/-/ready")
                return True
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        self.stop()
        return False

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def api(self, name, parameters):
        try:
            text, _ = get(f"{self.url}/api/v1/{name}?{urllib.parse.urlencode(parameters)}")
        except urllib.error.HTTPError as error:
            raise SystemExit(f"Prometheus refuses {parameters}: {error.read().decode()}") from None
        return json.loads(text)["data"]

    def query(self, expression):
        """The series of an expression now: their labels and values."""
        found = self.api("query", {"query": expression})["result"]
        return [(series["metric"], float(series["value"][1])) for series in found]

    def by(self, expression, *labels):
        """The values of an expression by some labels; there is one series for each."""
        values = {}
        for metric, value in self.query(expression):
            key = tuple(metric[label] for label in labels)
            key = key[0] if len(key) == 1 else key
            assert key not in values, f"{expression} has several series of {key}"
            values[key] = value
        return values

    def scrapes_since(self, begin):
        """How often the server was scraped since then."""
        seconds = max(1, int(time.time() - begin))
        return sum(int(value) for _, value in self.query(f"count_over_time(up[{seconds}s])"))

    def wait_for_scrape_after(self, moment):
        """Waits until what Prometheus has is from after then, and no request was under way."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while True:
            times = [value for _, value in self.query("timestamp(tepui_ready)")]
            is_busy = self.query("tepui_requests_in_flight > 0")
            if times and min(times) > moment and not is_busy:
                return
            if time.monotonic() > give_up:
                raise SystemExit(f"Prometheus does not scrape any more: {times}, {moment}")
            time.sleep(0.2)
