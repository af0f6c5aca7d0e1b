"""A fake Prometheus: a real HTTP server on loopback that answers what a test tells it to."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

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
    found += [({**labels, "reading": name}, value) for name, value in numbers.items() if value is not None]
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
            self.send_header("Content-Length", str(pieces * len(prometheus.body)))
            self.end_headers()
            try:
                for _ in range(pieces):
                    self.wfile.write(prometheus.body)
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
