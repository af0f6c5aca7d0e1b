"""This machine as a platform: who is in it, what is measured of it, and what only its file says."""

import os
import signal
from dataclasses import replace

import pytest

from apples.errors import ConfigError, LaunchError
from apples.model.grid import Grid, Host
from apples.model.plan import Outcome
from apples.model.template import BenchmarkRequest, Deployment
from apples.platforms import platform as platforms
from apples.platforms.local import NOT_MEASURED, LocalPlatform
from apples.platforms.platform import (
    cpu_model,
    fingerprint,
    is_this_machine,
    run_warm_command,
    this_machine,
)
from apples.testing import FakeLauncher, failed
from nws.client import local_host, usable_cpus

CPUS = tuple(sorted(os.sched_getaffinity(0)))


def grid_of(*hosts):
    return Grid(name="lab", hosts=hosts, source="lab.yaml")


def test_bare_machine_has_a_slot_for_each_usable_cpu():
    (host,) = this_machine().hosts
    assert (host.name, host.slots, host.cpu_type) == (local_host(), usable_cpus(), cpu_model())


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_names_that_mean_this_machine(name):
    assert is_this_machine(Host(name=name))
    assert is_this_machine(Host(name="alpha", address=name))
    assert not is_this_machine(Host(name=name, address="alpha.example.org"))


def test_two_names_of_this_machine_are_one_too_many():
    with pytest.raises(
        ConfigError,
        match=r"lab.yaml: alpha and localhost are the same machine; name it once, with as many slots",
    ):
        LocalPlatform(grid_of(Host(name="alpha", address="127.0.0.1"), Host(name="localhost")))


@pytest.mark.skipif(len(CPUS) < 2 or usable_cpus() < len(CPUS), reason="needs two CPUs and no quota")
def test_kinds_of_cores_are_hosts_with_readings_of_their_own(sensors, tmp_path, monkeypatch):
    monkeypatch.setattr(platforms, "core_kinds", lambda usable: {"fast": CPUS[:1], "slow": CPUS[1:]})
    platform = LocalPlatform(weather_file=tmp_path / "weather.db")
    assert [(host.slots, host.cpus) for host in platform.pool.hosts] == [
        (1, CPUS[:1]),
        (len(CPUS) - 1, CPUS[1:]),
    ]
    assert [host.name for host in platform.pool.hosts] == [f"{local_host()}.fast", f"{local_host()}.slow"]
    assert all(host.cpu_type.endswith(host.name.rpartition(".")[2]) for host in platform.pool.hosts)
    fast, slow = platform.snapshot([].append).conditions
    assert (fast.memory_bytes.value, fast.availability.value) == (5e9 / len(CPUS), 0.75)
    assert slow.memory_bytes.value == pytest.approx(5e9 * (len(CPUS) - 1) / len(CPUS))
    assert os.sched_getaffinity(0) == set(CPUS)


def test_cpus_of_entries_at_one_address_are_disjoint_and_usable():
    one, two = (Host(name=name, address="localhost", cpus=(cpu,)) for name, cpu in (("a", 0), ("b", 1)))
    with pytest.raises(ConfigError, match=r"a and c are the same machine; .* or give each CPUs of its own"):
        LocalPlatform(grid_of(one, replace(one, name="c")))
    with pytest.raises(ConfigError, match="CPU 1023 may not be used here; usable are"):
        LocalPlatform(grid_of(one, replace(two, cpus=(1023,))))


def test_this_machine_is_measured_and_others_are_as_their_file_says(sensors, tmp_path):
    grid = grid_of(Host(name="here", address="localhost", slots=2), Host(name="there", memory_bytes=4e9))
    platform = LocalPlatform(grid, weather_file=tmp_path / "weather.db")
    said = []
    snapshot = platform.snapshot(said.append)
    here, there = snapshot.conditions
    assert said == ["measuring here (0 earlier measurements)"]
    assert (here.availability.value, here.capacity.value, here.memory_bytes.value) == (0.75, 1.5, 5e9)
    assert (there.availability.method, there.memory_bytes.value) == ("nominal", 4e9)
    assert snapshot.source == "sensors on this machine"
    assert [platform.reaches(host) for host in grid.hosts] == [True, False]


def test_known_weather_is_measured_less_often(sensors, tmp_path):
    platform = LocalPlatform(grid_of(Host(name="localhost")), weather_file=tmp_path / "weather.db")
    said = []
    for _ in range(6):
        platform.snapshot(said.append)
    earlier = [int(line.partition("(")[2].partition(" ")[0]) for line in said]
    assert earlier == [0, 3, 6, 9, 12, 13]


def test_pool_elsewhere_is_not_measured_at_all(tmp_path):
    platform = LocalPlatform(grid_of(Host(name="there")), weather_file=tmp_path / "weather.db")
    snapshot = platform.snapshot(lambda text: pytest.fail(text))
    assert snapshot.source == NOT_MEASURED
    assert not (tmp_path / "weather.db").exists()


def test_benchmarks_hold_for_a_cpu_and_the_versions_it_was_measured_with():
    platform = LocalPlatform(grid_of(Host(name="localhost", cpu_type="abacus")))
    machine = platform.machine(platform.pool.hosts[0])
    assert machine == f"abacus {fingerprint()}"
    assert "numba" in machine


class Script:
    """An application whose warm-up is a shell command."""

    name = "script"

    def __init__(self, warm="true"):
        self.warm = ("sh", "-c", warm)

    def benchmark(self, result, options, rows):
        return Deployment(command=("script", str(result)))


def benchmark(outcome, warm="true", heard=None):
    platform = LocalPlatform(grid_of(Host(name="localhost", slots=2)))
    platform.run = FakeLauncher([outcome]).run
    request = BenchmarkRequest(
        template=Script(warm),
        options={},
        host=platform.pool.hosts[0],
        ranks=2,
        rows=8,
        notify=[].append if heard is None else heard.append,
    )
    return platform.benchmark(request)


def test_benchmark_that_fails_says_which_and_why():
    with pytest.raises(LaunchError, match="benchmark of script on localhost failed: rank 1 was killed"):
        benchmark(failed("rank 1 was killed"))


def test_warm_up_that_fails_says_what_it_said():
    with pytest.raises(LaunchError, match=r"sh -c .* failed with exit code 3: no compiler"):
        benchmark(failed("never reached"), warm="echo no compiler >&2; exit 3")


def test_what_a_warm_up_says_is_passed_on():
    heard = []
    with pytest.raises(LaunchError, match="benchmark of script"):
        benchmark(failed("rank 1 was killed"), warm="echo compiling once >&2", heard=heard)
    assert heard == ["compiling once"]


def test_bytes_of_a_warm_up_that_are_no_text_are_replaced():
    heard = []
    run_warm_command(["sh", "-c", r"printf 'caf\351\n' >&2"], heard.append)
    assert heard == ["caf\N{REPLACEMENT CHARACTER}"]


def test_interrupted_benchmark_interrupts_the_agent():
    with pytest.raises(KeyboardInterrupt):
        benchmark(Outcome(ended="interrupted", exit_code=130, observed_s=1.0))


def test_terminated_benchmark_is_passed_on_as_that_signal():
    heard = []
    previous = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with pytest.raises(KeyboardInterrupt):
            benchmark(Outcome(ended="interrupted", exit_code=143, observed_s=1.0))
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert heard == [signal.SIGTERM]
