"""A real service with a clock of its own, and a server that answers whatever a test wants."""

import shutil
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from nws.series import Measurement, Series
from nws.service.serviceconfig import CliqueConfig, ServiceConfig
from nws.testing import InMemoryServer

TOKENS = {
    "read": ["read-token-0123456789"],
    "write": ["write-token-012345678"],
    "admin": ["admin-token-012345678"],
}


class Clock:
    t = 1.8e9

    def __call__(self):
        return self.t


@pytest.fixture
def clock():
    return Clock()


def weather_of(hosts, pairs, now, samples=3):
    """Measurements of hosts (share 0.5) and pairs (1 ms, 100 MB/s), ten seconds apart, the last at `now`."""
    return [
        Measurement(Series.parse(name), now - 10.0 * (samples - 1 - k), value)
        for k in range(samples)
        for name, value in [
            *((f"cpu.new@{h}", 0.5) for h in hosts),
            *((f"memory.free@{h}", 4e9) for h in hosts),
            *((f"network.latency@{a}>{b}", 1e-3) for a, b in pairs),
            *((f"network.bandwidth@{a}>{b}", 1e8) for a, b in pairs),
        ]
    ]


@pytest.fixture
def server(clock):
    """Hosts a, b, c in a row: a-b and b-c are measured, a-c is not."""
    config = ServiceConfig(
        grid="lab",
        cliques={"west": CliqueConfig(members=("a", "b")), "east": CliqueConfig(members=("b", "c"))},
    )
    with InMemoryServer(config, clock=clock) as server:
        for host in "abc":
            server.register(host, cpus=2, cpu_model="Some  CPU", site="lab", address=f"10.0.0.{ord(host)}")
        server.put(weather_of("abc", [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")], clock.t))
        yield server


@pytest.fixture
def guarded(clock):
    """An empty service with tokens."""
    with InMemoryServer(clock=clock, tokens=TOKENS) as server:
        yield server


class Answers(BaseHTTPRequestHandler):
    """Sends what the server's `script` says for each request in turn: (status, headers, body), or hangs up."""

    def _answer(self):
        self.server.asked.append((self.command, self.path, dict(self.headers)))
        length = int(self.headers.get("Content-Length", 0))
        self.rfile.read(length)
        step = self.server.script.pop(0)
        if step == "hang up":
            self.close_connection = True
            return
        if step == "silence":
            self.server.released.wait(10)
            return
        status, headers, body = step
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = _answer
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        """Nobody reads it."""


@pytest.fixture
def scripted():
    """A server on a port of this machine that follows a script."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.script, server.asked, server.released = [], [], threading.Event()
        server.url = f"http://127.0.0.1:{server.server_port}"
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def certificate(tmp_path):
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed; it makes the certificate")
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-out", files[0], "-keyout", files[1]),
        ],
        check=True,
        capture_output=True,
    )
    return files


@pytest.fixture
def scripted_tls(scripted, certificate):
    """The scripted server behind TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    scripted.socket = context.wrap_socket(scripted.socket, server_side=True)
    scripted.url = scripted.url.replace("http:", "https:")
    # handshakes that fail are the client's to tell
    scripted.handle_error = lambda *arguments: None
    return scripted
