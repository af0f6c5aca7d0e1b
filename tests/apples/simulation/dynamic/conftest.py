"""A small machine, and what became of a few jobs in plain rows."""

import numpy as np
import pytest

from apples.simulation.cluster.constants import ClusterConstants
from apples.simulation.dynamic.measures import Course

_NOTHING = dict.fromkeys(
    (
        "switch_s",
        "heartbeat_s",
        "heartbeat_spread_s",
        "manager_s",
        "reclassify_s",
        "start_spread_s",
        "noise_burst_s",
    ),
    0.0,
)


@pytest.fixture
def machine():
    """Two nodes of two processors, without noise or cost."""
    return ClusterConstants(
        nodes=2,
        processors=2,
        ticks_per_s=1000,
        stay_ticks=20,
        favoured_nice=-20,
        timer_spread_s=0.0,
        noise_mean_s=1.0,
        share_interval_s=1.0,
        **_NOTHING,
    )


@pytest.fixture
def course():
    """Makes a course of rows (submit, start, finish, run, procs) on four processors."""

    def make(*rows, processors=4):
        submit, start, finish, run, procs = np.array(rows, float).T
        return Course(
            submit=submit, start=start, finish=finish, run=run, procs=procs.astype(int), processors=processors
        )

    return make
