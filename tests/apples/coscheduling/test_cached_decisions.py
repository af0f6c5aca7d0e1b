"""Cached decisions equal new ones, and recurring slots return the same orders."""

import pytest
from hypothesis import given, settings, strategies as st

from apples.coscheduling.classes import FcsConstants, MonitorCounts
from apples.coscheduling.events import Heartbeat, HeartbeatLost, JobArrived, JobLeft, Process, ProcessLeft
from apples.coscheduling.fcs import Fcs
from apples.coscheduling.nodestate import Gang

JOBS = ("one", "two", "three")
PROCESSORS = {rank: rank % 2 for rank in range(3)}
READINGS = [MonitorCounts(0.1, 0.001, 100), MonitorCounts(0.1, 0.4, 100), MonitorCounts(5.0, 0.1, 10)]


def ranks(job):
    return {Process(job, rank): processor for rank, processor in PROCESSORS.items()}


beats = st.builds(
    lambda slot, owners, fill, seen: Heartbeat(
        slot=slot,
        jobs=dict(enumerate(owners)),
        fill=fill,
        readings={process: READINGS[seen] for job in JOBS for process in ranks(job)},
    ),
    st.sampled_from([None, 0, 1, 2]),
    st.lists(st.sampled_from(JOBS), max_size=2),
    st.dictionaries(st.sampled_from([0, 1]), st.sampled_from(JOBS), max_size=1),
    st.integers(0, 2),
)
events = st.one_of(
    beats,
    beats,
    st.builds(lambda job: JobArrived(job=job, processors=ranks(job)), st.sampled_from(JOBS)),
    st.builds(lambda job: JobLeft(job=job), st.sampled_from(JOBS)),
    st.builds(
        lambda job, rank: ProcessLeft(process=Process(job, rank)), st.sampled_from(JOBS), st.integers(0, 2)
    ),
    st.builds(HeartbeatLost),
)


@pytest.mark.parametrize("make", [Gang, lambda: Fcs(FcsConstants(cslots_min=1))], ids=["gang", "fcs"])
@settings(deadline=None, max_examples=150)
@given(story=st.lists(events, max_size=25))
def test_cached_decisions_equal_new_ones(make, story):
    cached, new = make(), make()
    for event in [JobArrived(job="one", processors=ranks("one")), *story]:
        cached.on(event)
        new._decisions.clear()
        new.on(event)
        assert cached.wanted() == new.wanted()


def test_recurring_slot_returns_the_same_orders():
    policy = Gang()
    for job in ("one", "two"):
        policy.on(JobArrived(job=job, processors={Process(job, 0): 0}))
    seen = []
    for slot in (0, 1, 0, 1, 0):
        policy.on(Heartbeat(slot=slot, jobs={0: JOBS[slot]}))
        seen.append(policy.wanted())
    assert seen[2] is seen[4]
    assert {process.job: order.run for process, order in seen[2].items()} == {"one": True, "two": False}


def test_slot_with_other_jobs_is_another_slot():
    policy = Gang()
    for job in ("one", "two"):
        policy.on(JobArrived(job=job, processors={Process(job, 0): 0}))
    for job in ("one", "two"):
        policy.on(Heartbeat(slot=0, jobs={0: job}))
        assert {process.job for process, order in policy.wanted().items() if order.run} == {job}
