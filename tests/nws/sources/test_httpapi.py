"""What Prometheus' API answers, and each way in which it does not: one sentence with what to do."""

from __future__ import annotations

import json
import socket
import threading

import pytest

from nws.base.errors import ProbeError
from nws.sources import httpapi
from nws.sources.httpapi import PrometheusApi
from nws.sources.prometheussettings import PrometheusSettings
from tests.transcripts import recorded


@pytest.fixture
def ask(prometheus):
    """Ask the fake; options : of the settings."""

    def asking(question="up", **options):
        with PrometheusApi(PrometheusSettings(url=options.pop("url", prometheus.url), **options)) as api:
            return api.query(question)

    return asking


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text("s3cret-word\n")
    path.chmod(0o600)
    return path


def refused(ask, **options):
    with pytest.raises(ProbeError) as caught:
        ask(**options)
    assert str(caught.value).startswith("prometheus http")
    return str(caught.value)


def test_answer_is_its_samples_and_when_they_were_evaluated(ask, prometheus):
    prometheus.says([({"instance": "a:1"}, 1.5), ({"instance": "b:1"}, "2e9")], t=1700000000.25)
    answer = ask("sum by (instance) (up)")
    assert answer.t == 1700000000.25
    assert [(s.labels["instance"], s.value) for s in answer.samples] == [("a:1", 1.5), ("b:1", 2e9)]
    assert prometheus.questions == ["sum by (instance) (up)"]
    assert prometheus.paths == ["/api/v1/query"]


def test_below_a_path(ask, prometheus):
    prometheus.says([])
    ask(url=prometheus.url + "/prometheus/")
    assert prometheus.paths == ["/prometheus/api/v1/query"]


def test_nothing_found_has_no_time(ask, prometheus):
    prometheus.says([])
    answer = ask()
    assert answer.t is None
    assert answer.samples == ()


@pytest.mark.parametrize("text", ["NaN", "+Inf", "-Inf"])
def test_what_is_no_number_is_a_gap(ask, prometheus, text):
    prometheus.says([({"instance": "a:1"}, text), ({"instance": "b:1"}, 1.0)])
    assert [s.labels["instance"] for s in ask().samples] == ["b:1"]


def test_token_goes_as_bearer_and_is_read_anew(prometheus, secret):
    prometheus.says([])
    with PrometheusApi(PrometheusSettings(url=prometheus.url, token_file=secret)) as api:
        api.query("up")
        secret.write_text("another-word")
        api.query("up")
    assert prometheus.authorizations == ["Bearer s3cret-word", "Bearer another-word"]


def test_user_and_password_go_as_basic(ask, prometheus, secret):
    prometheus.says([])
    ask(user="me", password_file=secret)
    assert prometheus.authorizations == ["Basic bWU6czNjcmV0LXdvcmQ="]


def test_without_either_nothing_is_sent_whatever_netrc_says(ask, prometheus, tmp_path, monkeypatch):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password mine\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    prometheus.says([])
    ask()
    assert prometheus.authorizations == [None]


def test_secret_that_others_may_read_is_not_used(ask, prometheus, secret):
    secret.chmod(0o644)
    assert "chmod 600" in refused(ask, token_file=secret)
    assert prometheus.questions == []


def test_secret_that_is_not_there(ask, tmp_path):
    told = refused(ask, user="me", password_file=tmp_path / "nothing")
    assert "the password cannot be read: No such file" in told


@recorded("nws/sources/statuses.txt", "status", "headers", "body")
def test_status_is_told_with_what_to_do(ask, prometheus, answered, status, headers, body):
    prometheus.status, prometheus.headers, prometheus.body = status, headers, body
    answered(refused(ask).replace(prometheus.url, "URL"))


def test_refused_secret_is_named_by_its_file(ask, prometheus, secret):
    prometheus.status = 401
    told = refused(ask, token_file=secret)
    assert str(secret) in told
    assert "s3cret" not in told


@recorded("nws/sources/passed_on.txt", "status", "kind")
def test_what_prometheus_itself_says_is_passed_on(ask, prometheus, answered, status, kind):
    prometheus.status = status
    prometheus.body = json.dumps({"status": "error", "errorType": kind, "error": "it is broken"}).encode()
    answered(refused(ask).replace(prometheus.url, "URL"))


@pytest.mark.parametrize("warnings", [["one store did not answer", "nor did another"], "odd"])
def test_partial_answer_is_not_used(ask, prometheus, warnings):
    prometheus.says([({"instance": "a:1"}, 1.0)], warnings=warnings)
    told = refused(ask)
    assert "a partial answer, which is not used" in told
    assert ("one store did not answer; nor did another" in told) == isinstance(warnings, list)


def test_remarks_on_the_question_do_no_harm(ask, prometheus):
    prometheus.says([({"instance": "a:1"}, 1.0)], infos=["metric might not be a counter"])
    assert len(ask().samples) == 1


@recorded("nws/sources/undescribed_answers.txt", "data")
def test_answer_the_api_does_not_describe(ask, prometheus, answered, data):
    prometheus.body = json.dumps({"status": "success", "data": data}).encode()
    answered(refused(ask).replace(prometheus.url, "URL"))


def test_nobody_listens(ask):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        told = refused(ask, url=f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert told.endswith("no answer: Connection refused; is Prometheus running there, and is url right?")


def test_nobody_answers(ask):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        told = refused(ask, url=f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.1)
    assert "no answer within 0.1 s" in told


def test_server_that_hangs_up(ask):
    with socket.create_server(("127.0.0.1", 0)) as rude:
        rude.settimeout(10)

        def hang_up():
            connection, _ = rude.accept()
            connection.recv(1000)
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        told = refused(ask, url=f"http://127.0.0.1:{rude.getsockname()[1]}")
        thread.join()
    assert "no answer: " in told


def test_answer_cut_short(ask, prometheus):
    prometheus.drip = (2, 30.0)
    prometheus.body = b"{"
    assert "no answer" in refused(ask, timeout_s=0.2)


def test_answer_without_end(ask, prometheus, monkeypatch):
    monkeypatch.setattr(httpapi, "LONGEST_ANSWER", 1000)
    prometheus.body = b" " * 1001
    assert "longer than 1000 bytes; narrow it with match" in refused(ask)


def test_answer_that_drips(ask, prometheus):
    # each piece comes in time, all of them never would
    prometheus.drip, prometheus.body = (1000, 0.05), b" " * httpapi._PIECE
    assert "took longer than 0.2 s" in refused(ask, every_s=0.2, timeout_s=0.2)


def test_certificates_that_are_not_there(ask, tmp_path):
    told = refused(ask, url="https://127.0.0.1:9", ca=tmp_path / "no.pem")
    assert "no.pem" in told
    assert "check ca" in told


def test_plain_http_where_tls_was_expected(ask, prometheus):
    prometheus.says([])
    told = refused(ask, url=prometheus.url.replace("http:", "https:"))
    assert "no secure connection: wrong version number; " in told.lower()
    assert "check url, or set ca" in told
