"""An application: its demands, limits and costs, and its deployment.

The pluggable part of the agent (Wolski et al. 2000, §2.1, §5): planning, launching, history and calibration are
written against `Application` and never name one. Descriptions of programs (`apples.applications`) make them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from apples.model.cut import Axes, Box
from apples.model.grid import Host
from apples.model.limits import Limits
from apples.model.plan import RankObservation
from apples.model.wholenumbers import WholeNumbers


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearConstraint:
    """Σ over ranks of coefficients[host of rank] · rows(rank) ≤ bound; hosts not named count 0."""

    name: str
    coefficients: Mapping[str, float]
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The demands of one run of one size; the inputs of the performance model (§3.1).

    size : rows to place, whole.  iterations : sweeps over the mesh
    messages : messages to one neighbour over all iterations (M)
    bytes_exchanged : bytes to one neighbour over all iterations (MB, in bytes)
    bytes_per_row, bytes_fixed : memory of one rank = bytes_fixed + bytes_per_row · rows (BMmem)
    max_rows : largest slab of one rank (array limit), None for no limit
    min_rows : smallest slab of one rank
    constraints : further linear constraints
    row : the user's name for a row, for messages
    bytes_shared : memory that the ranks of a host share, beside that of each rank
    limits : limits on the choice of hosts
    axes : how the program can be cut along a second axis, None for slabs only
    ranks : legal numbers of ranks
    """

    application: str
    size: int
    iterations: int = 1
    messages: float = 0.0
    bytes_exchanged: float = 0.0
    bytes_per_row: float = 0.0
    bytes_fixed: float = 0.0
    max_rows: int | None = None
    min_rows: int = 1
    constraints: tuple[LinearConstraint, ...] = ()
    row: str = "row"
    bytes_shared: float = 0.0
    limits: Limits = field(default_factory=Limits)
    axes: Axes | None = None
    ranks: WholeNumbers = field(default_factory=WholeNumbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """Over_i of the performance model, in seconds; the same for every rank of a run (§3.1).

    constant_s + per_row_s·size + per_rank_s·P + per_rank2_s·P²; `error_s` is the standard deviation of the residual,
    `covariance` that of the four terms in this order, `source` names the origin of the numbers.
    """

    constant_s: float = 0.0
    per_row_s: float = 0.0
    per_rank_s: float = 0.0
    per_rank2_s: float = 0.0
    error_s: float = 0.0
    source: str = "none"
    covariance: tuple[tuple[float, ...], ...] = ()

    def error(self, size: int, ranks: int) -> float:
        """Return the standard deviation of the overhead of such a run, seconds."""
        terms = np.array((1.0, size, ranks, ranks**2))
        known = terms @ np.array(self.covariance) @ terms if self.covariance else 0.0
        return math.sqrt(max(float(known), 0.0) + self.error_s**2)

    def seconds(self, size: int, ranks: int) -> float:
        """Return the overhead of a run of `size` rows on `ranks` ranks, never negative."""
        value = (
            self.constant_s + self.per_row_s * size + self.per_rank_s * ranks + self.per_rank2_s * ranks**2
        )
        return max(0.0, value)


#: The paper's fit over 106 runs (§3.1): 16 - 1.5·size/1000 + 0.094·P².
PAPER_OVERHEAD = Overhead(
    constant_s=16.0, per_row_s=-1.5e-3, per_rank2_s=0.094, source="Wolski et al. 2000, §3.1"
)


#: Costs of a row that differ by less are the same: plans made with them would hardly differ.
_SAME_COST = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The costs of the application on dedicated machines: benchmarks by CPU type, and the overhead.

    seconds_per_row : CPU type → ranks sharing the host → seconds for one row and one iteration (BM).
        A count without a measurement takes the value of the next smaller one.
    slab_rows : rows of the slabs of which these are the costs; 0 if rows cost the same in all slabs
    slab_limits : rows of the smallest and of the largest slabs that `growth` is known for
    growth : CPU type → ranks → exponents with which the seconds of a row grow with the rows of smaller and of larger
        slabs
    host_factors : host → its slowness relative to its type; hosts that are not named take 1
    communication : seconds that ranks wait for an exchange, divided by the seconds of its links and messages: less
    than 1
        for codes that compute meanwhile
    start_cpu_s : CPU seconds of a rank until its first iteration, for which all wait; on an idle CPU it is part of the
        overhead, on a busy one it takes longer
    start_row_cpu_s : the same for each of its rows: memory that is filled
    message_cpu_s : CPU seconds of a rank for each of its messages M, beyond its rows: a rank that seldom has a CPU is
        late for its neighbours, and the run waits
    reduction_hops : latencies of the slowest link between its ranks that a run waits for with each of M, beyond the
        exchanges: the reduction that ends an iteration crosses it, there and back
    row_error : standard deviation of the logarithm of all seconds per row together
    host_errors : host → the same of its own beyond that, in one run; "" → that of hosts that are not named
    """

    seconds_per_row: Mapping[str, Mapping[int, float]]
    overhead: Overhead = field(default_factory=Overhead)
    host_factors: Mapping[str, float] = field(default_factory=dict)
    communication: float = 1.0
    start_cpu_s: float = 0.0
    start_row_cpu_s: float = 0.0
    message_cpu_s: float = 0.0
    reduction_hops: float = 0.0
    row_error: float = 0.0
    host_errors: Mapping[str, float] = field(default_factory=dict)
    slab_rows: float = 0.0
    slab_limits: tuple[float, float] = (0.0, math.inf)
    growth: Mapping[str, Mapping[int, tuple[float, float]]] = field(default_factory=dict)

    def host_error(self, host: str) -> float:
        """Return the standard deviation of the logarithm of a host's seconds per row."""
        return self.host_errors.get(host, self.host_errors.get("", 0.0))

    def at(self, rows: float) -> Costs:
        """Return the costs in slabs of so many rows; those of the result do not grow."""
        if not self.slab_rows:
            return self
        low, high = self.slab_limits
        log = math.log(min(max(rows, low), high) / self.slab_rows)
        tables = {
            cpu_type: {
                ranks: seconds * math.exp(self.growth[cpu_type][ranks][log > 0] * log)
                if cpu_type in self.growth
                else seconds
                for ranks, seconds in table.items()
            }
            for cpu_type, table in self.seconds_per_row.items()
        }
        return replace(self, seconds_per_row=tables, slab_rows=0.0, growth={})

    def rows_cost_as_in(self, other: Costs) -> bool:
        """Return whether rows cost the same, within a hundredth."""
        theirs = {
            (t, n): seconds for t, table in other.seconds_per_row.items() for n, seconds in table.items()
        }
        return all(
            math.isclose(seconds, theirs.get((cpu_type, ranks), math.nan), rel_tol=_SAME_COST)
            for cpu_type, table in self.seconds_per_row.items()
            for ranks, seconds in table.items()
        )

    def row_seconds(self, cpu_type: str, ranks: int, host: str = "") -> float:
        """Return BM for a host of `cpu_type` that runs `ranks` ranks; raises `KeyError` for an unknown type.

        host : its name, if it may have a factor of its own
        """
        table = self.seconds_per_row[cpu_type]
        known = [r for r in table if r <= ranks] or [min(table)]
        return table[max(known)] * self.host_factors.get(host, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """The result of a short dedicated run on one host.

    ranks : ranks that ran at once on the host.  seconds_per_row : one row, one iteration
    startup_s : wall time of the launch outside iterations
    bytes_per_row : resident memory of one more row
    bytes_fixed : resident memory of a rank beside its rows
    setup_cpu_s : CPU seconds of a rank between MPI_Init and MPI_Finalize outside its iterations
    messages, bytes_exchanged : to one neighbour in each iteration, None where they were not measured
    counted_each : iterations that the monitor counts for each of the program's, None where that was not measured
    message_cpu_s : CPU seconds of a rank for each of these messages to another host, None where not measured
    """

    ranks: int
    seconds_per_row: float
    startup_s: float
    bytes_per_row: float
    bytes_fixed: float = 0.0
    setup_cpu_s: float = 0.0
    messages: float | None = None
    bytes_exchanged: float | None = None
    counted_each: float | None = None
    message_cpu_s: float | None = None


#: Seconds after which a short run is ended, unless it was expected to take longer.
SHORT_RUN_S = 60.0


def _silent(line: str) -> None:
    """Ignore the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRequest:
    """One benchmark to run: `ranks` ranks on `host`, slabs of `rows` rows each (because of caches).

    size : rows of all ranks together, of a program with meshes of given sizes; None if `rows` says it
    peer : host of the second rank, where a benchmark needs two ranks that exchange messages; None for `host`
    notify : receives progress messages for the user, for instance that a compilation comes first
    running : receives what runs, for each short run
    limit_s : seconds after which a short run is ended, if none before shows that it takes longer
    """

    template: Application
    options: Mapping[str, str]
    host: Host
    ranks: int
    rows: int
    size: int | None = None
    peer: Host | None = None
    notify: Callable[[str], None] = _silent
    running: Callable[[str], None] = _silent
    limit_s: float = SHORT_RUN_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointing:
    """The checkpointing of one launch.

    file : written atomically, at least once at the end.  every : iterations between two, None for none before the end
    restart : resume from the file
    """

    file: Path
    every: int | None = None
    restart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What a program needs in order to start on given pieces.

    command : program and arguments of every rank.  directory : where the ranks start, None for anywhere
    files : text of files to write before the start, by path.  environment : variables of the ranks
    prepare, finish : commands to run once, in `directory`, before the start and after a complete run
    mpi : its MPI library: "mpich", "openmpi" or "intelmpi"; None to find it from the program
    progress : regular expression whose group is the iteration in a line of its output; None for none
    """

    command: tuple[str, ...]
    directory: Path | None = None
    files: Mapping[Path, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    prepare: tuple[tuple[str, ...], ...] = ()
    finish: tuple[tuple[str, ...], ...] = ()
    mpi: str | None = None
    progress: str | None = None


class Start(Protocol):
    """How a program is started."""

    def __call__(
        self,
        rows: Sequence[int],
        run_dir: Path,
        options: Mapping[str, str],
        *,
        boxes: Sequence[Box] = (),
        scratch: Path | None = None,
        done: int = 0,
        keep: Checkpointing | None = None,
    ) -> Deployment:
        """Return the start of a run on these pieces; raise `ConfigError` if a template cannot be rendered.

        boxes : of a program that takes two axes; none for slabs of these rows
        scratch : directory to start in instead of the user's, for short runs
        done : iterations in the checkpoint of the program to go on from; 0 to begin at the beginning
        keep : the file of `CheckpointFile`
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFile:
    """Checkpoints in a file that AppLeS names: on any hosts a run goes on from it, to the answer of an unbroken run.

    size_bytes : rows and options → bytes of one checkpoint
    iterations_in : file, rows, options, and whether all of it is verified (else its head) → iterations in it; raises
        `ConfigError` if it is damaged or of another run
    """

    size_bytes: Callable[[int, Mapping[str, str]], float]
    iterations_in: Callable[[Path, int, Mapping[str, str], bool], int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Application:
    """A program that the agent can plan and run (Wolski et al. 2000, §2.1, §5); what it lacks is None.

    Options are the user's, texts by name, already checked by `check`. Records go to the run's directory.

    name, summary : for reports.  source : the file that describes it
    check : raises `ConfigError` naming every unknown or illegal option and what is legal
    workload : rows and options → demands of a run
    price_key : options → text of all that the price of a row depends on, beside its slab
    start : how it is started; None if it is known by its model only
    benchmark : file for the result, options, rows of each rank → start of its own benchmark; None if short runs under
        the monitor measure it
    records : run directory → record of every rank, in rank order; None if the monitor observes them
    checkpoint : the file that a run is told to keep
    restart : returns the checkpoints that the program writes by itself, and goes on from on any hosts: iterations in
        each → its size in bytes and time of change in ns
    warm : command to run once before the first launch on a machine (it may compile); its lines on stderr are for users
    sized : its meshes have given sizes, so that it is measured at the size of a run
    serial : on one rank it is another program, which is not measured
    even : its pieces cannot differ.  moves_rows : its ranks can move rows while they run
    needs_package : hosts need this package in the same version
    short_size, short_iterations : of a run to measure it, if the user names none
    """

    name: str
    summary: str
    check: Callable[[Mapping[str, str]], None]
    workload: Callable[[int, Mapping[str, str]], Workload]
    price_key: Callable[[Mapping[str, str]], str]
    source: Path | None = None
    start: Start | None = None
    benchmark: Callable[[Path, Mapping[str, str], int], Deployment] | None = None
    records: Callable[[Path], tuple[RankObservation, ...]] | None = None
    checkpoint: CheckpointFile | None = None
    restart: Callable[[], Mapping[int, tuple[int, int]]] | None = None
    warm: tuple[str, ...] = ()
    sized: bool = False
    serial: bool = False
    even: bool = False
    moves_rows: bool = False
    needs_package: bool = False
    short_size: int = 64
    short_iterations: int = 1

    @property
    def fewest_measured(self) -> int:
        """Return the least number of ranks in a benchmark, if the program takes it."""
        return 2 if self.serial else 1

    @property
    def measured_by_monitor(self) -> bool:
        """Return whether its costs come from short runs of the program itself."""
        return self.start is not None and self.benchmark is None

    def short(self, options: Mapping[str, str], iterations: int | None = None) -> dict[str, str]:
        """Return options of a short run of so many iterations, by default those for benchmarks."""
        count = self.short_iterations if iterations is None else iterations
        return {**options, "iterations": str(count)}
