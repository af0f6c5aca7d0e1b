"""Connections: slow, broken, greedy and odd peers, on real sockets."""

import json
import socket
import struct
import threading

import pytest

from nws.server import bodies, protocol
from tests.transcripts import recorded

HOST = b"Host: localhost\r\n"


class Peer:
    """A socket to the server. `say` sends bytes, `hear` reads one answer: (status, headers, body)."""

    def __init__(self, url):
        host, _, port = url.partition("://")[2].partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        self.file = self.socket.makefile("rb")

    def say(self, *pieces):
        for piece in pieces:
            self.socket.sendall(piece)

    def hear(self):
        line = self.file.readline()
        if not line:
            return None
        headers = {}
        while (header := self.file.readline().strip()) != b"":
            name, _, value = header.partition(b": ")
            headers[name.lower().decode()] = value.decode()
        body = self.file.read(int(headers.get("content-length", 0)))
        return int(line.split()[1]), headers, body

    def is_closed(self):
        """Whether the server has ended the connection, with nothing more said."""
        return self.file.read(1) == b""

    def close(self):
        self.file.close()
        self.socket.close()


@pytest.fixture
def connect(call):
    """`connect()` opens a `Peer` of the shared server, `connect(other)` of another."""
    open_ = []

    def opened(other=call):
        open_.append(Peer(other.url))
        return open_[-1]

    yield opened
    for peer in open_:
        peer.close()


def message(answer):
    status, headers, body = answer
    error = json.loads(body)["error"]
    assert error["status"] == status
    assert headers["content-type"] == "application/json"
    return error["message"]


@recorded("nws/server/no_http.txt", "garbage")
def test_what_is_no_http_is_told_so_and_closed(connect, answered, garbage):
    peer = connect()
    peer.say(garbage)
    answered(message(peer.hear()))
    assert peer.is_closed()


@pytest.mark.parametrize("name", ["Host", "Authorization", "Content-Type", "X-NWS-Host", "X-NWS-Key"])
def test_headers_that_decide_may_come_once(connect, name):
    peer = connect()
    once = b"" if name == "Host" else HOST
    peer.say(b"GET /v1/hosts HTTP/1.1\r\n" + once + 2 * f"{name}: localhost\r\n".encode() + b"\r\n")
    assert message(peer.hear()) == f"header {name.lower()} given twice"


def test_request_names_its_host(connect):
    peer = connect()
    peer.say(b"GET /healthz HTTP/1.1\r\n\r\n")
    assert message(peer.hear()) == "no Host header"


def test_old_client_is_answered_and_closed(connect):
    peer = connect()
    peer.say(b"GET /healthz HTTP/1.0\r\n\r\n")
    status, headers, _ = peer.hear()
    assert (status, headers["connection"]) == (200, "close")
    assert peer.is_closed()


def test_head_has_the_headers_of_get_and_no_body(connect):
    peer = connect()
    peer.say(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
    _, wanted, _ = peer.hear()
    peer.say(b"HEAD /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
    line = peer.file.readline()
    assert line.startswith(b"HTTP/1.1 200")
    while (header := peer.file.readline().strip()) != b"":
        if header.startswith(b"content-length"):
            assert header.decode() == f"content-length: {wanted['content-length']}"
    peer.say(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
    assert peer.hear()[0] == 200, "nothing of a body stood between"


def test_requests_sent_ahead_are_answered_in_their_order(connect):
    peer = connect()
    paths = ["/healthz", "/nothing", "/v1/hosts"] * 5
    peer.say(b"".join(b"GET %s HTTP/1.1\r\n%s\r\n" % (path.encode(), HOST) for path in paths))
    assert [peer.hear()[0] for _ in paths] == [200, 404, 200] * 5


def test_too_many_requests_sent_ahead_end_the_connection(connect, service, monkeypatch):
    held = threading.Event()
    monkeypatch.setattr(service, "hosts", lambda: held.wait(10) and [])
    peer = connect()
    peer.say(b"".join(b"GET /v1/hosts HTTP/1.1\r\n" + HOST + b"\r\n" for _ in range(200)))
    assert peer.is_closed()
    held.set()


def test_peer_that_asks_ahead_and_goes_away_leaves_nothing(start, connect, service, eventually, caplog):
    own = start(service)
    state = own.server.uvicorn.server_state
    peer = connect(own)
    held = threading.Event()
    service.hosts = lambda: held.wait(10) and []
    peer.say(b"".join(b"GET /v1/hosts HTTP/1.1\r\n" + HOST + b"\r\n" for _ in range(20)))
    eventually(lambda: state.tasks)
    # ended without reading what comes, so that writing fails
    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    held.set()
    eventually(lambda: not state.connections and not state.tasks)
    del service.hosts
    assert "failed" not in caplog.text


def test_body_in_chunks_is_a_body(connect):
    peer = connect()
    body = b'{"t": 1.0}'
    peer.say(
        b"POST /v1/nothing HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    )
    assert peer.hear()[0] == 404
    peer.say(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
    assert peer.hear()[0] == 200


def test_long_heads_are_refused_before_they_are_kept(connect):
    peer = connect()
    peer.say(b"GET /healthz HTTP/1.1\r\n" + HOST + b"X-Long: " + b"a" * 70_000 + b"\r\n\r\n")
    assert peer.hear()[0] == 431
    peer = connect()
    peer.say(b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n")
    assert peer.hear()[0] == 431
    peer = connect()
    peer.say(b"GET / HTTP/1.1\r\n" + HOST + b"".join(b"X-%d: a\r\n" % n for n in range(150)) + b"\r\n")
    assert message(peer.hear()) == "more than 100 headers"


def test_control_characters_in_a_path_are_refused(connect):
    peer = connect()
    peer.say(b"GET /static/%00 HTTP/1.1\r\n" + HOST + b"\r\n")
    assert message(peer.hear()) == "the path has control characters"


def test_upgrade_is_not_taken_up(connect):
    peer = connect()
    peer.say(
        b"GET /healthz HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAA\r\n\r\n"
    )
    assert peer.hear()[0] == 200
    assert peer.is_closed()


def test_heads_that_do_not_come_to_an_end_are_given_up(connect, monkeypatch):
    monkeypatch.setattr(protocol, "HEADERS_S", 0.1)
    silent, slow = connect(), connect()
    slow.say(b"GET /healthz HT")
    for peer in (silent, slow):
        assert message(peer.hear()) == "the request did not arrive in time"
        assert peer.is_closed()


def test_further_request_that_does_not_come_to_an_end_is_given_up(connect, monkeypatch):
    peer = connect()
    peer.say(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
    assert peer.hear()[0] == 200
    monkeypatch.setattr(protocol, "HEADERS_S", 0.1)
    peer.say(b"GET /hea")
    assert message(peer.hear()) == "the request did not arrive in time"


def test_body_that_does_not_come_is_given_up(connect, monkeypatch):
    monkeypatch.setattr(bodies, "BODY_S", 0.1)
    peer = connect()
    peer.say(
        b"POST /v1/events HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
        b'Content-Length: 100\r\n\r\n{"t":'
    )
    assert "did not arrive within" in message(peer.hear())
    assert peer.is_closed()


def test_refused_body_that_never_ends_is_given_up(connect, monkeypatch):
    monkeypatch.setattr(protocol, "MESSAGE_S", 0.1)
    peer = connect()
    peer.say(b"POST /nothing HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\n")
    assert peer.hear()[0] == 404
    assert message(peer.hear()) == "the request did not arrive in time"
    assert peer.is_closed()


def test_answer_nobody_reads_is_given_up(start, connect, service, monkeypatch, eventually):
    monkeypatch.setattr(protocol, "READING_S", 0.1)
    asked = []
    monkeypatch.setattr(service, "events", lambda *_: asked.append(1) or [{"text": "a" * 1000}] * 20_000)
    own = start(service)
    peer = connect(own)
    peer.say(b"GET /v1/events HTTP/1.1\r\n" + HOST + b"\r\n")
    state = own.server.uvicorn.server_state
    eventually(lambda: asked)
    eventually(lambda: not state.connections and not state.tasks)


def test_connections_beyond_the_bound_are_refused(start, connect, service, monkeypatch, eventually):
    own = start(service)
    monkeypatch.setattr(own.server.uvicorn.config.http_protocol_class, "most_connections", 2)
    state = own.server.uvicorn.server_state
    first, second = connect(own), connect(own)
    eventually(lambda: len(state.connections) == 2)
    assert message(connect(own).hear()) == "too many connections; try again later"
    first.close()
    eventually(lambda: len(state.connections) == 1)
    third = connect(own)
    for peer in (second, third):
        peer.say(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
        assert peer.hear()[0] == 200


def test_peer_that_goes_away_in_the_middle_leaves_nothing(start, connect, service, eventually):
    own = start(service)
    peer = connect(own)
    peer.say(
        b"POST /v1/events HTTP/1.1\r\n"
        + HOST
        + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    state = own.server.uvicorn.server_state
    eventually(lambda: state.tasks)
    peer.close()
    eventually(lambda: not state.connections and not state.tasks)
    assert own("GET", "/healthz").status_code == 200
