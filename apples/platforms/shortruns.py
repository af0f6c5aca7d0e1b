"""Benchmarks of a user's program: short runs under the monitor, in a directory that is removed.

All run on one host, but for the pair of ranks on two hosts that shows what a message between hosts costs.
What the counters mean is decided in `apples.platforms.programcosts`; here are the launches.
"""

import json
import math
import shlex
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from apples.errors import ConfigError, LaunchError, MonitorError
from apples.launching.deployment import deploy, scratch_copy
from apples.launching.failedoutput import described_output
from apples.launching.preflight import learn_mpi
from apples.model.grid import Host
from apples.model.launchrequest import LaunchRequest, MpiChoice, Notify
from apples.model.plan import Outcome, unplanned
from apples.model.template import Benchmark, BenchmarkRequest, Deployment, Start, Workload
from apples.monitoring.counters import MonitorState, PageCounters
from apples.monitoring.environment import WAITS, figures_of, joined, remove_pages
from apples.monitoring.job import JOB, MonitoredRun
from apples.platforms.programcosts import (
    ENOUGH_CPU_S,
    LEAST_CPU_S,
    LEAST_PART,
    STEADY_CPU_S,
    ShortRun,
    benchmark_of,
    beside_mpi,
    bytes_of,
    counted_each,
    cpu_growth_s,
    growths_s,
    ignores_changes,
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
#: Times the expected seconds after which a run is ended.
_LATE_TIMES = 4.0
#: Ranks of a run that was ended which its message describes.
_DESCRIBED = 8
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
    ended: list[tuple[float, int]] = field(default_factory=list)
    """Wall seconds of each run so far, and its rows times iterations."""

    def limit_s(self, rows: Sequence[int], iterations: int) -> float:
        """Return the seconds after which a run is ended: some times as long as the runs before make expect."""
        # The start-up is part of each rate, the least of that with most work.
        rate = min((wall_s / work for wall_s, work in self.ended), default=0.0)
        longest_s = max((wall_s for wall_s, _ in self.ended), default=0.0)
        return max(self.request.limit_s, _LATE_TIMES * (longest_s + rate * sum(rows) * iterations))

    def run(self, rows: Sequence[int], iterations: int, peer: Host | None = None) -> ShortRun:
        """Run the program on these pieces; raise `LaunchError` with the end of its output if it fails.

        peer : host of the second rank; None for the benchmark's. With one, ranks block while they wait, so that their
        CPU time is that of messages
        """
        request, name = self.request, self.request.template.name
        here = len(rows) if peer is None else len(rows) // 2
        hosts = [request.host.name] * here + [peer.name for _ in rows[here:] if peer is not None]
        limit_s = self.limit_s(rows, iterations)
        where = " and ".join(dict.fromkeys(hosts))
        what = f"a short run of {name} on {where} with pieces {', '.join(map(str, rows))}"
        request.running(f"{what}, {counted(iterations, 'iteration')}")
        monitor = MonitoredRun(wait=WAITS["mpi" if peer is None else "block"])
        with ScratchDirectory("apples-run-", self.directory) as run_dir:
            options = request.template.short(request.options, iterations)
            first = self.start(rows, run_dir, options)
            directory = first.directory or run_dir / "anywhere"
            if first.directory is None:
                directory.mkdir()
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
                    # Pieces that a program cannot take, or a link that drops packets, may hold its ranks for ever.
                    time_limit_s=limit_s,
                )
                outcome = self.platform.run(launch, lambda line: None)
                if learn_mpi(launch, next((rank.mpi for rank in figures_of(run_dir, JOB)), "")):
                    remove_pages(run_dir, JOB)
                    outcome = self.platform.run(launch, lambda line: None)
                late = outcome.ended == "time limit"
                if late or outcome.ended == "failed":
                    shown = described_output(name, run_dir / "output.txt", last=late)
                    states = _states(run_dir, rows) if late else ""
                    outcome = replace(outcome, message=outcome.message + states + shown)
                check_finished(outcome, what)
            self.ended.append((outcome.observed_s, sum(rows) * iterations))
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
        limits = template.workload(request.size or request.rows * request.ranks, request.options)
        pieces = pieces_of(request, limits, request.ranks)
        short, long = _long_enough(start, pieces)
        costs = benchmark_of(template.name, short, _steady(start, short, long))
        several = limits.ranks.following(2)
        if request.ranks != limits.ranks.following(template.fewest_measured) or several is None:
            return replace(costs, messages=messages_of(short, long), counted_each=counted_each(short, long))
        pieces = pieces_of(request, limits, several, uneven=not template.even)
        pair = start.two(pieces, long.iterations)
        if len(set(pieces)) > 1 and ignores_pieces(*pair):
            pair = _longer_pair(start, pieces, _SURELY_TIMES * long.iterations)
        taller = (
            [start.run([2 * n for n in short.rows], short.iterations)]
            if template.even and not template.sized
            else []
        )
        row_bytes, fixed_bytes = memory_of([short, pair[1], *taller] if template.even else [pair[1]])
        return replace(
            costs,
            messages=messages_of(*pair),
            bytes_exchanged=bytes_of(*pair),
            counted_each=counted_each(*pair),
            message_cpu_s=start.message_cpu_s(pieces, long.iterations, beside_mpi(short, long)),
            bytes_per_row=row_bytes,
            bytes_fixed=fixed_bytes,
        )


def pieces_of(request: BenchmarkRequest, limits: Workload, ranks: int, *, uneven: bool = False) -> list[int]:
    """Return the rows of the ranks of a short run. uneven : every second one has more, as far as the limits allow"""
    more = ranks // 2
    fewer, most = ranks - more, limits.max_rows
    rows = max(request.rows, limits.min_rows)
    if not uneven:
        return _even(request.size or rows * ranks, ranks)
    tallest = rows * _UNEVEN if most is None else min(rows * _UNEVEN, most)
    size = request.size or fewer * rows + more * tallest
    least = 0 if most is None else -(-(size - more * most) // fewer)
    low = min(max(size // (fewer + more * _UNEVEN), limits.min_rows, least), size // ranks)
    high = iter(_even(size - fewer * low, more))
    return [next(high) if rank % 2 else low for rank in range(ranks)]


def _even(size: int, parts: int) -> list[int]:
    return [size // parts + (part < size % parts) for part in range(parts)]


def _longer_pair(start: _Starter, pieces: Sequence[int], iterations: int) -> tuple[ShortRun, ShortRun]:
    """Return two runs of more iterations; raise `ConfigError` if they, too, show that the program ignores its pieces.

    On a busy host start-ups differ by as much as the rows. The work that one rank does beside its rows, such as a root
    that reads input, cancels when the ranks change their pieces.
    """
    pair = start.two(pieces, iterations)
    if ignores_pieces(*pair):
        turned = start.two([*pieces[1:], pieces[0]], iterations)
        if ignores_changes(pair, turned):
            raise ConfigError(_ignored(start.request, pair, turned))
    return pair


def _states(run_dir: Path, rows: Sequence[int]) -> str:
    """Return the clause on the ranks of a run that was ended, by the pages of its monitor."""
    try:
        pages = {page.rank: page for page in figures_of(run_dir, JOB)}
    except MonitorError:
        pages = {}
    stated = []
    for rank, piece in list(enumerate(rows))[:_DESCRIBED]:
        page = pages.get(rank)
        early = page is None or page.state is MonitorState.STARTING
        running = "had not left MPI_Init" if early else "was running"
        state = "had ended" if page is not None and page.state is MonitorState.FINALIZED else running
        stated.append(f"rank {rank} with {counted(piece, 'row')} {state}")
    return f"; {', '.join(stated)}"


def _long_enough(start: _Starter, rows: Sequence[int]) -> tuple[ShortRun, ShortRun]:
    """Return two runs that differ by enough CPU time, with more iterations than asked for if necessary."""
    asked = start.request.template.short_iterations
    iterations = asked
    while True:
        short, long = start.two(rows, iterations)
        growth_s = cpu_growth_s(short, long)
        limit = asked * _MOST_TIMES
        # A long start, such as that of a root that reads input, varies by more than a short loop takes.
        enough_s = max(ENOUGH_CPU_S, 2 * LEAST_PART * max(rank.t_cpu_s for rank in long.ranks))
        if growth_s >= enough_s or iterations >= limit or long.wall_s > _LONGEST_S:
            return short, long
        times = min(max(1.5 * enough_s / max(growth_s, 1e-3), 2.0), _LONGEST_S / max(long.wall_s, 1e-2))
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


def _ignored(request: BenchmarkRequest, *pairs: tuple[ShortRun, ShortRun]) -> str:
    took = [
        f"with {', '.join(map(str, long.rows))} rows its ranks took "
        + ", ".join(f"{each_s:.2f} s" for each_s in growths_s(short, long))
        for short, long in pairs
    ]
    return (
        f"{request.template.source}: the program ignores its pieces: {', and '.join(took)} of CPU time for "
        f"{pairs[0][1].iterations - pairs[0][0].iterations} iterations; check how the command passes rows, or write "
        "`pieces: even` if it always divides evenly"
    )
