"""Recorded weather played again: in order, by its own clock, the same every time."""

import gzip

import pytest

from nws.base.errors import ConfigError, UsageError
from nws.series import Measurement, Series
from nws.testing import InMemoryServer, InMemoryWeather, RecordedWeather

SHARE, POWER = Series.parse("cpu.new@a"), Series.parse("x.power@a")
RECORDING = [Measurement(SHARE, 100.0 + 10 * k, 0.1 * k) for k in range(5)]
RECORDING += [Measurement(POWER, 105.0 + 10 * k, 50.0 + k) for k in range(4)]


def test_measurements_come_when_their_time_comes():
    weather = RecordedWeather(RECORDING)
    assert weather.forecasts() == {}
    assert [m.t for m in weather.advance(110.0)] == [100.0, 105.0, 110.0]
    assert weather.advance(114.0) == []
    assert {s: f.samples for s, f in weather.forecasts().items()} == {SHARE: 2, POWER: 1}
    assert (weather.now, weather.begins, weather.ends) == (114.0, 100.0, 140.0)


def test_forecasts_are_those_of_the_same_measurements_made_live():
    played, live = RecordedWeather(RECORDING), InMemoryWeather()
    played.advance(200.0)
    live.record(sorted(RECORDING, key=lambda m: m.t))
    assert played.forecasts() == live.forecasts()


def test_time_does_not_go_back():
    weather = RecordedWeather(RECORDING)
    weather.advance(120.0)
    with pytest.raises(UsageError, match=r"played up to 120.0; it cannot go back to 110.0"):
        weather.advance(110.0)


def test_another_day():
    weather = RecordedWeather(RECORDING, shift_s=1000.0)
    assert (weather.begins, weather.advance(1100.0)) == (1100.0, [Measurement(SHARE, 1100.0, 0.0)])


@pytest.mark.parametrize("zipped", [False, True])
def test_file_as_export_writes_it(tmp_path, zipped):
    text = "series,t,value\n" + "".join(f"{m.series},{m.t!r},{m.value!r}\n" for m in RECORDING)
    path = tmp_path / "recording.csv"
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    assert RecordedWeather(path).advance(1e9) == sorted(RECORDING, key=lambda m: m.t)


def test_played_into_a_service_by_its_own_clock():
    weather = RecordedWeather(RECORDING, shift_s=1e9)
    with InMemoryServer(clock=lambda: weather.now) as server, server.client() as client:
        assert weather.play(client, to=1e9 + 120.0) == 5
        assert weather.play(client) == 4
        assert client.samples(str(SHARE), resolution="raw")["value"] == [m.value for m in RECORDING[:5]]
        assert weather.play(client) == 0


@pytest.mark.parametrize("recording", [[], iter(())])
def test_nothing_cannot_be_played(recording):
    with pytest.raises(UsageError, match="a recording without measurements cannot be played"):
        RecordedWeather(recording)


def test_file_that_is_no_recording(tmp_path):
    (tmp_path / "x.csv").write_text("series,t,value\ncpu.new@a,1\n")
    with pytest.raises(ConfigError, match=r"x.csv:2: 'cpu.new@a,1' has 2 columns"):
        RecordedWeather(tmp_path / "x.csv")
