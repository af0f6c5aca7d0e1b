"""The queue in front of the machine: who shares, who waits, and that its matrix stays the machine manager's."""

import numpy as np
import pytest

from apples.coscheduling.machine import MachineScheduler
from apples.coscheduling.policies import CoschedulingConstants
from apples.errors import ConfigError
from apples_experiments.cluster.admission import Placement
from apples_experiments.cluster.simulation import simulate
from apples_experiments.cluster.workload import BspJob
from apples_experiments.dynamicjobs.admission import AdmissionQueue
from apples_experiments.dynamicjobs.jobs import JobKind, bsp_jobs, drawn, loaded, shortened
from apples_experiments.dynamicjobs.running import Site, run
from apples_experiments.lublin import generate

KINDS = tuple(
    JobKind(name=f"{pattern} {step_s}", step_s=step_s, shares=(1.0, 0.5), pattern=pattern, latency_s=60e-6)
    for pattern in ("ring", "all-to-all", "none")
    for step_s in (5e-3, 5e-2)
)


def work(load, jobs=60, seed=1):
    trace = loaded(shortened(generate(jobs, 4, seed, request=1.2), 0.003), load, vary="arrivals")
    return trace, drawn(KINDS, jobs, seed)


def course(machine, policy, load, mpl=3):
    trace, kinds = work(load)
    site = Site(machine=machine, constants=CoschedulingConstants(), mpl=mpl, increment_s=1.0)
    return run(site, policy, trace, bsp_jobs(machine, trace, kinds), seed=1)


def most_at_once(found):
    """The most processes that were started and not ended at any moment."""
    moments = np.concatenate([found.start, found.finish])
    change = np.concatenate([found.procs, -found.procs])
    order = np.lexsort((change, moments))
    return int(np.cumsum(change[order]).max())


def test_job_gets_the_first_free_processors_of_its_row(machine):
    door = AdmissionQueue(machine, dict.fromkeys("abcd", 1.0), mpl=2, increment_s=1.0)
    for name, ranks in (("a", 3), ("b", 2), ("c", 1)):
        door.submitted(BspJob(name=name, nodes=(0,) * ranks, compute_s=(1.0,) * ranks, iterations=1), 0.0)
    assert door.admit(0.0) == [
        Placement("a", (0, 0, 1), 0),
        Placement("b", (0, 0), 1),
        Placement("c", (1,), 0),
    ]
    door.ended("a", 1.0)
    door.submitted(BspJob(name="d", nodes=(0, 0), compute_s=(1.0, 1.0), iterations=1), 1.0)
    # b has moved to the row that a left
    assert door.admit(1.0) == [Placement("d", (0, 0), 1)]


@pytest.mark.parametrize(
    ("policy", "mpl", "most"), [("batch", 3, 4), ("gang", 3, 12), ("spin-block", 2, 8), ("fcs", 3, 12)]
)
@pytest.mark.nightly
def test_no_more_processes_are_in_than_rows_have_room_for(machine, policy, mpl, most):
    found = course(machine, policy, 5.0, mpl)
    assert (found.start >= found.submit - 1e-9).all()
    assert (found.finish > found.start).all()
    assert most / 2 < most_at_once(found) <= most


def test_same_seed_is_the_same_course(machine):
    one, same = course(machine, "fcs", 0.8), course(machine, "fcs", 0.8)
    assert (one.finish == same.finish).all()


def test_time_sharing_lets_short_jobs_pass_long_ones(machine):
    batch, gang = course(machine, "batch", 0.9), course(machine, "gang", 0.9)
    assert np.median(gang.slowdown(0.03)) < 4
    assert gang.slowdown(0.03).mean() < batch.slowdown(0.03).mean()


def test_matrix_is_the_machine_managers(machine, monkeypatch):
    """After everything that happens the two have the same jobs in the same cells."""
    managers, doors = [], []
    for kind, kept in ((MachineScheduler, managers), (AdmissionQueue, doors)):

        def made(self, *arguments, _real=kind.__init__, _kept=kept, **named):
            _real(self, *arguments, **named)
            _kept.append(self)

        monkeypatch.setattr(kind, "__init__", made)
    seen = []
    real = AdmissionQueue.admit

    def admit(self, now_s):
        assert managers[0].matrix.allotments == self._matrix.allotments
        seen.append(len(self._matrix.allotments))
        return real(self, now_s)

    monkeypatch.setattr(AdmissionQueue, "admit", admit)
    course(machine, "fcs", 2.0)
    assert len(doors) == 1
    assert len(seen) > 60
    assert max(seen) > 4


def test_queue_and_a_limit_at_once_are_refused(machine):
    job = BspJob(name="a", nodes=(0,), compute_s=(1.0,), iterations=1)
    admission = AdmissionQueue(machine, {"a": 1.0}, mpl=2, increment_s=1.0)
    with pytest.raises(ConfigError, match="admission control limits the jobs itself"):
        simulate(machine, [job], "gang", seed=1, at_once=1, admission=admission)
