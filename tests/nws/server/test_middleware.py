"""What every request passes: tokens and roles, rates, headers; and what every answer carries."""

import logging

import pytest

from nws.messages.weatherdocuments import Health
from nws.service.serviceconfig import Limits, ServiceConfig
from tests.transcripts import recorded

R, W, A = "read-token-0123456789", "write-token-0123456789", "admin-token-0123456789"
TOKENS = {"read": [R], "write": [W], "admin": [A]}
REGISTRATION = {"address": "10.0.0.1", "port": 4000}


def error(answer):
    told = answer.json()["error"]
    assert told["status"] == answer.status_code
    return told["message"]


@pytest.mark.parametrize("path", ["/healthz", "/openapi.json"])
def test_open_to_everybody(guarded, path):
    assert guarded("GET", path).status_code == 200


def test_health_without_a_token_has_no_reason(guarded, service, monkeypatch):
    store = Health(status="degraded", store="writable", reason="/srv/weather.db: damaged: cpu.new@alpha")
    monkeypatch.setattr(service, "health", lambda: store)
    assert guarded("GET", "/healthz").json()["reason"] == "ask with a token for the reason"
    assert guarded("GET", "/healthz", token=R).json()["reason"] == store.reason


@recorded("nws/server/readers_paths.txt", "path")
def test_asking_needs_the_role_read(guarded, answered, path):
    answer = guarded("GET", path)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    answered(error(answer))
    assert guarded("GET", path, token="x" * 20).status_code == 401
    assert "not known here" in error(guarded("GET", path, token="x" * 20))
    for token in (R, A):
        assert guarded("GET", path, token=token).status_code not in (401, 403)


def test_sensor_may_ask_for_the_schedule_with_its_own_token(guarded):
    assert guarded("GET", "/v1/schedule", token=W).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/hosts/a"), ("POST", "/v1/measurements"), ("POST", "/v1/events")],
)
def test_writing_needs_the_role_write(guarded, method, path):
    assert guarded(method, path, {}).status_code == 401
    answer = guarded(method, path, {}, token=R)
    assert answer.status_code == 403
    assert "role read; write is needed" in error(answer)
    for token in (W, A):
        assert guarded(method, path, REGISTRATION, token=token).status_code != 401


def test_forgetting_a_host_needs_the_role_admin(guarded):
    guarded("POST", "/v1/hosts/a", REGISTRATION, token=W)
    assert guarded("DELETE", "/v1/hosts/a", token=W).status_code == 403
    assert guarded("DELETE", "/v1/hosts/a", token=A).status_code == 200
    assert guarded("GET", "/v1/hosts/a", token=R).status_code == 404


def test_body_is_not_read_for_who_may_not_send_it(guarded):
    assert guarded("POST", "/v1/measurements", b"x" * 100_000).status_code == 401


@pytest.mark.parametrize("header", ["Basic abc", "Bearer", "Bearer ", "token", ""])
def test_authorization_that_is_no_bearer_token_is_malformed(guarded, header):
    answer = guarded("GET", "/v1/hosts", headers={"Authorization": header})
    assert answer.status_code == 400
    assert "expected: Bearer TOKEN" in error(answer)


def test_tokens_never_reach_the_log(start, service, caplog):
    guarded = start(service, TOKENS)
    caplog.set_level(logging.DEBUG)
    secret = "a-secret-that-nobody-should-see"
    guarded("GET", "/v1/hosts", token=secret)
    guarded("GET", "/v1/hosts", token=R)
    assert secret not in caplog.text
    assert R not in caplog.text
    assert "127.0.0.1: refused: GET /v1/hosts" in caplog.text


def test_many_refusals_are_few_lines_in_the_log(start, service, caplog):
    guarded = start(service, TOKENS)
    caplog.set_level(logging.INFO)
    for _ in range(20):
        guarded("GET", "/v1/hosts")
    assert caplog.text.count("refused: ") == 3


def test_answer_carries_the_security_headers(guarded):
    for answer in (guarded("GET", "/healthz"), guarded("GET", "/v1/hosts"), guarded("GET", "/nothing")):
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "server" not in answer.headers


def test_nobody_elsewhere_is_invited(call):
    asked = {"Origin": "http://elsewhere", "Access-Control-Request-Method": "POST"}
    answer = call("OPTIONS", "/v1/events", headers=asked)
    assert answer.status_code == 405
    answer = call("GET", "/v1/hosts", headers={"Origin": "http://elsewhere"})
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize("host", ["weather.example.org", "10.0.0.1:80", "127.0.0.1.example.org", "[::2]:80"])
def test_without_tokens_a_name_from_elsewhere_is_not_answered(call, host):
    answer = call("GET", "/v1/hosts", headers={"Host": host})
    assert answer.status_code == 400
    assert "loopback" in error(answer)


@pytest.mark.parametrize("host", ["localhost:1", "127.3.2.1", "[::1]:8090", "nws.localhost"])
def test_without_tokens_every_loopback_name_is_answered(call, host):
    assert call("GET", "/v1/hosts", headers={"Host": host}).status_code == 200


def test_with_tokens_any_name_is_answered(guarded):
    assert guarded("GET", "/v1/hosts", token=R, headers={"Host": "weather.example.org"}).status_code == 200


@pytest.fixture
def slow(start, service):
    """A server that takes three requests a minute from each client."""
    service.config = ServiceConfig(limits=Limits(requests_per_minute=3))
    return start(service, TOKENS)


def test_too_many_requests_are_told_when_to_come_again(slow):
    for _ in range(3):
        assert slow("GET", "/v1/hosts", token=R).status_code == 200
    answer = slow("GET", "/v1/hosts", token=R)
    assert answer.status_code == 429
    assert 15 <= int(answer.headers["Retry-After"]) <= 20
    assert "slow down" in error(answer)


def test_each_token_has_a_rate_of_its_own(slow):
    for _ in range(4):
        slow("GET", "/v1/hosts", token=R)
    assert slow("GET", "/v1/hosts", token=R).status_code == 429
    assert slow("GET", "/v1/hosts", token=A).status_code == 200


def test_guessing_tokens_shares_one_rate(slow):
    answers = [slow("GET", "/v1/hosts", token=f"guess-number-{n:010d}").status_code for n in range(5)]
    assert answers == [401, 401, 401, 429, 429]


def test_what_nobody_foresaw_is_a_short_answer_and_a_traceback_in_the_log(call, service, monkeypatch, caplog):
    def broken():
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(service, "hosts", broken)
    answer = call("GET", "/v1/hosts")
    assert answer.status_code == 500
    assert "secret detail" not in answer.text
    assert "ZeroDivisionError" in caplog.text
    assert call("GET", "/healthz").status_code == 200
