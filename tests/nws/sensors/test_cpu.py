"""The CPU sensor on hosts made of files: who competes, within which limits, and how the probe corrects."""

import itertools
import os
import subprocess
import sys
import threading

import pytest

from nws.base.errors import ProbeError
from nws.sensors.cpu import CpuSensor
from nws.sensors.load import LoadMeter
from nws.sensors.procfs import ProcFs
from nws.sensors.spin import spin
from tests.transcripts import recorded


def readings(sensor):
    """Return new, running and capacity of one measurement."""
    return tuple(m.value for m in sensor.measure()[:3])


def test_names_and_time_of_the_measurements(host):
    found = host.sensor().measure()
    assert [str(m.series) for m in found] == ["cpu.new@here", "cpu.running@here", "cpu.capacity@here"]
    assert {m.t for m in found} == {host.t}


def test_idle_host_gives_everything(host):
    assert readings(host.sensor()) == pytest.approx((1.0, 1.0, 2.0))


def test_first_reading_watches_for_a_while_and_later_ones_since_the_last(host):
    sensor, start = host.sensor(), host.t
    sensor.measure()
    assert host.t == pytest.approx(start + 0.3)
    host.task(7, run=1.0)
    host.sleep(10)
    assert readings(sensor) == pytest.approx((1.0, 1.0, 4 / 3), abs=0.01)
    assert host.t == pytest.approx(start + 10.3)


def test_reading_from_long_ago_is_not_averaged_in(host):
    sensor = host.sensor()
    sensor.measure()
    host.sleep(100_000)
    for tid in (7, 8):
        host.task(tid, run=1.0)
    assert readings(sensor)[0] == pytest.approx(2 / 3, abs=0.01)


def test_two_spinners_on_two_cpus(host):
    for tid in (7, 8):
        host.task(tid, run=1.0)
    new, running, capacity = readings(host.sensor())
    assert new == pytest.approx(2 / 3)
    assert running == pytest.approx(1.0)
    assert capacity == pytest.approx(1.0)


@recorded("nws/sensors/cpu_shares.txt", "why", "about", "nice", "tasks")
def test_cpu_share_on_one_usable_cpu(host, answered, why, about, nice, tasks):
    host.usable = {0}
    for name, value in about.items():
        setattr(host, name, {**host.steal, **value} if name == "steal" else value)
    for tid, task in enumerate(tasks, 7):
        host.task(tid, **{"cpus": {0}} | task)
    answered(f"{readings(host.sensor(nice=nice))[0]:.3f}")


@pytest.mark.parametrize(("weight", "new"), [(1024, 1 / 2), (8192, 1 / 9), (64, 16 / 17)])
def test_control_group_competes_with_one_weight(host, weight, new):
    host.usable, host.autogroups = {0}, True
    (host.control_group("/batch", version=1) / "cpu.shares").write_text(f"{weight}\n")
    host.own_group("/")
    for tid in (7, 8):
        host.task(tid, run=0.5, wait=0.5, cpus={0}, session=4, group="/batch")
    assert readings(host.sensor())[0] == pytest.approx(new, abs=0.01)


def test_throttled_group_wants_no_more_than_its_quota(host):
    host.usable = {0}
    group = host.control_group("/small", version=1)
    for name, value in (("shares", 1024), ("cfs_quota_us", 20_000), ("cfs_period_us", 100_000)):
        (group / f"cpu.{name}").write_text(f"{value}\n")
    host.own_group("/")
    host.task(7, run=0.2, wait=0.8, cpus={0}, group="/small")
    host.task(8, run=0.8, cpus={0})
    assert readings(host.sensor())[0] == pytest.approx((1 - 0.2) / 2, abs=0.01)


def test_newcomer_shares_the_weight_of_our_own_group(host):
    host.usable = {0}
    (host.control_group("/ours", version=1) / "cpu.shares").write_text("1024\n")
    host.task(7, run=0.5, wait=0.5, cpus={0}, group="/ours")
    host.task(8, run=0.5, wait=0.5, cpus={0}, group="/")
    assert readings(host.sensor()) == pytest.approx((1 / 4, 1 / 2, 1 / 4), abs=0.01)


def test_what_the_sensor_itself_uses_is_no_load(host):
    host.own_rate = 1.0
    host.task(1, run=1.0, pid=1)
    host.tasks[1]["cpus"] = set()
    assert readings(host.sensor()) == pytest.approx((1.0, 1.0, 2.0))


def test_interrupts_are_not_there_for_anybody(host):
    host.interrupts = {0: 0.25, 1: 0.25}
    assert readings(host.sensor())[0] == pytest.approx(0.75, abs=0.02)


def test_load_of_processes_we_cannot_see_counts(host):
    host.hidden = {0: 1.0, 1: 1.0}
    host.running = 1 + 2
    assert readings(host.sensor())[0] == pytest.approx(2 / 3, abs=0.02)
    host.running = 1 + 4
    host.write()
    assert readings(host.sensor())[0] == pytest.approx(2 / 5, abs=0.02)


def test_short_processes_compete_in_the_groups_of_their_parents(host):
    host.autogroups = True
    for tid in (7, 8, 9, 10):
        host.task(tid, run=0.0, children=0.5, session=5)
    host.running = 5
    assert readings(host.sensor())[0] == pytest.approx(1.0, abs=0.02), (
        "a session of four weighs as one process"
    )
    for tid in (7, 8, 9, 10):
        host.task(tid, run=0.0, children=0.5, session=tid)
    assert readings(host.sensor())[0] == pytest.approx(2 / 5, abs=0.02)


def test_hidden_load_on_our_cpus_alone_counts_though_others_idle(big_host):
    big_host.usable = {0, 1}
    big_host.hidden |= {0: 1.0, 1: 1.0}
    big_host.running = 3
    assert readings(big_host.sensor())[0] == pytest.approx(2 / 3, abs=0.02)


def test_many_small_tasks_count_together(big_host):
    big_host.usable = {0}
    for tid in range(10, 30):
        big_host.task(tid, run=0.04, cpus=set(range(8)))
    assert readings(big_host.sensor())[2] == pytest.approx(1.0, abs=0.05)
    big_host.usable = set(range(8))
    assert readings(big_host.sensor())[2] == pytest.approx(8 - 0.8, abs=0.1)


def test_kernel_that_does_not_count_waiting(host):
    host.schedstat = False
    for tid in (7, 8, 9, 10):
        host.task(tid, run=0.5)
    assert readings(host.sensor())[0] == pytest.approx(2 / 5, abs=0.02)


@pytest.mark.parametrize("version", [1, 2])
def test_quota_binds_and_is_never_probed(host, version):
    group = host.control_group("/job", version=version)
    if version == 2:
        (group / "cpu.max").write_text("50000 100000\n")
        (group / "cpu.stat").write_text("usage_usec 1000\n")
    else:
        (group / "cpu.cfs_quota_us").write_text("50000\n")
        (group / "cpu.cfs_period_us").write_text("100000\n")
        (group / "cpuacct.usage").write_text("1000\n")
    sensor = host.sensor(gain=1.0, probe=lambda s: pytest.fail("a quota needs no probe"))
    assert readings(sensor) == pytest.approx((0.5, 0.5, 0.5))
    limit = sensor.measure()[3]
    assert (str(limit.series), limit.value) == ("cpu.limit@here", 0.5)


def test_quota_is_shared_with_those_in_its_group_only(host):
    group = host.control_group("/job", version=1)
    (group / "cpu.cfs_quota_us").write_text("50000\n")
    (group / "cpu.cfs_period_us").write_text("100000\n")
    host.task(7, run=0.5, wait=0.5, group="/job/step")
    host.task(8, run=0.5, group="/jobless")
    assert readings(host.sensor())[:2] == pytest.approx((0.25, 0.5), abs=0.01)


def test_groups_usage_tells_of_members_nobody_sees(host):
    group = host.control_group("/job", version=2)
    (group / "cpu.max").write_text("60000 100000\n")
    usage = group / "cpu.stat"
    usage.write_text("usage_usec 0\n")
    sensor = host.sensor()
    host.hidden = {0: 0.4, 1: 0.0}
    sensor.measure()
    host.sleep(10)
    usage.write_text("usage_usec 4000000\n")
    assert readings(sensor)[0] == pytest.approx(0.3, abs=0.02)


def test_probe_corrects_the_passive_reading_step_by_step(host):
    sensor = host.sensor(gain=0.5, probe=lambda s: 0.88, probe_every=1)
    assert [round(readings(sensor)[0], 3) for _ in range(4)] == [0.94, 0.91, 0.895, 0.887]
    assert readings(sensor)[2] == pytest.approx(2 * readings(sensor)[0], abs=0.02)


def test_long_probe_decides_where_the_model_does_not_hold(host):
    lengths = []

    def probe(seconds):
        lengths.append(seconds)
        return 0.5 if seconds < 1 else 0.6

    sensor = host.sensor(gain=0.25, probe=probe, rest_s=30.0)
    assert readings(sensor)[0] == pytest.approx(0.6)
    assert lengths == [0.1, 1.0]
    host.sleep(300)
    assert readings(sensor)[0] == pytest.approx(0.6)
    assert lengths == [0.1, 1.0], "a longer probe is followed by a longer rest"


def test_load_that_begins_during_long_probe_is_no_error(host):
    def probe(seconds):
        if seconds > 0.5:
            for tid in (7, 8):
                host.task(tid, run=1.0)
            host.sleep(seconds)
            return 2 / 3
        return 0.5

    assert readings(host.sensor(gain=0.25, probe=probe))[0] == pytest.approx(1.0, abs=0.02)


def test_short_processes_that_yield_to_a_long_probe_count_less(host):
    for tid in (7, 8):
        host.task(tid, run=0.02, children=0.65)

    def probe(seconds):
        if seconds > 0.5:
            for tid in (7, 8):
                host.tasks[tid]["children"] = 0.48
            host.sleep(seconds)
        return 0.98

    assert readings(host.sensor())[0] < 0.8
    assert readings(host.sensor(gain=0.25, probe=probe))[0] == pytest.approx(0.98, abs=0.01)


def test_probe_runs_now_and_then_and_when_the_load_moves(host):
    probes = []

    def probe(seconds):
        probes.append(host.t)
        return 1.0

    sensor = host.sensor(gain=0.5, probe=probe, probe_every=5)
    for _ in range(6):
        sensor.measure()
    assert len(probes) == 2
    for tid in (7, 8):
        host.task(tid, run=1.0)
    host.sleep(10)
    sensor.measure()
    assert len(probes) == 3


@pytest.mark.parametrize(("probed", "new"), [(0.5, 2 / 3), (1.0, 2 / 3), (0.4, 2 / 3 - 0.1)])
def test_probe_that_sat_on_a_shared_or_a_free_cpu_is_no_error_of_the_reading(host, probed, new):
    """Two spinners and a newcomer on two CPUs: 2/3 in the long run, 1/2 or 1 at any moment."""
    for tid in (7, 8):
        host.task(tid, run=1.0)
    assert readings(host.sensor(gain=1.0, probe=lambda s: probed))[0] == pytest.approx(new)


def test_what_was_learnt_under_another_load_is_forgotten(host):
    sensor = host.sensor(gain=1.0, probe=lambda s: 0.6)
    assert readings(sensor)[0] == pytest.approx(0.6)
    for tid in (7, 8):
        host.task(tid, run=1.0)
    host.sleep(10)
    assert readings(sensor)[0] == pytest.approx(2 / 3)
    for tid in (7, 8):
        host.tasks[tid]["run"] = 0.0
    host.sleep(10)
    sensor.probe = lambda s: 1.0
    assert readings(sensor)[0] == pytest.approx(1.0)


def test_probes_rest_however_much_the_load_moves(host):
    probes = []

    def probe(seconds):
        probes.append(host.t)
        return 0.9

    sensor = host.sensor(gain=1.0, probe=probe, rest_s=30.0)
    for turn in range(60):
        for tid in (7, 8):
            host.task(tid, run=float(turn % 2))
        host.sleep(10)
        new = readings(sensor)[0]
        if host.t - probes[-1] > 1.0 and abs(new - 0.9) > 0.01:
            # not probed under this load: the passive reading alone
            assert new == pytest.approx(2 / 3 if turn % 2 else 1.0, abs=0.02)
    assert min(b - a for a, b in itertools.pairwise(probes)) >= 30.0
    assert len(probes) >= 15


def test_load_outside_a_container_counts_and_its_quota_binds_inside(host):
    """A fault of the original: in a container it read the host's load, and promised what the quota does not give."""
    group = host.control_group("/docker/c1", version=1, root="/docker/c1")
    (group / "cpu.cfs_quota_us").write_text("30000")
    (group / "cpu.cfs_period_us").write_text("100000")
    # an idle host of two CPUs, and a container that may use 0.3 of one
    assert readings(host.sensor()) == pytest.approx((0.3, 0.3, 0.3), abs=0.01)
    # processes of other containers: nobody sees them here, they do keep the CPUs busy
    host.hidden = {0: 1.0, 1: 1.0}
    host.running = 3
    (group / "cpu.cfs_quota_us").write_text("-1")
    assert readings(host.sensor())[0] == pytest.approx(2 / 3, abs=0.05)


def test_without_proc_the_message_says_what_is_needed(tmp_path):
    sensor = CpuSensor(host="here", meter=LoadMeter(proc=ProcFs(root=tmp_path)))
    with pytest.raises(ProbeError, match=r"stat: No such file .*need Linux' /proc"):
        sensor.measure()


def test_proc_without_cpus(host):
    (host.proc / "stat").write_text("intr 5\n")
    with pytest.raises(ProbeError, match="no line begins with cpu0"):
        host.sensor().measure()


def test_real_spinner_is_seen_on_its_cpu():
    """Real processes: three spinners bound to our CPU leave a newcomer there well under a whole one."""
    cpu = min(os.sched_getaffinity(0))
    code = f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nprint(flush=True)\nwhile True: pass"
    spinners = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(3)]
    proc = ProcFs(affinity=lambda tid: {cpu} if tid == 0 else os.sched_getaffinity(tid))
    try:
        for spinner in spinners:
            assert spinner.stdout.readline()
        sensor = CpuSensor(host="here", gain=0.0, meter=LoadMeter(proc=proc))
        # Whatever else this machine does for a moment is not what this is about.
        found = sorted(readings(sensor) for _ in range(5))
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
            spinner.stdout.close()
    new, _, capacity = found[2]
    assert 0.0 < new < 0.6
    assert capacity == pytest.approx(new)


def test_spin_gets_some_of_a_cpu():
    assert 0.0 < spin(0.02) <= 1.0


def test_spin_that_cannot_start(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(
        ProbeError, match=r"spin probe: /no/such/python could not run for 0.02 s: .*No such file"
    ):
        spin(0.02)


def watch_in_turns(host, sensor, turns, samples=True):
    """Let the tasks of each turn run for 2 s, with a sample each second, then measure."""
    sensor.measure()
    for running in turns:
        for tid in host.tasks:
            host.tasks[tid]["run"] = 1.0 if tid in running else 0.0
        for _ in range(2):
            host.sleep(1)
            if samples:
                sensor.sample()
    return readings(sensor)


@pytest.mark.parametrize(
    ("turns", "share"),
    [
        ([(7, 8), ()] * 3, 5 / 6),
        ([(7,), (8,)] * 3, 1.0),
        ([(7, 8)] * 3, 2 / 3),
        ([(7, 8), (), ()] * 2, 8 / 9),
        # A busy task stays busy at all levels.
        ([(7, 8), (7,)] * 3, (2 / 3 + 1) / 2),
    ],
)
def test_tasks_that_run_together_take_more_than_in_turns(host, turns, share):
    for tid in (7, 8):
        host.task(tid, run=0.0)
    assert watch_in_turns(host, host.sensor(), turns)[0] == pytest.approx(share, abs=0.02)


def test_without_samples_the_mean_demand_counts(host):
    for tid in (7, 8):
        host.task(tid, run=0.0)
    found = watch_in_turns(host, host.sensor(), [(7, 8), ()] * 3, samples=False)
    assert found[0] == pytest.approx(1.0, abs=0.02)


def test_no_probe_while_the_load_varies(host):
    for tid in (7, 8):
        host.task(tid, run=0.0)
    probes = []
    sensor = host.sensor(gain=0.25, probe=lambda seconds: probes.append(seconds) or 1.0)
    assert watch_in_turns(host, sensor, [(7, 8), ()] * 3)[0] == pytest.approx(5 / 6, abs=0.02)
    # the one of the first measurement
    assert probes == [sensor.probe_s]


def test_quota_holds_at_each_level(host):
    """One CPU and a quota of 0.6: two tasks leave a third of it, and then all that the quota allows."""
    group = host.control_group("/box", version=1)
    (group / "cpu.cfs_quota_us").write_text("60000")
    (group / "cpu.cfs_period_us").write_text("100000")
    host.usable = {0}
    for tid in (7, 8):
        host.task(tid, run=0.0, cpus={0})
    sensor = host.sensor()
    sensor.measure()
    for run in (0.5, 0.0) * 3:
        for tid in (7, 8):
            host.tasks[tid] |= {"run": run, "wait": run}
        for _ in range(2):
            host.sleep(1)
            sensor.sample()
    assert readings(sensor)[0] == pytest.approx((1 / 3 + 0.6) / 2, abs=0.05)


def test_bursts_on_other_cpus_do_not_change_the_demands_on_ours(host):
    host.usable = {0}
    host.task(7, run=0.5, cpus={0})
    host.task(8, run=0.0, cpus={1})
    sensor = host.sensor()
    sensor.measure()
    for run in (1.0, 0.0) * 3:
        host.tasks[8]["run"] = run
        for _ in range(2):
            host.sleep(1)
            sensor.sample()
    assert readings(sensor)[0] == pytest.approx(0.5, abs=0.02)


def test_samples_beside_a_reading_do_not_count(host):
    """A few milliseconds have no more than one step of the counters, which would look like ten busy CPUs."""
    host.task(7, run=0.5)
    meter = host.meter()
    meter.read()
    host.sleep(0.004)
    meter.sample()
    for _ in range(4):
        host.sleep(1)
        meter.sample()
    host.sleep(0.003)
    assert meter.read().levels == ()


def test_our_own_work_is_no_level(host):
    """The scan of all tasks costs CPU time of ours after the counters are read."""

    class BusyProcFs(ProcFs):
        def tasks(self):
            host.own_rate = 1.0
            host.sleep(0.3)
            host.own_rate = 0.0
            return super().tasks()

    meter = host.meter()
    meter.proc = BusyProcFs(root=host.proc, affinity=host.affinity, ticks_per_s=host.procfs().ticks_per_s)
    meter.read()
    for _ in range(4):
        host.sleep(1)
        meter.sample()
    assert meter.read().levels == ()


def test_probe_is_no_part_of_the_load(host):
    """A sample waits for it, so that its CPU time is known to be our own."""
    sensor = host.sensor(gain=0.25)
    started, sampled = threading.Event(), threading.Event()

    def probe(seconds):
        started.set()
        assert not sampled.wait(0.1)
        return 1.0

    sensor.probe = probe
    thread = threading.Thread(target=lambda: (started.wait(), sensor.sample(), sampled.set()))
    thread.start()
    sensor.measure()
    thread.join(5)
    assert sampled.is_set()
