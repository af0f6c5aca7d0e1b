"""What changes something over HTTP: who may, with which key, in which form; and the store that cannot keep it."""

import json

import numpy as np
import orjson
import pytest

from nws.base.errors import StoreError, TooManySeries
from nws.server import bodies
from nws.service.serviceconfig import Limits, ServiceConfig
from tests.transcripts import recorded, replay, transcripts

BATCH = {"series": ["cpu.new@alpha"], "index": [0, 0], "t": [1.0, 2.0], "value": [0.5, 0.25]}
#: Headers of a refusal that clients act on.
TOLD = ("Retry-After", "Connection", "Allow", "WWW-Authenticate")


def error(answer, status):
    told = answer.json()["error"]
    assert (answer.status_code, told["status"]) == (status, status)
    return " ".join([told["message"], *told["problems"]])


class Session:
    """Requests to an open and to a guarded server, which have one service. NAME:VALUE words are headers."""

    def __init__(self, call, guarded, service):
        self._call, self._guarded, self._service = call, guarded, service

    def request(self, method, path, *words, **given):
        ends = [i for i, word in enumerate(words) if word.endswith("}")]
        body = " ".join(words[: ends[-1] + 1]) if ends else None
        headers = dict(word.split(":", 1) for word in words[len(body.split()) if body else 0 :])
        headers |= dict(f"{name}={value}".split(":", 1) for name, value in given.items() if ":" in name)
        token = headers.pop("token", None)
        caller = self._call if token is None else self._guarded
        named = {} if token is None else {"token": f"{token}-token-0123456789"}
        path += "".join(f"?{name}={value}" for name, value in given.items() if ":" not in name)
        body = None if body is None else json.loads(body) if "Content-Type" not in headers else body.encode()
        answer = caller(method, path, body, headers=headers, **named)
        told = {name: sorted(answer.headers[name].split(", ")) for name in TOLD if name in answer.headers}
        found = answer.json()
        if "error" in found:
            return [f"{answer.status_code} {told}", found["error"]["message"], *found["error"]["problems"]]
        shown = {name: value for name, value in found.items() if name not in ("schedule", "peers")}
        return [f"{answer.status_code} {told} {shown}"]

    def stored(self):
        return [f"{name}: {np.array(samples).tolist()}" for name, samples in self._service.kept.items()]

    def fails(self, *words):
        """Let the store fail, or a limit be reached; without words it works again."""
        text = " ".join(words)
        self._service.failure = (TooManySeries if "series" in text else StoreError)(text) if words else None


@transcripts("nws/server/writing")
def test_writing_over_http_is_answered_as_recorded(call, guarded, service, transcript, golden):
    golden(transcript, replay(transcript, Session(call, guarded, service)))


@recorded("nws/server/wrong_batches.txt", "body")
def test_what_is_no_batch_is_told_why(call, service, answered, body):
    answered(error(call("POST", "/v1/measurements", body), 400))
    assert service.kept == {}


def test_short_bodies_never_become_huge_arrays(call):
    body = orjson.dumps({"value": ["a" * 1_000_000] + ["b"] * 500_000})
    assert "expected a list of numbers" in error(call("POST", "/v1/measurements", body), 400)


@pytest.fixture
def small(start, service):
    """A server that takes bodies of 1,000 bytes."""
    service.config = ServiceConfig(limits=Limits(body_bytes=1000))
    return start(service)


def test_body_announced_as_too_long_is_not_read(small):
    answer = small("POST", "/v1/events", b" " * 1001)
    assert "1001 bytes: expected 1000 at most" in error(answer, 413)
    assert small("GET", "/healthz").status_code == 200, "on the same connection"
    assert small("POST", "/v1/measurements", b"{}".ljust(1000)).status_code == 200


def test_body_that_grows_too_long_is_cut_off_while_it_arrives(small):
    def chunks():
        for _ in range(100):
            yield b" " * 100

    answer = small._session.post(
        small.url + "/v1/events", data=chunks(), headers={"Content-Type": "application/json"}, timeout=20
    )
    assert "beyond 1000 bytes" in error(answer, 413)
    assert answer.headers["Connection"] == "close"


def test_refused_body_of_a_gigabyte_ends_the_connection(small, monkeypatch):
    monkeypatch.setattr(bodies, "_THROWN_AWAY_BYTES", 2000)
    answer = small("POST", "/v1/events", b" " * 3000)
    assert answer.status_code == 413
    assert answer.headers["Connection"] == "close"


def test_log_tells_when_the_store_fails_and_when_it_works_again(call, service, caplog):
    service.failure = StoreError("no room left")
    for _ in range(3):
        call("POST", "/v1/measurements", BATCH)
    service.failure = None
    for _ in range(3):
        call("POST", "/v1/measurements", BATCH)
    lines = [r.message for r in caplog.records if r.name == "nws.server.writer"]
    assert lines == ["measurements cannot be stored: no room left", "measurements are stored again"]
