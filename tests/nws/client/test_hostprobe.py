"""What a host finds out of itself in a moment."""

from nws.client import hostprobe
from nws.series import Measurement, Resource, Series


def test_moment_in_which_the_check_itself_is_busy_does_not_count(monkeypatch):
    shares = iter([0.2, 0.9, 0.8, 0.7])

    class Sensor:
        def __init__(self, host):
            self.host = host

        def measure(self):
            share = next(shares)
            return [
                Measurement(Series(Resource.CPU_NEW, self.host), 0.0, share),
                Measurement(Series(Resource.CPU_CAPACITY, self.host), 0.0, 2 * share),
            ]

    monkeypatch.setattr(hostprobe, "CpuSensor", Sensor)
    found = hostprobe.survey()
    assert (found["availability"], found["capacity"]) == (0.8, 1.6)
    assert found["memory_bytes"] > 0
