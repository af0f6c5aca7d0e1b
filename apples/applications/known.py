"""An application known by its model only: demands without a program.

A published code such as PMHD3D can be planned for (`--dry-run`) and run on the mock grid from its figures alone. On
real hosts there is no program to start, and the error reports that. Source of such figures: the grid file.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from apples.errors import ConfigError
from apples.model.template import Application, CheckpointFile, Workload


def known_by_model(name: str, workload_of: Callable[[int], Workload], source: str) -> Application:
    """Return an application without a program; it has no options.

    Args:
        name: its name.
        workload_of: size → demands of a run of that size.
        source: their origin, for messages.
    """
    summary = f"known by its model only ({source})"

    def check(options: Mapping[str, str]) -> None:
        if options:
            raise ConfigError(f"{name} is {summary} and takes no options; got {', '.join(options)}")

    def iterations_in(file: Path, size: int, options: Mapping[str, str], verified: bool) -> int:
        raise ConfigError(f"--checkpoint {file}: {name} is {summary} and has no checkpoints to read")

    return Application(
        name=name,
        summary=summary,
        check=check,
        workload=lambda size, options: workload_of(size),
        price_key=lambda options: "benchmark",
        # Simulated runs write one of two fields in memory.
        checkpoint=CheckpointFile(
            size_bytes=lambda size, options: size * workload_of(size).bytes_per_row / 2.0,
            iterations_in=iterations_in,
        ),
        moves_rows=True,
    )
