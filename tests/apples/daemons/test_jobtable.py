"""Jobs gather, arrive and leave; nodes come, go and come back; a new manager learns all of it from the nodes."""

import msgspec
import pytest

from apples.daemons.jobtable import FORGET_S, SETTLE_S, JobTable
from apples.daemons.nodemessages import TO_NODE, JobView, ProcessEntry


def entry(job, rank, ranks=2, uid=7):
    return ProcessEntry(job=job, rank=rank, ranks=ranks, uid=uid)


class Site:
    """A roster with nodes a and b of one processor each, settled at time 10."""

    def __init__(self, mpl=None):
        self.roster = JobTable(mpl, 0.0)
        for node in "ab":
            self.roster.joined(node, 1, [], {}, 0.0)
        self.roster.tick(SETTLE_S)
        self.now = 10.0

    def arrive(self, job, ranks=2):
        for rank in range(ranks):
            assert self.roster.registered("ab"[rank % 2], entry(job, rank, ranks), self.now) is None

    def slots(self):
        return {job: about.slot for job, about in self.roster.describe().items()}

    def states(self):
        return {job: about.state for job, about in self.roster.describe().items()}


@pytest.fixture
def site():
    return Site()


def test_job_is_in_when_all_its_ranks_have_registered(site):
    site.roster.registered("a", entry("x", 0), 10.0)
    assert site.states() == {"x": "gathers"}
    assert site.roster.view("a").jobs == {}
    site.roster.registered("b", entry("x", 1), 10.0)
    assert site.states() == {"x": "in"}
    assert site.roster.view("b").jobs == {"x": JobView(slot=0, nodes=("a", "b"), processors={1: 0})}
    assert site.roster.view("b").rows[0].jobs == {0: "x"}


def test_second_job_has_the_next_slot_and_moves_up_when_the_first_leaves(site):
    site.arrive("x")
    site.arrive("y")
    assert site.slots() == {"x": 0, "y": 1}
    version = site.roster.version
    site.roster.ended("a", "x", 0, 11.0)
    assert site.slots() == {"x": 0, "y": 1}
    site.roster.ended("b", "x", 1, 11.0)
    assert site.slots() == {"y": 0}
    assert site.roster.version > version


def test_beyond_the_degree_of_multiprogramming_jobs_wait():
    site = Site(mpl=1)
    site.arrive("x")
    site.arrive("y")
    assert site.states() == {"x": "in", "y": "waits"}
    assert site.roster.view("a").jobs["y"].slot is None
    for node, rank in (("a", 0), ("b", 1)):
        site.roster.ended(node, "x", rank, 11.0)
    assert site.states() == {"y": "in"}


def test_rank_that_left_before_its_job_was_whole_makes_room_for_another(site):
    site.roster.registered("a", entry("x", 0), 10.0)
    site.roster.ended("a", "x", 0, 10.1)
    assert site.states() == {}
    site.arrive("x")
    assert site.states() == {"x": "in"}


@pytest.mark.parametrize(
    ("node", "what", "why"),
    [
        ("b", entry("x", 1, uid=8), "a job x of user 7 is known; choose another name"),
        ("b", entry("x", 1, ranks=3), "job x is known with 2 ranks, not 3; choose another name"),
        ("b", entry("x", 0), "rank 0 of job x is on a; choose another name"),
    ],
)
def test_name_that_is_taken_elsewhere_is_refused(site, node, what, why):
    site.roster.registered("a", entry("x", 0), 10.0)
    assert site.roster.registered(node, what, 10.0) == why


def test_node_that_comes_back_in_time_finds_its_jobs_in_place(site):
    site.arrive("x")
    site.arrive("y")
    held = site.roster.view("b").jobs
    site.roster.lost("b", 11.0)
    site.roster.tick(11.0 + 0.9 * FORGET_S)
    site.roster.joined("b", 1, [entry("x", 1), entry("y", 1)], held, 14.0)
    site.roster.tick(20.0)
    assert site.slots() == {"x": 0, "y": 1}


def test_rank_that_ended_while_its_node_was_away_has_ended(site):
    site.arrive("x")
    site.roster.lost("b", 11.0)
    site.roster.joined("b", 1, [], {}, 12.0)
    site.roster.ended("a", "x", 0, 12.5)
    assert site.states() == {}


def test_node_that_stays_away_takes_its_jobs_out(site):
    site.arrive("x")
    site.roster.registered("a", entry("solo", 0, ranks=1), 10.0)
    site.roster.lost("b", 11.0)
    site.roster.tick(11.0 + FORGET_S)
    assert site.states() == {"x": "gathers", "solo": "in"}
    assert "x" not in site.roster.view("a").jobs


def test_node_that_comes_back_late_brings_its_jobs_with_it(site):
    site.arrive("x")
    site.arrive("y")
    held = site.roster.view("b").jobs
    site.roster.lost("b", 11.0)
    site.roster.tick(11.0 + FORGET_S)
    assert site.states() == {"x": "gathers", "y": "gathers"}
    site.roster.joined("b", 1, [entry("x", 1), entry("y", 1)], held, 30.0)
    assert site.slots() == {"x": 0, "y": 1}


@pytest.mark.parametrize("leaves_first", ["running job", "node"])
def test_job_that_waits_while_a_node_of_it_goes_does_not_keep_the_others_out(leaves_first):
    site = Site(mpl=1)
    site.arrive("x")
    site.arrive("y")
    site.roster.registered("a", entry("solo", 0, ranks=1), 10.0)
    site.roster.lost("b", 11.0)
    if leaves_first == "running job":
        site.roster.ended("a", "x", 0, 11.1)
    site.roster.tick(11.0 + FORGET_S)
    assert site.states()["y"] == "gathers"
    assert site.states()["solo"] == "in"
    site.roster.joined("b", 1, [entry("y", 1)], {}, 20.0)
    assert site.states()["y"] == "waits"
    site.roster.ended("a", "solo", 0, 21.0)
    assert site.states()["y"] == "in"


class TestRestart:
    """A manager that was killed knows nothing; the nodes know all of it."""

    @pytest.fixture
    def held(self, site):
        """What the nodes hold of three jobs; the first has left, so that slots are not the order of names."""
        for job in "xyz":
            site.arrive(job)
        return {node: site.roster.view(node) for node in "ab"}

    def restart(self, held, jobs="xyz", ended=()):
        roster = JobTable(None, 100.0)
        for rank, node in enumerate("ab"):
            processes = [entry(job, rank) for job in reversed(jobs) if (job, rank) not in ended]
            roster.joined(node, 1, processes, held[node].jobs, 100.2)
        return roster

    def test_job_has_the_slot_it_had(self, held):
        roster = self.restart(held)
        assert {job: a.slot for job, a in roster.describe().items()} == {"x": 0, "y": 1, "z": 2}

    def test_rank_that_ended_before_does_not_keep_its_job_out(self, held):
        roster = self.restart(held, ended={("y", 1)})
        assert roster.describe()["y"].state == "in"
        roster.ended("a", "y", 0, 101.0)
        assert "y" not in roster.describe()

    def test_new_jobs_come_after_those_that_stood_somewhere(self, held):
        roster = JobTable(1, 100.0)
        for node in "ab":
            roster.joined(node, 1, [], {}, 100.1)
        roster.registered("a", entry("new", 0, ranks=1), 100.2)
        assert roster.describe()["new"].state == "gathers"
        assert not roster.view("a").settled
        roster.registered("a", entry("x", 0), 100.3)
        roster.tick(100.0 + SETTLE_S)
        assert roster.describe()["new"].state == "in"
        assert roster.view("a").settled

    def test_job_waits_for_the_node_that_is_not_back_yet(self, held):
        roster = JobTable(None, 100.0)
        roster.joined("a", 1, [entry("x", 0)], held["a"].jobs, 100.1)
        assert roster.describe()["x"].state == "gathers"
        roster.joined("b", 1, [entry("x", 1)], held["b"].jobs, 103.0)
        assert roster.describe()["x"].state == "in"

    def test_what_nodes_are_told_survives_the_wire(self, held):
        assert TO_NODE.decode(msgspec.json.encode(held["a"])) == held["a"]
