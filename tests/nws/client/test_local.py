"""The weather of this host in one process: sensors in, memory between runs, forecasts out."""

import subprocess
import sys

import pytest

from nws.base.errors import ProbeError, UsageError
from nws.client import LocalWeather, state_dir, usable_cpus, weather_file
from nws.memory import Memory
from nws.series import Measurement, Resource, Series
from tests.transcripts import recorded, text_of

CPU, MEMORY = Series(Resource.CPU_NEW, "a"), Series(Resource.MEMORY_FREE, "a")


class FakeSensor:
    """Measures one series: the values given, in turn; an exception among them is raised."""

    def __init__(self, series, *values):
        self.series, self.values = series, list(values)

    def measure(self):
        value = self.values.pop(0)
        if isinstance(value, Exception):
            raise value
        return [Measurement(self.series, CLOCK.t, value)]


class FakeClock:
    t = 1000.0

    def now(self):
        return self.t

    def sleep(self, seconds):
        self.t += seconds


CLOCK = FakeClock()


@pytest.fixture
def weather(tmp_path):
    """Opens the same memory as often as asked, with the sensors given."""
    CLOCK.t = 1000.0
    opened = []

    def start(*sensors):
        one = LocalWeather(tmp_path / "w.db", host="a", clock=CLOCK.now, sleep=CLOCK.sleep, sensors=sensors)
        opened.append(one)
        return one

    yield start
    for one in opened:
        one.close()


def test_rounds_start_at_their_interval(weather):
    taken = weather(FakeSensor(CPU, 0.5, 0.6, 0.7)).measure(rounds=3, interval_s=2.0)
    assert [(m.t, m.value) for m in taken] == [(1000.0, 0.5), (1002.0, 0.6), (1004.0, 0.7)]


def test_host_with_one_reading_borrows_from_others(weather):
    one, t = weather(), [255.0 + 5 * i for i in range(150)]
    one.record([Measurement(Series(Resource.CPU_NEW, "b"), at, 0.5 + 0.01 * (at % 3)) for at in t])
    one.record([Measurement(Series(Resource.MEMORY_FREE, "c"), 1000.0, 0.5)])
    one.record([Measurement(Series(Resource.CPU_NEW, "c"), 1000.0, 0.5)])
    found = weather().forecasts(over_s=[10.0])
    (borrowed,), (alone,) = (found[Series(r, "c")].outlooks for r in (Resource.CPU_NEW, Resource.MEMORY_FREE))
    assert 0.0 < borrowed.high - borrowed.low < 0.5 * (alone.high - alone.low)


def test_second_run_forecasts_from_the_first_ones_history(weather):
    first = weather(FakeSensor(CPU, *[0.5] * 10))
    first.measure(rounds=10)
    assert first.forecasts()[CPU].samples == 10
    second = weather(FakeSensor(CPU, 0.9))
    second.measure()
    found = second.forecasts()[CPU]
    assert found.samples == 11
    assert found.last == 0.9
    assert found.measured_at == CLOCK.t
    assert found.mae == pytest.approx(0.04)


def test_no_measurement_no_forecast(weather):
    assert weather().forecasts() == {}


def test_what_another_process_measures_meanwhile_counts(weather):
    one, other = weather(FakeSensor(CPU, 0.5)), weather(FakeSensor(MEMORY, 1e9))
    one.measure()
    assert set(one.forecasts()) == {CPU}
    other.measure()
    assert set(one.forecasts()) == {CPU, MEMORY}


def test_forecasts_step_by_step_are_those_of_a_replay(weather):
    values = [0.5, 0.7, 0.4, 0.9, 0.3, 0.6]
    one = weather(FakeSensor(CPU, *values))
    for _ in values:
        one.measure()
        stepwise = one.forecasts()
    assert weather().forecasts() == stepwise


def test_forecasts_look_back_a_day_and_no_more(weather, tmp_path):
    with Memory(tmp_path / "w.db") as memory:
        memory.append([Measurement(CPU, t, 0.5) for t in (1000.0, 1000.0 + 80_000, 1000.0 + 90_000)])
    CLOCK.t = 1000.0 + 100_000
    assert weather().forecasts()[CPU].samples == 2


def test_history_moved_to_chunks_by_another_is_read_again(weather, tmp_path):
    one = weather(FakeSensor(CPU, 0.5))
    one.measure()
    one.forecasts()
    with Memory(tmp_path / "w.db") as memory:
        for hours in (1, 2, 8):
            memory.append([Measurement(CPU, 1000.0 + hours * 3600, 0.6)])
    CLOCK.t += 8 * 3600
    assert one.forecasts()[CPU].samples == 4


def test_failed_probe_is_reported_and_not_recorded(weather):
    said = []
    sensors = FakeSensor(CPU, 0.5, 0.5), FakeSensor(MEMORY, ProbeError("no meminfo"), 1e9)
    one = weather(*sensors)
    one.measure(rounds=2, notify=said.append)
    assert said == [
        "no meminfo",
        "round 1 of 2: 1 measurements of a",
        "round 2 of 2: 2 measurements of a",
    ]
    assert {s: f.samples for s, f in one.forecasts().items()} == {CPU: 2, MEMORY: 1}


def test_without_anybody_to_tell_a_failure_goes_to_the_log(weather, caplog):
    weather(FakeSensor(CPU, 0.5), FakeSensor(MEMORY, ProbeError("no meminfo"))).measure()
    assert caplog.messages == ["no meminfo"]


def test_when_every_sensor_fails_that_is_an_error(weather):
    one = weather(
        FakeSensor(CPU, *[ProbeError("no /proc")] * 2), FakeSensor(MEMORY, *[ProbeError("none")] * 2)
    )
    with pytest.raises(ProbeError, match=r"no sensor could measure:\nno /proc\nnone$"):
        one.measure(rounds=2, notify=lambda line: None)


@pytest.mark.parametrize(
    "options", [{"rounds": 0}, *({"interval_s": s} for s in (-1.0, float("nan"), 1e300, float("inf")))]
)
def test_impossible_rounds(weather, options):
    with pytest.raises(UsageError, match="expected at least one round"):
        weather().measure(**options)


def test_all_sensors_of_this_host_for_real(tmp_path):
    with LocalWeather(tmp_path / "w.db", host="here") as real:
        taken = real.measure()
        assert {m.series for m in taken} == set(real.forecasts())
    # Only hosts with a quota report it, and runs over ssh the loss of links.
    measured = set(Resource) - {Resource.LOSS, Resource.CPU_LIMIT}
    found = [m.series.resource for m in taken if m.series.resource is not Resource.CPU_LIMIT]
    assert found == [one for one in Resource if one in measured]
    assert all(m.value >= 0 for m in taken)


@recorded("nws/client/state_directories.txt", "environ")
def test_where_state_is_kept(monkeypatch, answered, environ):
    monkeypatch.setenv("HOME", "/home/u")
    answered(str(state_dir(environ)))


def test_weather_file_is_in_it(monkeypatch):
    monkeypatch.setenv("APPLES_STATE", "/x")
    assert str(weather_file()) == "/x/weather.db"


def test_at_least_one_cpu_is_usable():
    assert usable_cpus() >= 1


#: Forecasts of a store in a process of its own: what they are, and whether it imported the compiler.
FORECAST = text_of("nws/client/local_forecast.txt")


def _in_another_process(path, now):
    command = [sys.executable, "-c", FORECAST, str(path), str(now)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip().rsplit(" ", 1)


def test_next_process_continues_without_the_compiler(weather, tmp_path):
    values = [0.5 + 0.001 * i for i in range(300)]
    one = weather(FakeSensor(CPU, *values))
    one.measure(rounds=299, interval_s=10.0)
    one.forecasts()
    one.measure()
    continued = _in_another_process(tmp_path / "w.db", CLOCK.t)
    assert continued == [repr(dict(one.forecasts())), "False"]


def test_forecasts_older_measurements_added_replays(weather, tmp_path):
    one = weather(FakeSensor(CPU, 0.5, 0.6))
    one.measure(rounds=2, interval_s=10.0)
    one.forecasts()
    one.record([Measurement(CPU, CLOCK.t - 5.0, 0.1)])
    assert one.forecasts()[CPU].last == 0.6


def test_saved_batteries_after_a_quarter_day_are_replayed(weather):
    one = weather(FakeSensor(CPU, 0.5, 0.6, 0.7))
    one.measure()
    one.forecasts()
    CLOCK.t += 70_000
    one.measure()
    CLOCK.t += 20_000
    one.measure()
    assert weather().forecasts()[CPU].samples == 2


@pytest.mark.parametrize("known", [False, True])
def test_forecasts_clock_set_back_leave_later_samples_out(weather, known):
    sensor = FakeSensor(CPU, 0.9, 0.9, 0.2, 0.2)
    one = weather(sensor)
    one.measure()
    assert not known or one.forecasts()[CPU].value == 0.9
    CLOCK.t += 7200.0
    one.measure()
    CLOCK.t -= 7100.0
    other = one if known else weather(sensor)
    other.measure(rounds=2)
    assert other.forecasts()[CPU].value == pytest.approx(0.2)
    assert other.history()[CPU].values.tolist() == [0.9, 0.2, 0.2]
