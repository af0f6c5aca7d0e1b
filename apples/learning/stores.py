"""The stores of benchmarks and run records that the commands share, below one state directory."""

from apples.learning.benchmarkstore import CalibrationStore
from apples.learning.history import History
from nws.client import state_dir


def open_history() -> History:
    """Return the history of past runs."""
    return History(state_dir() / "history")


def open_benchmarks() -> CalibrationStore:
    """Benchmarks that were measured."""
    return CalibrationStore(state_dir() / "benchmarks")
