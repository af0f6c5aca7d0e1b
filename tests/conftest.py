"""No test reads or writes what the user's own runs have left, and interrupts are heard whoever starts the tests."""

import signal

import pytest


def pytest_configure(config):
    """What a shell starts in the background may find the interrupt ignored, and so would each program a test starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def state_of_its_own(tmp_path, monkeypatch):
    """An empty state directory (weather, benchmarks, history) for every test and the processes it starts.

    No service of the user is asked either.
    """
    for name in ("APPLES_NWS", "NWS_SERVER", "NWS_TOKEN_FILE", "NWS_CA"):
        monkeypatch.delenv(name, raising=False)
    state = tmp_path / "apples-state"
    monkeypatch.setenv("APPLES_STATE", str(state))
    return state
