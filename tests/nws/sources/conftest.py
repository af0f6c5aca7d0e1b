"""A fake Prometheus, an HTTP server that answers what a test tells it to, and the real one of the system's packages."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest
import requests

#: When the fake evaluates, and when its targets were scraped, seconds since the epoch.
EVALUATED = 1_700_000_030.0
SCRAPED = 1_700_000_025.5


@dataclass
class FakePrometheus:
    """status, headers, body : the next answers.  drip : (pieces, seconds between) instead of the body at once"""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    drip: tuple[int, float] | None = None
    paths: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    url: str = ""
    closing: threading.Event = field(default_factory=threading.Event)

    def says(self, result, *, t=EVALUATED, **more):
        """Succeed with these (labels, value) in an instant vector."""
        vector = [{"metric": labels, "value": [t, str(value)]} for labels, value in result]
        document = {"status": "success", "data": {"resultType": "vector", "result": vector}, **more}
        self.status, self.body = 200, json.dumps(document).encode()

    @staticmethod
    def node(
        instance="10.0.0.1:9100", job="node", *, t=SCRAPED, cpus=4, memory=8e9, procs=1, waiting=None, **modes
    ):
        """What Prometheus says of one node_exporter; None leaves a metric out. modes : CPUs busy in each"""
        labels = {"instance": instance, "job": job}
        found = [({**labels, "reading": "modes", "mode": mode}, value) for mode, value in modes.items()]
        numbers = {
            "cpus": cpus if modes else None,
            "cpu_t": t if modes else None,
            "waiting": waiting,
            "runnable": procs,
            "free_bytes": memory,
            "memory_t": None if memory is None else t,
        }
        found += [
            ({**labels, "reading": name}, value) for name, value in numbers.items() if value is not None
        ]
        return found


@contextmanager
def serving(prometheus):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            asked = urlsplit(self.path)
            prometheus.paths.append(asked.path)
            prometheus.questions += parse_qs(asked.query).get("query", [])
            prometheus.authorizations.append(self.headers.get("Authorization"))
            self.send_response(prometheus.status)
            for name, value in prometheus.headers.items():
                self.send_header(name, value)
            pieces, pause = prometheus.drip or (1, 0.0)
            # A test may say something else as soon as it has read the status.
            body = prometheus.body
            self.send_header("Content-Length", str(pieces * len(body)))
            self.end_headers()
            try:
                for _ in range(pieces):
                    self.wfile.write(body)
                    self.wfile.flush()
                    if prometheus.closing.wait(pause):
                        return
            except OSError:
                self.close_connection = True

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        prometheus.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield prometheus
        finally:
            prometheus.closing.set()
            server.shutdown()


@pytest.fixture
def prometheus():
    with serving(FakePrometheus()) as fake:
        yield fake


_PATIENCE_S = 30.0


@contextmanager
def running(command, directory):
    """A server until the end of the block; gives its process and the address it listens on."""
    with (directory / f"{command[0]}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory, start_new_session=True)
    try:
        yield process, f"127.0.0.1:{until(lambda: _port(process), f'{command[0]} to listen')}"
    finally:
        process.kill()
        process.wait()


def _port(process):
    assert process.poll() is None, f"{process.args} ended with {process.returncode}"
    return next(
        (c.laddr.port for c in psutil.Process(process.pid).net_connections("tcp") if c.status == "LISTEN"),
        None,
    )


def until(question, what):
    """The first true answer; fails when there is none in half a minute."""
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        if answer := question():
            return answer
        time.sleep(0.05)
    raise AssertionError(f"waited {_PATIENCE_S:g} s for {what}")


def exporter_command():
    """A node_exporter with the collectors that the source asks for."""
    collectors = [f"--collector.{name}" for name in ("cpu", "meminfo", "stat", "schedstat")]
    return [
        "prometheus-node-exporter",
        "--web.listen-address=127.0.0.1:0",
        "--collector.disable-defaults",
        *collectors,
    ]


def prometheus_command(directory, instances, every="250ms", web=None):
    """A Prometheus that scrapes these addresses; web : its web configuration, such as its users."""
    listed = ", ".join(f'"{instance}"' for instance in instances)
    (directory / "prometheus.yml").write_text(
        f"global: {{scrape_interval: {every}, scrape_timeout: {every}}}\n"
        f"scrape_configs: [{{job_name: node, static_configs: [{{targets: [{listed}]}}]}}]\n"
    )
    command = ["prometheus", "--config.file=prometheus.yml", "--web.listen-address=127.0.0.1:0"]
    if web is not None:
        (directory / "web.yml").write_text(web)
        command.append("--web.config.file=web.yml")
    return [*command, "--storage.tsdb.path=data", "--log.level=warn"]


@contextmanager
def scraped(directory, every="250ms"):
    """One exporter and a Prometheus that has scraped it twice: its URL, the instance, the exporter's process."""
    with ExitStack() as stack:
        exporter, instance = stack.enter_context(running(exporter_command(), directory))
        command = prometheus_command(directory, [instance], every)
        _, address = stack.enter_context(running(command, directory))
        url = f"http://{address}"
        until(
            lambda: len(values(url, f'node_memory_MemAvailable_bytes{{instance="{instance}"}}[1m]')) > 2,
            "scrapes",
        )
        yield url, instance, exporter


def values(url, question):
    """Samples of the first series of an answer; none while the server is starting."""
    try:
        answer = requests.get(f"{url}/api/v1/query", params={"query": question}, timeout=5)
        result = answer.json()["data"]["result"] if answer.ok else []
    except requests.ConnectionError:
        return []
    return result[0]["values"] if result else []


@pytest.fixture(scope="session")
def real():
    """What starts the real programs; skips where they are not installed."""
    for program in ("prometheus", "prometheus-node-exporter"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed; Debian's package has the same name")
    return SimpleNamespace(
        running=running, scraped=scraped, until=until, prometheus_command=prometheus_command
    )
