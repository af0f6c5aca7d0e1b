"""Real processes are stopped with their groups, resumed, pinned and limited, by every means this machine allows."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from apples.coscheduling.events import Process
from apples.daemons import cgroups, processcontrol, signalling
from apples.daemons.processcontrol import Capabilities, find_capabilities
from apples.daemons.processes import ProcessRegistration, facts
from apples.errors import SharingError
from tests.transcripts import text_of

#: Of this process, so of those it starts.
NICENESS = os.getpriority(os.PRIO_PROCESS, 0)
#: A shell whose child computes with it in one group.
FAMILY = ("sh", "-c", "while :; do :; done & echo $!; while :; do :; done")
THREADS = text_of("apples/daemons/threads.txt")


def capabilities(kind):
    """Capabilities that stop by signals or by the freezer; skips where there is none."""
    if kind == "signals":
        return Capabilities()
    try:
        return Capabilities(freezer=cgroups.find("freezer"))
    except SharingError as error:
        pytest.skip(str(error))


class Family:
    """A process, its child, and the control of both."""

    def __init__(self, means):
        self.process = subprocess.Popen(FAMILY, stdout=subprocess.PIPE, start_new_session=True)
        self.child = int(self.process.stdout.readline())
        self.control = control(means, self.process.pid)

    def run(self):
        """Whether both use the CPU: more ticks than before, within a while."""
        before = [facts(pid).cpu_s for pid in (self.process.pid, self.child)]
        deadline = time.monotonic() + 10.0
        while time.monotonic() < deadline:
            now = [facts(pid).cpu_s for pid in (self.process.pid, self.child)]
            if all(n > b for n, b in zip(now, before, strict=True)):
                return True
        return False

    def still(self):
        """Whether both have stopped: in a while, no tick more."""
        deadline = time.monotonic() + 10.0
        while self.control.stopped() is not True and time.monotonic() < deadline:
            time.sleep(0.001)
        before = [facts(pid).cpu_s for pid in (self.process.pid, self.child)]
        time.sleep(0.05)
        return before == [facts(pid).cpu_s for pid in (self.process.pid, self.child)]


def within_a_while(what):
    """Whether it becomes true."""
    deadline = time.monotonic() + 10.0
    while not what() and time.monotonic() < deadline:
        time.sleep(0.001)
    return what()


def control(means, pid):
    about = facts(pid)
    known = ProcessRegistration(
        process=Process("j", 0), ranks=1, pid=pid, uid=os.getuid(), started=about.started
    )
    return means.control(known, os.pidfd_open(pid))


@pytest.fixture
def family():
    made = []

    def make(means):
        made.append(Family(means))
        return made[-1]

    yield make
    for one in made:
        with suppress(ProcessLookupError):
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait()
        one.process.stdout.close()


@pytest.fixture
def threaded():
    """A process of two threads."""
    with subprocess.Popen([sys.executable, "-c", THREADS], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        yield child
        child.kill()


@pytest.mark.parametrize("kind", ["signals", "freezer"])
def test_group_stops_and_runs_as_one(family, kind):
    one = family(capabilities(kind))
    assert one.run()
    for _ in range(2):
        one.control.stop()
    assert one.still()
    one.control.resume()
    assert one.run()
    assert one.control.stopped() is False
    one.control.close()


@pytest.mark.parametrize("kind", ["signals", "freezer"])
def test_letting_go_of_one_that_is_stopped_lets_it_run(family, kind):
    one = family(capabilities(kind))
    one.control.stop()
    assert one.still()
    one.control.close()
    assert one.run()


@pytest.mark.parametrize("kind", ["signals", "freezer"])
def test_one_that_has_ended_is_no_error(family, kind):
    one = family(capabilities(kind))
    os.killpg(one.process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, one.process.pid, os.WEXITED | os.WNOWAIT)
    one.control.stop()
    one.control.resume()
    one.control.favour(True)
    one.control.limit(0.1)
    assert one.control.stopped() is None
    one.process.wait()
    assert one.control.cpu_s() is None
    one.control.close()


@pytest.mark.parametrize("waited_for", [False, True])
def test_what_a_dead_leader_leaves_stopped_is_resumed_on_kernels_that_know_no_signals_to_groups(
    family, waited_for
):
    one = family(Capabilities())
    pidfd, group = os.pidfd_open(one.process.pid), one.process.pid
    os.killpg(group, signal.SIGSTOP)
    os.kill(group, signal.SIGKILL)
    os.waitid(os.P_PID, group, os.WEXITED | (0 if waited_for else os.WNOWAIT))
    assert within_a_while(lambda: facts(one.child).state == "T")
    assert not signalling._send_to_group(pidfd, signal.SIGSTOP, group)
    assert not signalling._send_to_group(pidfd, signal.SIGCONT, group)
    assert within_a_while(lambda: facts(one.child).state != "T")
    os.close(pidfd)
    one.control.close()
    os.kill(one.child, signal.SIGKILL)


def test_number_that_is_somebody_elses_by_now_is_left_alone(family):
    gone = subprocess.Popen(["true"])
    pidfd = os.pidfd_open(gone.pid)
    gone.wait()
    other = family(Capabilities())
    os.killpg(other.process.pid, signal.SIGSTOP)
    assert within_a_while(lambda: facts(other.child).state == "T")
    assert not signalling._send_to_group(pidfd, signal.SIGCONT, other.process.pid)
    assert facts(other.child).state == "T"
    os.close(pidfd)


def test_one_that_does_not_lead_its_group_is_stopped_alone():
    child = subprocess.Popen(["sleep", "60"])
    try:
        held = control(Capabilities(), child.pid)
        held.stop()
        deadline = time.monotonic() + 10.0
        while held.stopped() is not True and time.monotonic() < deadline:
            time.sleep(0.001)
        assert held.stopped()
        held.close()
    finally:
        child.kill()
        child.wait()


def test_all_threads_are_pinned(threaded):
    cpu = max(os.sched_getaffinity(0))
    held = control(find_capabilities("signals", limits=False, cpus=(cpu,)), threaded.pid)
    threads = [int(name) for name in os.listdir(f"/proc/{threaded.pid}/task")]
    assert len(threads) == 2
    assert all(os.sched_getaffinity(thread) == {cpu} for thread in threads)
    held.close()


def test_pinned_thread_stays_on_the_cpu_to_which_mpi_bound_it(threaded):
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(threaded.pid, {cpus[-1]})
    held = control(find_capabilities("signals", limits=False, cpus=cpus), threaded.pid)
    assert os.sched_getaffinity(threaded.pid) == {cpus[-1]}
    held.close()
    assert os.sched_getaffinity(threaded.pid) == {cpus[-1]}


def test_pinning_is_undone_where_the_process_has_not_chosen_for_itself(threaded):
    before = os.sched_getaffinity(0)
    cpu = max(before)
    means = find_capabilities("signals", limits=False, cpus=(cpu,))
    control(means, threaded.pid).close()
    assert all(os.sched_getaffinity(int(one)) == before for one in os.listdir(f"/proc/{threaded.pid}/task"))
    held = control(means, threaded.pid)
    os.sched_setaffinity(threaded.pid, {min(before)})
    held.close()
    assert os.sched_getaffinity(threaded.pid) == ({min(before)} if len(before) > 1 else before)


def test_one_that_was_favoured_by_a_node_manager_that_was_killed_is_so_no_longer(family):
    means = find_capabilities("signals", limits=False, cpus=None)
    if not means.nice:
        pytest.skip("needs CAP_SYS_NICE")
    one = family(means)
    one.control.favour(True)
    # the next one knows nothing of it
    later = control(means, one.process.pid)
    later.favour(False)
    assert os.getpriority(os.PRIO_PROCESS, one.process.pid) == 0
    os.setpriority(os.PRIO_PROCESS, one.process.pid, 5)
    later.close()
    assert os.getpriority(os.PRIO_PROCESS, one.process.pid) == 5
    again = control(means, one.process.pid)
    again.favour(True)
    again.favour(False)
    assert os.getpriority(os.PRIO_PROCESS, one.process.pid) == 5
    again.close()


def test_number_whose_process_has_ended_is_neither_favoured_nor_pinned(monkeypatch, family):
    before = os.sched_getaffinity(0)
    one = family(Capabilities())
    # as it is when another process has the number by now
    monkeypatch.setattr(processcontrol, "alive", lambda pidfd: False)
    held = control(Capabilities(nice=True, cpus=(max(before),)), one.process.pid)
    held.favour(True)
    assert os.getpriority(os.PRIO_PROCESS, one.process.pid) == NICENESS
    assert os.sched_getaffinity(one.process.pid) == before
    held.close()


def test_favouring_is_undone_or_not_done(family):
    means = find_capabilities("signals", limits=False, cpus=None)
    one = family(means)
    one.control.favour(True)
    assert os.getpriority(os.PRIO_PROCESS, one.process.pid) == (-10 if means.nice else NICENESS)
    one.control.favour(False)
    assert os.getpriority(os.PRIO_PROCESS, one.process.pid) == NICENESS
    assert ("needs CAP_SYS_NICE" in means.describe()["favouring"]) != means.nice
    one.control.close()


def test_niceness_is_raised_in_steps_and_restored(family):
    means = find_capabilities("signals", limits=False, cpus=None)
    one = family(means)
    os.setpriority(os.PRIO_PROCESS, one.process.pid, 4)
    for steps, niceness in ((3, 7), (5, 9), (18, 19), (2, 6), (0, 4)):
        one.control.renice(steps)
        assert os.getpriority(os.PRIO_PROCESS, one.process.pid) == (niceness if means.nice else 4)
    one.control.renice(3)
    one.control.close()
    assert os.getpriority(os.PRIO_PROCESS, one.process.pid) == 4


def test_quota_is_kept(family):
    try:
        means = Capabilities(quota=cgroups.find("cpu"))
    except SharingError as error:
        pytest.skip(str(error))
    one = family(means)
    assert one.control.limit(0.02)
    (group, _), (_, _) = one.control.guards()
    before = one.control.cpu_s(), time.monotonic()
    time.sleep(1.0)
    used, past = one.control.cpu_s() - before[0], time.monotonic() - before[1]
    # two processes on up to two CPUs, held to a fiftieth of one together; ticks are hundredths
    assert used <= 0.02 * past + 0.03
    assert b"max" not in os.pread(group, 64, 0)
    assert one.control.limit(None)
    assert one.run()
    one.control.close()


def test_without_a_quota_the_caller_has_to_see_to_it(family):
    one = family(Capabilities())
    assert not one.control.limit(0.01)
    one.control.close()


def test_control_groups_that_are_not_there_are_told(tmp_path):
    (tmp_path / "cgroup").write_text("0::/user\n")
    (tmp_path / "mounts").write_text(f"none {tmp_path}/cg cgroup2 rw 0 0\n")
    with pytest.raises(
        SharingError, match=r"control groups cannot be used here .* No such file or directory"
    ):
        cgroups.find("freezer", proc=tmp_path)
    (tmp_path / "mounts").write_text("proc /proc proc rw 0 0\n")
    with pytest.raises(SharingError, match="no control group file system with cpu is mounted"):
        cgroups.find("cpu", proc=tmp_path)


#: A daemon that freezes a process of a session of its own, says so, and waits to be killed.
FREEZES = text_of("apples/daemons/processcontrol_freezes.txt")


@pytest.fixture
def frozen():
    """A process that a daemon has frozen which was killed then, and its group."""
    try:
        cgroups.find("freezer")
    except SharingError as error:
        pytest.skip(str(error))
    daemon = subprocess.Popen([sys.executable, "-c", FREEZES], stdout=subprocess.PIPE)
    pid, path = daemon.stdout.readline().split()
    daemon.kill()
    daemon.wait()
    daemon.stdout.close()
    yield int(pid), Path(os.fsdecode(path))
    with suppress(ProcessLookupError):
        os.kill(int(pid), signal.SIGKILL)


@pytest.mark.parametrize("how", ["sweep", "release"])
def test_what_a_daemon_that_was_killed_has_frozen_runs_again(frozen, how):
    pid, group = frozen
    assert group.is_dir()
    if how == "sweep":
        cgroups.sweep()
    else:
        cgroups.release(pid)
    # one that is frozen cannot end
    os.kill(pid, signal.SIGKILL)
    assert within_a_while(lambda: (about := facts(pid)) is None or about.state == "Z")
    assert within_a_while(lambda: not group.exists())


def test_groups_of_daemons_that_live_are_left_alone(tmp_path):
    (tmp_path / "cgroup").write_text("0::/\n")
    (tmp_path / "mounts").write_text(f"none {tmp_path}/cg cgroup2 rw 0 0\n")
    gone = subprocess.Popen(["true"])
    gone.wait()
    names = [f"apples-{gone.pid}-5", f"apples-{os.getpid()}-5", "apples-of-mine-1"]
    for name in names:
        (tmp_path / "cg" / name).mkdir(parents=True)
        (tmp_path / "cg" / name / "cgroup.freeze").write_text("1")
        (tmp_path / "cg" / name / "cpu.max").write_text("500 100000")
    cgroups.sweep(proc=tmp_path)
    written = {name: (tmp_path / "cg" / name / "cgroup.freeze").read_text() for name in names}
    assert written == dict(zip(names, "011", strict=True))
    assert (tmp_path / "cg" / names[0] / "cpu.max").read_text() == "max 100000"


def test_where_there_are_no_control_groups_nothing_is_swept(tmp_path):
    cgroups.sweep(proc=tmp_path / "none")
    cgroups.release(2**22 - 1)
