"""Hosts of a testbed fail, or leave, at random moments, and the run's result must still be right.

    sudo python -m benchmarks lost_hosts fail [--times 20] [--ways kill cut freeze] [--iterations 90] [--out FILE]
    sudo python -m benchmarks lost_hosts bare [--times 10] [--lmp /usr/bin/lmp] [--python PYTHON]
    sudo python -m benchmarks lost_hosts drain [--times 10] [--ways client restart] [--notice 30]
    python -m benchmarks lost_hosts report FILE...

kill: all processes of the host end at once.  cut: its link drops everything without an error
freeze: all its processes are stopped
client: the host of a program with the client (`examples/wave-c/wave2d-moving.c`, `--adapt slabs`) is drained: its
    rows move, its ranks leave.  restart: that of LAMMPS with its own checkpoints (`examples/lammps/melt-restart.yaml`)
    is drained: the run goes on without it. When the notice is over, all processes of the host are killed

fail: mhd over four hosts at two sites.  bare: LAMMPS over three hosts that have sshd, a Python of their own (by default
the oldest of this machine that is supported) and the program; the directory of this package and its environment are
empty there. Each run is an `apples-run --launcher ssh` of its own from the testbed's desk, from a copy of one state.

A run is right if it ends with exit code 0 and the result of a run without failures: the checksum, or LAMMPS's last
energies to one part in ten thousand, as another cut rounds differently. Detection is the time from the failure to the
line that reports it. Iterations done twice are those between the last report before it (of mhd the application's own
table of every iteration) and the iteration that the run goes on from. Processes left over are counted on all hosts
after the run, on the failed host after its recovery. Needs root, as tests/testbed does.
"""

from __future__ import annotations

import csv
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.hosts import DESK, compiled, from_desk, left, make_testbed, names_of, pool_of, settings
from benchmarks.common.report import BIN, ROOT, append_line, median, read_lines, say, table
from tests.testbed.fixtures import without_package
from tests.testbed.grid import Testbed

#: Seconds for cut-off or frozen processes to notice that their run is over.
NOTICED_S = 45.0
KEPT = Path(tempfile.gettempdir()) / f"lost-hosts-{os.getpid()}.jsonl"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kind of run.

    words: arguments of `apples-run`.  result: finds the parts of the result in a line of output
    history: table with a line for each iteration, as the application writes it
    """

    words: tuple[str, ...]
    result: re.Pattern[str]
    history: Path | None = None


class Run:
    """One run from the desk, with its events and lines of output as they come."""

    def __init__(self, bed: Testbed, state: Path, case: Case, *words: str) -> None:
        self.case, self.lines, self.events = case, list[tuple[float, str]](), list[dict[str, Any]]()
        hosts = names_of(bed)
        command = ["env", f"APPLES_STATE={state}", str(BIN / "apples-run"), *case.words, "--launcher", "ssh"]
        command += ["-H", pool_of(hosts), "-n", str(len(hosts)), "--json-lines", *words]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(bed.command(DESK, command), stdout=pipe, stderr=pipe, text=True)
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read, self._hear)]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        for line in self.process.stderr or ():
            self.lines.append((time.monotonic(), line.rstrip()))

    def _hear(self) -> None:
        for line in self.process.stdout or ():
            self.events.append({"at": time.monotonic(), **json.loads(line)})

    @property
    def text(self) -> str:
        """Return all lines of output."""
        return "\n".join(line for _, line in self.lines)

    def wait_for(self, text: str) -> float | None:
        """Return the time of the first line with this text, None if the run ends without it."""
        while True:
            over = self.process.poll() is not None
            if at := [at for at, line in list(self.lines) if text in line]:
                return at[0]
            if over:
                return None
            time.sleep(0.01)

    def end(self) -> dict[str, Any]:
        """Wait for the end of the run and return its document."""
        self.process.wait()
        for reader in self._readers:
            reader.join()
        return self.events[-1] if self.events and self.events[-1]["event"] == "run" else {}

    def reached(self, before: float | None) -> int:
        """Return the last iteration that was reported before an instant; 0 without one."""
        if before is None:
            return 0
        if self.case.history is not None:
            if not self.case.history.exists():
                return 0
            with self.case.history.open(encoding="utf-8") as file:
                cycles = [int(row["cycle"]) for row in csv.DictReader(file) if (row["cycle"] or "").isdigit()]
            return cycles[-1] if cycles else 0
        progress = [event for event in self.events if event["event"] == "progress" and event["at"] <= before]
        return max((event["iteration"] for event in progress), default=0)

    @property
    def result(self) -> tuple[str, ...]:
        """Return the parts of the last result in the program's output."""
        results = [match.groups() for _, line in self.lines if (match := self.case.result.search(line))]
        return results[-1] if results else ()


def same(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether two results are there and equal, numbers to one part in ten thousand."""
    if one == other or len(one) != len(other) or not all("." in part for part in one):
        return one == other != ()
    return all(math.isclose(float(a), float(b), rel_tol=1e-4) for a, b in zip(one, other, strict=True))


def left_at_last(bed: Testbed, hosts: list[str]) -> list[str]:
    """Return the processes that are left when there was time to notice the end of the run."""
    deadline = time.monotonic() + NOTICED_S
    while (there := left(bed, hosts)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return there


def unbroken(bed: Testbed, state: Path, case: Case, *words: str) -> Run:
    """Return a run without failures; it also teaches benchmarks and overhead."""
    run = Run(bed, state, case, *words)
    run.end()
    if run.process.returncode != 0 or not run.result:
        sys.exit(run.text)
    say(f"without failures: {run.events[-1]['observed_s']:.1f} s, result {' '.join(run.result)}")
    return run


def outcome(run: Run, plain: Run, document: dict[str, Any], reached: int) -> dict[str, Any]:
    """Return what every series reports of a run."""
    attempts = document.get("attempts", [])
    resumed = [attempt["first_iteration"] for attempt in attempts][1:]
    right = run.process.returncode == 0 and same(run.result, plain.result)
    return {
        "right": right,
        "attempts": max(1, len(attempts)),
        "repeated": max(0, reached - resumed[0]) if resumed else 0,
        "resumed_at": resumed,
        "output": [] if right else run.text.splitlines(),
    }


def failed_run(bed: Testbed, run: Run, plain: Run, way: str, rng: random.Random) -> dict[str, Any]:
    """Let a host of a run fail at a random moment; a moment after the end of the run does not count."""
    began = run.wait_for("running ")
    if began is None:
        sys.exit(run.text)
    host = rng.choice([entry["host"] for entry in run.events[0]["hosts"]])
    time.sleep(max(0.0, began + rng.uniform(0.0, 0.95) * plain.events[-1]["observed_s"] - time.monotonic()))
    hit = time.monotonic()
    getattr(bed, way)(host)
    hosts = [one.name for one in bed.spec.hosts]
    try:
        noticed = run.wait_for("planning again")
        reached = run.reached(noticed)
        document = run.end()
        there = left(bed, [one for one in hosts if one != host])
    finally:
        {"kill": bed.start, "cut": bed.mend, "freeze": bed.thaw}[way](host)
    return {
        "way": way,
        "host": host,
        "hit_s": round(hit - began, 2),
        "detected_s": None if noticed is None else round(noticed - hit, 2),
        **outcome(run, plain, document, reached),
        "left": [*there, *left_at_last(bed, hosts)],
    }


def drained_run(
    bed: Testbed, run: Run, plain: Run, state: Path, *, notice: float, rng: random.Random
) -> dict[str, Any]:
    """Drain a host of a run at a random moment, and kill it after the notice."""
    while not any(event["event"] == "progress" for event in list(run.events)):
        if run.process.poll() is not None:
            sys.exit(run.text)
        time.sleep(0.02)
    time.sleep(rng.uniform(0.0, 8.0))
    host, drained = rng.choice(names_of(bed)), time.monotonic()
    from_desk(bed, state, "apples", "drain", host)
    while time.monotonic() < drained + notice and run.process.poll() is None:
        time.sleep(0.05)
    killed_in_run, there = run.process.poll() is None, left(bed, [host])
    bed.kill(host)
    document = run.end()
    there += left_at_last(bed, [one.name for one in bed.spec.hosts if one.name != host])
    bed.start(host)
    departures = [event["at"] for event in run.events if event["event"] == "attempt"]
    reached = run.reached(departures[0] if departures else None)
    return {
        "host": host,
        "killed_in_run": killed_in_run,
        **outcome(run, plain, document, reached),
        "left": there,
    }


def series(out: Path, ways: tuple[str, ...], times: int, one_run: Any) -> None:
    """Make so many runs of each way, keep a line of each, and report. one_run : takes way and state's copy"""
    for way in [way for _ in range(times) for way in ways]:
        with tempfile.TemporaryDirectory(prefix="lost-hosts-") as directory:
            line = {"way": way, **one_run(way, Path(directory))}
        append_line(out, line)
        say(line)
    report(out)


def fail(
    *,
    ways: tuple[str, ...] = ("kill", "cut", "freeze"),
    times: int = 20,
    iterations: int = 90,
    every: int = 10,
    seed: int = 1,
    out: Path = KEPT,
) -> None:
    """Let hosts of mhd's runs fail.

    times: runs of each way
    every: iterations between checkpoints
    """
    rng = random.Random(seed)
    places = (("e1", 0), ("e2", 1), ("w1", 1), ("w2", 0))
    hosts = [
        {"name": name, "site": "east" if name[0] == "e" else "west", "cpu": 0.4, "cpuset": cpu}
        for name, cpu in places
    ]
    sites = {"east": {}, "west": {"rate": "200mbit", "delay": "2ms"}}

    def case(history: Path) -> Case:
        pairs = ("nx=24", "ny=24", "history_every=1", f"history={history}", f"iterations={iterations}")
        return Case(
            words=("96", *settings(*pairs)), result=re.compile(r", checksum .*?(\S+)$"), history=history
        )

    with (
        make_testbed("lost", hosts, defaults={"rate": "1gbit"}, sites=sites) as bed,
        tempfile.TemporaryDirectory(prefix="lost-hosts-") as name,
    ):
        taught = Path(name) / "state"
        for number in range(2):
            plain = unbroken(bed, taught, case(Path(name) / f"history{number}"), "--checkpoint", "off")

        def one_run(way: str, directory: Path) -> dict[str, Any]:
            state = Path(shutil.copytree(taught, directory / "state"))
            words = ("--checkpoint", str(directory / "run.ckpt"), "--checkpoint-every", str(every))
            run = Run(bed, state, case(directory / "history.csv"), *words)
            return failed_run(bed, run, plain, way, rng)

        series(out, ways, times, one_run)


def bare(
    *,
    ways: tuple[str, ...] = ("kill", "cut", "freeze"),
    times: int = 10,
    lmp: str = "lmp",
    library_path: str = "",
    python: str | None = None,
    seed: int = 1,
    out: Path = KEPT,
) -> None:
    """Let hosts without this package fail in runs of LAMMPS.

    lmp: the program, of Debian's Open MPI by default
    library_path: where hosts find the MPI that LAMMPS was built with
    python: interpreter that is the hosts' python3
    """
    rng, own = random.Random(seed), {**without_package(), **({"python": python} if python else {})}
    hosts = [{"name": f"h{n}", "cpu": 0.5, "cpuset": n % 2, **own} for n in (1, 2, 3)]
    os.environ["LD_LIBRARY_PATH"] = library_path
    with make_testbed("bare", hosts, memory="2G") as bed, tempfile.TemporaryDirectory(prefix="bare-") as name:
        say(bed.run(DESK, "ssh", "h1", "python3 -V").stdout.strip(), "on the hosts")
        code = Path(shutil.copytree(ROOT / "examples/lammps", Path(name) / "code"))
        file = code / "melt-restart.yaml"
        if lmp != "lmp":
            text = file.read_text().replace("mpi: openmpi\n", "").replace("[lmp,", f"[{lmp},")
            file.write_text(text)
        case = lammps_case(file, 12, 600, r" +(\S+) +(\S+) +(\S+) +(\S+) +(\S+)")
        plain = unbroken(bed, Path(name) / "state", case)

        def one_run(way: str, directory: Path) -> dict[str, Any]:
            for checkpoint in code.glob("melt.*.restart"):
                checkpoint.unlink()
            state = Path(shutil.copytree(Path(name) / "state", directory / "state"))
            return failed_run(bed, Run(bed, state, case), plain, way, rng)

        series(out, ways, times, one_run)


def lammps_case(file: Path, size: int, iterations: int, columns: str) -> Case:
    """Return runs of LAMMPS with a checkpoint every 50 steps. columns : pattern of the last step's line"""
    words = (str(size), "--app", str(file), *settings("keep=50", f"iterations={iterations}"))
    return Case(words=words, result=re.compile(rf"^ +{iterations}{columns}"))


def drain(
    *,
    ways: tuple[str, ...] = ("client", "restart"),
    times: int = 10,
    notice: float = 30.0,
    seed: int = 1,
    out: Path = KEPT,
) -> None:
    """Drain hosts.

    notice: seconds from the notice to the end of the host
    """
    rng = random.Random(seed)
    hosts = [{"name": f"h{n}", "cpu": 0.4, "cpuset": n % 2} for n in (1, 2, 3)]
    with make_testbed("drain", hosts) as bed, tempfile.TemporaryDirectory(prefix="drain-") as name:
        work = Path(name)
        examples = Path(shutil.copytree(ROOT / "examples/lammps", work / "lammps"))
        words = ("600", "--app", str(compiled(work)), "--adapt", "slabs", *settings("iterations=9000"))
        cases = {
            "client": Case(words=words, result=re.compile(r"checksum (-?\d+)")),
            # The total energy.
            "restart": lammps_case(
                examples / "melt-restart.yaml", 20, 800, r" +\S+ +\S+ +\S+ +(-\d+\.\d{3})"
            ),
        }
        plain = {way: unbroken(bed, work / way, cases[way]) for way in ways}

        def one_run(way: str, directory: Path) -> dict[str, Any]:
            state = Path(shutil.copytree(work / way, directory / "state"))
            return drained_run(bed, Run(bed, state, cases[way]), plain[way], state, notice=notice, rng=rng)

        series(out, ways, times, one_run)


def report(*files: Path) -> None:
    """Sum up the lines of series."""
    lines = read_lines(files)
    rows = []
    for way in dict.fromkeys(line["way"] for line in lines):
        runs = [line for line in lines if line["way"] == way]
        hit = [run for run in runs if run["attempts"] > 1]
        detected = [run["detected_s"] for run in hit if run.get("detected_s") is not None]
        right, killed = (sum(run.get(key, False) for run in runs) for key in ("right", "killed_in_run"))
        most = max(detected, default=math.nan)
        repeated, there = max(run["repeated"] for run in runs), sum(len(run["left"]) for run in runs)
        rows.append((way, len(runs), right, len(hit), median(detected), most, repeated, killed, there))
    columns = ("way", "runs", "right", "hit a run", "detected, s: median", "most", "repeated: most")
    table((*columns, "drained host killed in run", "left"), rows)


PARTS = (fail, bare, drain, report)
