"""What an application class tells the agent: its demands, its limits, its price, and how it is deployed.

An AppLeS template is the pluggable part of the agent (Wolski et al. 2000, §2.1, §5): planning, launching,
history and calibration are written against `Template` and never name an application. A new stencil code
plugs in by giving its model inputs (`workload`), constraints and deployment; see `apples.applications`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from apples.model.grid import Host
from apples.model.plan import RankObservation


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearConstraint:
    """Σ over ranks of coefficients[host of rank] · rows(rank) ≤ bound; hosts not named count 0."""

    name: str
    coefficients: Mapping[str, float]
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What one run of one size demands; the inputs of the performance model (§3.1).

    size : rows to place, whole.  iterations : sweeps over the mesh
    messages : messages to one neighbour over the whole run (M)
    bytes_exchanged : bytes to one neighbour over the whole run (MB, in bytes)
    bytes_per_row, bytes_fixed : memory of one rank = bytes_fixed + bytes_per_row · rows (BMmem)
    max_rows : largest slab one rank may hold (array limit), None for no limit
    min_rows : smallest slab one rank may hold
    constraints : further linear constraints
    row : what the user calls a row, for messages
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """Over_i of the performance model, in seconds; the same for every rank of a run (§3.1).

    constant_s + per_row_s·size + per_rank_s·P + per_rank2_s·P²; `error_s` is the standard deviation of
    what remains, `source` says where the numbers come from.
    """

    constant_s: float = 0.0
    per_row_s: float = 0.0
    per_rank_s: float = 0.0
    per_rank2_s: float = 0.0
    error_s: float = 0.0
    source: str = "none"

    def seconds(self, size: int, ranks: int) -> float:
        """Overhead of a run of `size` rows on `ranks` ranks, never negative."""
        value = (
            self.constant_s + self.per_row_s * size + self.per_rank_s * ranks + self.per_rank2_s * ranks**2
        )
        return max(0.0, value)


#: The paper's fit over 106 runs (§3.1): 16 - 1.5·size/1000 + 0.094·P².
PAPER_OVERHEAD = Overhead(
    constant_s=16.0, per_row_s=-1.5e-3, per_rank2_s=0.094, source="Wolski et al. 2000, §3.1"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What the application costs on dedicated machines: benchmarks by CPU type, and the overhead.

    seconds_per_row : CPU type → ranks sharing the host → seconds for one row and one iteration (BM).
        A count that was not measured takes the value of the next smaller one that was.
    host_factors : host → how much longer it takes than its type; hosts that are not named take 1
    communication : seconds that ranks wait for an exchange, over those that links and messages would take: less than 1
        for codes that compute meanwhile
    start_cpu_s : CPU seconds that a rank takes until its first iteration, for which all wait; on an idle CPU it is part
        of the overhead, on a busy one it takes longer
    message_cpu_s : CPU seconds that a rank takes for each of its messages M, beyond its rows: a rank that seldom has a
        CPU is late for its neighbours, and the run waits
    reduction_hops : latencies of the slowest link between its ranks that a run waits for with each of M, beyond the
        exchanges: the reduction that ends an iteration crosses it, there and back
    """

    seconds_per_row: Mapping[str, Mapping[int, float]]
    overhead: Overhead = field(default_factory=Overhead)
    host_factors: Mapping[str, float] = field(default_factory=dict)
    communication: float = 1.0
    start_cpu_s: float = 0.0
    message_cpu_s: float = 0.0
    reduction_hops: float = 0.0

    def row_seconds(self, cpu_type: str, ranks: int, host: str = "") -> float:
        """BM for a host of `cpu_type` that runs `ranks` ranks; raises `KeyError` for an unknown type.

        host : its name, if it may have a factor of its own
        """
        table = self.seconds_per_row[cpu_type]
        known = [r for r in table if r <= ranks] or [min(table)]
        return table[max(known)] * self.host_factors.get(host, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """What a short dedicated run on one host measured.

    ranks : ranks that ran at once on the host.  seconds_per_row : one row, one iteration
    startup_s : wall time of the launch that was not iterations
    bytes_per_row : resident memory one more row takes
    """

    ranks: int
    seconds_per_row: float
    startup_s: float
    bytes_per_row: float


def _silent(line: str) -> None:
    """Says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRequest:
    """One benchmark to run: `ranks` ranks on `host`, slabs of `rows` rows each (caches make that matter).

    notify : takes what the user should know meanwhile, for instance that something is compiled first
    """

    template: Template
    options: Mapping[str, str]
    host: Host
    ranks: int
    rows: int
    notify: Callable[[str], None] = _silent


class Template(Protocol):
    """An application class the agent can run. `options` are the user's, already checked by `check`."""

    name: str
    summary: str

    def check(self, options: Mapping[str, str]) -> None:
        """Raise `ConfigError` naming every unknown or illegal option and what is legal."""

    def workload(self, size: int, options: Mapping[str, str]) -> Workload:
        """Demands of a run of `size` rows."""

    def command(self, rows: Sequence[int], run_dir: Path, options: Mapping[str, str]) -> list[str]:
        """Program and arguments of every rank; rank i owns `rows[i]` rows. Records go to `run_dir`."""

    def warm_command(self) -> list[str]:
        """Program to run once before the first launch on a machine (it may compile); empty for none.

        What it says on stderr while it runs is passed on to the user, line by line.
        """

    def benchmark_command(
        self, output: Path, options: Mapping[str, str], rows: int | None = None
    ) -> list[str]:
        """Program and arguments of every rank of a benchmark on slabs of `rows` rows, result in `output`."""

    def read_benchmark(self, output: Path, wall_s: float) -> Benchmark:
        """Result of a benchmark that took `wall_s` from launch to end; raises `ConfigError` if unreadable."""

    def observations(self, run_dir: Path) -> tuple[RankObservation, ...]:
        """What every rank recorded; ranks without a readable record are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointing:
    """How a launch keeps what it has done.

    file : written whole or not at all, and one at the end at least.  every : iterations between two, None for no more
    restart : go on from what the file holds
    """

    file: Path
    every: int | None = None
    restart: bool = False


@runtime_checkable
class Restartable(Protocol):
    """A `Template` whose runs can go on from a file, on any hosts, with the very answer of an unbroken run."""

    def checkpointed(self, options: Mapping[str, str], keep: Checkpointing) -> dict[str, str]:
        """Options for `command` that make the run keep checkpoints; its iterations still count from the start."""

    def checkpoint_bytes(self, size: int, options: Mapping[str, str]) -> float:
        """Bytes of one checkpoint of a run of `size` rows."""

    def iterations_in(
        self, file: Path, size: int, options: Mapping[str, str], *, verified: bool = True
    ) -> int:
        """Iterations that a checkpoint holds; raises `ConfigError` where it is damaged, or of another run.

        verified : read all of it; else a look at its head will do
        """
