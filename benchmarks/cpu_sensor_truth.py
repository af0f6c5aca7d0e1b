"""Accuracy of CPU shares: the predicted share of a new process against the share of a real one.

    python -m benchmarks cpu_sensor_truth sensor [--seconds 2] [--repeats 3] [--spin] [--only TEXT]
    python -m benchmarks cpu_sensor_truth prometheus [--repeats 3] [--scrape 5] [--settle 15]

sensor: Each scene starts spinners (niced, pinned, in cgroups with quotas or weights, of short life or part-time) and
lets the sensor measure with and without its spin probe, over `--watch` seconds; a daemon's watches for ten. Then it
runs a process of its own for some seconds, whose CPU time over wall time is the truth. Prints every scene and the
mean absolute error of both readings. The cgroup scenes need root and a writable CPU hierarchy. If other programs used
more than `--quiet` CPUs during a repeat, it is reported apart and repeated up to `--tries` times: a changing load is
no error of the sensor.

prometheus: shares read from Prometheus, beside our own sensor. Starts a node_exporter and a Prometheus of its own, on
ports the system chooses. Each scene starts spinners, each a session of its own, lets them run for `--settle` seconds
and reads both. Then it runs a busy process for 2 s, twice, whose CPU time over wall time is the truth. Prints every
scene and the mean absolute error of both.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.common.report import median, say, table
from nws.base.errors import ProbeError
from nws.sensors.cgrouplimits import CpuGroup
from nws.sensors.cpu import CpuSensor
from nws.sensors.procfs import ProcFs, parse_groups
from nws.sources.prometheus import PrometheusSettings, PrometheusSource

_LOAD = """
import os, subprocess, sys, time
nice, cpu, kind = int(sys.argv[1]), sys.argv[2], sys.argv[3]
os.nice(nice)
if cpu != "-":
    os.sched_setaffinity(0, {int(cpu)})
if kind == "idle":
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while True:
    if kind == "short":
        subprocess.run(["/bin/sh", "-c", "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done"])
    elif kind.startswith("duty"):
        period = float(kind[4:])
        end = time.perf_counter() + period / 2
        while time.perf_counter() < end:
            pass
        time.sleep(period / 2)
"""
_NEWCOMER = """
import sys, time
start, cpu = time.perf_counter(), time.process_time()
while (wall := time.perf_counter() - start) < float(sys.argv[1]):
    pass
print((time.process_time() - cpu) / wall)
"""
#: Numbers of the cgroups that are made.
_NUMBERS = itertools.count()
_SENSOR = """
import sys, time
from nws.sensors.cpu import CpuSensor
sensor = CpuSensor(host="here")
passive = CpuSensor(host="here", gain=0.0)
for each in passive, sensor:
    each.meter.read()
end = time.monotonic() + float(sys.argv[1])
while (left := end - time.monotonic()) > 1.0:
    time.sleep(1.0)
    for each in passive, sensor:
        each.sample()
time.sleep(left)
print(passive.measure()[0].value, *(m.value for m in sensor.measure()))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A load and the placement of the sensor.

    spinners: (nice, CPU or None) of each
    kind: what they do: "busy", "idle" (by SCHED_IDLE), "short" (start processes one after the other), or "dutyP" (busy
        in half of each period of P seconds)
    pin: CPU that the sensor and the new process are bound to
    group: the cgroup of sensor and new process
    inside: whether the spinners are in that cgroup, too
    containers: further cgroups, with the number of busy processes in each
    together: whether the spinners are one session; else each is a session of its own, as sensor and new process are
    """

    name: str
    spinners: tuple[tuple[int, int | None], ...] = ()
    kind: str = "busy"
    pin: int | None = None
    group: CpuGroup | None = None
    inside: bool = False
    containers: tuple[tuple[CpuGroup, int], ...] = ()
    together: bool = False


def scenes(cpus: Sequence[int]) -> list[Scene]:
    one = cpus[0]
    free = (0, None)
    found = [Scene(name=f"{n} spinners", spinners=(free,) * n) for n in (0, 1, 2, 4)]
    found += [
        Scene(name="4 spinners, one session", spinners=(free,) * 4, together=True),
        Scene(name="2 spinners, nice 19", spinners=((19, None),) * 2),
        Scene(name="4 spinners, nice 5", spinners=((5, None),) * 4),
        Scene(name="2 spinners + 2 at nice 19", spinners=(free, free, (19, None), (19, None))),
        Scene(name="all CPUs pinned full", spinners=tuple((0, c) for c in cpus)),
        Scene(name="on one CPU, nothing there", pin=one),
        Scene(name="on one CPU, 1 pinned there", spinners=((0, one),), pin=one),
        Scene(name="on one CPU, 2 pinned there", spinners=((0, one),) * 2, pin=one),
        Scene(name="on one CPU, 1 pinned, nice 19", spinners=((19, one),), pin=one),
        Scene(name="on one CPU, 2 free spinners", spinners=(free,) * 2, pin=one),
    ]
    if cpus[1:]:
        found.append(Scene(name="on one CPU, 1 pinned elsewhere", spinners=((0, cpus[1]),), pin=one))
    found += [
        Scene(name="2 spinners by SCHED_IDLE", spinners=(free,) * 2, kind="idle"),
        Scene(name="2 loops of short processes", spinners=(free,) * 2, kind="short"),
        Scene(name="2 of 50 % duty, period 0.2 s", spinners=(free,) * 2, kind="duty0.2"),
        Scene(name="2 of 50 % duty, period 4 s", spinners=(free,) * 2, kind="duty4"),
        Scene(name="quota 0.5", group=limited(0.5)),
        Scene(name="quota 0.5, 1 spinner inside", group=limited(0.5), spinners=(free,), inside=True),
        Scene(name="quota 0.75, 2 spinners outside", group=limited(0.75), spinners=(free,) * 2),
        Scene(name="quota 0.2, 2 spinners outside", group=limited(0.2), spinners=(free,) * 2),
        *[
            Scene(name=f"quota 0.3, {n} spinners outside", group=limited(0.3), spinners=(free,) * n)
            for n in (0, 1, 2, 4)
        ],
        Scene(name="quota 0.3, 2 outside at nice 19", group=limited(0.3), spinners=((19, None),) * 2),
        Scene(name="quota 0.3, on one CPU, 1 there", group=limited(0.3), spinners=((0, one),), pin=one),
        Scene(name="container of 8 x weight, 2 busy", containers=((weighing(8192), 2),)),
        Scene(name="container of 1/16 weight, 2 busy", containers=((weighing(64), 2),)),
        Scene(name="8 x weight and 2 spinners", containers=((weighing(8192), 2),), spinners=(free,) * 2),
        Scene(name="4 containers of 0.3, 2 busy each", containers=((limited(0.3), 2),) * 4),
        Scene(name="8 containers of 0.2, 1 busy each", containers=((limited(0.2), 1),) * 8),
        Scene(name="8 containers of 0.4, 4 busy each", containers=((limited(0.4), 4),) * 8),
        Scene(
            name="4 containers of 0.3, 2 spinners", containers=((limited(0.3), 2),) * 4, spinners=(free,) * 2
        ),
        Scene(name="quota 0.5 beside 4 of 0.3", group=limited(0.5), containers=((limited(0.3), 2),) * 4),
        Scene(name="in 1/4 weight beside 2 spinners", group=weighing(256), spinners=(free,) * 2),
        Scene(
            name="in 4 x weight, 2 inside and out",
            group=weighing(4096),
            spinners=(free,) * 2,
            inside=True,
            containers=((weighing(1024), 2),),
        ),
    ]
    return found


def limited(cpus: float) -> CpuGroup:
    return CpuGroup(name="", weight=1024.0, cpus=cpus)


def weighing(weight: float) -> CpuGroup:
    return CpuGroup(name="", weight=weight, cpus=math.inf)


@contextmanager
def cgroup(about: CpuGroup) -> Iterator[Path | None]:
    """Create a child of this process's CPU cgroup with that quota and weight; yields None if this is impossible."""
    groups = parse_groups(Path("/proc/self/cgroup").read_text())
    tops = [("/sys/fs/cgroup/cpu" + groups.get("cpu", "/"), 1), ("/sys/fs/cgroup" + groups.get("", "/"), 2)]
    for top, version in tops:
        directory = Path(top) / f"cpu-sensor-truth-{os.getpid()}-{next(_NUMBERS)}"
        try:
            directory.mkdir()
        except OSError:
            continue
        try:
            name = "cpu.max" if version == 2 else "cpu.cfs_quota_us"
            if not (directory / name).exists():
                continue
            if math.isfinite(about.cpus):
                quota = str(int(about.cpus * 100_000))
                (directory / name).write_text(f"{quota} 100000" if version == 2 else quota)
            weight = ("cpu.weight", about.weight / 10.24) if version == 2 else ("cpu.shares", about.weight)
            (directory / weight[0]).write_text(str(max(int(weight[1]), 1)))
            yield directory
            return
        finally:
            # a group can be removed once its last process has been reaped
            directory.rmdir()
    yield None


def run(code: str, *arguments: str, group: Path | None, pin: int | None) -> list[float]:
    def enter() -> None:
        settle(group, pin)

    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        preexec_fn=enter,
        start_new_session=True,
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(x) for x in done.stdout.split()]


def settle(group: Path | None, pin: int | None) -> None:
    if group is not None:
        (group / "cgroup.procs").write_text(str(os.getpid()))
    if pin is not None:
        os.sched_setaffinity(0, {pin})


@contextmanager
def spinning(scene: Scene, group: Path | None, containers: Sequence[Path]) -> Iterator[list[int]]:
    wanted = [(nice, cpu, scene.kind, group if scene.inside else None) for nice, cpu in scene.spinners]
    for path, (_, count) in zip(containers, scene.containers, strict=True):
        wanted += [(0, None, "busy", path)] * count
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _LOAD, str(nice), "-" if cpu is None else str(cpu), kind],
            preexec_fn=functools.partial(settle, inside, None),
            start_new_session=not scene.together,
        )
        for nice, cpu, kind, inside in wanted
    ]
    try:
        time.sleep(0.5)
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def cpu_seconds(spinners: Sequence[int]) -> float:
    """Return CPU seconds since boot of all processes on this machine that are not part of the scene."""
    proc = ProcFs()
    times, _ = proc.cpu_times()
    everybody = sum(t.normal + t.niced for t in times.values())
    tasks = proc.tasks()
    ran = sum(tasks[pid].run + tasks[pid].ended for pid in spinners)
    ours = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return everybody - ran - sum(u.ru_utime + u.ru_stime for u in ours)


def play(
    scene: Scene, seconds: float, watch: float, spin: bool
) -> tuple[float, float, float, float, float] | None:
    """Return passive reading, sensor's reading, share of a 3 s spin, truth, and CPUs of other programs.

    None if the scene cannot run here.
    """
    with ExitStack() as stack:
        group = stack.enter_context(cgroup(scene.group)) if scene.group else None
        containers = [stack.enter_context(cgroup(about)) for about, _ in scene.containers]
        if None in containers or (scene.group and group is None):
            return None
        pids = stack.enter_context(spinning(scene, group, containers))
        start, before = time.perf_counter(), cpu_seconds(pids)
        passive, new, *_ = run(_SENSOR, str(watch), group=group, pin=scene.pin)
        (spun,) = run(_NEWCOMER, "3", group=group, pin=scene.pin) if spin else (math.nan,)
        (real,) = run(_NEWCOMER, str(seconds), group=group, pin=scene.pin)
        others = (cpu_seconds(pids) - before) / (time.perf_counter() - start)
    return passive, new, spun, real, others


_SECONDS = "2"
#: Nice values of the spinners of each scene.
SPINNERS: dict[str, tuple[int, ...]] = {
    "nothing": (),
    "1 spinner": (0,),
    "2 spinners": (0, 0),
    "4 spinners": (0, 0, 0, 0),
    "2 spinners, nice 19": (19, 19),
    "2 spinners + 2 at nice 19": (0, 0, 19, 19),
}


@contextmanager
def serving(command: Sequence[str], directory: Path) -> Iterator[str]:
    """Run a server until the end of the block; yields its address."""
    process = subprocess.Popen(command, cwd=directory, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        end = time.monotonic() + 30
        while time.monotonic() < end and process.poll() is None:
            listening = psutil.Process(process.pid).net_connections("tcp")
            ports = [c.laddr.port for c in listening if c.status == "LISTEN"]
            if ports:
                yield f"127.0.0.1:{ports[0]}"
                return
            time.sleep(0.05)
        raise SystemExit(f"{command[0]} does not listen; run it by hand: {' '.join(command)}")
    finally:
        process.kill()
        process.wait()


def play_spinners(
    nices: Sequence[int], settle_s: float, source: PrometheusSource, own: CpuSensor
) -> list[float]:
    """Return the value of cpu.new from Prometheus, the reading of our own sensor, and the truth."""
    processes = [
        subprocess.Popen([sys.executable, "-c", _LOAD, str(nice), "-", "busy"], start_new_session=True)
        for nice in nices
    ]
    try:
        # Our own sensor uses as long a window as sensors with a period of 10 s.
        time.sleep(max(settle_s - 10.0, 0.0))
        own.measure()
        time.sleep(min(settle_s, 10.0))
        theirs = {m.series.resource.value: m.value for m in source.read(time.time())}
        real = [run(_NEWCOMER, _SECONDS, group=None, pin=None)[0] for _ in range(2)]
        return [theirs["cpu.new"], own.measure()[0].value, statistics.mean(real)]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def sensor(
    *,
    seconds: float = 2.0,
    watch: float = 2.0,
    repeats: int = 3,
    quiet: float = 0.1,
    tries: int = 5,
    spin: bool = False,
    only: str = "",
) -> None:
    """Compare the sensor with real processes.

    seconds: length of the real process
    watch: seconds between the sensor's two readings
    quiet: CPUs that others may use in a repeat
    tries: times a disturbed repeat is played
    spin: compare a spin of 3 s just before as well
    only: scenes with this in their name
    """
    cpus = sorted(os.sched_getaffinity(0))
    print(f"{len(cpus)} usable CPUs, {repeats} repeats of {seconds:g} s")
    print(f"{'scene':34}{'passive':>9}{'sensor':>9}{'3 s spin':>9}{'real':>9}{'error':>9}{'others':>9}")
    errors: dict[str, list[float]] = {}
    for scene in [s for s in scenes(cpus) if only in s.name]:
        for _ in range(repeats):
            for _ in range(tries):
                played = play(scene, seconds, watch, spin)
                if played is None:
                    break
                passive, new, spun, real, others = played
                kind = "quiet" if others <= quiet else "disturbed"
                for name, value in {"passive reading": passive, "sensor": new, "3 s spin": spun}.items():
                    if spin or name != "3 s spin":
                        errors.setdefault(f"{kind}, {name}", []).append(value - real)
                row = f"{passive:9.3f}{new:9.3f}{spun:9.3f}{real:9.3f}{new - real:+9.3f}{others:9.2f}"
                say(f"{scene.name:34}{row}")
                if kind == "quiet":
                    break
            if played is None:
                say(f"{scene.name:34} skipped: no CPU cgroup can be made here")
                break
    report(errors)


def report(errors: dict[str, list[float]]) -> None:
    """Print the errors of each reading."""
    for name, values in sorted(errors.items(), reverse=True):
        sizes = sorted(map(abs, values))
        say(
            f"{name}: mean absolute error {statistics.mean(sizes):.3f} CPU, mean error {statistics.mean(values):+.3f}, "
            f"median {median(sizes):.3f}, 90th percentile {sizes[math.ceil(0.9 * len(sizes)) - 1]:.3f}, worst "
            f"{sizes[-1]:.3f}, {len(sizes)} measurements"
        )


def prometheus(*, repeats: int = 3, scrape: int = 5, settle: float = 15.0, seed: int = 1) -> None:
    """Compare Prometheus and our sensor with real processes.

    scrape: seconds from one scrape to the next
    settle: seconds that spinners run before
    seed: of the order of the scenes
    """
    for program in ("prometheus", "prometheus-node-exporter"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is not installed; on Debian: apt install {program}")
    order = list(SPINNERS) * repeats
    random.Random(seed).shuffle(order)
    errors: dict[str, list[float]] = {"prometheus": [], "own sensor": []}
    rows = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prometheus-truth-")))
        exporter = ["prometheus-node-exporter", "--web.listen-address=127.0.0.1:0", "--log.level=error"]
        instance = stack.enter_context(serving(exporter, directory))
        (directory / "prometheus.yml").write_text(
            f"global: {{scrape_interval: {scrape}s, scrape_timeout: {scrape}s}}\n"
            f'scrape_configs: [{{job_name: node, static_configs: [{{targets: ["{instance}"]}}]}}]\n'
        )
        server = ["prometheus", "--config.file=prometheus.yml", "--web.listen-address=127.0.0.1:0"]
        address = stack.enter_context(serving([*server, "--storage.tsdb.path=data"], directory))
        settings = PrometheusSettings(url=f"http://{address}", every_s=2.0 * scrape)
        source = stack.enter_context(PrometheusSource(settings))
        time.sleep(3 * scrape)
        own = CpuSensor(host="here")
        for name in order:
            try:
                theirs, ours, real = play_spinners(SPINNERS[name], settle, source, own)
            except ProbeError as error:
                raise SystemExit(str(error)) from None
            errors["prometheus"].append(theirs - real)
            errors["own sensor"].append(ours - real)
            rows.append((name, theirs, ours, real))
    table(("scene", "prometheus", "own sensor", "real"), rows, widths=(28,))
    report(errors)


PARTS = (sensor, prometheus)
