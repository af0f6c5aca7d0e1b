"""`nws insert`: all of a file or nothing, into a store or a service, and never twice."""

import io
import json
import sys
import time
from importlib import import_module

import pytest

from nws.base.errors import ServiceError, ServiceUnreachable, TooMany
from nws.testing import InMemoryServer
from tests.transcripts import recorded

module = import_module("nws.cli.insert")
NOW = float(int(time.time()))
TOKENS = {"write": ["writing-0123456789"], "admin": ["ruling-0123456789"]}


@pytest.fixture
def file(tmp_path):
    """Writes measurements (series → values, one a second, the last now) and gives the file."""

    def write(name="m.csv", **series):
        lines = [
            f"{one},{NOW - len(values) + 1 + k!r},{value!r}"
            for one, values in series.items()
            for k, value in enumerate(values)
        ]
        (tmp_path / name).write_text("\n".join(["series,t,value", *lines]) + "\n")
        return tmp_path / name

    return write


@pytest.fixture
def service():
    with InMemoryServer() as server:
        yield server


@pytest.fixture
def guarded(tmp_path):
    """A service with tokens, and their files by role."""
    for role, (token,) in TOKENS.items():
        path = tmp_path / f"{role}.token"
        path.write_text(token)
        path.chmod(0o600)
    with InMemoryServer(tokens=TOKENS) as server:
        server.files = {role: tmp_path / f"{role}.token" for role in TOKENS}
        yield server


def test_into_the_store_and_out_again(nws, file):
    path = file(**{"x.power@alpha": [130.0, 1.0 / 3.0], "x.hops@a>b": [3.0], "cpu.new@a": [0.5]})
    run = nws("insert", path)
    assert (run.code, run.out) == (0, f"{path}: 4 measurements of 3 series: 4 inserted\n")
    assert set(nws("export").out.splitlines()) == set(path.read_text().splitlines())
    assert nws("forecast", "x.power@alpha").out.splitlines()[1].split()[0] == "x.power@alpha"


def test_into_a_service(nws, file, service):
    run = nws("insert", file(**{"x.power@alpha": [130.0, 140.0]}), "--server", service.url, "--json")
    document = json.loads(run.out)
    assert document == {
        "measurements": 2,
        "series": 1,
        "server": service.url,
        "inserted": 2,
        "present": 0,
        "refused": 0,
    }
    with service.client() as client:
        assert client.samples("x.power@alpha", resolution="raw")["value"] == [130.0, 140.0]


@pytest.mark.parametrize("to_service", [False, True])
def test_same_file_twice_is_kept_once(nws, file, service, to_service):
    where = ["--server", service.url] if to_service else []
    path = file(**{"x.power@alpha": [1.0, 2.0, 3.0]})
    assert nws("insert", path, *where).out.endswith("3 inserted\n")
    other = path.with_name("copy.csv")
    other.write_text(path.read_text())
    assert nws("insert", other, *where).out.endswith("0 inserted, 3 were there already\n")
    assert nws("export", *where).out.count("x.power@alpha") == 3


def test_from_a_pipe(nws, state, monkeypatch):
    lines = f"x.power@alpha,{NOW},1\n".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    assert nws("insert", "-").out == "standard input: 1 measurements of 1 series: 1 inserted\n"


@pytest.mark.parametrize("to_service", [False, True])
def test_one_wrong_line_and_nothing_is_kept(nws, file, service, state, to_service):
    where = ["--server", service.url] if to_service else []
    path = file(**{"x.power@alpha": [1.0] * 5})
    path.write_text(path.read_text() + "x.power@alpha,1\nx.power@alpha,now,1\n")
    run = nws("insert", path, *where)
    assert (run.code, run.out) == (2, "")
    assert [line.split(": ")[:2] for line in run.err.splitlines()] == [
        ["nws", f"{path}:7"],
        ["nws", f"{path}:8"],
    ]
    assert not (state / "weather.db").exists()
    with service.client() as client:
        assert client.series()["series"] == []


def test_only_checked(nws, file, state):
    path = file(**{"x.power@alpha": [1.0]})
    run = nws("insert", "--check", path)
    assert (run.code, run.out) == (0, f"{path}: 1 measurements of 1 series, no errors\n")
    assert not state.exists()
    assert json.loads(nws("insert", "--check", path, "--json").out) == {"measurements": 1, "series": 1}


def test_large_files_go_in_batches_and_say_how_far_they_are(nws, file, service, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 10)
    monkeypatch.setattr(module, "_PROGRESS_S", 0.0)
    path = file(**{"x.power@alpha": [float(k) for k in range(25)]})
    run = nws("insert", path, "--server", service.url)
    assert run.err == "".join(f"nws: {at} of 25 measurements\n" for at in (10, 20, 25))
    with service.client() as client:
        assert client.samples("x.power@alpha", resolution="raw")["value"] == [float(k) for k in range(25)]


def test_what_the_service_refuses_is_told(nws, file, service):
    path = file(**{"x.power@alpha": [1.0]})
    path.write_text(path.read_text() + f"x.power@alpha,{NOW + 50_000},2\nx.power@alpha,1000,2\n")
    run = nws("insert", path, "--server", service.url)
    assert run.code == 6
    assert run.out == f"{path}: 3 measurements of 1 series: 1 inserted, 2 refused\n"
    assert run.err.endswith("nws: 2 of 3 measurements were refused\n")
    assert run.err.count("nws: refused: ") >= 1


# as whom


def test_anything_may_be_written_with_an_admins_token(nws, file, guarded):
    where = ["--server", guarded.url, "--token-file"]
    path = file(**{"x.power@alpha": [1.0], "x.power@beta": [1.0]})
    refused = nws("insert", path, *where, guarded.files["write"])
    assert refused.code == 6
    assert "needs the role admin" in refused.err
    assert nws("insert", path, *where, guarded.files["admin"]).code == 0


def test_host_writes_its_own_series_with_its_key(nws, file, guarded, tmp_path, state):
    where = ["--server", guarded.url, "--token-file", guarded.files["write"], "--as-host", "alpha"]
    key = tmp_path / "alpha.key"
    key.write_text(guarded.register("alpha")["key"])
    key.chmod(0o600)
    path = file(**{"x.power@alpha": [1.0], "x.hops@alpha>beta": [2.0]})
    assert nws("insert", path, *where, "--key-file", key).code == 0
    state.mkdir(parents=True, exist_ok=True)
    key.rename(state / "sensor-alpha.key")
    again = nws("insert", file("n.csv", **{"x.power@alpha": [5.0]}), *where)
    assert again.out.endswith("1 inserted\n")
    (state / "sensor-alpha.key").write_text("not-the-key-at-all-000")
    assert nws("insert", file("o.csv", **{"x.power@alpha": [6.0]}), *where).code == 6


def test_host_writes_no_others_series(nws, file, service):
    path = file(**{"x.power@alpha": [1.0], **{f"x.power@b{k}": [1.0] for k in range(7)}})
    run = nws("insert", path, "--server", service.url, "--as-host", "alpha")
    assert run.code == 2
    assert run.err == (
        "nws: --as-host alpha: x.power@b0, x.power@b1, x.power@b2, x.power@b3, x.power@b4 and 2 more of other hosts; "
        "a host writes its own series only (of a pair, those that begin at it)\n"
    )


@recorded("nws/cli/insert_problems.txt", "options")
def test_options_that_do_not_fit(nws, file, answered, options):
    run = nws("insert", file(**{"x.power@a": [1.0]}), *options)
    assert (run.code, run.out) == (2, "")
    answered(run.err)


def test_key_file_that_is_not_there(nws, file, service, tmp_path):
    options = ["--server", service.url, "--as-host", "a", "--key-file", tmp_path / "no.key"]
    run = nws("insert", file(**{"x.power@a": [1.0]}), *options)
    assert (run.code, run.err) == (
        2,
        f"nws: {tmp_path}/no.key: the key cannot be read: No such file or directory\n",
    )


def test_service_that_is_gone(nws, file, service):
    service.stop()
    run = nws("insert", file(**{"x.power@a": [1.0]}), "--server", service.url)
    assert (run.code, run.out) == (7, "")


# servers that take less at once, or later


class Target:
    """Does what its script says for each batch: takes it, or raises."""

    def __init__(self, *script):
        self.script, self.taken = list(script), []

    def __call__(self, columns, first, end):
        step = self.script.pop(0) if self.script else None
        if step is not None:
            raise step
        self.taken.append((first, end))
        return end - first, 0, []


def columns_of(n):
    from nws.sources.csvfile import CsvColumns

    columns = CsvColumns(names=["x.power@a"])
    for k in range(n):
        columns.index.append(0)
        columns.t.append(float(k))
        columns.value.append(0.0)
    return columns


def test_batches_that_are_too_large_are_halved(monkeypatch):
    monkeypatch.setattr(module, "BATCH", 8)
    target = Target(ServiceError.of(413, "too large"), ServiceError.of(413, "too large"))
    assert module._in_batches(columns_of(5), target)["inserted"] == 5
    assert target.taken == [(0, 2), (2, 4), (4, 5)]


@pytest.mark.parametrize("error", [ServiceError.of(507, "disk full"), ServiceUnreachable("disk full")])
def test_insert_failing_half_way_reports_the_delivered(monkeypatch, error):
    monkeypatch.setattr(module, "BATCH", 2)
    with pytest.raises(
        type(error), match=r"^disk full\n2 of 5 measurements were delivered; insert the same file again"
    ):
        module._in_batches(columns_of(5), Target(None, error))


def test_server_that_is_asked_too_often_is_asked_later(monkeypatch):
    waited = []
    monkeypatch.setattr(module.time, "sleep", waited.append)
    answers = [
        TooMany("too many", retry_after_s=3.0),
        TooMany("too many", retry_after_s=900.0),
        {"accepted": 1},
    ]

    def ask():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert module._patiently(ask) == {"accepted": 1}
    assert waited == [3.0, 60.0]


def test_limit_that_waiting_does_not_lift_is_told():
    def ask():
        raise TooMany("too many series")

    with pytest.raises(TooMany, match="too many series"):
        module._patiently(ask)
