"""Hosts that leave: a host of a run is drained, and killed when its notice is over; the result must still be right.

    sudo python benchmarks/drain.py [--ways client,restart] [--times 10] [--notice 30] [--out FILE]
    python benchmarks/drain.py --report FILE...

client: a program with the client (`examples/wave-c/wave2d-moving.c`, `--adapt slabs`): its rows move, its ranks leave
restart: LAMMPS with its own checkpoints (`examples/lammps/melt-restart.yaml`): the run goes on without the host

Each run is an `apples-run --launcher ssh` of its own over three hosts of a testbed, from a copy of one state. At a
random moment `apples drain` drains a random host of the run. After the notice all its processes are killed. A run is
right if it ends with exit code 0 and the result of a run without departures: the checksum, or the total energy of the
last step, whose trajectory depends on the pieces, to four digits. Iterations done twice are those between the last
report of progress before the departure and the iteration that the run goes on from. Processes left over are counted
on all hosts after the run. Needs root, as tests/testbed does.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from lost_hosts import DESK, left, left_at_last, series_options

from tests.testbed.description import parse
from tests.testbed.grid import Testbed

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
HOSTS = ("h1", "h2", "h3")


@dataclass(frozen=True)
class Way:
    """One way to leave. file : application file in `examples`.  result : finds the result in a line of output"""

    file: str
    size: int
    iterations: int
    words: tuple[str, ...]
    result: re.Pattern[str]


WAYS = {
    "client": Way(
        "wave-c/wave2d-moving.yaml",
        600,
        9000,
        ("--adapt", "slabs"),
        re.compile(r"checksum (-?\d+)"),
    ),
    "restart": Way(
        "lammps/melt-restart.yaml",
        20,
        800,
        ("-s", "keep=50"),
        re.compile(r"^ +800 +\S+ +\S+ +\S+ +(-\d+\.\d{3})"),
    ),
}


class Run:
    """One run from the desk, with its events and output as they come."""

    def __init__(self, bed: Testbed, state: Path, way: Way, file: Path) -> None:
        self.way, self.events, self.lines = way, list[dict[str, Any]](), list[str]()
        pool = ",".join(f"{host}:1" for host in HOSTS)
        words = ["--app", str(file), "--launcher", "ssh", "-H", pool, "-n", str(len(HOSTS)), *way.words]
        program = [
            str(BIN / "apples-run"),
            str(way.size),
            *words,
            "-s",
            f"iterations={way.iterations}",
            "--json-lines",
        ]
        self.process = subprocess.Popen(
            bed.command(DESK, ["env", f"APPLES_STATE={state}", *program]),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read, self._hear)]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(line.rstrip() for line in self.process.stderr)

    def _hear(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append({"at": time.monotonic(), **json.loads(line)})

    def wait_for(self, kind: str) -> dict[str, Any]:
        """Return the first event of a kind; end the benchmark if the run ends before it."""
        while not (found := [event for event in list(self.events) if event["event"] == kind]):
            if self.process.poll() is not None:
                sys.exit("\n".join(self.lines))
            time.sleep(0.02)
        return found[0]

    def end(self) -> dict[str, Any]:
        """Wait for the end and return the document of the run."""
        self.process.wait()
        for reader in self._readers:
            reader.join()
        return self.events[-1] if self.events and self.events[-1]["event"] == "run" else {}

    @property
    def result(self) -> str:
        """Return the last result in the program's output."""
        found = [match[1] for line in self.lines if (match := self.way.result.search(line))]
        return found[-1] if found else "none"


def drain(bed: Testbed, state: Path, *words: str) -> None:
    """Call `apples drain` on the desk."""
    ended = bed.run(DESK, "env", f"APPLES_STATE={state}", str(BIN / "apples"), "drain", *words)
    if ended.returncode != 0:
        sys.exit(ended.stderr)


def drained_run(
    bed: Testbed, taught: Path, what: tuple[Way, Path], options: argparse.Namespace, plain: str
) -> dict[str, Any]:
    """Return one run from which a host was drained."""
    rng: random.Random = options.rng
    way, file = what
    with tempfile.TemporaryDirectory(prefix="drain-") as name:
        state = Path(shutil.copytree(taught, Path(name) / "state"))
        run = Run(bed, state, way, file)
        run.wait_for("progress")
        time.sleep(rng.uniform(0.0, 8.0))
        host = rng.choice(HOSTS)
        drained = time.monotonic()
        drain(bed, state, host)
        while time.monotonic() < drained + options.notice and run.process.poll() is None:
            time.sleep(0.05)
        before_kill, left_there = run.process.poll() is None, left(bed, [host])
        bed.kill(host)
        document = run.end()
        there = left_at_last(bed, [h for h in (*HOSTS, DESK) if h != host])
        bed.start(host)
    attempts = document.get("attempts", [])
    departure = [event["at"] for event in run.events if event["event"] == "attempt"][:1]
    reached = [
        event["iteration"]
        for event in run.events
        if event["event"] == "progress" and departure and event["at"] <= departure[0]
    ]
    resumed = attempts[1]["first_iteration"] if len(attempts) > 1 else None
    return {
        "host": host,
        "code": run.process.returncode,
        "right": run.process.returncode == 0 and run.result == plain,
        "attempts": max(1, len(attempts)),
        "twice": 0 if resumed is None else max(0, max(reached, default=0) - resumed),
        "killed_in_run": before_kill,
        "left_on_host": left_there,
        "left": there,
        "observed_s": document.get("observed_s"),
        "said": [] if run.process.returncode == 0 else run.lines,
    }


def measure(options: argparse.Namespace) -> None:
    options.rng = random.Random(options.seed)
    hosts = [{"name": host, "cpu": 0.4, "cpuset": n % 2} for n, host in enumerate(HOSTS)]
    described = {"name": f"drain-{uuid.uuid4().hex[:8]}", "defaults": {"memory": "1G"}}
    with (
        Testbed(parse({**described, "hosts": [{"name": DESK}, *hosts]})) as bed,
        tempfile.TemporaryDirectory(prefix="drain-") as name,
    ):
        examples = shutil.copytree(ROOT / "examples", Path(name) / "examples")
        source = examples / "wave-c/wave2d-moving.c"
        include = ROOT / "apples/client/include"
        build = [BIN / "mpicc", "-O2", f"-I{include}", "-o", source.with_suffix(""), source]
        subprocess.run([str(word) for word in build], check=True)
        for key in options.ways.split(","):
            way, state = WAYS[key], Path(name) / key
            state.mkdir()
            file = examples / way.file
            plain = Run(bed, state, way, file)
            document = plain.end()
            if plain.process.returncode != 0 or plain.result == "none":
                sys.exit("\n".join(plain.lines))
            print(
                f"{key}, without departures: {document['observed_s']:.1f} s, result {plain.result}",
                flush=True,
            )
            for _ in range(options.times):
                seen = {"way": key, **drained_run(bed, state, (way, file), options, plain.result)}
                with options.out.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(seen) + "\n")
                print(seen, flush=True)
    report([options.out])


def report(files: list[Path]) -> None:
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    print(
        "way      runs  right  host killed in run  attempts  done twice: most  left on host  left elsewhere"
    )
    for key in dict.fromkeys(line["way"] for line in lines):
        own = [line for line in lines if line["way"] == key]
        killed, right = (sum(line[what] for line in own) for what in ("killed_in_run", "right"))
        left_there, elsewhere = (sum(len(line[what]) for line in own) for what in ("left_on_host", "left"))
        most, twice = (max(line[what] for line in own) for what in ("attempts", "twice"))
        print(
            f"{key:8} {len(own):4} {right:6} {killed:19} {most:9} {twice:17} {left_there:13} {elsewhere:15}"
        )


def main() -> None:
    parser = series_options(__doc__, "drain", ways="client,restart", times=10)
    parser.add_argument(
        "--notice", type=float, default=30.0, help="seconds from the notice to the end of the host"
    )
    options = parser.parse_args()
    if options.report:
        report(options.report)
    else:
        measure(options)


if __name__ == "__main__":
    main()
