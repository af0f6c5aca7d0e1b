"""Questions over HTTP: answers of the core, and every wrong question told what is right."""

import http.client
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed

import pytest

from nws.base.errors import StoreError
from nws.server import backend
from tests.transcripts import recorded


def error(answer, status):
    told = answer.json()["error"]
    assert (answer.status_code, told["status"]) == (status, status)
    return " ".join([told["message"], *told["problems"]])


@pytest.fixture
def filled(call):
    """The service with a host and two series."""
    call("POST", "/v1/hosts/alpha", {"address": "10.0.0.1", "port": 4000})
    batch = {
        "series": ["cpu.new@alpha", "network.latency@alpha>beta"],
        "index": [0, 1],
        "t": [1.0, 2.0],
        "value": [0.5, 1e-4],
    }
    assert call("POST", "/v1/measurements", batch).status_code == 200
    return call


def test_health_is_open_and_says_ok(call):
    answer = call("GET", "/healthz")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "store": "memory", "reason": None}


def test_reader_threads_are_started_with_the_server(call):
    # the start of a thread without memory never returns
    assert sum(one.name.startswith("nws-reader") for one in threading.enumerate()) >= backend.READERS


def test_health_says_when_nothing_works(call, service, monkeypatch):
    def broken():
        raise StoreError("weather.db: damaged")

    monkeypatch.setattr(service, "health", broken)
    answer = call("GET", "/healthz")
    assert answer.status_code == 503
    assert answer.json()["reason"] == "weather.db: damaged"


def test_hosts_and_one_host(filled):
    hosts = filled("GET", "/v1/hosts").json()["hosts"]
    assert [h["name"] for h in hosts] == ["alpha"]
    assert filled("GET", "/v1/hosts/alpha").json() == hosts[0]
    assert "not registered" in error(filled("GET", "/v1/hosts/beta"), 404)


def test_schedule_and_whom_it_names(filled):
    answer = filled("GET", "/v1/schedule").json()
    assert answer["schedule"]["version"] == 1
    assert answer["peers"] == {"alpha": ["10.0.0.1", 4000]}


def test_forecasts_of_all_and_of_some(filled):
    answer = filled("GET", "/v1/forecasts").json()
    assert [f["series"] for f in answer["forecasts"]] == ["cpu.new@alpha", "network.latency@alpha>beta"]
    one = filled("GET", "/v1/forecasts?series=cpu.new%40alpha").json()["forecasts"]
    assert one == [answer["forecasts"][0]]
    assert one[0]["value"] == 0.5
    assert one[0]["unit"] == "CPU"
    assert one[0]["mae"] is None, "NaN is null"


def test_series_and_the_snapshot(filled):
    assert [s["series"] for s in filled("GET", "/v1/series").json()["series"]] == [
        "cpu.new@alpha",
        "network.latency@alpha>beta",
    ]
    snapshot = filled("GET", "/v1/snapshot").json()
    assert snapshot["format"] == "nws-snapshot"
    assert snapshot["series"]["forecast"] == [0.5, 1e-4]
    assert snapshot["series"]["mae"] == [None, None]


@recorded("nws/server/wrong_questions.txt", "path")
def test_wrong_question_is_told_what_is_right(call, answered, path):
    answered(error(call("GET", path), 422))


def test_all_that_is_wrong_with_a_question_is_told_at_once(call):
    told = call("GET", "/v1/events?since=a&until=b&most=c").json()["error"]
    assert len(told["problems"]) == 3


@pytest.mark.parametrize(
    "path",
    ["/v2/hosts", "/v1", "/v1/hosts/", "/v1/hosts/a/b", "/v1/series/a%2Fb/plot", "/etc/passwd", "//v1/hosts"],
)
def test_where_there_is_nothing_there_is_a_hint(call, path):
    assert "/openapi.json" in error(call("GET", path), 404)


@pytest.fixture
def page(tmp_path):
    """A folder with a page."""
    (tmp_path / "static").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>weather</title>")
    (tmp_path / "static" / "page.js").write_text("export {}")
    (tmp_path / "secret").write_text("not for you")
    return tmp_path


def test_page_is_open_and_its_files_are_asked_for_anew(start, service, page):
    call = start(service, {"read": ["r" * 20]}, web=page)
    index = call("GET", "/")
    assert index.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "weather" in index.text
    script = call("GET", "/static/page.js")
    assert script.headers["Content-Type"].startswith("text/javascript")
    assert script.headers["Cache-Control"] == "no-cache"
    again = call("GET", "/static/page.js", headers={"If-None-Match": script.headers["ETag"]})
    assert again.status_code == 304


@pytest.mark.parametrize(
    "path",
    [
        "/static/../secret",
        "/static/%2e%2e/secret",
        "/static/..%2fsecret",
        "/static//etc/passwd",
        "/static/",
        "/static/no",
    ],
)
def test_nothing_beside_the_page_is_given_away(start, service, page, path):
    call = start(service, web=page)
    connection = http.client.HTTPConnection(call.url.partition("//")[2])
    connection.request("GET", path)
    answer = connection.getresponse()
    assert answer.status == 404
    assert b"not for you" not in answer.read()
    connection.close()


def test_without_a_page_the_interface_stands(start, service, tmp_path):
    call = start(service, web=tmp_path)
    assert call("GET", "/").status_code == 404
    assert call("GET", "/healthz").status_code == 200


@pytest.mark.parametrize("path", ["/v1/snapshot", "/metrics?over=60"])
def test_large_answers_beyond_the_bound_are_refused(start, service, monkeypatch, path):
    gate, begun = threading.Event(), threading.Event()
    snapshot = service.snapshot

    def slow(**named):
        begun.set()
        gate.wait(20)
        return snapshot(**named)

    monkeypatch.setattr(service, "snapshot", slow)
    own = start(service)
    with ThreadPoolExecutor(12) as threads:
        asked = [threads.submit(own.anew, "GET", path) for _ in range(12)]
        try:
            assert begun.wait(20)
            refused = [one.result() for _, one in zip(range(4), as_completed(asked), strict=False)]
            assert [one.status_code for one in refused] == [503] * 4
            assert int(refused[0].headers["Retry-After"]) >= 1
            assert own("GET", "/healthz").status_code == 200
        finally:
            gate.set()
        statuses = sorted(one.result().status_code for one in asked)
    assert statuses == [200] * 8 + [503] * 4
