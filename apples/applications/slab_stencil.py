"""The common part of all our slab codes as AppLeS templates: deployment, records, benchmark, limits.

Codes that are cut into slabs along one axis and exchange ghost planes with each neighbour in each iteration differ
only in the size of a row and the names of their options (`SlabProgram`). A stencil with one ghost plane only gives its
entry in the application's registry (Wolski et al. 2000, §5). A foreign code would implement
`apples.model.template.Template` by itself. Nothing here plans or runs anything.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apples.errors import ConfigError
from apples.model.plan import RankObservation
from apples.model.template import Benchmark, Checkpointing, Workload
from nws.base.ownpython import OWN_PYTHON
from stencil_app.errors import CheckpointError
from stencil_app.options import Option, Value
from stencil_app.settings import CHECKPOINT_EVERY, ITERATIONS, RESIDUAL_EVERY

if TYPE_CHECKING:
    from stencil_app.physics import Physics

#: Option of the program that only the agent sets: the file to resume from.
RESTART = "restart"

#: Resident memory of a rank beside its field (interpreter, MPI, kernels); `bytes_fixed` of the benchmark,
#: measured on Linux x86-64 as 168-171 MB.
PROCESS_BYTES = 175e6


class SlabProgram(ABC):
    """`apples.model.template.Template` of one code of `stencil-app`.

    words : its subcommand.  warm : the name of its kernels for `stencil-app warm`
    mesh : options that a row and its price depend on.  run : further ones, of a run
    paths : options that name files, checked by the application
    priced : options of `run` that the price of a row depends on
    kept_as : the application's name in checkpoints
    """

    name: str
    summary: str
    words: tuple[str, ...]
    warm: str
    mesh: tuple[Option, ...]
    run: tuple[Option, ...]
    paths: tuple[str, ...]
    priced: tuple[Option, ...] = ()
    kept_as: str
    moves_rows = True

    @abstractmethod
    def workload(self, size: int, options: Mapping[str, str]) -> Workload:
        """Return the demands of a run (`apples.model.template.Template.workload`)."""

    @abstractmethod
    def parameters(self, size: int, options: Mapping[str, str]) -> Mapping[str, Value]:
        """Return all parameters of the answer, without the number of iterations, as checkpoints keep them."""

    def check(self, options: Mapping[str, str]) -> None:
        """Raise `ConfigError` for unknown or illegal options (`apples.model.template.Template.check`)."""
        legal = self._legal
        problems = [
            f"{self.name}: unknown option {name!r}; legal are {', '.join(legal)}"
            for name in options
            if name not in legal
        ]
        for option in self._numbers:
            if option.name in options:
                try:
                    option.parse(options[option.name])
                except ValueError:
                    problems.append(
                        f"{self.name}: option {option.name}: got {options[option.name]!r}; "
                        f"legal is {option.legal} (default {option.default})"
                    )
        if "checkpoint_every" in options and "checkpoint" not in options:
            problems.append(f"{self.name}: option checkpoint_every: needs checkpoint=FILE, where to write to")
        if problems:
            raise ConfigError(problems)

    def warm_command(self) -> list[str]:
        """Return the command that compiles the kernels of every rank into the cache; run it once on a machine."""
        return [*OWN_PYTHON, "-m", "stencil_app", "warm", "--say", self.warm]

    def command(self, rows: Sequence[int], run_dir: Path, options: Mapping[str, str]) -> list[str]:
        """Return program and arguments of every rank; they run in the environment of this interpreter."""
        own = ["--slabs", ",".join(map(str, rows)), "--record-dir", str(run_dir)]
        return [*self._program(), *own, *self._flags(options, (*self._legal, RESTART))]

    def checkpointed(self, options: Mapping[str, str], keep: Checkpointing) -> dict[str, str]:
        """Return options that keep checkpoints (`apples.model.template.Restartable.checkpointed`)."""
        more = {"checkpoint": str(keep.file)}
        if keep.every is not None:
            more["checkpoint_every"] = str(keep.every)
        if keep.restart:
            more[RESTART] = str(keep.file)
        kept = {name: text for name, text in options.items() if name not in ("checkpoint_every", RESTART)}
        return {**kept, **more}

    def checkpoint_bytes(self, size: int, options: Mapping[str, str]) -> float:
        """Return the bytes of one of the two fields in memory."""
        return size * self.workload(size, options).bytes_per_row / 2.0

    def iterations_in(
        self, file: Path, size: int, options: Mapping[str, str], *, verified: bool = True
    ) -> int:
        """Return the iterations in a checkpoint (`apples.model.template.Restartable.iterations_in`)."""
        from stencil_app.files.checkpoint import mismatches, read_header, read_rows

        try:
            header = read_header(file)
            wrong = mismatches(file, header, self.kept_as, self.parameters(size, options))
            if wrong:
                raise CheckpointError(wrong)
            if verified:
                read_rows(file, header, _Unkept(header.mesh[0]), 0)
        except CheckpointError as error:
            raise ConfigError(_of_checkpoint(error.problems)) from None
        wanted = self.workload(size, options).iterations
        if header.iteration > wanted:
            raise ConfigError(
                f"--checkpoint {file}: it is at iteration {header.iteration} already and the run ends at {wanted}; "
                f"give -s iterations={header.iteration} or more"
            )
        return header.iteration

    def benchmark_command(
        self, output: Path, options: Mapping[str, str], rows: int | None = None
    ) -> list[str]:
        """Return program and arguments of every rank of a benchmark, result in `output`.

        rows : slab height to measure at, None for the application's choice. Seconds per row depend on it
            where slabs of some heights fit the last-level cache and others do not.
        """
        names = [option.name for option in (*self.mesh, *self.priced)]
        height = [] if rows is None else ["--rows", str(rows)]
        return [*self._program(), "--benchmark", str(output), *height, *self._flags(options, names)]

    def read_benchmark(self, output: Path, wall_s: float) -> Benchmark:
        """Return the result of a benchmark (`apples.model.template.Template.read_benchmark`)."""
        try:
            document = json.loads(output.read_text())
            return Benchmark(
                ranks=int(document["ranks"]),
                seconds_per_row=float(document["seconds_per_row"]),
                startup_s=max(0.0, wall_s - float(document["measured_s"])),
                bytes_per_row=float(document["bytes_per_row"]),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{output}: no readable benchmark of {self.name} ({type(error).__name__}: {error}); "
                f"it is written by stencil-app {' '.join(self.words)} --benchmark FILE; run it again"
            ) from None

    def observations(self, run_dir: Path) -> tuple[RankObservation, ...]:
        """Return the record of every rank, in rank order (`apples.model.template.Template.observations`)."""
        found = (_observation(path) for path in sorted(run_dir.glob("rank-*.json")))
        return tuple(one for one in found if one is not None)

    @property
    def _numbers(self) -> tuple[Option, ...]:
        return (*self.mesh, *self.run)

    @property
    def _legal(self) -> tuple[str, ...]:
        return (*(option.name for option in self._numbers), *self.paths)

    def _value(self, option: Option, options: Mapping[str, str]) -> Value:
        return option.parse(options.get(option.name, option.default))

    def _program(self) -> list[str]:
        return [*OWN_PYTHON, "-m", "stencil_app", *self.words]

    def _flags(self, options: Mapping[str, str], names: Sequence[str]) -> list[str]:
        flags: list[str] = []
        for name in names:
            if name in options:
                # Ranks may start in another directory than the user's.
                is_path = name in self.paths or name == RESTART
                text = str(Path(options[name]).absolute()) if is_path else options[name]
                flags += ["--" + name.replace("_", "-"), text]
        return flags


class SlabStencil(SlabProgram):
    """`apples.model.template.Template` of one physics of `stencil-app`.

    Options are those of the physics (the mesh of a row, boundary, ...), and iterations, residual_every,
    checkpoint, checkpoint_every, output, with the application's own defaults and limits.
    """

    run = (ITERATIONS, RESIDUAL_EVERY, CHECKPOINT_EVERY)
    paths = ("checkpoint", "output")
    priced = (RESIDUAL_EVERY,)

    def __init__(self, physics: Physics) -> None:
        self.physics = physics
        self.name = self.warm = self.kept_as = physics.name
        self.words = (physics.name,)
        self.summary = physics.summary
        self.mesh = physics.options

    def parameters(self, size: int, options: Mapping[str, str]) -> Mapping[str, Value]:
        """Return the parameters of the answer (`SlabProgram.parameters`)."""
        return {"size": size, **{option.name: self._value(option, options) for option in self.mesh}}

    def workload(self, size: int, options: Mapping[str, str]) -> Workload:
        """Return demands with one ghost plane to each neighbour in each iteration."""
        iterations = int(self._value(ITERATIONS, options))
        mesh = {o.name: self._value(o, options) for o in self.mesh}
        plane_bytes = self.physics.layout(mesh).message_bytes
        return Workload(
            application=self.name,
            size=size,
            iterations=iterations,
            messages=float(iterations),
            bytes_exchanged=float(iterations * plane_bytes),
            bytes_per_row=2.0 * plane_bytes,
            bytes_fixed=PROCESS_BYTES + 4.0 * plane_bytes,
            min_rows=1,
        )


class _Unkept:
    """Rows that are read for their checksums only."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return self._rows

    def __setitem__(self, row: int, values: object) -> None:
        """Discard the values."""


def _of_checkpoint(problems: Sequence[str]) -> list[str]:
    """Return the application's problems in the words of our own options."""
    found = []
    for problem in problems:
        text = problem.replace("without --restart", "without --resume").replace("--restart ", "--checkpoint ")
        text = re.sub(r"give --(?:size|nz) (\S+)$", r"give \1 as SIZE", text)
        found.append(re.sub(r"give --(\w+) (\S+)$", r"give -s \1=\2", text))
    return found


def _observation(path: Path) -> RankObservation | None:
    try:
        record: dict[str, Any] = json.loads(path.read_text())
        return RankObservation(
            rank=int(record["rank"]),
            host=str(record["host"]),
            rows=int(record["rows"]),
            iterations=int(record["iterations"]),
            setup_s=float(record["setup_s"]),
            compute_s=float(record["compute_s"]),
            communicate_s=float(record["exchange_s"]),
            wait_s=float(record["reduce_s"]),
            total_s=float(record["total_s"]),
            checkpoint_s=float(record.get("checkpoint_s", 0.0)),
            checkpoints=int(record.get("checkpoints", 0)),
        )
    except (OSError, ValueError, KeyError, TypeError):
        # The contract: a rank that was killed before it could write is missing, and the launcher says why.
        return None
