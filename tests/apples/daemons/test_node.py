"""The node manager's logic: who is stopped and resumed when, whatever happens to the processes meanwhile."""

import pytest

from apples.coscheduling.classes import FcsConstants, MonitorCounts, ProcessClass
from apples.coscheduling.events import Process
from apples.coscheduling.messagedriven import MessageDrivenConstants
from apples.daemons.managedprocess import LIMIT_AGAIN_S, LOOK_AGAIN_S
from apples.daemons.node import check_free
from apples.daemons.processes import ProcessRegistration, RegistrationRefused


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


def test_before_anybody_says_anything_everything_runs(bench):
    made = bench("gang")
    made.add("x")
    assert not made.node.enforce(0.0, may_stop=True)
    assert made.done() == []


def test_who_leaves_is_stopped_before_who_comes_is_resumed(gang):
    assert gang.beat(1, 0.1)
    assert gang.done() == ["stop x.0", "stopped y.0 0.1", "resume y.0"]


def test_a_beat_of_the_same_slot_does_nothing(gang):
    gang.beat(0, 0.1)
    assert gang.done() == []


def test_one_that_somebody_else_has_resumed_is_stopped_again(gang):
    gang.controls["y.0"].is_stopped = False
    gang.beat(0, 0.1)
    assert gang.done() == ["stop y.0"]


def test_one_that_somebody_else_has_stopped_in_its_turn_is_resumed(gang):
    gang.controls["x.0"].is_stopped = True
    gang.beat(0, LOOK_AGAIN_S)
    assert gang.done() == ["resume x.0"]


def test_time_held_stopped_is_in_the_page_before_the_process_runs(gang):
    gang.beat(1, 0.1)
    gang.beat(0, 0.25)
    assert gang.pages["x.0"].stopped_s == pytest.approx(0.15)
    assert gang.done()[-2:] == ["stopped x.0 0.15", "resume x.0"]
    assert gang.node.processes[Process("x", 0)].held_s(0.25) == pytest.approx(0.15)


def test_who_is_read_while_it_is_held_stopped_waits_no_longer(gang):
    gang.beat(1, 0.1)
    gang.node.read_all()
    assert (gang.pages["x.0"].held_since_s, gang.pages["y.0"].held_since_s) == (0.1, None)
    gang.beat(0, 0.25)
    gang.node.read_all()
    assert (gang.pages["x.0"].held_since_s, gang.pages["y.0"].held_since_s) == (None, 0.25)


def test_what_is_told_of_a_process_has_what_efficiencies_need(gang):
    page = gang.pages["x.0"]
    page.counted, page.ran_s, page.threads = MonitorCounts(2.0, 1.0, 5), 4.0, 2
    gang.node.read_all()
    told = next(p for p in gang.node.describe(1.0) if p.job == "x")
    assert (told.t_cpu_s, told.ran_s, told.threads) == (2.0, 4.0, 2)


def test_nothing_is_stopped_without_a_watchdog(gang):
    assert not gang.beat(1, 0.1, may_stop=False)
    assert gang.done() == ["stopped y.0 0.1", "resume y.0"]


def test_silence_lets_everything_run_and_spares_the_processors(gang):
    gang.node.silence(0.3)
    assert not gang.node.enforce(0.3, may_stop=True)
    assert gang.done() == ["wait x.0 spin-block", "wait y.0 spin-block", "stopped y.0 0.3", "resume y.0"]
    gang.beat(1, 0.4)
    assert gang.done() == ["wait x.0 own", "stop x.0", "wait y.0 own"]


def test_one_that_ends_while_it_is_stopped_is_resumed_and_let_go(gang):
    member = gang.node.remove(Process("y", 0), 0.05)
    assert gang.done() == ["stopped y.0 0.05", "resume y.0", "wait y.0 own", "close page y.0"]
    assert gang.controls["y.0"].closed
    assert member.stopped_s == 0.05
    assert gang.node.remove(Process("y", 0), 0.06) is None
    # The manager does not know yet: the slot of y is free for x.
    gang.beat(1, 0.1)
    assert gang.done() == ["wait x.0 spin-block"]


def test_a_job_that_waits_for_its_turn_to_come_in_is_held(bench):
    made = bench("batch")
    made.add("x")
    made.add("y")
    made.learn("x", waiting=("y",))
    assert made.beat(0, 0.0)
    assert made.done() == ["stop y.0"]


def test_a_job_that_has_not_gathered_runs_freely(bench):
    made = bench("batch")
    made.add("x")
    made.add("y")
    made.learn("x")
    assert not made.beat(0, 0.0)


def test_a_job_that_is_taken_out_runs_freely_once_the_manager_knows_of_all(gang):
    gang.learn("x", version=2, settled=False)
    gang.beat(0, 0.1)
    assert gang.done() == []
    gang.learn("x", version=3)
    gang.beat(0, 0.2)
    assert gang.done() == ["stopped y.0 0.2", "resume y.0"]


def test_a_spoilt_page_is_let_go_and_the_process_takes_its_turns(gang):
    gang.pages["y.0"].spoilt = True
    gang.beat(1, 0.1)
    assert gang.done() == ["stop x.0", "close page y.0", "resume y.0"]
    assert gang.node.processes[Process("y", 0)].page is None


def test_fcs_reads_the_pages_of_those_whose_slot_ends_and_classifies(bench):
    made = bench("fcs", fcs=FcsConstants(cslots_min=2))
    made.add("x")
    made.add("y")
    made.learn("x", "y")
    for number in range(1, 8):
        for name in ("x.0", "y.0"):
            made.pages[name].counted = MonitorCounts(t_cpu_s=10.0 * number, t_comm_s=0.0, c_comm=number)
        made.beat(number % 2, 0.1 * number)
    described = {entry.job: entry for entry in made.node.describe(1.0)}
    assert described["x"].process_class == described["y"].process_class == "DC"
    assert described["x"].granularity_s == 10.0
    assert [entry.state for entry in described.values()] == ["runs", "runs"]
    assert {"wait x.0 spin-block", "wait y.0 spin-block"} <= set(made.done())


def test_an_f_process_is_favoured_in_its_own_slot_only(bench):
    made = bench("fcs", fcs=FcsConstants(cslots_min=1))
    made.add("x")
    made.add("y")
    made.learn("x", "y")
    made.beat(0, 0.0)
    # waits three times as long as it computes: F
    made.pages["x.0"].counted = MonitorCounts(t_cpu_s=1.0, t_comm_s=3.0, c_comm=1000)
    made.pages["y.0"].counted = MonitorCounts(t_cpu_s=5.0, t_comm_s=0.0, c_comm=1)
    made.beat(1, 0.1)
    made.beat(0, 0.2)
    assert "favour x.0" in made.done()
    made.beat(1, 0.3)
    assert made.done() == ["unfavour x.0"]


@pytest.fixture
def driven(bench):
    """Two jobs under message-driven coscheduling, the first of them scheduled; no quotas."""
    made = bench("message-driven", message_driven=MessageDrivenConstants(slice_s=15.0, gmet_s=5.0))
    for job in "xy":
        made.add(job)
    made.node.enforce(0.0, may_stop=True)
    return made


def test_who_is_not_scheduled_gets_pulses_where_there_is_no_quota(driven):
    assert driven.done() == [
        *("wait x.0 poll", "scheduled x.0"),
        *("wait y.0 poll", "limit y.0 0.01", "not scheduled y.0", "stop y.0"),
    ]
    assert driven.node.pulsing == 0.01
    driven.node.pulse = True
    driven.node.enforce(0.1, may_stop=True)
    driven.node.pulse = False
    driven.node.enforce(0.101, may_stop=True)
    assert driven.done() == ["stopped y.0 0.1", "resume y.0", "stop y.0"]


def test_with_a_quota_nobody_is_stopped(bench):
    made = bench("message-driven")
    made.add("x", quota=True)
    made.add("y", quota=True)
    assert not made.node.enforce(0.0, may_stop=True)
    assert "limit y.0 0.01" in made.done()
    assert made.node.pulsing == 0


def test_a_quota_that_the_watchdog_has_lifted_is_written_again(bench):
    made = bench("message-driven")
    made.add("x", quota=True)
    made.add("y", quota=True)
    for instant in (0.0, 0.5, LIMIT_AGAIN_S, LIMIT_AGAIN_S + 0.5):
        made.node.enforce(instant, may_stop=True)
    assert [line for line in made.done() if line.startswith("limit")] == ["limit y.0 0.01"] * 2


def test_a_message_brings_its_job_after_the_guaranteed_time(driven):
    driven.done()
    driven.pages["y.0"].wanted = 1
    driven.node.look_for_messages(4.0)
    assert driven.node.policy.scheduled == "x"
    driven.pages["y.0"].wanted = 2
    driven.node.look_for_messages(6.0)
    driven.node.enforce(6.0, may_stop=True)
    assert driven.node.policy.scheduled == "y"
    assert driven.done() == [
        *("limit x.0 0.01", "not scheduled x.0", "stop x.0"),
        *("limit y.0 None", "scheduled y.0", "stopped y.0 6", "resume y.0"),
    ]


def test_one_that_is_left_alone_tells_nobody_that_it_is_not_scheduled(driven):
    driven.done()
    driven.node.remove(Process("y", 0), 1.0)
    assert "scheduled y.0" in driven.done()


def test_the_slice_goes_to_who_has_used_least(driven):
    driven.controls["x.0"].cpu = 14.0
    driven.controls["y.0"].cpu = 0.2
    driven.node.timer(15.0)
    assert driven.node.policy.scheduled == "y"


def test_cpu_of_ranks_that_have_ended_counts_for_their_job(bench):
    made = bench("message-driven")
    for job, rank in (("x", 0), ("x", 1), ("y", 0)):
        made.add(job, rank, 2)
    # of both ranks of x 30 s in the mean, though the one that is left has used nothing
    made.controls["x.1"].cpu, made.controls["y.0"].cpu = 60.0, 5.0
    made.node.remove(Process("x", 1), 1.0)
    made.node.timer(15.0)
    assert made.node.policy.scheduled == "y"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"uid": 8}, "a job x of user 7 is registered here; choose another name"),
        ({"ranks": 3}, "job x has 1 ranks here, not 3; choose another name"),
        ({"pid": 5}, "rank 0 of job x is process 1000; choose another name"),
    ],
)
def test_a_name_that_is_taken_is_refused_with_the_reason(gang, changes, why):
    fields = {"process": Process("x", 0), "ranks": 1, "pid": 1000, "uid": 7, "started": 1} | changes
    with pytest.raises(RegistrationRefused) as error:
        check_free(gang.node.processes, ProcessRegistration(**fields))
    assert str(error.value) == why


def test_a_turn_that_comes_again_is_as_it_was_until_somebody_comes_or_goes(gang):
    gang.beat(1, 0.1)
    first = gang.done()
    for number in range(1, 4):
        gang.beat(0, 0.2 * number)
        gang.done()
        gang.beat(1, 0.2 * number + 0.1)
        assert gang.done() == first
    gang.add("z")
    gang.learn("x", "y", "z")
    gang.beat(2, 1.0)
    gang.done()
    gang.beat(1, 1.1)
    assert "stop z.0" in gang.done()
    gang.node.remove(Process("z", 0), 1.2)
    gang.done()
    gang.beat(0, 1.3)
    gang.done()
    gang.beat(1, 1.4)
    assert gang.done() == first


def test_a_turn_without_a_watchdog_is_not_the_one_that_is_kept(gang):
    gang.beat(1, 0.1)
    gang.beat(0, 0.2)
    gang.done()
    assert not gang.beat(1, 0.3, may_stop=False)
    assert not any(line.startswith("stop ") for line in gang.done())
    assert gang.beat(1, 0.4)
    assert "stop x.0" in gang.done()


def test_a_rank_without_its_processor_in_its_slots_blocks_and_shares(gang):
    x, y = gang.controls["x.0"], gang.controls["y.0"]
    for number in range(1, 7):
        # In its slots x runs half of the time for which it is ready; the file of y cannot be read.
        x.ready = (0.05 * number, 0.05 * number)
        gang.beat(number % 2, 0.1 * number)
    assert "wait x.0 spin-block" in gang.done()
    gang.beat(0, 1.0)
    assert (x.is_stopped, y.is_stopped) == (False, True)


def test_shares_of_a_process_come_from_the_kernel_between_two_calls(bench):
    made = bench("gang").add("x")
    assert made.share(0.0) is None
    made.control.ready = (1.0, 0.0)
    assert made.share(0.1) is None
    made.control.ready = (1.3, 0.1)
    assert made.share(0.2) == pytest.approx(0.75)
    assert made.share(0.3) is None


def test_a_process_that_has_run_is_not_looked_at(bench):
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


def test_share_by_need_renices_from_the_counts_of_a_second(bench):
    made = bench("share-by-need", processors=2)
    for job, part in (("x", 1.0), ("y", 0.5)):
        made.add(job)
        made.pages[f"{job}.0"].counted = MonitorCounts(part, 1.0 - part, 100)
    made.node.enforce(0.0, may_stop=True)
    made.done()
    made.node.measure(1.0)
    made.node.enforce(1.0, may_stop=True)
    assert made.done() == ["nice y.0 3"]


def test_a_program_starts_in_the_class_of_its_last_run(bench):
    made = bench("fcs", fcs=FcsConstants(cslots_min=2))
    made.add("x", known=ProcessClass.DC)
    made.learn("x")
    assert made.node.policy.learned(Process("x", 0)) is ProcessClass.DC
    made.add("y")
    made.learn("x", "y", version=2)
    assert made.node.policy.learned(Process("y", 0)) is None
