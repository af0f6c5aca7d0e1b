"""Mixes of real and synthetic MPI jobs under every policy, on two cores or two hosts, beside foreign processes.

    python -m benchmarks mixes [--mix fine …] [--policy plain …] [--spinners 0,1,2] [--seconds 6] [--repetitions 5]
    sudo python -m benchmarks mixes --hosts 2 …         on hosts of a testbed of one CPU each, ranks over ssh
    python -m benchmarks mixes --mix grain-50us … --policy plain … [--mpi 'MPICH 5']     one job of this grain
    python -m benchmarks mixes --co-located [--repetitions 5]      two and five imbalanced jobs on the same cores

Codes: LAMMPS (a melt, and one with atoms in half of its box), Meep (a dipole), HPC Challenge (HPL, FFT, RandomAccess),
mhd, heat and the synthetic bsp. `plain` is MPI's own waits, `serial` one job after the other, `auto` adaptive waits,
`block` blocking waits. Policies alternate within a repetition. Each job is measured once alone, and then lasts about
`--seconds`. Prints for each mix and number of spinners the seconds until the mix ends and its ratio to `plain` in the
same repetition. Mixes whose programs are not installed are named.
With `serial` and `plain` also the throughput, jobs in a second, as a multiple of both in the same repetition. On this
machine's cores also the CPU time of the jobs, as a share of the cores: where no rank polls, busy cores compute, and no
policy can end the mix much earlier.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from apples.coscheduling.policies import POLICIES
from apples.daemons.paths import new_key
from apples.monitoring.environment import WAITS, monitor_environment
from benchmarks.common.hosts import DESK, make_testbed, names_of
from benchmarks.common.mpis import Mpi, installed_mpis, run
from benchmarks.common.report import APPLES, ROOT, machine, median, ratios, say
from benchmarks.common.sharing import STENCIL, daemons_of, measured_rate, seconds_of_all

SOCKET = "/run/mixes.sock"


@dataclass(frozen=True)
class Job:
    """One job. part : its computation on one rank, as a share of `--seconds`.  code : other codes have no shape"""

    code: str = "bsp"
    ranks: int = 2
    granularity: str = "1ms"
    imbalance: str = "1"
    part: float = 1.0


GRAINS = ("20us", "50us", "140us", "500us", "1.4ms", "5ms", "20ms")
SYNTHETIC = {
    "fine": (Job(), Job()),
    "coarse": (Job(granularity="50ms"), Job(granularity="50ms")),
    "finecoarse": (Job(), Job(granularity="50ms")),
    "imbalanced": (Job(imbalance="1,2.1", part=0.6), Job(imbalance="2.1,1", part=0.6)),
    "oversubscribed": (Job(ranks=4, part=0.5), Job(ranks=4, part=0.5)),
    "series": tuple(Job(part=0.25) for _ in range(6)),
    **{f"grain-{one}": (Job(granularity=one),) for one in GRAINS},
    **{f"grain-{one}-x2": (Job(granularity=one, ranks=4, part=0.5),) for one in GRAINS},
}


@contextmanager
def spinning(count: int, nice: int) -> Iterator[None]:
    """Compute in `count` processes of their own sessions."""
    code = f"import os; os.nice({nice})\nwhile True: pass"
    spinners = [
        subprocess.Popen([sys.executable, "-I", "-S", "-c", code], start_new_session=True)
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


MPICH, OPEN_MPI = "MPICH 4", "Open MPI"
MELT = """
units lj
atom_style atomic
processors * 1 1
lattice fcc 0.8442
region box block 0 {x} 0 10 0 10
region full block 0 {full} 0 10 0 10
create_box 1 box
create_atoms 1 region full
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
run {steps}
"""
HPCC = """HPLinpack benchmark input file
mixes
HPL.out
6
1
{n}
1
64
0
1
1
{ranks}
16.0
1
1
1
4
1
2
1
1
1
0
1
0
1
0
2
64
0
0
1
8
0
1 NUMBERs for PTRANS
{n}
0
"""
#: Code → how its MPI's name begins, the program that must be installed, and steps of the run that is measured.
CODES = {
    "bsp": (MPICH, STENCIL, 200),
    "heat": (MPICH, STENCIL, 300),
    "mhd": (MPICH, STENCIL, 20),
    "lammps": (OPEN_MPI, "lmp", 200),
    "lammps-uneven": (OPEN_MPI, "lmp", 200),
    "meep": (OPEN_MPI, "/usr/lib/python3/dist-packages/meep/__init__.py", 60),
    "hpcc": (OPEN_MPI, "hpcc", 400),
}
MIXES = {
    **SYNTHETIC,
    "heat-mhd": (Job("heat"), Job("mhd")),
    "mhd-fine": (Job("mhd"), Job()),
    "lammps-lammps": (Job("lammps"), Job("lammps")),
    "lammps-uneven": (Job("lammps-uneven"), Job("lammps-uneven")),
    "lammps-meep": (Job("lammps"), Job("meep")),
    "meep-heat": (Job("meep"), Job("heat")),
    "hpcc-lammps": (Job("hpcc"), Job("lammps")),
    "five-uneven": tuple(Job(imbalance=text, part=0.4) for text in ("1,2", "2,1", "1,3", "3,1", "1,2")),
    "five-lammps-uneven": tuple(Job("lammps-uneven", part=0.4) for _ in range(5)),
}
IMBALANCED = ("imbalanced", "lammps-uneven", "five-uneven", "five-lammps-uneven")
POLICY_NAMES = ("plain", "serial", "block", "auto", "gang", "fcs", "spin-block", "share-by-need")
CO_LOCATED = ("plain", "serial", "block", "gang", "fcs", "share-by-need")


class Cores:
    """The cores of this machine. mpich : the MPICH of the programs of this environment"""

    mpich = MPICH

    def __init__(self) -> None:
        self.cpus = f"0-{(os.cpu_count() or 1) - 1}"

    def ranks(self, mpi: Mpi, count: int, words: Sequence[str], forwarded: Sequence[str]) -> list[str]:
        """Return the command that starts ranks; `forwarded`: names of variables that they need."""
        return mpi.ranks(count, list(words))

    @contextmanager
    def daemons(self, policy: str, directory: Path) -> Iterator[str]:
        """Run the daemons of a policy; yield the path of the node manager's socket."""
        with daemons_of(policy, directory, {"n": self.cpus}) as cluster:
            yield str(cluster.socket("n"))

    def spinning(self, count: int) -> AbstractContextManager[None]:
        """Compute in processes that no policy knows."""
        return spinning(count, 0)


class Hosts(Cores):
    """Hosts of a testbed of one CPU each; ranks are started from another one over ssh."""

    #: Programs of MPICH 4 that hydra starts over several hosts hang in MPI_Finalize (docs/launching.md).
    mpich = "MPICH 5"

    def __init__(self, bed, names: Sequence[str]) -> None:
        self.bed, self.names = bed, names

    def ranks(self, mpi: Mpi, count: int, words: Sequence[str], forwarded: Sequence[str]) -> list[str]:
        """Return the command that starts ranks over ssh, in turn on each host."""
        if mpi.name.startswith("MPICH"):
            where = ["-launcher", "ssh", "-hosts", ",".join(self.names), "-ppn", "1"]
        else:
            hosts = ",".join(f"{name}:{count}" for name in self.names)
            where = ["--host", hosts, "--map-by", "node", *(w for name in forwarded for w in ("-x", name))]
        return self.bed.command(DESK, [*mpi.launcher, *where, "-n", str(count), *words])

    @contextmanager
    def daemons(self, policy: str, directory: Path) -> Iterator[str]:
        """Run node managers on all hosts, and a machine manager on the first; yield the path of their sockets."""
        key, place = directory / "key", directory / "place"
        options, started = ["--policy", policy], []
        log = (directory / "log").open("wb")

        def start(host: str, *words: str) -> None:
            command = self.bed.command(host, [*APPLES, *words, *options])
            started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

        try:
            if POLICIES[policy].coordinated:
                new_key(key)
                options += ["--key", str(key)]
                address = next(host.address for host in self.bed.spec.hosts if host.name == self.names[0])
                start(self.names[0], "manager", "--listen", f"{address}:0", "--place-file", str(place))
                deadline = time.monotonic() + 30
                while not place.exists():
                    if time.monotonic() > deadline:
                        sys.exit(f"{place} is not written: {(directory / 'log').read_text()}")
                    time.sleep(0.05)
                options += ["--manager", place.read_text().strip()]
            for name in self.names:
                start(name, "node", "--name", name, "--socket", SOCKET)
            # The sockets are in the hosts' own /run.
            for name in self.names:
                self.bed.run(name, "sh", "-c", f"until test -S {SOCKET}; do sleep 0.1; done")
            time.sleep(1.0)
            yield SOCKET
        finally:
            for name in self.names:
                for pid, line in self.bed.processes(name).items():
                    if "main() node" in line or "main() manager" in line:
                        os.kill(pid, signal.SIGTERM)
            for process in started:
                process.wait(20)
            log.close()

    @contextmanager
    def spinning(self, count: int) -> Iterator[None]:
        """Compute on the hosts in turn."""
        code = "while True: pass"
        for number in range(count):
            host = self.names[number % len(self.names)]
            subprocess.Popen(self.bed.command(host, [sys.executable, "-I", "-S", "-c", code]))
        try:
            yield
        finally:
            for name in self.names:
                for pid, line in self.bed.processes(name).items():
                    if line.endswith(code) and "nsenter" not in line:
                        os.kill(pid, signal.SIGKILL)


class Bench:
    """The codes as they run here. steps : by job, measured once; lengths follow from them"""

    def __init__(self, place: Cores, mpi: str, seconds: float, directory: Path) -> None:
        self.place, self.seconds, self.directory = place, seconds, directory
        names = {MPICH: mpi or place.mpich, OPEN_MPI: OPEN_MPI}
        self.mpis = {
            key: next(m for m in installed_mpis() if m.name.startswith(name)) for key, name in names.items()
        }
        self.rate = measured_rate(self.mpis[MPICH])
        self._steps: dict[Job, int] = {}

    def words(self, job: Job, steps: int) -> list[str]:
        """Return the command of one rank."""
        name = f"{job.code}-{job.ranks}-{steps}"
        if job.code == "bsp":
            shape = f"--granularity {job.granularity} --imbalance {job.imbalance} --iterations {steps}"
            return [STENCIL, "bsp", *shape.split(), "--rate", f"{self.rate:.6g}", "--json"]
        if job.code == "heat":
            return [STENCIL, *f"heat --size 32 --nx 64 --ny 64 --iterations {steps}".split()]
        if job.code == "mhd":
            return [STENCIL, *f"mhd blast --n 32 --until 1e6 --iterations {steps}".split()]
        if job.code == "meep":
            script = ROOT / "examples" / "meep" / "dipole.py"
            return ["/usr/bin/python3", str(script), "--planes", "40", "--steps", str(steps)]
        if job.code == "hpcc":
            place = self.directory / name
            place.mkdir(exist_ok=True)
            (place / "hpccinf.txt").write_text(HPCC.format(n=steps, ranks=job.ranks))
            return ["sh", "-c", f"cd {shlex.quote(str(place))} && exec hpcc"]
        file = self.directory / f"{name}.in"
        full = 10 if job.code == "lammps" else 14
        file.write_text(MELT.format(x=10 if job.code == "lammps" else 20, full=full, steps=steps))
        return ["lmp", "-in", str(file), "-log", "none"]

    def command(self, job: Job, forwarded: Sequence[str] = ()) -> tuple[list[str], dict[str, str]]:
        """Return the command of a job that lasts as long as wanted, and its variables."""
        code, _, measured = CODES[job.code]
        mpi = self.mpis[code]
        if job not in self._steps:
            started = time.monotonic()
            words = self.place.ranks(mpi, job.ranks, self.words(job, measured), ())
            run(words, {**os.environ, **mpi.environment})
            took_s = time.monotonic() - started
            # HPL takes the cube of its size, the others as many steps.
            power = 1 / 3 if job.code == "hpcc" else 1.0
            self._steps[job] = max(1, round(measured * (self.seconds * job.part / took_s) ** power))
        words = self.words(job, self._steps[job])
        return self.place.ranks(mpi, job.ranks, words, [*forwarded, *mpi.environment]), mpi.environment

    def seconds_of(self, jobs: Sequence[Job], policy: str) -> tuple[float, float]:
        """Return the seconds until all jobs have ended, and their CPU seconds (0 over hosts)."""
        directory = Path(tempfile.mkdtemp(prefix="mix-", dir=self.directory))
        wait = WAITS.get({"auto": "adaptive"}.get(policy, policy))
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, directory)
            node = {}
            if policy in POLICIES:
                node = {"APPLES_NODE_SOCKET": stack.enter_context(self.place.daemons(policy, directory))}
            commands = {}
            for number, job in enumerate(jobs):
                more = dict(node)
                if node or wait is not None:
                    more |= monitor_environment(directory, f"job{number}", wait=wait)
                words, own = self.command(job, list(more))
                # Jobs of Open MPI that start and end at the same moment remove each other's session directory.
                sessions = directory / f"sessions{number}"
                sessions.mkdir()
                own = {**own, "OMPI_MCA_orte_tmpdir_base": str(sessions)}
                commands[f"job{number}"] = words, {**os.environ, **own, **more}
            before_s = children_cpu_s()
            took_s = max(seconds_of_all(commands, serial=policy == "serial").values())
            return took_s, children_cpu_s() - before_s


def of_both(took: dict[str, list[float]], policy: str, base: str) -> list[float]:
    """Return the ratios of two policies in the same repetitions, empty if one was not run."""
    return ratios(took.get(policy, []), took.get(base, []))


def children_cpu_s() -> float:
    """Return the CPU seconds of all ended children and theirs."""
    times = os.times()
    return times.children_user + times.children_system


def measure(bench: Bench, mix: str, policies: Sequence[str], repetitions: int) -> None:
    """Run a mix under all policies and print a line of each."""
    took: dict[str, list[float]] = {policy: [] for policy in policies}
    busy: dict[str, list[float]] = {policy: [] for policy in policies}
    for _ in range(repetitions):
        for policy in policies:
            took_s, used_s = bench.seconds_of(MIXES[mix], policy)
            took[policy].append(took_s)
            busy[policy].append(used_s / (os.cpu_count() or 1) / took_s)
    for policy, seconds in took.items():
        more = ""
        if to_plain := of_both(took, policy, "plain"):
            more = f", {median(to_plain):5.2f} of plain, largest {max(to_plain):5.2f}"
        better = list(map(min, took.get("plain", []), took.get("block", [])))
        if better and policy not in ("plain", "block"):
            more += f"; {median(ratios(seconds, better)):.2f} of the better of plain and block"
        gains = {base: of_both(took, base, policy) for base in ("serial", "plain")}
        if all(gains.values()):
            more += "; throughput " + ", ".join(f"{median(g):.2f} × {base}" for base, g in gains.items())
        if not isinstance(bench.place, Hosts):
            more += f"; jobs used {median(busy[policy]):.0%} of the cores"
        say(f"  {policy:14} {median(seconds):7.2f} s{more}")


def main(
    *,
    mix: tuple[str, ...] = (),
    policy: tuple[str, ...] = (),
    co_located: bool = False,
    spinners: tuple[int, ...] = (0, 1, 2),
    seconds: float = 6.0,
    repetitions: int = 5,
    hosts: int = 0,
    mpi: str = "",
) -> None:
    """Run all mixes and print a table of each.

    mix: names of mixes, all without it
    policy: plain, serial, block, auto or a policy of node managers
    co_located: the imbalanced mixes, without spinners
    seconds: of one job, alone
    hosts: of a testbed; without it this machine's cores
    mpi: how the name begins of the MPI of mhd, heat and bsp
    """
    if co_located:
        mix, policy, spinners = mix or IMBALANCED, policy or CO_LOCATED, (0,)
    say(f"{repetitions} repetitions, {machine()}")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mixes-")))
        place = Cores()
        if hosts:
            described = [{"name": f"h{n + 1}", "cpuset": n % (os.cpu_count() or 1)} for n in range(hosts)]
            bed = stack.enter_context(make_testbed("mixes", described, memory="2G"))
            place = Hosts(bed, names_of(bed))
        bench = Bench(place, mpi, seconds, directory)
        for name in mix or [name for name in MIXES if not name.startswith("grain")]:
            programs = {CODES[job.code][1] for job in MIXES[name]}
            if missing := [one for one in programs if shutil.which(one) is None and not Path(one).exists()]:
                say(f"{name}: left out, {', '.join(missing)} is not installed")
                continue
            for job in MIXES[name]:
                bench.command(job)
            for count in spinners:
                say(f"{name}, {count} spinners:")
                with place.spinning(count):
                    measure(bench, name, policy or POLICY_NAMES[:6], repetitions)
