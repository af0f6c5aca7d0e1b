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


class Clock:
    def __init__(self):
        self.t = float(int(time.time()))

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


def test_show_lists_every_series_of_the_service(ask, clock):
    clock.t += 400.0
    run = ask("show")
    lines = run.out.splitlines()
    assert len(lines) == 1 + 11
    assert lines[1].split() == ["cpu.new@a", "3", "0.500", "CPU", "7", "min", "stale"]
    assert "stale" not in ask("show", "--stale-after", 500).out


def test_show_one_host(ask):
    assert {line.split()[0] for line in ask("show", "--host", "c").out.splitlines()[1:]} == {
        "cpu.new@c",
        *(f"network.{what}@{pair}" for what in ("latency", "bandwidth") for pair in ("b>c", "c>b")),
    }
    run = ask("show", "--host", "z")
    assert (run.code, run.err) == (8, "nws: no series of host z; `nws show` lists all\n")


def test_show_as_json(ask, service, clock):
    document = json.loads(ask("show", "--json").out)
    assert document["server"] == service.url
    assert document["series"][0] == {
        "series": "cpu.new@a",
        "unit": "CPU",
        "samples": 3,
        "last": 0.5,
        "measured_at": clock.t,
        "age_s": 0.0,
        "stale": False,
    }


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


def test_show_a_host_that_is_not_there(ask, service):
    run = ask("show", "--hosts", "--host", "z")
    assert (run.code, run.err) == (8, f"nws: no host z at {service.url}; known are a, b, c\n")


def test_hosts_are_a_matter_of_a_service(nws, measured):
    measured(time.time(), **{"cpu.new@a": [0.5]})
    run = nws("show", "--hosts")
    assert (run.code, run.out) == (2, "")
    assert "--hosts lists the hosts of a service; name one with --server URL or NWS_SERVER" in run.err


def test_forecasts_with_errors_and_ages(ask, clock):
    clock.t += 30.0
    heading, line = ask("forecast", "network.latency@a>b").out.splitlines()
    assert heading.split() == ["series", "forecast", "MAE", "RMSE", "method", "samples", "age"]
    words = line.split()
    assert words[:3] == ["network.latency@a>b", "1", "ms"]
    assert words[-3:] == ["3", "30", "s"]
    assert len(ask("forecast").out.splitlines()) == 1 + 11
    assert ask("forecast", "cpu.new@a", "--stale-after", 20).out.splitlines()[1].endswith("stale")


def test_forecast_as_json(ask, service, clock):
    document = json.loads(ask("forecast", "cpu.new@b", "--json").out)
    (found,) = document["forecasts"]
    assert (document["server"], document["now"]) == (service.url, clock.t)
    assert (found["series"], found["value"], found["age_s"], found["stale"]) == ("cpu.new@b", 0.5, 0.0, False)


def test_series_that_the_service_does_not_have(ask, service):
    run = ask("forecast", "cpu.new@z")
    assert (run.code, run.out) == (8, "")
    assert run.err.startswith(f"nws: {service.url}: ")
    assert "cpu.new@z" in run.err


@pytest.mark.parametrize("command", ["forecast", "export"])
def test_name_that_is_none_is_told_before_anybody_is_asked(ask, command):
    run = ask(command, "nonsense")
    assert run.code == 2
    assert "'nonsense' is not a series name" in run.err


def test_export_is_what_was_put(ask, clock):
    lines = ask("export", "cpu.new@a").out.splitlines()
    assert lines == ["series,t,value", *(f"cpu.new@a,{clock.t - ago!r},0.5" for ago in (20.0, 10.0, 0.0))]
    assert len(ask("export").out.splitlines()) == 1 + 33
    assert len(ask("export", "--since", clock.t - 15, "--until", clock.t - 5).out.splitlines()) == 1 + 11


def test_export_of_a_time_that_ends_before_it_begins(ask):
    run = ask("export", "--since", 5, "--until", 4)
    assert (run.code, run.out) == (2, "")
    assert "--since 5.0 --until 4.0: expected numbers, the first no later than the other" in run.err


def test_what_a_service_exports_a_store_takes_and_gives_back(ask, nws, tmp_path):
    first = ask("export").out
    (tmp_path / "all.csv").write_text(first)
    assert nws("insert", tmp_path / "all.csv").code == 0
    assert nws("export").out == first


# pairs


def test_pairs_as_a_list_with_composed_ones_and_their_path(ask):
    lines = ask("pairs").out.splitlines()
    rows = {tuple(line.split()[:2]): line for line in lines[1:]}
    assert lines[0].split() == ["from", "to", "latency", "±", "bandwidth", "±", "age", "asymmetry", "via"]
    assert len(rows) == 6
    assert " ".join(rows["a", "c"].split()) == "a c 3 ms 0 µs 100 MB/s 0 B/s 0 s 4× * b"
    assert " ".join(rows["b", "a"].split()) == "b a 1 ms 0 µs 25 MB/s 0 B/s 0 s 4×"
    assert rows["c", "b"].split()[-1] == "3×"


@pytest.mark.parametrize(
    ("by", "first"),
    [("latency", "c a"), ("bandwidth", "b a"), ("asymmetry", "a b"), ("age", "a b"), ("name", "a b")],
)
def test_pairs_worst_first(ask, by, first):
    assert " ".join(ask("pairs", "--sort", by).out.splitlines()[1].split()[:2]) == first


def test_pairs_of_one_host_and_among_some(ask):
    def pairs(*hosts):
        run = ask("pairs", *[w for host in hosts for w in ("--host", host)])
        return {tuple(line.split()[:2]) for line in run.out.splitlines()[1:]}

    assert pairs("c") == {("a", "c"), ("b", "c"), ("c", "a"), ("c", "b")}
    assert pairs("a", "c") == {("a", "c"), ("c", "a")}


def test_pairs_of_a_host_that_is_not_there(ask):
    run = ask("pairs", "--host", "z")
    assert (run.code, run.err) == (8, "nws: no host z; known are a, b, c\n")


def test_pairs_that_are_stale_are_marked(ask, clock):
    clock.t += 1000.0
    assert all(line.endswith("stale") for line in ask("pairs").out.splitlines()[1:])


def test_pairs_as_a_matrix(ask):
    lines = ask("pairs", "--matrix").out.splitlines()
    assert lines[0] == "latency, from (down) to (across)"
    assert lines[1].split() == ["a", "b", "c"]
    assert lines[2].split() == ["a", "1", "ms", "3", "ms*"]
    assert lines[4].split() == ["c", "7", "ms*", "6", "ms"]
    assert [line for line in lines if line.endswith("(across)")] == [
        f"{what}, from (down) to (across)" for what in ("latency", "bandwidth", "age", "asymmetry")
    ]
    assert lines[-2:] == ["* a → c composed via b", "* c → a composed via b"]


def test_matrix_marks_what_is_stale(ask, clock):
    clock.t += 1000.0
    out = ask("pairs", "--matrix").out
    assert "1 ms!" in out
    assert "3 ms*!" in out
    assert out.endswith("! measured more than 300 s ago\n")


def test_pairs_as_json(ask, service, clock):
    document = json.loads(ask("pairs", "--json", "--sort", "latency").out)
    assert (document["server"], document["now"]) == (service.url, clock.t)
    first = document["pairs"][0]
    assert first.pop("latency_s") == pytest.approx(7e-3)
    assert first.pop("latency_ratio") == pytest.approx(7 / 3)
    assert first == {
        "from": "c",
        "to": "a",
        "latency_error_s": 0.0,
        "bandwidth_Bps": 2.5e7,
        "bandwidth_error_Bps": 0.0,
        "age_s": 0.0,
        "stale": False,
        "composed": True,
        "through": ["b"],
        "bandwidth_ratio": 0.25,
        "asymmetry": 4.0,
    }


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


# forget


def test_forgotten_host_is_gone(ask, service):
    run = ask("forget", "c", "b")
    assert (run.code, run.out) == (0, "")
    assert run.err == f"{service.url}: forgot c\n{service.url}: forgot b\n"
    assert [line.split()[0] for line in ask("show", "--hosts").out.splitlines()[1:]] == ["a"]


def test_host_that_was_never_there_cannot_be_forgotten(ask):
    run = ask("forget", "z")
    assert run.code == 8
    assert "no host 'z'" in run.err


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


def test_forecast_over_a_span_prints_its_interval(ask):
    found = ask("forecast", "cpu.new@a", "--over", "10m", "--over", "60")
    assert found.code == 0
    heading, minute, ten = found.out.splitlines()
    assert heading.split() == ["series", "over", "median", "mean", "low", "high", "80", "%", "held", "age"]
    assert minute.split()[:3] == ["cpu.new@a", "1", "min"]
    assert ten.split()[:3] == ["cpu.new@a", "10", "min"]
    (row,) = json.loads(ask("forecast", "cpu.new@a", "--over", "10m", "--json").out)["forecasts"]
    assert row["outlooks"][0]["over_s"] == 600.0


def test_forecast_over_no_span_is_refused(ask):
    found = ask("forecast", "--over", "ten")
    assert found.code == 2
    assert "'ten' is not a span of time" in found.err
    assert ask("forecast", "--over", "30d").code == 2
