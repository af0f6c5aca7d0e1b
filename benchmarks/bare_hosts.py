"""LAMMPS over ssh on hosts without this package, which fail at random moments: the result must still be right.

    sudo python benchmarks/bare_hosts.py [--lmp /usr/bin/lmp] [--library-path DIR] [--times 10] [--ways kill,cut,freeze]
                                         [--python PYTHON] [--out FILE]
    python benchmarks/bare_hosts.py --report FILE...

Three hosts of a testbed have sshd, a Python of their own (by default the oldest of this machine that is supported) and
the program; the directory of this package and its environment are empty there. The desk starts the runs. LAMMPS writes
restart files, from which a run goes on after the loss of a host (`restart` of its application file).

A run is right if it ends with exit code 0 and the last energies of a run without failures, to one part in ten thousand:
another cut rounds differently. Detection is the time from the failure to the line that reports it. Processes left over
are counted on all hosts, on the failed one after its recovery. Needs root, as tests/testbed does.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from lost_hosts import BIN, DESK, heal, left, left_at_last, series_options

from tests.testbed.description import parse
from tests.testbed.fixtures import without_package
from tests.testbed.grid import Testbed

SIZE, STEPS, EVERY = 12, 600, 50
BEGIN = """\
units lj
atom_style atomic
include grid.in
lattice fcc 0.8442
region box block 0 20 0 20 0 ${nz}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
"""
GO_ON = "units lj\natom_style atomic\ninclude grid.in\nread_restart ${from}\n"
BOTH = """\
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
include cuts.in
thermo 50
restart EVERY melt.*.restart
run ${steps} upto
""".replace("EVERY", str(EVERY))


def write_code(directory: Path, lmp: str) -> Path:
    """Write the program's input and its application file; return the latter."""
    (directory / "in.begin").write_text(BEGIN + BOTH)
    (directory / "in.resume").write_text(GO_ON + BOTH)
    size, steps = ["-var", "nz", "{{ size }}"], ["-var", "steps", "{{ iterations }}"]
    application = {
        "name": "melt",
        "row": "lattice plane",
        "command": [lmp, "-in", "in.begin", *size, *steps],
        "files": {
            "grid.in": "processors 1 1 {{ ranks }}\n",
            "cuts.in": "{% if ranks > 1 %}balance 1.0 z {{ cuts | join(' ') }}{% endif %}\n",
        },
        "iterations": STEPS,
        "benchmark": {"iterations": 40},
        "restart": {
            "checkpoint": r"melt\.([0-9]+)\.restart",
            "command": [lmp, "-in", "in.resume", "-var", "from", "{{ checkpoint }}", *steps],
        },
    }
    (directory / "melt.yaml").write_text(json.dumps(application))
    return directory / "melt.yaml"


class Runs:
    """Runs of the program from the desk."""

    def __init__(self, bed: Testbed, directory: Path, options: argparse.Namespace) -> None:
        self._bed, self._directory = bed, directory
        code = directory / "code"
        code.mkdir()
        pool = ",".join(f"{host.name}:1" for host in bed.spec.hosts if host.name != DESK)
        libraries = [f"LD_LIBRARY_PATH={options.library_path}"] if options.library_path else []
        file = write_code(code, options.lmp)
        self._command = [
            *("env", f"APPLES_STATE={directory / 'state'}", *libraries, str(BIN / "apples-run"), str(SIZE)),
            *("--app", str(file), "--launcher", "ssh", "-H", pool, "-n", "3", "--json"),
        ]

    def start(self) -> tuple[subprocess.Popen[str], Path]:
        """Start a run; return it and the file of its messages."""
        for file in (self._directory / "code").glob("melt.*.restart"):
            file.unlink()
        messages = self._directory / "messages.txt"
        with messages.open("w") as stderr:
            command = self._bed.command(DESK, self._command)
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True), messages

    def whole(self) -> dict[str, Any]:
        """Return the document of a run without failures, with its energies; it also teaches the benchmarks."""
        process, messages = self.start()
        document = finished(process)
        if process.returncode != 0:
            sys.exit(messages.read_text())
        return {**document, "energies": energies(messages.read_text())}


def finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    text = process.communicate(timeout=600)[0]
    return dict(json.loads(text)) if text.strip() else {}


def energies(text: str) -> list[float]:
    """Return temperature, energies and pressure after the last step, from the output of LAMMPS."""
    lines = [line.split() for line in text.splitlines()]
    last = [line for line in lines if line[:1] == [str(STEPS)] and len(line) == 6]
    return [float(word) for word in last[-1][1:]] if last else []


def moment_of(messages: Path, text: str, process: subprocess.Popen[str]) -> float | None:
    """Return the time at which a message is there; None if the run ends without it."""
    while text not in messages.read_text():
        if process.poll() is not None:
            return None
        time.sleep(0.02)
    return time.monotonic()


def hit_one(bed: Testbed, runs: Runs, plain: dict[str, Any], way: str, rng: random.Random) -> dict[str, Any]:
    """Return one run with a failure of a host at a random moment after its start."""
    process, messages = runs.start()
    if moment_of(messages, "running melt", process) is None:
        sys.exit(messages.read_text())
    began = time.monotonic()
    host = rng.choice([host.name for host in bed.spec.hosts if host.name != DESK])
    time.sleep(rng.uniform(0.1, 0.9) * plain["observed_s"])
    hit = time.monotonic()
    getattr(bed, way)(host)
    names = [one.name for one in bed.spec.hosts]
    try:
        noticed = moment_of(messages, "planning again", process)
        document = finished(process)
        here = left(bed, [name for name in names if name != host])
    finally:
        heal(bed, way, host)
    found = energies(messages.read_text())
    same = len(found) == 5 and all(
        math.isclose(a, b, rel_tol=1e-4) for a, b in zip(found, plain["energies"], strict=True)
    )
    return {
        "way": way,
        "host": host,
        "hit_s": round(hit - began, 2),
        "right": process.returncode == 0 and same,
        "resumed_at": [one["first_iteration"] for one in document.get("attempts", [])][1:],
        "detected_s": None if noticed is None else round(noticed - hit, 2),
        "left": [*here, *left_at_last(bed, names)],
        "messages": [] if process.returncode == 0 and same else messages.read_text().splitlines(),
    }


def report(files: list[Path]) -> None:
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    print("way      runs  right  noticed  detected: most  left")
    for way in dict.fromkeys(line["way"] for line in lines):
        own = [line for line in lines if line["way"] == way]
        noticed = [line["detected_s"] for line in own if line["detected_s"] is not None]
        right, there = sum(line["right"] for line in own), sum(len(line["left"]) for line in own)
        most = max(noticed, default=math.nan)
        print(f"{way:8} {len(own):4} {right:6} {len(noticed):8} {most:13.1f} s {there:5}")


def main() -> None:
    parser = series_options(__doc__, "bare-hosts", ways="kill,cut,freeze", times=10)
    parser.add_argument("--lmp", default="/usr/bin/lmp")
    parser.add_argument(
        "--library-path", default="", help="where hosts find the MPI that LAMMPS was built with"
    )
    parser.add_argument("--python", help="interpreter that is the hosts' python3")
    options = parser.parse_args()
    if options.report:
        report(options.report)
    else:
        measure(options)


def measure(options: argparse.Namespace) -> None:
    bare = {**without_package(), **({"python": options.python} if options.python else {})}
    hosts = [{"name": DESK}, *({"name": f"h{n}", "cpu": 0.5, "cpuset": n % 2, **bare} for n in (1, 2, 3))]
    name = f"bare-{uuid.uuid4().hex[:8]}"
    rng, found = random.Random(options.seed), []
    with (
        Testbed(parse({"name": name, "defaults": {"memory": "2G"}, "hosts": hosts})) as bed,
        tempfile.TemporaryDirectory(prefix="bare-hosts-") as directory,
    ):
        print(bed.run(DESK, "ssh", "h1", "python3 -V").stdout.strip(), "on the hosts", flush=True)
        runs = Runs(bed, Path(directory), options)
        plain = runs.whole()
        print(f"unbroken: {plain['observed_s']:.1f} s, energies {plain['energies']}", flush=True)
        for _ in range(options.times):
            for way in options.ways.split(","):
                found.append(hit_one(bed, runs, plain, way, rng))
                print(found[-1], flush=True)
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found[-1]) + "\n")
    report([options.out])


if __name__ == "__main__":
    main()
