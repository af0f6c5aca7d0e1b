"""Where a run can happen: the machines, their weather, their benchmarks and the launcher, behind one seam.

The agent plans and runs in a `Platform` and does not know which. `LocalPlatform` is this machine: real sensors, real
ranks. The mock grid's platform stands in `apples.simulation`. Nothing here decides.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

from apples.errors import LaunchError
from apples.launching.launcher import Launcher, LaunchRequest, Notify
from apples.launching.preflight import names_of_this_machine
from apples.model.grid import Grid, Host, Snapshot
from apples.model.plan import unplanned
from apples.model.template import Benchmark, BenchmarkRequest, Workload
from nws.client import local_host, usable_cpus

#: Sensor rounds before a plan: enough for an expected error when the weather is new, one when it is known.
_ROUNDS_NEW, _ROUNDS_KNOWN, _KNOWN_SAMPLES = 3, 1, 10
_ROUND_INTERVAL_S = 0.2

#: Written to find out how fast a directory takes files.
_SAMPLE_BYTES = 4 << 20

OWN_SENSORS = "sensors on this machine"
NOT_MEASURED = "the grid file (no host of it is this machine, nothing was measured)"


class Platform(Protocol):
    """Machines on which plans can be made and run."""

    @property
    def name(self) -> str:
        """Name of the platform, as records keep it."""

    @property
    def grid(self) -> Grid:
        """The pool of hosts."""

    @property
    def launcher(self) -> Launcher:
        """What runs plans here."""

    def snapshot(self, notify: Notify) -> Snapshot:
        """Find out what every host will deliver now."""

    def reaches(self, host: Host) -> bool:
        """Whether a benchmark can be run on this host."""

    def machine(self, host: Host) -> str:
        """What a benchmark of this host holds for: hosts with the same text share it."""

    def benchmark(self, request: BenchmarkRequest) -> Benchmark:
        """Run the application's benchmark on one host; raises `LaunchError`."""

    def now(self) -> float:
        """Seconds since the epoch, in this platform's time."""

    def drop(self, hosts: Mapping[str, str]) -> None:
        """Remove hosts from the pool, each with a reason; later snapshots list them as absent."""

    def write_s(self, path: Path, size_bytes: float) -> float | None:
        """Return seconds to write so many bytes at `path`; None unless all hosts of the last snapshot share it."""


def launched_benchmark(launcher: Launcher, request: BenchmarkRequest) -> Benchmark:
    """Run the application's benchmark with real ranks, a second or two; raises `LaunchError`."""
    with tempfile.TemporaryDirectory(prefix="apples-benchmark-") as directory:
        run_dir = Path(directory)
        output = run_dir / "benchmark.json"
        template, ranks = request.template, request.ranks
        outcome = launcher.run(
            LaunchRequest(
                plan=unplanned(
                    [request.host.name] * request.ranks,
                    scheduler="benchmark",
                    application=request.template.name,
                ),
                workload=Workload(application=template.name, size=ranks),
                command=tuple(template.benchmark_command(output, request.options, request.rows)),
                run_dir=run_dir,
                program_output_to_stderr=True,
            ),
            lambda _: None,
        )
        if outcome.ended == "interrupted":
            # The launcher took the signal for the ranks; it was meant for us as well, whatever it means here.
            signal.raise_signal(outcome.exit_code - 128)
            raise KeyboardInterrupt
        if not outcome.finished:
            raise LaunchError(
                f"the benchmark of {template.name} on {request.host.name} failed: {outcome.message}"
            )
        return template.read_benchmark(output, outcome.observed_s)


def warmed(command: Sequence[str], notify: Notify) -> None:
    """Run a command that compiles kernels, passing on what it says; raises `LaunchError`."""
    said = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                said.append(line)
                notify(line.rstrip())
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise LaunchError(
            f"{' '.join(command)} failed with exit code {process.returncode}: {''.join(said).strip()}"
        )


def measured_write_s(directory: Path, size_bytes: float) -> float | None:
    """Seconds that writing so much to disk would take there, from a smaller file; None where nothing can be written."""
    try:
        little_s, sample_s = (_write_s(directory, size) for size in (1, _SAMPLE_BYTES))
    except OSError:
        return None
    return little_s + max(0.0, sample_s - little_s) * size_bytes / _SAMPLE_BYTES


def _write_s(directory: Path, size_bytes: int) -> float:
    started = time.perf_counter()
    with tempfile.NamedTemporaryFile(prefix=".apples-write-", dir=directory) as file:
        file.write(bytes(size_bytes))
        file.flush()
        os.fsync(file.fileno())
        return time.perf_counter() - started


def this_machine() -> Grid:
    """A grid of one host: this machine, with a slot for each CPU we may use."""
    host = Host(name=local_host(), slots=usable_cpus(), cpu_type=cpu_model())
    return Grid(name=host.name, hosts=(host,))


def is_this_machine(host: Host) -> bool:
    """Whether a host means this machine, by its address or its name."""
    return (host.address or host.name) in names_of_this_machine()


@cache
def cpu_model() -> str:
    """Model name of this machine's CPU."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return " ".join(value.split())
    return platform.machine() or "unknown"


@cache
def fingerprint() -> str:
    """Versions that decide how fast the application's kernels are."""
    parts = [f"python {platform.python_version()}"]
    parts += [f"{name} {version(name)}" for name in ("apples-grid", "numba", "numpy")]
    return ", ".join(parts)
