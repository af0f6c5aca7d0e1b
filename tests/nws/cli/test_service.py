"""`nws show`, `forecast`, `pairs`, `export` and `forget` against a real service."""

import json
import os
import pty
import subprocess
import sys
import time

import pytest

from nws.series import Measurement, Series
from nws.service.serviceconfig import CliqueConfig, ServiceConfig
from nws.testing import InMemoryServer
from tests.transcripts import replay, transcripts


class Clock:
    def __init__(self):
        self.t = 1_795_000_000.0

    def __call__(self):
        return self.t


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def service(clock):
    """Three hosts in a row; a-b is quick there and slow back, b-c is measured, a-c is not."""
    config = ServiceConfig(
        grid="lab",
        cliques={"west": CliqueConfig(members=("a", "b")), "east": CliqueConfig(members=("b", "c"))},
    )
    with InMemoryServer(config, clock=clock) as server:
        for host in "abc":
            server.register(host, cpus=2, site="lab", address=f"10.0.0.{ord(host)}")
        values = {f"cpu.new@{h}": 0.5 for h in "abc"}
        for pair, latency_s, bandwidth_Bps in (
            ("a>b", 1e-3, 1e8),
            ("b>a", 1e-3, 2.5e7),
            ("b>c", 2e-3, 1e8),
            ("c>b", 6e-3, 1e8),
        ):
            values[f"network.latency@{pair}"] = latency_s
            values[f"network.bandwidth@{pair}"] = bandwidth_Bps
        for ago in (20.0, 10.0, 0.0):
            server.put(Measurement(Series.parse(n), clock.t - ago, v) for n, v in values.items())
        yield server


@pytest.fixture
def ask(nws, service):
    """Runs `nws` with `--server`."""
    return lambda command, *arguments: nws(command, "--server", service.url, *arguments)


class Session:
    """A person who asks a service, and the clock that they wait by."""

    def __init__(self, ask, service, clock):
        self._ask, self._service, self._clock = ask, service, clock

    def later(self, seconds):
        self._clock.t += float(seconds)

    def nws(self, *words):
        run = self._ask(*words)
        lines = f"{run.err}{run.out}".replace(self._service.url, "URL").splitlines()
        return [f"exit {run.code}", *filter(None, lines)]


@transcripts("nws/cli/service")
def test_nws_asked_of_a_service_prints_what_was_recorded(ask, service, clock, transcript, golden):
    golden(transcript, replay(transcript, Session(ask, service, clock)))


def test_show_hosts_alive_and_lost(ask, service, clock):
    with service.client(host="d") as client:
        client.register("d", {"address": "10.0.0.9", "port": 0, "cpus": 8})
    clock.t += 50.0
    with service.client(host="e") as client:
        client.register("e", {"address": "10.0.0.8", "port": 0})
    service.service.tick()
    lines = [line.split() for line in ask("show", "--hosts").out.splitlines()]
    headings = "host  site  state  seen  address  CPUs  cliques  series  lost runs  buffered"
    assert lines[0] == headings.split()
    assert lines[2][:6] == ["b", "lab", "lost", "50", "s", "10.0.0.98"]
    assert set(lines[2][7:9]) == {"east", "west"}
    assert lines[-1] == ["e", "alive", "0", "s", "10.0.0.8", "-", "-", "0", "-", "0"]


def test_show_hosts_tells_lost_runs(ask, service, clock):
    with service.client(host="d") as client:
        client.register("d", {"address": "10.0.0.9", "port": 0, "cpus": 8})
        client.put(status={"done": 90, "failed": 3, "missed": 2, "skipped": 1, "buffered": 12})
    assert ask("show", "--hosts", "--host", "d").out.splitlines()[1].split()[-2:] == ["6", "12"]
    (host,) = json.loads(ask("show", "--hosts", "--host", "d", "--json").out)["hosts"]
    assert (host["host"], host["lost"], host["age_s"], host["lost_runs"]) == ("d", False, 0.0, 6)
    assert host["status"]["done"] == 90


def test_show_hosts_says_why_a_monitor_has_nothing(ask, service):
    service.service.note_faults("http://p", {"a": "steal falls\x1b", "never": "is off"})
    lines = ask("show", "--hosts").out.splitlines()
    assert [line.split()[0] for line in lines if "faulty" in line] == ["a", "never"]
    assert lines[-2:] == [r"a: steal falls\x1b", "never: is off"]
    assert (
        json.loads(ask("show", "--hosts", "--host", "never", "--json").out)["hosts"][0]["fault"] == "is off"
    )
    service.service.note_faults("http://p", {})
    assert "faulty" not in ask("show", "--hosts").out


def test_hosts_are_a_matter_of_a_service(nws, measured):
    measured(time.time(), **{"cpu.new@a": [0.5]})
    run = nws("show", "--hosts")
    assert (run.code, run.out) == (2, "")
    assert "--hosts lists the hosts of a service; name one with --server URL or NWS_SERVER" in run.err


def test_what_a_service_exports_a_store_takes_and_gives_back(ask, nws, tmp_path):
    first = ask("export").out
    (tmp_path / "all.csv").write_text(first)
    assert nws("insert", tmp_path / "all.csv").code == 0
    assert nws("export").out == first


@pytest.mark.parametrize(("columns", "title"), [("120", "latency, from (down)"), ("20", "from")])
def test_terminal_gets_a_matrix_if_it_is_wide_enough(service, columns, title):
    leader, follower = pty.openpty()
    environ = {**os.environ, "COLUMNS": columns, "TERM": "xterm", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "nws.cli", "pairs", "--server", service.url]
    with subprocess.Popen(command, stdout=follower, env=environ) as process:
        os.close(follower)
        said = b""
        while chunk := _read(leader):
            said += chunk
    os.close(leader)
    assert process.returncode == 0
    assert said.decode().strip().startswith(title)


def _read(leader):
    try:
        return os.read(leader, 65536)
    except OSError:
        # the other end of a terminal was closed
        return b""


def test_pairs_of_a_store_are_composed_as_well(nws, measured):
    measured(
        time.time(),
        **{f"network.{k}@{p}": [1e-3] * 3 for k in ("latency", "bandwidth") for p in ("a>b", "b>c")},
    )
    found = {(p["from"], p["to"]): p for p in json.loads(nws("pairs", "--json").out)["pairs"]}
    assert found["a", "c"]["through"] == ["b"]
    assert found["a", "b"]["latency_ratio"] is None
    run = nws("pairs", "--host", "a", "--host", "z")
    assert run.code == 8
    assert "no host z in" in run.err


def test_no_pair_at_all(nws, measured):
    measured(time.time(), **{"cpu.new@a": [0.5]})
    run = nws("pairs")
    assert (run.code, run.out, run.err) == (0, "", "no pair of hosts is measured\n")
    assert json.loads(nws("pairs", "--json").out)["pairs"] == []


def test_forgetting_needs_a_service(nws):
    run = nws("forget", "a")
    assert (run.code, run.err) == (2, "nws: name the service with --server URL or NWS_SERVER\n")


# which of the two is asked


def test_environment_names_the_service(nws, service, monkeypatch):
    monkeypatch.setenv("NWS_SERVER", service.url)
    assert len(nws("show").out.splitlines()) == 1 + 11


def test_store_on_the_command_line_wins_over_the_environment(nws, service, measured, state, monkeypatch):
    monkeypatch.setenv("NWS_SERVER", service.url)
    measured(time.time(), **{"cpu.new@mine": [0.5]})
    assert [
        line.split()[0] for line in nws("show", "--store", state / "weather.db").out.splitlines()[1:]
    ] == ["cpu.new@mine"]


@pytest.mark.parametrize("command", ["show", "forecast", "pairs", "export"])
def test_both_at_once_contradict(nws, command, tmp_path):
    run = nws(command, "--server", "http://a:1", "--store", tmp_path / "w.db")
    assert run.code == 2
    assert run.err == "nws: --store and --server exclude each other; name the file or the service\n"


@pytest.mark.parametrize("option", ["--token-file", "--ca"])
def test_options_of_a_service_without_one(nws, option, tmp_path):
    run = nws("show", option, tmp_path / "x")
    assert (run.code, run.err) == (2, f"nws: {option} is for a service; name one with --server URL\n")


@pytest.mark.parametrize("command", ["show", "forecast", "pairs", "export"])
def test_service_that_is_gone(ask, service, command):
    service.stop()
    run = ask(command)
    assert (run.code, run.out) == (7, "")
    assert run.err.startswith(f"nws: {service.url}: ")
    assert run.err.count("\n") == 1


def test_token_from_a_file(nws, tmp_path):
    path = tmp_path / "read.token"
    path.write_text("reading-0123456789\n")
    path.chmod(0o600)
    with InMemoryServer(tokens={"read": ["reading-0123456789"]}) as server:
        assert nws("show", "--server", server.url, "--token-file", path).code == 0
        without = nws("show", "--server", server.url)
        assert (without.code, without.out) == (6, "")
        path.chmod(0o644)
        assert "chmod 600" in nws("show", "--server", server.url, "--token-file", path).err
