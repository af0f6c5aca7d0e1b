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
    Process,
    ProcessLeft,
    SliceEnded,
    Wait,
)
from apples.coscheduling.fcs import Fcs
from apples.coscheduling.messagedriven import MessageDriven, MessageDrivenConstants
from apples.coscheduling.nodestate import Gang, SpinBlock, Uncoordinated, changes
from apples.coscheduling.policies import POLICIES, CoschedulingConstants, ShareByNeed, policy_kind
from apples.errors import ConfigError
from tests.transcripts import replay, transcripts

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


KINDS = {kind.__name__: kind for kind in (Gang, Uncoordinated, SpinBlock, Fcs, ShareByNeed, MessageDriven)}
COUNTS = {"FINE": FINE, "WAITS": WAITS, "COARSE": COARSE}


class PolicySession:
    """Commands of transcripts: events of one policy, answered with its orders.

    A process is JOB or JOB.RANK, with @N on processor N.
    """

    def new(self, kind, **constants):
        """A policy: its constants as numbers or words."""
        constants = {name: number(text) for name, text in constants.items()}
        made = {Fcs: FcsConstants, MessageDriven: MessageDrivenConstants}.get(KINDS[kind])
        self.policy = KINDS[kind](*([made(**constants)] if made else []))

    def state(self):
        policy = self.policy
        for process, order in policy.wanted().items():
            words = ["runs" if order.run else "stopped", f"waits {order.wait.value}"]
            words += ["favoured"] * order.favoured + [f"nice {order.nice}"] * bool(order.nice)
            words += [] if order.share is None else [f"share {order.share:.6g}"]
            words += ["contended"] * (process.job in policy.contended)
            known = policy.classifications.get(process)
            words += [] if known is None else [f"class {known.process_class.value} after {known.tslots}"]
            words += ["scheduled"] * (policy.scheduled == process.job)
            yield f"{process.job}.{process.rank} " + ", ".join(words)

    def on(self, event):
        before = self.policy.wanted()
        self.policy.on(event)
        after = self.policy.wanted()
        different = {process for process, order in after.items() if before.get(process) != order}
        assert changes(before, after) == bool(different)
        return self.state()

    def arrive(self, *words, now="0", user="0", known=None):
        places = {process(word): int(word.partition("@")[2] or 0) for word in words}
        for job in dict.fromkeys(one.job for one in places):
            here = {one: processor for one, processor in places.items() if one.job == job}
            classes = {} if known is None else {one: ProcessClass(known) for one in here}
            event = JobArrived(job=job, processors=here, now=float(now), user=int(user), classes=classes)
            answer = self.on(event)
        return answer

    def beat(self, slot, **words):
        """A heartbeat: jobs by processor, then of processes what they counted or their share, `fillN` idle ones."""
        jobs = {int(name[3:]): job for name, job in words.items() if name.startswith("cpu")}
        fill = {int(name[4:]): job for name, job in words.items() if name.startswith("fill")}
        rest = {process(name): text for name, text in words.items() if not name.startswith(("cpu", "fill"))}
        counts = {one: COUNTS[text] for one, text in rest.items() if text in COUNTS}
        shares = {one: float(text) for one, text in rest.items() if text not in COUNTS}
        number = None if slot == "none" else int(slot)
        return self.on(Heartbeat(slot=number, jobs=jobs, fill=fill, readings=counts, shares=shares))

    def leave(self, job, now="0"):
        return self.on(JobLeft(job=job, now=float(now)))

    def end(self, word):
        return self.on(ProcessLeft(process=process(word)))

    def slice(self, now, **cpu_s):
        return self.on(SliceEnded(cpu_s={job: float(text) for job, text in cpu_s.items()}, now=float(now)))

    def message(self, word, now, sender="scheduled", **cpu_s):
        seconds = {job: float(text) for job, text in cpu_s.items()}
        event = MessageArrived(
            process=process(word), sender_scheduled=sender == "scheduled", now=float(now), cpu_s=seconds
        )
        return self.on(event)

    def measured(self, second, **duty):
        """Processes of these duty cycles, since they began, at the end of this second."""
        now = int(second)
        counts = {
            process(job): MonitorCounts(float(part) * now, (1 - float(part)) * now, now)
            for job, part in duty.items()
        }
        return self.on(Measured(readings=counts, now=float(now)))


def number(text):
    return float(text) if text.replace(".", "").isdigit() else text


def process(word):
    job, _, rank = word.partition("@")[0].partition(".")
    return Process(job, int(rank or 0))


@transcripts("coscheduling/policies")
def test_policy_events_give_recorded_orders(transcript, golden):
    golden(transcript, replay(transcript, PolicySession()))


def test_contended_job_has_its_slot_again_when_the_others_have_gone():
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


def test_each_vain_look_for_free_processors_comes_later():
    policy = Gang()
    arrived(policy, ONE)
    beat(policy, "one")
    alone = []
    for _ in range(1000):
        contend(policy, "one", 0.6)
        alone.append(polling(policy) == {"one"})
    assert sum(alone[:100]) <= 4
    assert 1 <= sum(alone[-256:]) <= 2


def test_nodes_whose_jobs_once_differed_come_to_the_same_order():
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


def test_many_jobs_leave_the_scheduled_one_half():
    policy = MessageDriven()
    for number in range(101):
        policy.on(JobArrived(job=str(number), processors={Process(str(number), 0): 0}))
    shares = [order.share for order in policy.wanted().values()]
    assert shares[0] == 0.5
    assert sum(shares) == pytest.approx(1.0)


def test_constants_out_of_range_are_all_named():
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

    def test_policy_describes_itself(self, policy, name):
        arrived(policy, ONE, TWO)
        beat(policy, "one")
        assert policy.repeats == (name in ("batch", "gang", "fcs"))
        assert set(policy.classifications) == ({ONE, TWO} if name == "fcs" else set())
        assert (policy.scheduled is not None) == policy.announces_scheduled == (name == "message-driven")


def test_unknown_policy_is_answered_with_the_legal_ones():
    with pytest.raises(
        ConfigError, match=r"no policy is called 'gangs' \(did you mean gang\?\); legal are batch"
    ):
        policy_kind("gangs")


def test_first_class_is_cs():
    policy = Fcs()
    arrived(policy, ONE)
    assert policy.classifications[ONE].process_class is ProcessClass.CS
