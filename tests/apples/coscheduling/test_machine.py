"""The machine manager's decisions: who is in, whose turn it is."""

import pytest

from apples.coscheduling.machine import MachineScheduler
from apples.coscheduling.matrix import DoesNotFit


def test_slots_take_turns():
    machine = MachineScheduler({"a": 1})
    machine.arrive("one", ("a",))
    machine.arrive("two", ("a",))
    assert [dict(machine.next_slot().jobs["a"]) for _ in range(3)] == [{0: "one"}, {0: "two"}, {0: "one"}]


def test_beats_of_an_empty_machine_name_no_slot():
    assert MachineScheduler({"a": 1}).next_slot().slot is None


def test_jobs_wait_in_order_and_none_overtakes():
    machine = MachineScheduler({"a": 2}, mpl=1)
    assert [a.job for a in machine.arrive("one", ("a",))] == ["one"]
    assert machine.arrive("wide", ("a", "a")) == ()
    assert machine.arrive("small", ("a",)) == ()
    assert machine.waiting == ("wide", "small")
    assert [a.job for a in machine.leave("one")] == ["wide"]
    assert [a.job for a in machine.leave("wide")] == ["small"]


def test_waiting_job_may_leave():
    machine = MachineScheduler({"a": 1}, mpl=1)
    for job in ("one", "two", "three"):
        machine.arrive(job, ("a",))
    machine.leave("two")
    assert [a.job for a in machine.leave("one")] == ["three"]


def test_idle_processors_are_offered_to_jobs_of_other_slots():
    machine = MachineScheduler({"a": 1, "b": 1})
    machine.arrive("both", ("a", "b"))
    machine.arrive("left", ("a",))
    machine.arrive("right", ("a",))
    machine.arrive("far", ("b",))
    beats = [machine.next_slot() for _ in range(3)]
    assert beats[2].jobs == {"a": {0: "right"}}
    assert beats[2].fill == {"b": {0: "far"}}


def test_job_that_can_never_run_does_not_wait():
    machine = MachineScheduler({"a": 1})
    with pytest.raises(DoesNotFit, match="no node of this machine"):
        machine.arrive("lost", ("b",))
    assert machine.waiting == ()


def test_job_arrives_once():
    machine = MachineScheduler({"a": 1})
    machine.arrive("one", ("a",))
    with pytest.raises(ValueError, match="job one is here already"):
        machine.arrive("one", ("a",))


def test_node_that_goes_names_its_jobs_and_one_that_comes_brings_room():
    machine = MachineScheduler({"a": 1, "b": 1}, mpl=1)
    machine.arrive("left", ("a",))
    machine.arrive("both", ("a", "b"))
    assert machine.remove_node("a") == ("left",)
    assert [a.job for a in machine.set_node("a", 2)] == ["both"]


def test_job_that_waits_for_a_node_that_has_gone_waits_for_its_return():
    machine = MachineScheduler({"a": 1, "b": 1}, mpl=1)
    machine.arrive("one", ("a",))
    machine.arrive("both", ("a", "b"))
    machine.arrive("small", ("a",))
    assert machine.remove_node("b") == ()
    assert machine.leave("one") == ()
    assert machine.set_node("a", 2) == ()
    assert machine.waiting == ("both", "small")
    assert [a.job for a in machine.set_node("b", 1)] == ["both", "small"]


def test_job_whose_node_has_gone_lets_the_others_in_when_it_leaves():
    machine = MachineScheduler({"a": 1, "b": 1}, mpl=1)
    for job, nodes in (("one", ("a",)), ("both", ("a", "b")), ("small", ("a",))):
        machine.arrive(job, nodes)
    machine.remove_node("b")
    machine.leave("one")
    assert [a.job for a in machine.leave("both")] == ["small"]


def test_after_a_restart_jobs_are_in_their_slots_again_in_any_order():
    machine = MachineScheduler({"a": 1})
    machine.arrive("third", ("a",), slot=2)
    assert machine.next_slot().jobs == machine.next_slot().jobs == {"a": {0: "third"}}
    machine.arrive("first", ("a",), slot=0)
    assert [machine.next_slot().slot for _ in range(4)] == [0, 2, 0, 2]
