"""What each policy does with the processes of one node."""

import pytest

from apples.coscheduling.classes import FcsConstants, MonitorCounts, ProcessClass
from apples.coscheduling.contention import FIRST_SLOTS
from apples.coscheduling.events import (
    Heartbeat,
    HeartbeatLost,
    JobArrived,
    JobLeft,
    Measured,
    MessageArrived,
    Order,
    Process,
    ProcessLeft,
    SliceEnded,
    Wait,
)
from apples.coscheduling.fcs import Fcs
from apples.coscheduling.messagedriven import MessageDriven, MessageDrivenConstants
from apples.coscheduling.needs import ShareByNeed
from apples.coscheduling.node import Gang, SpinBlock, Uncoordinated, changes
from apples.coscheduling.policies import POLICIES, CoschedulingConstants, policy_kind
from apples.errors import ConfigError

ONE, TWO, THREE = (Process(job, 0) for job in ("one", "two", "three"))
FINE = MonitorCounts(0.1, 0.001, 100)
WAITS = MonitorCounts(0.1, 0.4, 100)
COARSE = MonitorCounts(5.0, 0.1, 10)


def arrived(policy, *processes, processor=0):
    for process in processes:
        policy.on(JobArrived(job=process.job, processors={process: processor}))


def running(policy):
    return {process.job for process, order in policy.wanted().items() if order.run}


def favoured(policy):
    return {process.job for process, order in policy.wanted().items() if order.favoured}


def polling(policy):
    return {p.job for p, order in policy.wanted().items() if order.run and order.wait is Wait.POLL}


def changed(policy, event):
    """The orders that an event changes, by process."""
    before = policy.wanted()
    policy.on(event)
    after = policy.wanted()
    found = {process: order for process, order in after.items() if before.get(process) != order}
    assert changes(before, after) == bool(found)
    return found


SLOTS = {"one": 0, "two": 1, "three": 2}


def contend(policy, job, share):
    """End a slot of a job in which it ran for this share of the time for which it was ready, and begin another."""
    beat(policy, job)
    shares = {Process(job, 0): share}
    policy.on(Heartbeat(slot=SLOTS[job], jobs={0: job}, shares=shares))


def beat(policy, job, **readings):
    slot = SLOTS[job]
    names = {Process(name, 0): reading for name, reading in readings.items()}
    return changed(policy, Heartbeat(slot=slot, jobs={0: job}, readings=names))


def classes(policy):
    return {process.job: known.process_class.value for process, known in policy.classifications.items()}


class TestGang:
    def test_whoever_has_the_slot_runs_alone(self):
        policy = Gang()
        arrived(policy, ONE, TWO)
        beat(policy, "one")
        assert running(policy) == {"one"}
        beat(policy, "two")
        assert running(policy) == {"two"}
        assert polling(policy) == {"two"}

    def test_a_beat_changes_only_what_must(self):
        policy = Gang()
        arrived(policy, ONE, TWO, THREE)
        beat(policy, "one")
        runs = {process.job: order.run for process, order in beat(policy, "two").items()}
        assert runs == {"one": False, "two": True}

    def test_before_the_first_beat_and_without_slots_everybody_runs(self):
        policy = Gang()
        arrived(policy, ONE, TWO)
        assert running(policy) == {"one", "two"}
        beat(policy, "one")
        policy.on(Heartbeat(slot=None))
        assert running(policy) == {"one", "two"}

    def test_processors_have_slots_of_their_own(self):
        policy = Gang()
        arrived(policy, ONE)
        arrived(policy, TWO, THREE, processor=1)
        policy.on(Heartbeat(slot=0, jobs={0: "one", 1: "three"}))
        assert running(policy) == {"one", "three"}

    @pytest.mark.parametrize("end", [ProcessLeft(process=TWO), JobLeft(job="two")])
    def test_the_first_job_has_the_rest_of_a_slot_whose_job_has_ended(self, end):
        policy = Gang()
        arrived(policy, ONE, TWO, THREE)
        beat(policy, "two")
        assert changed(policy, end) == {ONE: Order(wait=Wait.SPIN_BLOCK)}
        beat(policy, "three")
        assert running(policy) == polling(policy) == {"three"}

    def test_contended_jobs_share_their_slots_and_block(self):
        policy = Gang()
        arrived(policy, ONE, TWO, THREE)
        assert not policy.contended
        for job in ("one", "two"):
            contend(policy, job, 0.5)
        assert policy.contended == {"one", "two"}
        for job in ("one", "two"):
            beat(policy, job)
            assert running(policy) == {"one", "two"}
            assert polling(policy) == set()
        beat(policy, "three")
        assert running(policy) == polling(policy) == {"three"}

    def test_a_contended_job_has_its_slot_again_when_the_others_have_gone(self):
        policy = Gang()
        arrived(policy, ONE)
        contend(policy, "one", 0.5)
        slots = 0
        while polling(policy) != {"one"}:
            contend(policy, "one", 1.0)
            slots += 1
        assert slots == FIRST_SLOTS
        contend(policy, "one", 1.0)
        assert polling(policy) == {"one"}

    def test_each_vain_look_for_free_processors_comes_later(self):
        policy = Gang()
        arrived(policy, ONE)
        beat(policy, "one")
        alone = []
        for _ in range(1000):
            contend(policy, "one", 0.6)
            alone.append(polling(policy) == {"one"})
        assert sum(alone[:100]) <= 4
        assert 1 <= sum(alone[-256:]) <= 2

    def test_a_small_loss_of_time_is_no_contention(self):
        policy = Gang()
        arrived(policy, ONE)
        for share in (0.8, 0.95, 0.9, 1.0, 0.8):
            contend(policy, "one", share)
        assert polling(policy) == {"one"}

    def test_an_idle_processor_goes_to_the_job_that_may_fill_it(self):
        policy = Gang()
        arrived(policy, ONE)
        arrived(policy, TWO, processor=1)
        policy.on(Heartbeat(slot=0, jobs={0: "one"}, fill={1: "two"}))
        assert running(policy) == {"one", "two"}


@pytest.mark.parametrize(("kind", "wait"), [(Uncoordinated, Wait.POLL), (SpinBlock, Wait.SPIN_BLOCK)])
def test_without_slots_everybody_runs_always(kind, wait):
    policy = kind()
    arrived(policy, ONE, TWO)
    assert changed(policy, Heartbeat(slot=0, jobs={0: "one"})) == {}
    assert {order.wait for order in policy.wanted().values()} == {wait}
    assert running(policy) == {"one", "two"}


class TestFcs:
    @pytest.fixture
    def policy(self):
        policy = Fcs(FcsConstants(cslots_min=1))
        arrived(policy, ONE, TWO, THREE)
        return policy

    def classified(self, policy, **readings):
        """Give every process a class, by one slot each."""
        for job in readings:
            beat(policy, job)
            beat(policy, job, **{job: readings[job]})

    def test_an_unclassified_process_has_its_slot_and_blocks(self, policy):
        beat(policy, "one")
        assert running(policy) == {"one"}
        assert polling(policy) == set()
        beat(policy, "one", one=FINE)
        assert running(policy) == polling(policy) == {"one"}

    def test_a_contended_cs_process_runs_like_an_f_process(self, policy):
        self.classified(policy, one=FINE, two=FINE, three=WAITS)
        contend(policy, "one", 0.5)
        assert running(policy) == {"one", "three"}
        assert (polling(policy), favoured(policy)) == (set(), set())
        beat(policy, "two")
        assert running(policy) == polling(policy) == {"two"}

    def test_classes_come_from_the_slot_that_ended(self, policy):
        self.classified(policy, one=FINE, two=WAITS, three=COARSE)
        assert classes(policy) == {"one": "CS", "two": "F", "three": "DC"}

    def test_a_cs_process_has_its_slot_for_itself(self, policy):
        self.classified(policy, one=FINE, two=WAITS, three=COARSE)
        beat(policy, "one")
        assert running(policy) == polling(policy) == {"one"}

    def test_an_f_process_comes_first_and_others_use_its_gaps(self, policy):
        self.classified(policy, one=FINE, two=WAITS, three=COARSE)
        beat(policy, "two")
        assert running(policy) == {"two", "three"}
        assert favoured(policy) == {"two"}
        assert polling(policy) == set()

    def test_in_the_slot_of_a_dc_process_nobody_comes_first(self, policy):
        self.classified(policy, one=FINE, two=WAITS, three=COARSE)
        beat(policy, "three")
        assert running(policy) == {"two", "three"}
        assert favoured(policy) == set()

    @pytest.mark.parametrize("end", [ProcessLeft(process=TWO), JobLeft(job="two")])
    def test_cs_processes_run_in_the_slot_of_a_job_that_has_ended(self, policy, end):
        beat(policy, "two")
        assert running(policy) == {"two"}
        waiting = Order(wait=Wait.SPIN_BLOCK)
        assert changed(policy, end) == {ONE: waiting, THREE: waiting}

    def test_the_cs_process_that_ran_last_is_stopped_in_the_slots_of_others(self, policy):
        self.classified(policy, one=FINE, two=WAITS)
        beat(policy, "one")
        runs = {process.job: order.run for process, order in beat(policy, "two").items()}
        assert runs["one"] is False

    def test_an_idle_slot_is_used_by_dc_and_f_processes(self, policy):
        self.classified(policy, one=FINE, two=WAITS, three=COARSE)
        policy.on(Heartbeat(slot=3, jobs={1: "elsewhere"}))
        assert running(policy) == {"two", "three"}

    def test_a_process_alone_that_changes_class_changes_how_it_waits(self):
        policy = Fcs(FcsConstants(cslots_min=1))
        arrived(policy, ONE)
        beat(policy, "one")
        beat(policy, "one", one=FINE)
        assert polling(policy) == {"one"}
        beat(policy, "one", one=WAITS)
        assert polling(policy) == set()

    def test_a_missing_reading_is_no_reading(self, policy):
        beat(policy, "one")
        beat(policy, "two")
        assert policy.classifications[ONE].tslots == 0


class TestShareByNeed:
    @pytest.fixture
    def policy(self):
        policy = ShareByNeed()
        arrived(policy, ONE, TWO)
        return policy

    def measured(self, policy, second, **duty):
        """Report what processes of these duty cycles have counted by the end of this second."""
        readings = {
            Process(job, 0): MonitorCounts(part * second, (1 - part) * second, second)
            for job, part in duty.items()
        }
        policy.on(Measured(readings=readings, now=float(second)))
        return {process.job: order.nice for process, order in policy.wanted().items()}

    def test_all_run_and_block_and_are_equal_before_the_first_reading(self, policy):
        assert running(policy) == {"one", "two"}
        assert {order.wait for order in policy.wanted().values()} == {Wait.SPIN_BLOCK}
        assert {order.nice for order in policy.wanted().values()} == {0}

    def test_half_the_duty_cycle_is_half_the_weight(self, policy):
        """1.25 to the third power is 1.95."""
        assert self.measured(policy, 1, one=1.0, two=0.5) == {"one": 0, "two": 3}

    def test_a_small_change_of_the_duty_cycle_changes_nothing(self, policy):
        for second, part in enumerate((0.5, 0.45, 0.55, 0.5), start=1):
            assert self.measured(policy, second, one=1.0, two=part) == {"one": 0, "two": 3}

    def test_a_process_that_never_computes_keeps_a_tenth(self, policy):
        assert self.measured(policy, 1, one=1.0, two=0.0)["two"] == 10

    def test_weights_follow_who_computes_most_now(self, policy):
        self.measured(policy, 1, one=1.0, two=0.5)
        policy.on(ProcessLeft(process=ONE))
        arrived(policy, THREE)
        assert self.measured(policy, 2, two=0.5, three=0.25) == {"two": 0, "three": 3}


class TestMessageDriven:
    @pytest.fixture
    def policy(self):
        policy = MessageDriven(MessageDrivenConstants(gmet_s=5.0))
        for job in ("one", "two", "three"):
            policy.on(JobArrived(job=job, processors={Process(job, 0): 0}, now=0.0))
        return policy

    def message(self, policy, job, now, *, scheduled=True):
        return changed(policy, MessageArrived(process=Process(job, 0), sender_scheduled=scheduled, now=now))

    def test_the_first_job_is_scheduled_and_the_others_get_a_hundredth(self, policy):
        shares = {process.job: order.share for process, order in policy.wanted().items()}
        assert shares == {"one": pytest.approx(0.98), "two": 0.01, "three": 0.01}

    def test_a_message_from_a_scheduled_sender_brings_its_job_in(self, policy):
        self.message(policy, "two", 5.0)
        assert policy.scheduled == "two"

    def test_not_before_the_scheduled_job_has_had_its_minimum(self, policy):
        self.message(policy, "two", 4.9)
        assert policy.scheduled == "one"
        self.message(policy, "two", 5.0)
        self.message(policy, "three", 9.9)
        assert policy.scheduled == "two"

    def test_the_minimum_may_be_counted_in_cpu_time_of_each_process(self):
        """Two processes of the job: 5 s are 10 CPU seconds; what came before it was scheduled does not count."""
        policy = MessageDriven(MessageDrivenConstants(gmet_s=5.0, gmet_of="cpu"))
        for job in ("one", "two"):
            here = {Process(job, rank): rank for rank in (0, 1)}
            policy.on(JobArrived(job=job, processors=here, now=0.0))
        for two_s, scheduled in ((0.5, "two"), (10.4, "two"), (10.5, "one")):
            job = "two" if policy.scheduled == "one" else "one"
            policy.on(
                MessageArrived(
                    process=Process(job, 0),
                    sender_scheduled=True,
                    now=1e6,
                    cpu_s={"one": 20.0, "two": two_s},
                )
            )
            assert policy.scheduled == scheduled

    def test_a_process_that_comes_later_takes_nothing_from_the_minimum_in_cpu_time(self):
        """12 s of two processes since their job was scheduled, of which 10 s of one had been before."""
        policy = MessageDriven(MessageDrivenConstants(gmet_s=5.0, gmet_of="cpu"))
        for process in (ONE, TWO):
            policy.on(JobArrived(job=process.job, processors={process: 0}))
        for process, cpu_s in ((TWO, {"one": 5.0, "two": 10.0}), (ONE, {"one": 5.0, "two": 22.0})):
            policy.on(MessageArrived(process=process, sender_scheduled=True, now=1e6, cpu_s=cpu_s))
            assert policy.scheduled == process.job
            policy.on(JobArrived(job="two", processors={Process("two", 1): 1}))

    def test_a_sender_that_only_runs_in_its_hundredth_asks_for_nothing(self, policy):
        assert self.message(policy, "two", 60.0, scheduled=False) == {}

    def test_the_timer_schedules_who_has_had_least(self, policy):
        policy.on(SliceEnded(cpu_s={"one": 10.0, "two": 3.0, "three": 1.0}, now=15.0))
        assert policy.scheduled == "three"

    def test_least_is_counted_for_each_process(self):
        """A job of two processes here has had less than one of one process, though more in sum."""
        policy = MessageDriven()
        for job, count in (("one", 1), ("two", 2)):
            here = {Process(job, rank): rank for rank in range(count)}
            policy.on(JobArrived(job=job, processors=here, now=0.0))
        policy.on(SliceEnded(cpu_s={"one": 20.0, "two": 24.0}, now=15.0))
        assert policy.scheduled == "two"
        policy.on(SliceEnded(cpu_s={"one": 20.0, "two": 60.0}, now=30.0))
        assert policy.scheduled == "one"

    def test_nodes_whose_jobs_once_differed_come_to_the_same_order(self):
        """One node has had its jobs in another order than the other, and by other moments."""
        jobs = ("one", "three", "two")
        nodes = []
        for first, used in (("three", {"one": 0.4, "two": 0.1}), ("two", {"three": 0.3, "one": 0.2})):
            policy = MessageDriven()
            for job in sorted(jobs, key=lambda job: job != first):
                policy.on(JobArrived(job=job, processors={Process(job, 0): 0}))
            nodes.append((policy, dict.fromkeys(jobs, 0.0) | used))
        turns = []
        for turn in range(1, 10):
            for policy, cpu_s in nodes:
                cpu_s[policy.scheduled] += 14.7
                policy.on(SliceEnded(cpu_s=dict(cpu_s), now=15.0 * turn))
            turns.append(tuple(policy.scheduled for policy, _ in nodes))
        assert all(here == there for here, there in turns[2:])
        assert {here for here, _ in turns[2:]} == set(jobs)

    def test_processes_that_have_left_count_as_long_as_their_job_is_there(self):
        policy = MessageDriven()
        policy.on(JobArrived(job="two", processors={Process("two", rank): rank for rank in (0, 1)}))
        policy.on(JobArrived(job="one", processors={ONE: 0}))
        policy.on(ProcessLeft(process=Process("two", 1)))
        policy.on(SliceEnded(cpu_s={"one": 20.0, "two": 24.0}, now=15.0))
        assert policy.scheduled == "two"

    def test_when_the_scheduled_job_leaves_the_neediest_follows(self, policy):
        policy.on(SliceEnded(cpu_s={"one": 1.0, "two": 3.0, "three": 2.0}, now=15.0))
        policy.on(JobLeft(job="one", now=16.0))
        assert policy.scheduled == "three"
        assert policy.wanted()[THREE].share == pytest.approx(0.99)

    def test_messages_for_jobs_that_are_gone_are_nothing(self, policy):
        policy.on(JobLeft(job="two"))
        assert self.message(policy, "two", 60.0) == {}

    def test_many_jobs_leave_the_scheduled_one_half(self):
        policy = MessageDriven()
        for number in range(101):
            policy.on(JobArrived(job=str(number), processors={Process(str(number), 0): 0}))
        shares = [order.share for order in policy.wanted().values()]
        assert shares[0] == 0.5
        assert sum(shares) == pytest.approx(1.0)

    def test_constants_out_of_range_are_all_named(self):
        with pytest.raises(ConfigError) as error:
            MessageDrivenConstants(slice_s=0, gmet_s=-1, gmet_of="luck", share=0.7)
        assert len(error.value.problems) == 4
        assert "gmet_of is 'luck', legal are 'wall', 'cpu'" in error.value.problems


@pytest.mark.parametrize("name", POLICIES)
class TestEveryPolicy:
    @pytest.fixture
    def policy(self, name):
        return policy_kind(name).node(CoschedulingConstants())

    def test_after_silence_nobody_is_stopped_until_the_next_beat(self, policy):
        arrived(policy, ONE, TWO)
        beat(policy, "one")
        policy.on(HeartbeatLost())
        arrived(policy, THREE)
        assert all(order.run and order.share is None for order in policy.wanted().values())

    def test_nothing_is_wanted_of_those_that_have_left(self, policy):
        arrived(policy, ONE, TWO, THREE)
        beat(policy, "one")
        policy.on(JobLeft(job="one"))
        policy.on(ProcessLeft(process=TWO))
        beat(policy, "one", one=FINE)
        policy.on(ProcessLeft(process=ONE))
        assert set(policy.wanted()) == {THREE}

    def test_orders_that_were_returned_never_change(self, policy):
        returned = []
        for event in [
            JobArrived(job="one", processors={ONE: 0}),
            JobArrived(job="two", processors={TWO: 0}),
            Heartbeat(slot=0, jobs={0: "one"}),
            Heartbeat(slot=1, jobs={0: "two"}, readings={ONE: COARSE}),
            SliceEnded(cpu_s={"one": 2.0, "two": 1.0}, now=20.0),
            MessageArrived(process=ONE, sender_scheduled=True, now=40.0),
            HeartbeatLost(),
            ProcessLeft(process=ONE),
        ]:
            assert policy.on(event) is None
            returned.append((policy.wanted(), dict(policy.wanted())))
        assert all(mapping == copy for mapping, copy in returned)

    def test_a_policy_describes_itself(self, policy, name):
        arrived(policy, ONE, TWO)
        beat(policy, "one")
        assert policy.repeats == (name in ("batch", "gang", "fcs"))
        assert set(policy.classifications) == ({ONE, TWO} if name == "fcs" else set())
        assert (policy.scheduled is not None) == policy.announces_scheduled == (name == "message-driven")


def test_an_unknown_policy_is_answered_with_the_legal_ones():
    with pytest.raises(ConfigError, match="no policy is called 'gangs'; legal are: batch, gang, spin-block"):
        policy_kind("gangs")


def test_the_first_class_is_cs():
    policy = Fcs()
    arrived(policy, ONE)
    assert policy.classifications[ONE].process_class is ProcessClass.CS
