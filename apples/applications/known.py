"""An application known by its model only: demands without a program.

A published code such as PMHD3D can be planned for (`--dry-run`) and run on the mock grid from its figures alone. On
real hosts there is no program to start, and the error reports that. Source of such figures: the grid file.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from apples.errors import ConfigError, LaunchError
from apples.model.plan import RankObservation
from apples.model.template import Benchmark, Checkpointing, Workload


class KnownByModel:
    """`apples.model.template.Template` of an application without a program; it has no options.

    workload_of : size → demands of a run of that size.  source : their origin, for messages
    """

    moves_rows = True

    def __init__(self, name: str, workload_of: Callable[[int], Workload], source: str) -> None:
        self.name = name
        self.summary = f"known by its model only ({source})"
        self._workload_of = workload_of

    def check(self, options: Mapping[str, str]) -> None:
        """Raise `ConfigError` for any option: there are none (`apples.model.template.Template.check`)."""
        if options:
            raise ConfigError(f"{self.name} is {self.summary} and takes no options; got {', '.join(options)}")

    def workload(self, size: int, options: Mapping[str, str]) -> Workload:
        """Return the stated demands (`apples.model.template.Template.workload`)."""
        return self._workload_of(size)

    def warm_command(self) -> list[str]:
        """Return no command: there is nothing to compile."""
        return []

    def command(self, rows: Sequence[int], run_dir: Path, options: Mapping[str, str]) -> list[str]:
        """Return a name for the mock grid; there is no program."""
        return [self.name, ",".join(map(str, rows))]

    def benchmark_command(
        self, output: Path, options: Mapping[str, str], rows: int | None = None
    ) -> list[str]:
        """Return the command for any arguments alike: the cost of a row is fixed."""
        return [self.name, "benchmark"]

    def read_benchmark(self, output: Path, wall_s: float) -> Benchmark:
        """Raise `LaunchError`: no program ran that could have written one."""
        raise LaunchError(f"{self.name} is {self.summary}; it has no program to benchmark on real hosts")

    def observations(self, run_dir: Path) -> tuple[RankObservation, ...]:
        """Return no records: there is no program."""
        return ()

    def checkpointed(self, options: Mapping[str, str], keep: Checkpointing) -> dict[str, str]:
        """Return no options: simulated runs take checkpoints from their launch request."""
        return dict(options)

    def checkpoint_bytes(self, size: int, options: Mapping[str, str]) -> float:
        """Return the bytes of one of the two fields in memory
        (`apples.model.template.Restartable.checkpoint_bytes`).
        """
        return size * self._workload_of(size).bytes_per_row / 2.0

    def iterations_in(
        self, file: Path, size: int, options: Mapping[str, str], *, verified: bool = True
    ) -> int:
        """Raise `ConfigError`: no program wrote a file."""
        raise ConfigError(
            f"--checkpoint {file}: {self.name} is {self.summary} and has no checkpoints to read"
        )
