"""Where the commands keep things: one state directory for weather, benchmarks and history."""

from __future__ import annotations

from apples.benchmarkstore import CalibrationStore
from apples.history import History
from nws.client import state_dir


def open_history() -> History:
    """Records of past runs."""
    return History(state_dir() / "history")


def open_benchmarks() -> CalibrationStore:
    """Benchmarks that were measured."""
    return CalibrationStore(state_dir() / "benchmarks")
