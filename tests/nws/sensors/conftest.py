"""A host made of files: /proc and cgroup trees whose counters move when its time does."""

from __future__ import annotations

from pathlib import Path

import pytest

from nws.sensors.cgrouplimits import Cgroups
from nws.sensors.cpu import CpuSensor
from nws.sensors.load import LoadMeter
from nws.sensors.procfs import ProcFs

OWN_PID = 1
TICKS = 100


class FakeHost:
    """Counters advance by the rates a test sets, whenever somebody sleeps."""

    def __init__(self, root: Path, cpus: int) -> None:
        self.root, self.t, self.cpus = root, 1000.0, frozenset(range(cpus))
        self.usable = set(self.cpus)
        self.proc = root / "proc"
        self.sys = root / "sys"
        self.tasks: dict[int, dict] = {}
        self.niced = dict.fromkeys(self.cpus, 0.0)
        self.steal = dict.fromkeys(self.cpus, 0.0)
        self.interrupts = dict.fromkeys(self.cpus, 0.0)
        self.hidden = dict.fromkeys(self.cpus, 0.0)
        self.running, self.own_rate, self.own = 1, 0.0, 5.0
        self.counters = {c: [10.0, 0.0, 500.0, 0.0, 0.0] for c in self.cpus}
        self.schedstat = True
        self.autogroups, self.session_nice = False, 0
        (self.proc / "self").mkdir(parents=True)
        self.sys.mkdir()
        self.write()

    def task(
        self, tid, *, run, wait=0.0, nice=0, policy=0, cpus=None, group="/", pid=None, session=0, children=0.0
    ):
        """A competitor: parts of one CPU that it runs and waits, and that its short-lived children use together."""
        self.tasks[tid] = {
            "run": run,
            "wait": wait,
            "nice": nice,
            "policy": policy,
            "cpus": set(cpus or self.cpus),
            "group": group,
            "pid": pid or tid,
            "session": session,
            "children": children,
            "total": [3.0, 1.0, 0.0],
        }
        self.write()

    def now(self) -> float:
        return self.t

    def affinity(self, tid: int) -> set[int]:
        return self.usable if tid == 0 else self.tasks[tid]["cpus"]

    def sleep(self, seconds: float) -> None:
        self.t += seconds
        self.own += self.own_rate * seconds
        busy = {c: self.hidden[c] + self.own_rate / len(self.cpus) for c in self.cpus}
        for task in self.tasks.values():
            task["total"][0] += task["run"] * seconds
            task["total"][1] += task["wait"] * seconds
            task["total"][2] += task["children"] * seconds
            for cpu in task["cpus"]:
                if task["nice"] > 0:
                    self.niced[cpu] += task["run"] / len(task["cpus"])
                else:
                    busy[cpu] += (task["run"] + task["children"]) / len(task["cpus"])
        for cpu, counter in self.counters.items():
            parts = [busy[cpu], self.niced[cpu], 0.0, self.interrupts[cpu], self.steal[cpu]]
            parts[2] = max(1.0 - sum(parts), 0.0)
            for i, part in enumerate(parts):
                counter[i] += part * seconds
        self.niced = dict.fromkeys(self.cpus, 0.0)
        self.write()

    def write(self) -> None:
        lines = ["cpu  0 0 0 0 0 0 0 0 0 0"]
        for cpu, counter in self.counters.items():
            normal, niced, idle, interrupts, steal = (round(x * TICKS) for x in counter)
            lines.append(f"cpu{cpu} {normal} {niced} 0 {idle} 0 {interrupts} 0 {steal} 0 0")
        (self.proc / "stat").write_text("\n".join([*lines, f"procs_running {self.running}"]) + "\n")
        (self.proc / "sys" / "kernel").mkdir(parents=True, exist_ok=True)
        (self.proc / "sys" / "kernel" / "sched_autogroup_enabled").write_text(f"{int(self.autogroups)}\n")
        for tid, task in self.tasks.items():
            directory = self.proc / str(task["pid"]) / "task" / str(tid)
            directory.mkdir(parents=True, exist_ok=True)
            run, wait, children = task["total"]
            if self.schedstat:
                (directory / "schedstat").write_text(f"{round(run * 1e9)} {round(wait * 1e9)} 17\n")
            fields = ["R", *["0"] * 10, str(round(run * TICKS)), "0", "0", "0", "20", str(task["nice"])]
            fields += ["0"] * 21 + [str(task["policy"]), "0"]
            (directory / "stat").write_text(f"{tid} (a) b) {' '.join(fields)}\n")
            of_process = ["S", *["0"] * 12, str(round(children * TICKS)), "0"]
            (self.proc / str(task["pid"]) / "stat").write_text(f"{tid} (a) b) {' '.join(of_process)}\n")
            autogroup = f"/autogroup-{task['session']} nice {self.session_nice}\n"
            (self.proc / str(task["pid"]) / "autogroup").write_text(autogroup)
            (self.proc / str(task["pid"]) / "cgroup").write_text(f"4:cpu,cpuacct:{task['group']}\n")

    def control_group(
        self, path: str, *, version: int, mount: str = "/sys/fs/cgroup", root: str = "/"
    ) -> Path:
        """Puts this process into a group and returns the directory of its files."""
        name = "cpu,cpuacct,memory"
        kind = "cgroup2 cgroup2 rw\n" if version == 2 else f"cgroup cgroup rw,{name}\n"
        (self.proc / "self" / "cgroup").write_text(f"0::{path}\n" if version == 2 else f"4:{name}:{path}\n")
        (self.proc / "self" / "mountinfo").write_text(
            f"31 23 0:28 {root} {mount} rw,relatime shared:9 - {kind}"
        )
        directory = self.sys / path.removeprefix(root).strip("/")
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def own_group(self, path: str) -> None:
        """Moves this process into another group of the hierarchy that is mounted."""
        (self.proc / "self" / "cgroup").write_text(f"4:cpu,cpuacct,memory:{path}\n")

    def procfs(self) -> ProcFs:
        return ProcFs(root=self.proc, affinity=self.affinity, ticks_per_s=TICKS)

    def cgroups(self) -> Cgroups:
        return Cgroups(self.proc / "self", relocate=lambda mount: self.sys)

    def meter(self) -> LoadMeter:
        return LoadMeter(
            proc=self.procfs(),
            cgroups=self.cgroups(),
            monotonic=self.now,
            sleep=self.sleep,
            own_cpu_s=lambda: self.own,
            own_pid=OWN_PID,
        )

    def sensor(self, **options) -> CpuSensor:
        """A sensor whose probe, unless given, agrees with anything: only the passive reading speaks."""
        options = {"gain": 0.0, "probe": lambda s: 0.0, "nice": 0, "rest_s": 0.0} | options
        return CpuSensor(host="here", clock=self.now, meter=self.meter(), **options)


@pytest.fixture
def host(tmp_path):
    """Two idle CPUs."""
    return FakeHost(tmp_path, 2)


@pytest.fixture
def big_host(tmp_path):
    """Eight idle CPUs."""
    return FakeHost(tmp_path, 8)
