"""The schedules that Gaussier et al. (SC'15) published for EASY-FCFS, job for job, and the figures of batch order."""

import gzip

import numpy as np
import pytest

from apples.simulation.batch.batchmachine import Replay, simulate
from apples.simulation.batch.reading import read_trace


@pytest.mark.parametrize(
    ("log", "published", "jobs"),
    [
        ("KTH-SP2-sc15.swf.gz", "KTH-SP2-easy-waits.txt.gz", 28_481),
        ("SDSC-SP2-sc15.swf.gz", "SDSC-SP2-easy-waits.txt.gz", 54_006),
    ],
)
def test_start_is_the_published_one(reference, log, published, jobs):
    schedule = simulate(read_trace(reference(log)), Replay(event_order="pyss"))
    with gzip.open(reference(published), "rt") as lines:
        number, submit, wait, _, _, _, backfilled = np.loadtxt(lines).T
    assert len(number) == jobs
    assert (schedule.trace.id == number).all()
    assert int(np.count_nonzero(schedule.start != submit + wait)) == 0
    assert int(np.count_nonzero(schedule.backfilled != (backfilled > 0))) == 0


@pytest.mark.parametrize(
    ("log", "wait", "slowdown", "utilisation"),
    [
        ("KTH-SP2-sc15.swf.gz", 6834.587, 92.6877, 0.6856),
        ("SDSC-SP2-sc15.swf.gz", 20570.875, 87.8055, 0.8229),
    ],
)
def test_batch_order(reference, log, wait, slowdown, utilisation):
    found = simulate(read_trace(reference(log)), Replay()).metrics("fcfs")
    assert round(found.wait.mean, 3) == wait
    assert round(found.bounded_slowdown.mean, 4) == slowdown
    assert round(found.utilisation, 4) == utilisation
