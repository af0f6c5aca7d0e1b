"""Cost of a lost host: hosts of a testbed fail at random moments, and the run's result must still be right.

    sudo python benchmarks/lost_hosts.py [--times 20] [--ways kill,cut,freeze] [--iterations 90] [--out FILE]
    python benchmarks/lost_hosts.py --report FILE...

kill: all processes of the host end at once
cut: its link drops everything without an error
freeze: all its processes are stopped

Each run is an `apples-run --launcher ssh` of its own from the testbed's desk over four hosts at two sites, without
state of earlier runs. A run is right if it ends with exit code 0 and the checksum of a run without failures.

Detection is the time from the failure to the line that reports it. Iterations lost are those done twice, by the
application's own table of every iteration. Processes left over are counted on all hosts after the run, and on the
failed host after its recovery. Needs root, as tests/testbed does.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.testbed.description import parse
from tests.testbed.grid import Testbed

BIN = Path(sys.executable).parent
DESK = "desk"
SPEC = {
    "defaults": {"memory": "1G", "rate": "1gbit"},
    "sites": {"east": {}, "west": {"rate": "200mbit", "delay": "2ms"}},
    "hosts": [
        {"name": "e1", "site": "east", "cpu": 0.4, "cpuset": 0},
        {"name": "e2", "site": "east", "cpu": 0.4, "cpuset": 1},
        {"name": "w1", "site": "west", "cpu": 0.4, "cpuset": 1},
        {"name": "w2", "site": "west", "cpu": 0.4, "cpuset": 0},
        {"name": DESK, "site": "east"},
    ],
}
SIZE, MESH = "96", ("nx=24", "ny=24", "history_every=1")
#: Processes of a host besides runs: the first process, its sshd, and the process that keeps the host.
FURNITURE = ("unshare --net", "sshd_config", "/init", "sleep 1", "sleep infinity")
#: Seconds for cut-off or frozen processes to notice that their run is over.
NOTICED_S = 45.0


class Run:
    """One run from the desk, with the time of each line of its output."""

    def __init__(self, bed: Testbed, state: Path, directory: Path, words: list[str]) -> None:
        self.history = directory / "history.csv"
        pool = ",".join(f"{h.name}:1" for h in bed.spec.hosts if h.name != DESK)
        command = [
            *("env", f"APPLES_STATE={state}", str(BIN / "apples-run"), SIZE, "--launcher", "ssh", "-H", pool),
            *(w for pair in (*MESH, f"history={self.history}") for w in ("-s", pair)),
            *("-n", str(len(bed.spec.hosts) - 2), "--json-lines", *words),
        ]
        self.lines: list[tuple[float, str]] = []
        self.process = subprocess.Popen(
            bed.command(DESK, command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.events: list[dict[str, Any]] = []
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read, self._hear)]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append((time.monotonic(), line.rstrip()))

    def _hear(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    @property
    def planned(self) -> list[str]:
        """Return hosts of the first plan."""
        return [entry["host"] for entry in self.events[0]["hosts"]]

    def when(self, text: str) -> float | None:
        """Return the time of the first line with this text; None before it."""
        return next((at for at, line in list(self.lines) if text in line), None)

    def wait_for(self, text: str) -> float:
        """Return the time of the first line with this text; ends the program if there is none."""
        while (at := self.when(text)) is None:
            if self.process.poll() is not None:
                sys.exit("\n".join(line for _, line in self.lines))
            time.sleep(0.01)
        return at

    def reached(self) -> tuple[float | None, int]:
        """Return the time of the loss report and the last iteration before it; None and 0 for a run without one."""
        while (at := self.when("planning again")) is None and self.process.poll() is None:
            time.sleep(0.01)
        if at is None or not self.history.exists():
            return at, 0
        with self.history.open(encoding="utf-8") as file:
            cycles = [int(row["cycle"]) for row in csv.DictReader(file) if (row["cycle"] or "").isdigit()]
        return at, cycles[-1] if cycles else 0

    def end(self) -> dict[str, Any]:
        """Wait for the end of the run and return its document."""
        self.process.wait()
        for reader in self._readers:
            reader.join()
        return self.events[-1] if self.events and self.events[-1]["event"] == "run" else {}

    @property
    def checksum(self) -> str:
        """Return the checksum of the last printed result."""
        said = [line.rpartition(" ")[2] for _, line in self.lines if ", checksum " in line]
        return said[-1] if said else "none"


def left(bed: Testbed, hosts: list[str]) -> list[str]:
    """Return the processes on hosts besides those of the hosts themselves."""
    return [
        f"{host}: {command}"
        for host in hosts
        for command in bed.processes(host).values()
        if command and not any(word in command for word in FURNITURE)
    ]


def heal(bed: Testbed, way: str, host: str) -> None:
    {"kill": bed.start, "cut": bed.mend, "freeze": bed.thaw}[way](host)


def left_at_last(bed: Testbed, hosts: list[str]) -> list[str]:
    deadline = time.monotonic() + NOTICED_S
    while (found := left(bed, hosts)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def hit_one(
    bed: Testbed, taught: Path, plain: dict[str, Any], what: tuple[str, argparse.Namespace]
) -> dict[str, Any]:
    """Return one run with a host failure at a random moment; moments after the end of the run do not count."""
    way, options = what
    rng: random.Random = options.rng
    hosts = [h.name for h in bed.spec.hosts]
    with tempfile.TemporaryDirectory(prefix="lost-hosts-") as name:
        directory = Path(name)
        state = Path(shutil.copytree(taught, directory / "state"))
        words = ["-s", f"iterations={options.iterations}", "--checkpoint", str(directory / "run.ckpt")]
        run = Run(bed, state, directory, [*words, "--checkpoint-every", str(options.every)])
        began = run.wait_for("running mhd3d")
        after_s, host = rng.uniform(0.0, 0.95 * plain["observed_s"]), rng.choice(run.planned)
        time.sleep(max(0.0, began + after_s - time.monotonic()))
        hit = time.monotonic()
        getattr(bed, way)(host)
        try:
            noticed, reached = run.reached()
            document = run.end()
            ended = time.monotonic()
            here = left(bed, [h for h in hosts if h != host])
        finally:
            heal(bed, way, host)
        attempts = document.get("attempts", [])
        return {
            "way": way,
            "host": host,
            "hit_s": round(hit - began, 2),
            "code": run.process.returncode,
            "right": run.process.returncode == 0 and run.checksum == plain["checksum"],
            "attempts": len(attempts),
            "detected_s": None if noticed is None else round(noticed - hit, 2),
            "reached": reached,
            "resumed_at": [a["first_iteration"] for a in attempts][1:],
            "repeated": reached - attempts[1]["first_iteration"] if len(attempts) > 1 else 0,
            "every": options.every,
            "whole_s": round(ended - began, 2),
            "left": [*here, *left_at_last(bed, hosts)],
            "said": [] if run.process.returncode == 0 else [line for _, line in run.lines],
        }


def unbroken(bed: Testbed, state: Path, iterations: int) -> dict[str, Any]:
    """Return a run without failures; it also teaches benchmarks and overhead."""
    with tempfile.TemporaryDirectory(prefix="lost-hosts-") as name:
        run = Run(bed, state, Path(name), ["-s", f"iterations={iterations}", "--checkpoint", "off"])
        document = run.end()
        if run.process.returncode != 0:
            sys.exit("\n".join(line for _, line in run.lines))
    hosts = [entry["host"] for entry in document["hosts"]]
    return {"observed_s": document["observed_s"], "checksum": run.checksum, "hosts": hosts}


def measure(options: argparse.Namespace) -> None:
    options.rng = random.Random(options.seed)
    bed = Testbed(parse({"name": f"lost-{uuid.uuid4().hex[:8]}", **SPEC}))
    with bed, tempfile.TemporaryDirectory(prefix="lost-hosts-") as name:
        state = Path(name)
        unbroken(bed, state, options.iterations)
        plain = unbroken(bed, state, options.iterations)
        print(
            f"unbroken: {plain['observed_s']:.1f} s on {', '.join(plain['hosts'])}, {plain['checksum']}",
            flush=True,
        )
        for _ in range(options.times):
            for way in options.ways.split(","):
                seen = hit_one(bed, state, plain, (way, options))
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(seen) + "\n")
                print({k: v for k, v in seen.items() if k != "every"}, flush=True)
    report([options.out])


def report(files: list[Path]) -> None:
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    print(
        "way     runs  right  hit a run  detected, s: median  most  repeated: median  most of interval  left"
    )
    for way in dict.fromkeys(line["way"] for line in lines):
        own = [line for line in lines if line["way"] == way]
        hit = [line for line in own if line["attempts"] > 1]
        seconds = sorted(line["detected_s"] for line in hit) or [float("nan")]
        twice = sorted(line["repeated"] for line in hit) or [0]
        print(
            f"{way:7} {len(own):4} {sum(line['right'] for line in own):6} {len(hit):10} "
            f"{seconds[len(seconds) // 2]:20.1f} {seconds[-1]:5.1f} {twice[len(twice) // 2]:17} {twice[-1]:5} of "
            f"{max(line['every'] for line in own):4} {sum(len(line['left']) for line in own):9}"
        )


def series_options(description: str | None, name: str, *, ways: str, times: int) -> argparse.ArgumentParser:
    """Return the options of a series of runs in several ways, whose lines are kept and can be summed up later."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ways", default=ways)
    parser.add_argument("--times", type=int, default=times, help="runs of each way")
    parser.add_argument("--seed", type=int, default=1)
    kept = Path(tempfile.gettempdir()) / f"{name}-{os.getpid()}.jsonl"
    parser.add_argument("--out", type=Path, default=kept)
    parser.add_argument("--report", type=Path, nargs="+", help="sum up files of earlier series")
    return parser


def main() -> None:
    parser = series_options(__doc__, "lost-hosts", ways="kill,cut,freeze", times=20)
    parser.add_argument("--iterations", type=int, default=90)
    parser.add_argument("--every", type=int, default=10, help="iterations between checkpoints")
    options = parser.parse_args()
    if options.report:
        report(options.report)
    else:
        measure(options)


if __name__ == "__main__":
    main()
