"""Runs the kernel one value at a time and keeps a copy of the record after each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from nws.forecasting.kernel import advance_many
from nws.forecasting.statelayout import STATE

Follow = Callable[[Sequence[float]], Any]


@pytest.fixture(scope="session")
def follow() -> Follow:
    """values -> STATE[n]: the record of one series after each of its values."""

    def run(values: Sequence[float]) -> Any:
        states = np.zeros(1, STATE)
        history = np.zeros(len(values), STATE)
        for i, value in enumerate(values):
            advance_many.compiled(
                states, np.zeros(1, np.int64), np.array([float(value)]), np.array([float(i)])
            )
            history[i] = states[0]
        return history

    return run
