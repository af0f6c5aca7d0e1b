"""The client over a real service: every path of the interface, every way to be refused, nobody there."""

import json
import math
import socket

import pytest

from nws.base.errors import (
    Forbidden,
    Malformed,
    NameTaken,
    NotFound,
    Refused,
    ServiceError,
    ServiceUnreachable,
    TooMany,
    Unauthorized,
    UsageError,
)
from nws.client.remote import NAMES_PER_REQUEST, ServiceClient, batch_document
from nws.series import Measurement, Series
from tests.transcripts import recorded

POWER = Series.parse("x.power@a")
ALPHA = {"address": "10.0.0.1", "port": 7, "cpus": 2, "cpu_model": "c", "memory_bytes": 1, "version": "1"}


@pytest.fixture
def client(server):
    with server.client() as client:
        yield client


def test_host_registers_once_and_is_known_by_its_key(server):
    with ServiceClient(server.url, host="d") as client:
        answer = client.register("d", ALPHA)
        assert client.key == answer["key"]
        assert {"now", "every", "schedule", "peers", "grid"} <= answer.keys()
        assert "key" not in client.register("d", ALPHA)
    with ServiceClient(server.url, host="d") as stranger, pytest.raises(NameTaken, match=server.url):
        stranger.register("d", ALPHA)


def test_host_writes_its_own_series_and_no_other(server):
    with ServiceClient(server.url, host="d") as client:
        client.register("d", ALPHA)
        own = Measurement(Series.parse("x.power@d"), 1.8e9, 3.0)
        assert client.put([own])["accepted"] == 1
        with pytest.raises(Forbidden, match=r"d may not write x.power@a"):
            client.put([Measurement(POWER, 1.8e9, 3.0)])
    with (
        ServiceClient(server.url, host="d", key="wrong") as thief,
        pytest.raises(Forbidden) as caught,
    ):
        thief.put([own])
    assert caught.value.status == 403


def test_numbered_deliveries_may_be_repeated(client):
    batch = [Measurement(POWER, 1.8e9 - 10 + k, float(k)) for k in range(5)]
    first = client.put(batch, source="meter/1", first=0, status={"done": 5})
    again = client.put(batch, source="meter/1", first=0)
    assert [(a["accepted"], a["next"]) for a in (first, again)] == [(5, 5), (0, 5)]
    assert client.samples(str(POWER), resolution="raw")["value"] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_sign_of_life_is_a_batch_of_nothing(client):
    assert client.put()["accepted"] == 0


def test_batch_names_every_series_once():
    b = Series.parse("x.power@b")
    batch = batch_document(
        [Measurement(POWER, 1.0, 2.0), Measurement(b, 1.5, 3.0), Measurement(POWER, 2.0, 4.0)]
    )
    assert batch == {
        "series": ["x.power@a", "x.power@b"],
        "index": [0, 1, 0],
        "t": [1.0, 1.5, 2.0],
        "value": [2.0, 3.0, 4.0],
    }


def test_hosts_are_listed_told_of_and_forgotten(client):
    assert [h["name"] for h in client.hosts()["hosts"]] == ["a", "b", "c"]
    assert set(client.host_state("b")["cliques"]) == {"east", "west"}
    client.forget("b")
    with pytest.raises(NotFound, match="no host 'b'"):
        client.host_state("b")
    with pytest.raises(NotFound):
        client.forget("b")


def test_who_probes_whom(client):
    answer = client.schedule()
    assert {"now", "schedule", "peers"} <= answer.keys()


def test_series_of_a_host_and_of_a_resource(client):
    by_host = {s["series"] for s in client.series(host="a", resource="network.latency")["series"]}
    assert by_host == {"network.latency@a>b", "network.latency@b>a"}
    assert len(client.series()["series"]) == 14


def test_samples_between_two_times(client):
    found = client.samples("cpu.new@a", since=1.8e9 - 15, until=1.8e9 - 5, resolution="raw")
    assert (found["t"], found["value"], found["unit"]) == ([1.8e9 - 10], [0.5], "CPU")
    assert client.samples("cpu.new@a", most=2, resolution="raw")["truncated"]


def test_plot_has_the_forecasts_made_before_each_point(client):
    found = client.plot("cpu.new@a", since=1.8e9 - 60, until=1.8e9, points=100)
    assert len(found["t"]) == len(found["forecast"]) == len(found["error"])


def test_forecasts_by_name_and_of_all(client):
    (one,) = client.forecasts(["cpu.new@a"])["forecasts"]
    assert (one["series"], one["value"], one["samples"], one["age_s"]) == ("cpu.new@a", 0.5, 3, 0.0)
    assert len(client.forecasts()["forecasts"]) == 14


def test_many_names_are_asked_for_in_turns(server, client):
    many = [Series.parse(f"x.n{k}@a") for k in range(2 * NAMES_PER_REQUEST + 1)]
    server.put(Measurement(s, 1.8e9, 1.0) for s in many)
    found = client.forecasts([str(s) for s in many])
    assert [f["series"] for f in found["forecasts"]] == [str(s) for s in many]


def test_snapshot_of_some_hosts_with_composed_pairs(client):
    found = client.snapshot(hosts=["a", "c"], composed=True)
    assert [h["name"] for h in found["hosts"]] == ["a", "c"]
    assert list(zip(found["composed"]["from"], found["composed"]["to"], strict=True)) == [
        ("a", "c"),
        ("c", "a"),
    ]


def test_events_come_back_in_their_time(client):
    client.event("plan made", "heat 64", t=1.8e9 - 1)
    client.event("note", "of a host", t=1.8e9 + 1, host="a")
    since = client.events(since=1.8e9 - 1.5, until=1.8e9 - 0.5)["events"]
    assert [(e["kind"], e["text"]) for e in since] == [("plan made", "heat 64")]
    assert client.events(most=1)["events"][0]["host"] == "a"


def test_health_needs_no_token(guarded):
    with ServiceClient(guarded.url) as client:
        assert client.health()["status"] == "ok"


def test_roles(guarded):
    def client_with(token):
        return ServiceClient(guarded.url, token=token)

    with client_with(None) as nobody, pytest.raises(Unauthorized):
        nobody.hosts()
    with client_with("no-such-token-at-all") as stranger, pytest.raises(Unauthorized):
        stranger.hosts()
    with client_with("read-token-0123456789") as reader:
        assert reader.hosts()["hosts"] == []
        with pytest.raises(Forbidden):
            reader.event("note", "x", t=1.8e9)
    with client_with("write-token-012345678") as writer:
        writer.register("w", ALPHA)
        with pytest.raises(Forbidden, match="needs the role admin"):
            writer.put([Measurement(POWER, 1.8e9, 1.0)])
    with guarded.client() as admin:
        assert admin.put([Measurement(POWER, 1.8e9, 1.0)])["accepted"] == 1


@pytest.mark.parametrize(
    ("ask", "kind"),
    [
        (lambda c: c.samples("cpu.new@nobody"), NotFound),
        (lambda c: c.forecasts(["cpu.new@nobody"]), NotFound),
        (lambda c: c.event("Not A Kind!", "x", t=1.8e9), Refused),
        (lambda c: c.put_batch({"series": ["x.a@a"], "index": [0], "t": ["now"], "value": [1]}), Malformed),
        (lambda c: c.register("bad name", ALPHA), ServiceError),
        (lambda c: c.samples("cpu.new@a", resolution="7"), ServiceError),
    ],
)
def test_what_the_server_says_is_what_the_caller_reads(server, client, ask, kind):
    with pytest.raises(kind) as caught:
        ask(client)
    assert str(caught.value).startswith(f"{server.url}: ")
    assert 400 <= caught.value.status < 500
    assert "Traceback" not in str(caught.value)


def refusal(status, message, problems=(), headers=None):
    error = {"status": status, "message": message, "problems": list(problems)}
    return (
        status,
        {"Content-Type": "application/json", **(headers or {})},
        json.dumps({"error": error}).encode(),
    )


def test_busy_server_says_when_to_come_back(scripted):
    scripted.script = [refusal(429, "too many requests", headers={"Retry-After": "7"})]
    with ServiceClient(scripted.url) as client, pytest.raises(TooMany) as caught:
        client.hosts()
    assert (caught.value.retry_after_s, caught.value.status) == (7.0, 429)


def test_problem_is_told_once(scripted):
    scripted.script = [refusal(400, "two things are wrong", ["t: missing", "value: missing", "t: missing"])]
    with ServiceClient(scripted.url) as client, pytest.raises(Malformed) as caught:
        client.put()
    assert str(caught.value) == f"{scripted.url}: two things are wrong\nt: missing\nvalue: missing"
    assert len(caught.value.problems) == 3


@recorded("nws/client/other_programs.txt", "answer")
def test_another_program_at_that_address(scripted, answered, answer):
    scripted.script = [answer]
    with ServiceClient(scripted.url) as client, pytest.raises(ServiceError) as caught:
        client.hosts()
    answered(str(caught.value).replace(scripted.url, "URL"))


def test_server_in_trouble_still_tells_its_health(scripted):
    body = b'{"status": "failed", "store": "", "reason": "disk"}'
    scripted.script = [(503, {"Content-Type": "application/json"}, body)]
    with ServiceClient(scripted.url) as client:
        assert client.health()["reason"] == "disk"


def test_token_goes_with_every_request_and_neither_netrc_nor_proxy_is_asked(scripted, monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    scripted.script = [(200, {}, b'{"hosts": []}')] * 2
    with ServiceClient(scripted.url, token="word", host="a", key="k") as client:
        client.hosts()
        client.register("a", {})
    for _, _, headers in scripted.asked:
        assert (headers["Authorization"], headers["X-NWS-Host"], headers["X-NWS-Key"]) == (
            "Bearer word",
            "a",
            "k",
        )


def test_question_on_a_connection_that_was_closed_meanwhile_is_asked_again(scripted):
    scripted.script = [(200, {}, b'{"hosts": []}'), "hang up", (200, {}, b'{"hosts": [1]}')]
    with ServiceClient(scripted.url) as client:
        client.hosts()
        assert client.hosts() == {"hosts": [1]}


def test_delivery_is_never_sent_twice_by_itself(scripted):
    scripted.script = [(200, {}, b"{}"), "hang up", (200, {}, b"{}")]
    with ServiceClient(scripted.url) as client:
        client.hosts()
        with pytest.raises(ServiceUnreachable, match="the connection broke before an answer came"):
            client.put()
    assert len(scripted.asked) == 2


def test_nobody_listens():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with ServiceClient(url) as client, pytest.raises(ServiceUnreachable) as caught:
            client.hosts()
    assert str(caught.value) == f"{url}: nobody listens there (connection refused)"
    assert caught.value.exit_code == 7


def test_server_that_accepts_and_says_nothing(scripted):
    scripted.script = ["silence"]
    with (
        ServiceClient(scripted.url, timeout_s=0.2) as client,
        pytest.raises(ServiceUnreachable, match=r"no answer within 0.2 s"),
    ):
        client.hosts()


def test_name_that_nobody_has():
    with (
        ServiceClient("http://no-such-host.invalid:1") as client,
        pytest.raises(ServiceUnreachable) as caught,
    ):
        client.hosts()
    assert "host" in str(caught.value)


def test_plain_http_where_tls_is_expected(scripted):
    url = scripted.url.replace("http:", "https:")
    with ServiceClient(url) as client, pytest.raises(ServiceUnreachable, match=url):
        client.hosts()


def test_server_that_was_stopped_is_unreachable(server, client):
    client.hosts()
    server.stop()
    with pytest.raises(ServiceUnreachable):
        client.hosts()


def test_numbers_that_json_does_not_have_are_no_measurements(client):
    with pytest.raises(ServiceError):
        client.put([Measurement(POWER, 1.8e9, math.nan)])


def test_address_that_is_none():
    with pytest.raises(UsageError, match="expected http://HOST:PORT"):
        ServiceClient("alpha:8090")


def test_tls_with_a_certificate_that_is_named(scripted_tls, certificate):
    scripted_tls.script = [(200, {}, b'{"hosts": []}')]
    with ServiceClient(scripted_tls.url, ca=certificate[0]) as client:
        assert client.hosts() == {"hosts": []}


def test_tls_with_a_certificate_that_nobody_signed(scripted_tls):
    with ServiceClient(scripted_tls.url) as client, pytest.raises(ServiceUnreachable) as caught:
        client.hosts()
    assert "its certificate is not trusted (self-signed certificate)" in str(caught.value)
    assert "(--ca)" in str(caught.value)
