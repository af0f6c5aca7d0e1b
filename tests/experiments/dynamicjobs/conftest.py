"""A small machine, and what became of a few jobs in plain rows."""

import numpy as np
import pytest

from apples_experiments.cluster.constants import free_of_cost
from apples_experiments.dynamicjobs.measures import JobTimes


@pytest.fixture
def machine():
    """Two nodes of two processors, without noise or cost."""
    return free_of_cost(nodes=2, processors=2, ticks_per_s=1000)


@pytest.fixture
def course():
    """Makes a course of rows (submit, start, finish, run, procs) on four processors."""

    def make(*rows, processors=4):
        submit, start, finish, run, procs = np.array(rows, float).T
        return JobTimes(
            submit=submit, start=start, finish=finish, run=run, procs=procs.astype(int), processors=processors
        )

    return make
