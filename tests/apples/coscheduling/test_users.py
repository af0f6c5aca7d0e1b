"""A user's share of a node does not grow with the number of its jobs, and one user alone notices nothing."""

from collections import Counter
from itertools import count, islice

from hypothesis import given, settings, strategies as st

from apples.coscheduling.events import (
    JobArrived,
    Process,
    SliceEnded,
)
from apples.coscheduling.machine import MachineScheduler
from apples.coscheduling.messagedriven import MessageDriven, MessageDrivenConstants
from apples.coscheduling.nodestate import SpinBlock, Uncoordinated
from apples.coscheduling.users import NICE_STEP

ANN, BOB, CYD = 1001, 1002, 1003


def crowd(policy, number, user, *, now=0.0):
    for n in range(number):
        job = f"junk{n}"
        policy.on(JobArrived(job=job, processors={Process(job, 0): 0}, now=now, user=user))


def arrive(policy, job, user, *, now=0.0):
    policy.on(JobArrived(job=job, processors={Process(job, 0): 0}, now=now, user=user))


def turns(machine, number):
    return [machine.next_slot() for _ in range(number)]


def test_slots_of_many_jobs_leave_another_user_half():
    machine = MachineScheduler({"a": 2})
    for n in range(200):
        machine.arrive(f"junk{n}", ("a",), user=ANN)
    machine.arrive("mine", ("a", "a"), user=BOB)
    owners = [set(slot.jobs["a"].values()) for slot in turns(machine, 400)]
    assert owners.count({"mine"}) == 200
    junk = Counter(job for owner in owners if owner != {"mine"} for job in owner)
    assert set(junk.values()) == {2}


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5)), max_size=30))
def test_slots_of_one_user_are_rows_in_turn(steps):
    machine = MachineScheduler({"a": 2, "b": 2})
    numbers, last = count(), -1
    for width, after in steps:
        machine.arrive(str(next(numbers)), ("a", "a", "b", "b")[:width], user=ANN)
        for slot in turns(machine, after):
            rows = range(machine.matrix.slots)
            last = next((row for row in rows if row > last), rows[0])
            assert slot.slot == last


def test_weights_of_users_are_equal():
    for policy in (SpinBlock(), Uncoordinated()):
        crowd(policy, 12, ANN)
        arrive(policy, "mine", BOB)
        orders = policy.wanted()
        weight = {process: NICE_STEP**-order.nice for process, order in orders.items()}
        mine = weight.pop(Process("mine", 0))
        assert mine == 1.0
        assert 0.9 < sum(weight.values()) / mine < 1.12


def driven(slices, *, busy=("mine",)):
    """Seconds for which each job was scheduled, and the policy, after so many slices of 1 s."""
    policy = MessageDriven(MessageDrivenConstants(slice_s=1.0, gmet_s=0.1))
    crowd(policy, 200, ANN)
    arrive(policy, "mine", BOB)
    had, cpu_s = Counter(), dict.fromkeys(policy.jobs, 0.0)
    for now in islice(count(1.0), slices):
        had[policy.scheduled] += 1
        for job in busy:
            cpu_s[job] += 1.0 if policy.scheduled == job else 0.01
        policy.on(SliceEnded(cpu_s=dict(cpu_s), now=now))
    return had, policy


def test_own_slices_of_sleeping_jobs_leave_half():
    had, policy = driven(100)
    assert had["mine"] >= 49
    policy.on(SliceEnded(cpu_s={}, now=101.0))
    orders = policy.wanted()
    if policy.scheduled != "mine":
        policy.on(SliceEnded(cpu_s={}, now=102.0))
        orders = policy.wanted()
    assert orders[Process("mine", 0)].share >= 0.95
    assert sum(order.share for order in orders.values()) <= 1.0 + 1e-9


def test_new_user_does_not_make_up_for_its_absence():
    policy = MessageDriven(MessageDrivenConstants(slice_s=1.0, gmet_s=0.1))
    arrive(policy, "old", ANN)
    for now in range(1, 101):
        policy.on(SliceEnded(cpu_s={"old": float(now)}, now=float(now)))
    arrive(policy, "new", BOB, now=100.0)
    had = Counter()
    for now in range(101, 121):
        policy.on(SliceEnded(cpu_s={"old": 100.0, "new": 0.0}, now=float(now)))
        had[policy.scheduled] += 1
    assert had == {"old": 10, "new": 10}


@settings(max_examples=100, deadline=None)
@given(
    jobs=st.lists(st.sampled_from((ANN, BOB, CYD)), max_size=12),
    taken=st.integers(0, 20),
    number=st.integers(1, 20),
)
def test_upcoming_turns_are_the_slots_that_follow(jobs, taken, number):
    machine = MachineScheduler({"a": 1})
    for n, user in enumerate(jobs):
        machine.arrive(str(n), ("a",), user=user)
    turns(machine, taken)
    ahead = machine.upcoming(number)
    assert machine.upcoming(number) == ahead
    assert [turn.slot for turn in ahead] == [slot.slot for slot in turns(machine, number)]
