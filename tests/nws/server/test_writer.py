"""Group commit: what waits at the same time is one transaction, and everybody is answered for himself."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from nws.server import writer

REGISTRATION = {"address": "10.0.0.1", "port": 4000}


def batch(series, n=1):
    return {"series": [series], "index": [0] * n, "t": list(range(n)), "value": [0.5] * n}


@pytest.fixture
def together(call, service, eventually):
    """`together([(body, headers), …])` lets puts wait behind one that is under way; answers in their order."""

    def run(requests):
        service.gate.clear()
        with ThreadPoolExecutor(len(requests) + 1) as pool:
            first = pool.submit(call.anew, "POST", "/v1/measurements", batch("cpu.new@first"))
            backend = call.server.app.state.backend
            eventually(lambda: service.begun)
            answers = [
                pool.submit(call.anew, "POST", "/v1/measurements", body, headers=headers)
                for body, headers in requests
            ]
            waiting = sum(len(body.get("t", ())) + 1 for body, _ in requests) + 2
            eventually(lambda: backend.writer.waiting == waiting)
            service.gate.set()
            assert first.result().status_code == 200
            return [answer.result() for answer in answers]

    return run


def test_puts_that_wait_go_into_one_transaction(together, service):
    answers = together([(batch(f"cpu.new@h{n}"), None) for n in range(20)])
    assert [a.status_code for a in answers] == [200] * 20
    assert service.groups == [1, 20]
    assert len(service.kept) == 21


def test_one_senders_mistake_is_nobody_elses(together, call, service):
    key = call("POST", "/v1/hosts/alpha", REGISTRATION).json()["key"]
    good = {"X-NWS-Host": "alpha", "X-NWS-Key": key}
    bad = {"X-NWS-Host": "alpha", "X-NWS-Key": "wrong"}
    stranger = {"X-NWS-Host": "omega", "X-NWS-Key": "wrong"}
    heads = [good, bad, None, stranger]
    answers = together([(batch(f"cpu.new@h{n}"), headers) for n, headers in enumerate(heads)])
    assert [a.status_code for a in answers] == [200, 403, 200, 404]
    assert set(service.kept) == {"cpu.new@first", "cpu.new@h0", "cpu.new@h2"}


def test_too_much_waiting_is_refused_for_a_moment(call, service, monkeypatch, eventually):
    monkeypatch.setattr(writer, "MOST_WAITING", 100)
    service.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(call.anew, "POST", "/v1/measurements", batch("cpu.new@a", 90))
        eventually(lambda: call.server.app.state.backend.writer.waiting)
        answer = call("POST", "/v1/measurements", batch("cpu.new@b", 20))
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) >= 1
        assert call("GET", "/healthz").status_code == 200, "who asks is not held up"
        service.gate.set()
        assert first.result().status_code == 200
    assert call("POST", "/v1/measurements", batch("cpu.new@b", 200)).status_code == 200, "alone it is taken"


def test_service_that_breaks_answers_everybody_and_goes_on(together, call, service, caplog):
    service.failure = ZeroDivisionError("bug")
    service.gate.clear()
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(call.anew, "POST", "/v1/measurements", batch("cpu.new@a")) for _ in range(2)]
        service.gate.set()
        assert [a.result().status_code for a in answers] == [500, 500]
    service.failure = None
    assert call("POST", "/v1/measurements", batch("cpu.new@a")).status_code == 200


def test_what_was_accepted_before_the_end_is_kept(start, service, eventually):
    own = start(service)
    service.gate.clear()
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(own.anew, "POST", "/v1/measurements", batch("cpu.new@a", 5))
        eventually(lambda: own.server.app.state.backend.writer.waiting)
        ended = pool.submit(own.server.stop)
        service.gate.set()
        assert answer.result().json()["accepted"] == 5
        ended.result()
    assert len(service.kept["cpu.new@a"]) == 5


def test_housekeeping_goes_on_beside_it(start, service, eventually, monkeypatch):
    monkeypatch.setattr("nws.server.backend.TICK_S", 0.01)
    start(service)
    eventually(lambda: service.ticks > 3)


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (ZeroDivisionError, "housekeeping fails"),
        (MemoryError, "housekeeping fails: no memory is left"),
    ],
)
def test_housekeeping_that_fails_is_told_once_and_tried_again(
    start, service, eventually, monkeypatch, caplog, failure, line
):
    monkeypatch.setattr("nws.server.backend.TICK_S", 0.01)
    calls = []

    def tick():
        calls.append(1)
        if len(calls) < 5:
            raise failure

    alone = type(service)()
    monkeypatch.setattr(alone, "tick", tick)
    start(alone)
    eventually(lambda: len(calls) > 6)
    lines = [r.message for r in caplog.records if r.name == "nws.server.backend"]
    assert lines == [line, "housekeeping works again"]
