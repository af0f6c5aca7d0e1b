"""The node manager's logic: who is stopped and resumed when, whatever happens to the processes meanwhile."""

import pytest

from apples.coscheduling.classes import FcsConstants, MonitorCounts, ProcessClass
from apples.coscheduling.events import Process
from apples.coscheduling.messagedriven import MessageDrivenConstants
from apples.daemons.managednode import check_free, pulsing, reports
from apples.daemons.managedprocess import LOOK_AGAIN_S
from apples.daemons.processes import ProcessRegistration, RegistrationRefused
from tests.transcripts import recorded, replay, transcripts

#: Constants of policies: their name for `Bench`, and their type.
CONSTANTS = {"fcs": ("fcs", FcsConstants), "message-driven": ("message_driven", MessageDrivenConstants)}


class NodeSession:
    """Commands of transcripts: what happens to a node of fakes, answered with what was done to its processes."""

    def __init__(self, bench):
        self.bench = bench

    def new(self, policy, processors="1", **constants):
        name, kind = CONSTANTS.get(policy, (None, None))
        numbers = {key: float(text) if "." in text else int(text) for key, text in constants.items()}
        made = {name: kind(**numbers)} if numbers else {}
        self.made = self.bench(policy, int(processors), **made)

    def add(self, word, ranks="1", quota="no", known=None):
        one = process(word)
        known = None if known is None else ProcessClass(known)
        self.made.add(one.job, one.rank, int(ranks), quota=quota == "yes", known=known)
        return self.made.done()

    def learn(self, *rows, waiting=None, version="1", settled="yes"):
        waits = () if waiting is None else (waiting,)
        self.made.learn(*rows, waiting=waits, version=int(version), settled=settled == "yes")

    def _enforced(self, stops):
        lines = self.made.done()
        assert stops or not any(line.startswith("stop ") for line in lines)
        share = pulsing(self.made.node)
        lines += [f"pulses of {share:g} of the time"] * bool(share)
        return [*lines, *["holds a process stopped"] * stops]

    def beat(self, slot, now, watchdog="yes"):
        return self._enforced(self.made.beat(int(slot), float(now), may_stop=watchdog == "yes"))

    def enforce(self, now):
        return self._enforced(self.made.node.enforce(float(now), may_stop=True))

    def pulse(self, on):
        self.made.node.pulse = on == "on"

    def silence(self, now):
        self.made.node.silence(float(now))
        return self.enforce(now)

    def remove(self, word, now):
        managed = self.made.node.remove(process(word), float(now))
        end = "is not here" if managed is None else f"was held stopped for {managed.stopped_s:g} s"
        closed = self.made.controls[f"{process(word).job}.{process(word).rank}"].closed
        return [*self.made.done(), f"{word} {end}, let go: {closed}"]

    def look(self, now):
        """Look for messages, and say which job is scheduled."""
        self.made.node.look_for_messages(float(now))
        return self.scheduled()

    def timer(self, now):
        self.made.node.timer(float(now))
        return self.scheduled()

    def scheduled(self):
        return [*self.made.done(), f"scheduled: {self.made.node.policy.scheduled}"]

    def measure(self, now):
        self.made.node.measure(float(now))
        return self.made.done()

    def page(self, word, **values):
        """Set what a page shows: counted CPU,COMMUNICATION,COUNT; wanted messages; spoilt; …"""
        for name, text in values.items():
            numbers = [float(number) for number in text.split(",")]
            value = MonitorCounts(*numbers[:2], int(numbers[2])) if name == "counted" else numbers[0]
            setattr(self.made.pages[f"{word}.0" if "." not in word else word], name, value)

    def control(self, word, **values):
        """Set what a process does by itself: is_stopped, cpu seconds, ready RAN,WAITED."""
        for name, text in values.items():
            numbers = tuple(float(number) for number in text.split(","))
            setattr(
                self.made.controls[word if "." in word else f"{word}.0"],
                name,
                numbers if len(numbers) > 1 else numbers[0],
            )

    def describe(self, now):
        """What is told of all processes and what pages were asked."""
        self.made.node.read_all()
        for told in reports(self.made.node, float(now)):
            name = f"{told.job}.{told.rank}"
            page = self.made.node.processes[process(name)].page
            since = None if page is None else page.held_since_s
            keys = ("state", "process_class", "granularity_s", "t_cpu_s", "ran_s", "threads")
            facts = [f"{key} {getattr(told, key)}" for key in keys if getattr(told, key) is not None]
            held = self.made.node.processes[process(name)].held_s(float(now))
            yield f"{name}: " + ", ".join([*facts, f"held {held:g} s", f"read as held since {since}"])


def process(word):
    job, _, rank = word.partition(".")
    return Process(job, int(rank or 0))


@transcripts("apples/daemons/node")
def test_node_events_do_what_is_recorded(transcript, golden, bench):
    golden(transcript, replay(transcript, NodeSession(bench)))


@pytest.fixture
def gang(bench):
    """Two jobs that take turns."""
    made = bench("gang")
    made.add("x")
    made.add("y")
    made.learn("x", "y")
    made.beat(0, 0.0)
    made.done()
    return made


@recorded("apples/daemons/taken_names.txt", "changes")
def test_name_that_is_taken_is_refused_with_the_reason(gang, answered, changes):
    fields = {"process": Process("x", 0), "ranks": 1, "pid": 1000, "uid": 7, "started": 1} | changes
    with pytest.raises(RegistrationRefused) as error:
        check_free(gang.node.processes, ProcessRegistration(**fields))
    answered(str(error.value))


def test_shares_of_a_process_come_from_the_kernel_between_two_calls(bench):
    made = bench("gang").add("x")
    assert made.share(0.0) is None
    made.control.ready = (1.0, 0.0)
    assert made.share(0.1) is None
    made.control.ready = (1.3, 0.1)
    assert made.share(0.2) == pytest.approx(0.75)
    assert made.share(0.3) is None


def test_process_that_has_run_is_not_looked_at(bench):
    made = bench("gang").add("x")
    for now, ready in ((0.0, (1.0, 0.0)), (LOOK_AGAIN_S, (1.1, 0.0))):
        made.control.ready = ready
        made.share(now)
    made.control.is_stopped = True
    made.resume(LOOK_AGAIN_S)
    assert made.control.is_stopped
    # Without a growing running time, another program may have stopped it.
    made.share(2 * LOOK_AGAIN_S)
    made.resume(2 * LOOK_AGAIN_S)
    assert not made.control.is_stopped


def test_program_starts_in_the_class_of_its_last_run(bench):
    made = bench("fcs", fcs=FcsConstants(cslots_min=2))
    made.add("x", known=ProcessClass.DC)
    made.learn("x")
    assert made.node.policy.learned(Process("x", 0)) is ProcessClass.DC
    made.add("y")
    made.learn("x", "y", version=2)
    assert made.node.policy.learned(Process("y", 0)) is None
