"""What changes something over HTTP: who may, with which key, in which form; and the store that cannot keep it."""

import orjson
import pytest

from nws.base.errors import StoreError, TooManySeries
from nws.server import bodies
from nws.service.serviceconfig import Limits, ServiceConfig
from tests.transcripts import recorded

REGISTRATION = {"address": "10.0.0.1", "port": 4000, "cpus": 4}
BATCH = {"series": ["cpu.new@alpha"], "index": [0, 0], "t": [1.0, 2.0], "value": [0.5, 0.25]}
W, A = "write-token-0123456789", "admin-token-0123456789"


@pytest.fixture
def alpha(call):
    """Headers of a registered host."""
    key = call("POST", "/v1/hosts/alpha", REGISTRATION).json()["key"]
    return {"X-NWS-Host": "alpha", "X-NWS-Key": key}


def error(answer, status):
    told = answer.json()["error"]
    assert (answer.status_code, told["status"]) == (status, status)
    return " ".join([told["message"], *told["problems"]])


def test_host_registers_and_is_given_a_key_once(call):
    first = call("POST", "/v1/hosts/alpha", REGISTRATION).json()
    assert first["key"]
    assert first["every"] == {"cpu": 10.0, "memory": 10.0, "deliver": 10.0}
    assert first["peers"] == {"alpha": ["10.0.0.1", 4000]}
    again = call("POST", "/v1/hosts/alpha", REGISTRATION, headers={"X-NWS-Key": first["key"]})
    assert "key" not in again.json()


def test_name_that_is_held_is_not_given_twice(call, alpha):
    assert "held by another host" in error(call("POST", "/v1/hosts/alpha", REGISTRATION), 409)


def test_host_registers_itself_only(call, alpha):
    answer = call("POST", "/v1/hosts/beta", REGISTRATION, headers=alpha)
    assert "X-NWS-Host is alpha, but the path has beta" in error(answer, 422)


@pytest.mark.parametrize("name", ["-a", "a%20b", "a>b", "a@b", "ä", "a" * 65, ".", "%2e%2e", "a%0ab"])
def test_host_is_called_by_a_legal_name(call, name):
    answer = call("POST", f"/v1/hosts/{name}", REGISTRATION)
    assert answer.status_code in (400, 404, 422)
    assert call("GET", "/v1/hosts").json()["hosts"] == []


def test_registration_is_told_everything_that_is_wrong(call):
    answer = call("POST", "/v1/hosts/alpha", {"port": 70_000, "colour": "red"})
    told = error(answer, 400)
    assert "address" in told
    assert "port" in told
    assert "colour" in told


def test_host_delivers_with_its_key(call, service, alpha):
    answer = call("POST", "/v1/measurements", BATCH | {"source": "alpha/1", "first": 7}, headers=alpha)
    assert answer.status_code == 200
    assert answer.json()["accepted"] == 2
    assert answer.json()["next"] == 9
    assert answer.json()["refused"] == {"count": 0, "reasons": []}
    assert service.kept == {"cpu.new@alpha": [(1.0, 0.5), (2.0, 0.25)]}


@pytest.mark.parametrize("key", [None, "wrong"])
def test_host_without_its_key_is_refused(call, service, alpha, key):
    headers = {"X-NWS-Host": "alpha"} | ({} if key is None else {"X-NWS-Key": key})
    assert "not alpha's" in error(call("POST", "/v1/measurements", BATCH, headers=headers), 403)
    assert service.kept == {}


def test_host_that_never_registered_is_told_so(call):
    headers = {"X-NWS-Host": "omega", "X-NWS-Key": "k"}
    assert "not registered" in error(call("POST", "/v1/measurements", BATCH, headers=headers), 404)


@pytest.mark.parametrize(
    "headers", [{"X-NWS-Host": "a b"}, {"X-NWS-Host": ""}, {"X-NWS-Host": "a", "X-NWS-Key": "k" * 300}]
)
def test_names_and_keys_in_headers_are_checked(call, headers):
    assert "X-NWS-" in error(call("POST", "/v1/measurements", BATCH, headers=headers), 422)


def test_anybodys_series_need_the_role_admin(guarded, service):
    answer = guarded("POST", "/v1/measurements", BATCH, token=W)
    assert "needs the role admin" in error(answer, 403)
    assert guarded("POST", "/v1/measurements", BATCH, token=A).status_code == 200
    assert list(service.kept) == ["cpu.new@alpha"]


def test_admin_writes_for_a_host_without_its_key(guarded):
    guarded("POST", "/v1/hosts/alpha", REGISTRATION, token=W)
    named = {"X-NWS-Host": "alpha"}
    assert guarded("POST", "/v1/measurements", BATCH, token=A, headers=named).status_code == 200
    assert guarded("POST", "/v1/measurements", BATCH, token=W, headers=named).status_code == 403


def test_empty_batch_is_a_sign_of_life(call, alpha):
    answer = call("POST", "/v1/measurements", {"status": {"done": 3}}, headers=alpha)
    assert answer.json()["accepted"] == 0


@recorded("nws/server/wrong_batches.txt", "body")
def test_what_is_no_batch_is_told_why(call, service, answered, body):
    answered(error(call("POST", "/v1/measurements", body), 400))
    assert service.kept == {}


def test_short_bodies_never_become_huge_arrays(call):
    body = orjson.dumps({"value": ["a" * 1_000_000] + ["b"] * 500_000})
    assert "expected a list of numbers" in error(call("POST", "/v1/measurements", body), 400)


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": ""},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
)
def test_body_calls_itself_json(call, headers):
    assert "expected" in error(call("POST", "/v1/events", b"{}", headers=headers), 415)


def test_body_may_state_that_it_is_utf8(call):
    headers = {"Content-Type": "Application/JSON; charset=UTF-8"}
    assert call("POST", "/v1/measurements", b"{}", headers=headers).status_code == 200


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


def test_full_disk_refuses_writes_and_says_so_and_reads_go_on(call, service, alpha):
    call("POST", "/v1/measurements", BATCH, headers=alpha)
    service.failure = StoreError("weather.db: no room left on its disk")
    for method, path, body in [
        ("POST", "/v1/measurements", BATCH),
        ("POST", "/v1/hosts/beta", REGISTRATION),
        ("POST", "/v1/events", {"t": 1.0, "kind": "note"}),
    ]:
        answer = call(method, path, body)
        assert "no room left" in error(answer, 507)
        assert int(answer.headers["Retry-After"]) >= 1
    assert call("GET", "/healthz").json()["status"] == "degraded"
    assert len(call("GET", "/v1/series").json()["series"]) == 1
    service.failure = None
    assert call("POST", "/v1/measurements", BATCH, headers=alpha).status_code == 200


def test_log_tells_when_the_store_fails_and_when_it_works_again(call, service, caplog):
    service.failure = StoreError("no room left")
    for _ in range(3):
        call("POST", "/v1/measurements", BATCH)
    service.failure = None
    for _ in range(3):
        call("POST", "/v1/measurements", BATCH)
    lines = [r.message for r in caplog.records if r.name == "nws.server.writer"]
    assert lines == ["measurements cannot be stored: no room left", "measurements are stored again"]


def test_event_is_kept_and_comes_back(call):
    event = {"t": 12.5, "kind": "plan made", "host": "alpha", "text": "64 rows"}
    assert call("POST", "/v1/events", event).json() == event
    assert call("GET", "/v1/events?since=12&until=13").json() == {"events": [event]}
    assert call("GET", "/v1/events?since=13").json() == {"events": []}


def test_host_reports_only_its_own_events(call, alpha):
    event = {"t": 1.0, "kind": "note", "host": "beta"}
    assert "reports its own events" in error(call("POST", "/v1/events", event, headers=alpha), 422)
    assert call("POST", "/v1/events", event | {"host": "alpha"}, headers=alpha).status_code == 200
    wrong = alpha | {"X-NWS-Key": "wrong"}
    assert call("POST", "/v1/events", event | {"host": None}, headers=wrong).status_code == 403


def test_nobody_tells_events_of_a_host_whose_key_it_does_not_show(guarded):
    event = {"t": 1.0, "kind": "host lost", "host": "beta"}
    assert "of host beta without X-NWS-Host needs the role admin" in error(
        guarded("POST", "/v1/events", event, token=W), 403
    )
    assert guarded("POST", "/v1/events", event | {"host": None}, token=W).status_code == 200
    assert guarded("POST", "/v1/events", event, token=A).status_code == 200


def test_limit_that_waiting_does_not_change_names_no_time(call, service):
    service.failure = TooManySeries("alpha has 3 series and may have 3")
    answer = call("POST", "/v1/measurements", BATCH)
    assert "may have 3" in error(answer, 429)
    assert "Retry-After" not in answer.headers


def test_wrong_method_is_told_which_are_right(call):
    answer = call("PUT", "/v1/events", {})
    assert "PUT is not for /v1/events" in error(answer, 405)
    assert {"GET", "POST"} <= set(answer.headers["Allow"].split(", "))


def test_parameters_that_nobody_asked_for_are_refused(call):
    assert "unknown parameter; legal are none" in error(call("POST", "/v1/events?t=1", {}), 422)
