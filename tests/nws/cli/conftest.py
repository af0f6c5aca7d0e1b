"""The command line over a memory of its own."""

import pytest

from nws.cli import main
from nws.memory import Memory
from nws.series import Measurement, Series


class Run:
    """What one command said and how it ended."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def state(tmp_path, monkeypatch):
    """Where the commands keep their weather."""
    monkeypatch.setenv("APPLES_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def nws(state, capsys, program_signals):
    """Runs `nws` with arguments."""

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main([str(a) for a in arguments])
        said = capsys.readouterr()
        return Run(end.value.code, said.out, said.err)

    return run


@pytest.fixture
def measured(state):
    """Keeps values of series, ten seconds apart, the last at `until`."""

    def keep(until, **values):
        measurements = [
            Measurement(Series.parse(name), until - 10.0 * (len(column) - 1 - i), value)
            for name, column in values.items()
            for i, value in enumerate(column)
        ]
        with Memory(state / "weather.db") as memory:
            memory.append(sorted(measurements, key=lambda m: m.t))

    return keep
