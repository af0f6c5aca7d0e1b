"""Benchmarks of a user's program: short runs under the monitor, in a directory that is removed.

All run on one host, but for the pair of ranks on two hosts that shows what a message between hosts costs.
What the counters mean is decided in `apples.platforms.programcosts`; here are the launches.
"""

import json
import math
import shlex
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from apples.errors import ConfigError, LaunchError
from apples.launching.deployment import deploy, scratch_copy
from apples.launching.failedoutput import described_output
from apples.launching.preflight import learn_mpi
from apples.model.grid import Host
from apples.model.launchrequest import LaunchRequest, MpiChoice, Notify
from apples.model.plan import Outcome, unplanned
from apples.model.template import Benchmark, BenchmarkRequest, Deployment, Start, Workload
from apples.monitoring.counters import PageCounters
from apples.monitoring.environment import WAITS, figures_of, joined, remove_pages
from apples.monitoring.job import JOB, MonitoredRun
from apples.platforms.programcosts import (
    ENOUGH_CPU_S,
    LEAST_CPU_S,
    STEADY_CPU_S,
    ShortRun,
    benchmark_of,
    beside_mpi,
    bytes_of,
    counted_each,
    cpu_growth_s,
    ignores_pieces,
    memory_of,
    message_cpu_s_of,
    messages_of,
)
from nws.base.scratch import ScratchDirectory
from nws.base.wording import counted

#: The shorter run's part of the iterations, and the most by which both are multiplied to take long enough.
_SHORTER, _MOST_TIMES = 4, 64
#: Seconds a longer run may take at most, however little CPU time it used.
_LONGEST_S = 10.0
#: Seconds after which a run of ranks on two hosts is given up.
_LONGEST_PAIR_S = 120.0
#: Rows of the larger of two pieces, relative to the smaller.
_UNEVEN = 3
#: Least part of the CPU time of an iteration that those of a longer run must take.
_HONOURED = 0.5
_NAME_IT = "name the MPI of the program with --mpi, or by the key `mpi` of the application file"
#: Factor on the iterations of a pair of runs that decides whether a program ignores its pieces.
_SURELY_TIMES = 4


class Launches(Protocol):
    """What short runs need of a platform."""

    @property
    def several_hosts(self) -> bool:
        """Whether it may start ranks on more than one host."""

    def run(self, request: LaunchRequest, notify: Notify) -> Outcome:
        """Launch and return the outcome; raise `LaunchError`."""


@dataclass(frozen=True, slots=True)
class _Starter:
    """Starts short runs of one program on one host."""

    platform: Launches
    request: BenchmarkRequest
    start: Start
    directory: Path

    def run(self, rows: Sequence[int], iterations: int, peer: Host | None = None) -> ShortRun:
        """Run the program on these pieces; raise `LaunchError` with the end of its output if it fails.

        peer : host of the second rank; None for the benchmark's. With one, ranks block while they wait, so that their
        CPU time is that of messages
        """
        request, name = self.request, self.request.template.name
        hosts = [request.host.name] * len(rows) if peer is None else [request.host.name, peer.name]
        monitor = MonitoredRun(wait=WAITS["mpi" if peer is None else "block"])
        with ScratchDirectory("apples-run-", self.directory) as run_dir:
            options = request.template.short(request.options, iterations)
            first = self.start(rows, run_dir, options)
            directory = first.directory or run_dir
            written = [str(path.relative_to(directory)) for path in first.files]
            if not directory.is_dir():
                raise ConfigError(f"{request.template.source}: directory {directory} does not exist")
            with scratch_copy(
                directory, directory if self.platform.several_hosts else run_dir, written
            ) as scratch:
                start = self.start(rows, run_dir, options, scratch=scratch)
                deploy(start, lambda line: None)
                launch = LaunchRequest(
                    plan=unplanned(hosts, scheduler="benchmark", application=name),
                    workload=Workload(application=name, size=sum(rows)),
                    command=start.command,
                    run_dir=run_dir,
                    directory=start.directory,
                    mpi=MpiChoice(which=start.mpi),
                    environment=joined(start.environment, monitor.environment(run_dir)),
                    output=run_dir / "output.txt",
                    # A link that drops packets would hold ranks in MPI_Init for ever.
                    time_limit_s=None if peer is None else _LONGEST_PAIR_S,
                )
                outcome = self.platform.run(launch, lambda line: None)
                if learn_mpi(launch, next((rank.mpi for rank in figures_of(run_dir, JOB)), "")):
                    remove_pages(run_dir, JOB)
                    outcome = self.platform.run(launch, lambda line: None)
                where = " and ".join(dict.fromkeys(hosts))
                what = f"a short run of {name} on {where} with pieces {', '.join(map(str, rows))}"
                if outcome.ended in ("failed", "time limit"):
                    shown = described_output(name, run_dir / "output.txt")
                    outcome = replace(outcome, message=outcome.message + shown)
                check_finished(outcome, what)
            return ShortRun(
                rows=tuple(rows),
                iterations=iterations,
                wall_s=outcome.observed_s,
                ranks=_counters(run_dir, len(rows), what),
                peak_bytes=[status.peak_bytes for status in outcome.statuses],
            )

    def two(
        self, rows: Sequence[int], iterations: int, peer: Host | None = None
    ) -> tuple[ShortRun, ShortRun]:
        """Return a shorter and a longer run on the same pieces."""
        fewer = max(iterations // _SHORTER, 1)
        return self.run(rows, fewer, peer), self.run(rows, max(iterations, fewer + 1), peer)

    def message_cpu_s(self, rows: Sequence[int], iterations: int, threads: float) -> float | None:
        """Return the CPU seconds of a message between the host and its peer; None if that cannot be measured.

        threads : CPU seconds of threads that call no MPI, for each of those that do
        """
        request = self.request
        if request.peer is None:
            return None
        try:
            # On a busy host the CPU time of two runs differs by more than some messages take: more of them show it.
            for times in (1, 2, _SURELY_TIMES):
                cost_s = message_cpu_s_of(*self.two(rows, times * iterations, request.peer), threads)
                if cost_s != 0:
                    return cost_s
            reason = "the host is too busy"
        except LaunchError as error:
            reason = str(error)
        request.notify(f"the cost of messages between hosts is not measured: {reason}")
        return None


def check_finished(outcome: Outcome, what: str) -> None:
    """Raise `LaunchError` if a launch of this package's own failed, the signal's exception if it was interrupted."""
    if outcome.ended == "interrupted":
        # The launcher handled the signal for the ranks; it also meant this process.
        signal.raise_signal(outcome.exit_code - 128)
        raise KeyboardInterrupt
    if not outcome.finished:
        raise LaunchError(f"{what} failed: {outcome.message}")


def own_benchmark(
    platform: Launches,
    request: BenchmarkRequest,
    start: Callable[[Path, Mapping[str, str], int], Deployment],
) -> Benchmark:
    """Return the costs that the benchmark of an application has measured on one host.

    Raises:
        ConfigError: A template cannot be rendered, or there is no readable result.
        LaunchError: The benchmark failed.
    """
    with ScratchDirectory("apples-benchmark-", notify=request.notify) as run_dir:
        name = request.template.name
        result = run_dir / "benchmark.json"
        deployment = start(result, request.options, request.rows)
        hosts = [request.host.name] * request.ranks
        outcome = platform.run(
            LaunchRequest(
                plan=unplanned(hosts, scheduler="benchmark", application=name),
                workload=Workload(application=name, size=request.ranks),
                command=deployment.command,
                run_dir=run_dir,
                directory=deployment.directory,
                mpi=MpiChoice(which=deployment.mpi),
                program_output_to_stderr=True,
            ),
            lambda _: None,
        )
        check_finished(outcome, f"the benchmark of {name} on {request.host.name}")
        return _result(request.template.name, deployment.command, result, outcome.observed_s)


def _result(name: str, command: Sequence[str], result: Path, wall_s: float) -> Benchmark:
    """Return the result of a benchmark that took `wall_s` from launch to end; raise `ConfigError` if unreadable."""
    try:
        document = json.loads(result.read_text())
        return Benchmark(
            ranks=int(document["ranks"]),
            seconds_per_row=float(document["seconds_per_row"]),
            startup_s=max(0.0, wall_s - float(document["measured_s"])),
            bytes_per_row=float(document["bytes_per_row"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{result}: no readable benchmark of {name} ({type(error).__name__}: {error}); "
            f"it is written by {shlex.join(command)}; run it again"
        ) from None


def observed_benchmark(platform: Launches, request: BenchmarkRequest) -> Benchmark:
    """Return the costs of a program on one host, measured under the monitor in CPU time.

    Raises:
        ConfigError: A template cannot be rendered, or the program ignores its pieces.
        LaunchError: The program failed, or its iterations cost nothing.
        MonitorError: The monitor cannot be built, or the program does not use MPI.
    """
    with ScratchDirectory("apples-benchmark-", notify=request.notify) as directory:
        template = request.template
        assert template.start is not None
        start = _Starter(platform, request, template.start, directory)
        limits = request.template.workload(request.rows * request.ranks, request.options)
        rows = max(request.rows, limits.min_rows)
        short, long = _long_enough(start, [rows] * request.ranks)
        found = benchmark_of(request.template.name, short, _steady(start, short, long))
        if request.ranks > 1:
            return replace(found, messages=messages_of(short, long), counted_each=counted_each(short, long))
        more = rows * _UNEVEN if limits.max_rows is None else min(rows * _UNEVEN, limits.max_rows)
        pieces = [rows, rows] if template.even else [rows, more]
        pair = start.two(pieces, long.iterations)
        if len(set(pieces)) > 1 and ignores_pieces(*pair):
            # On a busy host start-ups differ by as much as the rows: more iterations show which it is.
            pair = start.two(pieces, _SURELY_TIMES * long.iterations)
            if ignores_pieces(*pair):
                raise ConfigError(_ignored(request, pair[1]))
        taller = [start.run([2 * rows], short.iterations)] if template.even else []
        row_bytes, fixed_bytes = memory_of([short, *taller] if template.even else [pair[1]])
        return replace(
            found,
            messages=messages_of(*pair),
            bytes_exchanged=bytes_of(*pair),
            counted_each=counted_each(*pair),
            message_cpu_s=start.message_cpu_s(pieces, long.iterations, beside_mpi(short, long)),
            bytes_per_row=row_bytes,
            bytes_fixed=fixed_bytes,
        )


def _long_enough(start: _Starter, rows: Sequence[int]) -> tuple[ShortRun, ShortRun]:
    """Return two runs that differ by enough CPU time, with more iterations than asked for if necessary."""
    asked = start.request.template.short_iterations
    iterations = asked
    while True:
        short, long = start.two(rows, iterations)
        growth_s = cpu_growth_s(short, long)
        limit = asked * _MOST_TIMES
        if growth_s >= ENOUGH_CPU_S or iterations >= limit or long.wall_s > _LONGEST_S:
            return short, long
        times = min(max(1.5 * ENOUGH_CPU_S / max(growth_s, 1e-3), 2.0), _LONGEST_S / max(long.wall_s, 1e-2))
        iterations = min(int(iterations * max(times, 2.0)), limit)


def _steady(start: _Starter, short: ShortRun, long: ShortRun) -> ShortRun:
    """Return the longer run, or one of more iterations in which short changes of the CPU's speed cancel."""
    growth_s = cpu_growth_s(short, long)
    times = min(STEADY_CPU_S / max(growth_s, 1e-3), _LONGEST_S / max(long.wall_s, 1e-2), _MOST_TIMES)
    if times <= 1 or growth_s < LEAST_CPU_S:
        return long
    longer = start.run(long.rows, math.ceil(long.iterations * times))
    each, later_each = (
        cpu_growth_s(a, b) / (b.iterations - a.iterations) for a, b in ((short, long), (long, longer))
    )
    # A solver that has reached its tolerance ends before it has done all its iterations.
    return longer if later_each > _HONOURED * each else long


def _counters(run_dir: Path, ranks: int, what: str) -> list[PageCounters]:
    """Return the counters of all ranks; raise `LaunchError` if some did not begin MPI."""
    pages = figures_of(run_dir, JOB)
    if len(pages) == ranks and all(page.ranks == ranks for page in pages):
        return pages
    if any(page.ranks != ranks for page in pages):
        raise LaunchError(
            f"{what}: its ranks are of {pages[0].mpi}, and another MPI started them: they saw "
            f"{counted(pages[0].ranks, 'rank')} instead of {ranks}; {_NAME_IT}"
        )
    raise LaunchError(
        f"{what}: {len(pages)} of {ranks} ranks called MPI_Init; the program must link MPI as a shared library, "
        f"and be started by it: {_NAME_IT}"
    )


def _ignored(request: BenchmarkRequest, run: ShortRun) -> str:
    took = ", ".join(f"{rank.t_cpu_s:.2f} s" for rank in run.ranks)
    return (
        f"{request.template.source}: the program ignores its pieces: with {', '.join(map(str, run.rows))} rows its "
        "ranks took "
        f"{took} of CPU time; check how the command passes rows, or write `pieces: even` if it always divides evenly"
    )
