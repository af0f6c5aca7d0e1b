"""An MPI program as an `Application`, from its application file: those shipped with this package, and users' own.

Here is how the program is started, with which options, and how its checkpoints and records are found. What the file
leaves open is measured: costs by short runs under the monitor (`apples.platforms.shortruns`), observations of a run by
the monitor's pages.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from apples.applications.appfile import ApplicationFile, read_application
from apples.applications.commandentries import Words
from apples.applications.parameters import Formula, Parameter
from apples.applications.rendering import CHECKPOINT, box_variables, variables
from apples.errors import ConfigError, LaunchError
from apples.model.cut import Axes, Box, slab_boxes
from apples.model.plan import RankObservation
from apples.model.template import Application, CheckpointFile, Checkpointing, Deployment, Workload
from nws.base import scripts
from nws.base.bounded import BoundedPattern, LimitReached
from nws.base.reader import did_you_mean
from nws.base.records import copied
from nws.base.yamltree import Location

#: Option that every program has.
ITERATIONS = "iterations"

#: Options of a program that keeps its checkpoints in a file which AppLeS names.
_OF_CHECKPOINT = {
    "checkpoint_every": Parameter(default=1, at_least=1, priced=False),
    "checkpoint": Parameter(path=True, priced=False),
}

#: Of the width of a row: products with any size stay whole numbers of 64 bits.
_MOST_DIGITS = 9


def read_program(path: str | Path) -> Application:
    """Return the program of an application file; raise `ConfigError` with every problem of the file."""
    return described(read_application(path))


def described(file: ApplicationFile) -> Application:
    """Return the program of an application file that was read."""
    program, entry = _Program(file), file.entry
    benchmark, size_bytes = entry.benchmark, program.checkpoint_bytes
    return copied(
        Application,
        program,
        name=entry.name,
        summary=entry.summary or f"the user's own program ({file.path})",
        source=file.path,
        benchmark=program.benchmark if benchmark.command else None,
        records=program.records if entry.records is not None else None,
        checkpoint=CheckpointFile(size_bytes=size_bytes, iterations_in=program.iterations_in)
        if entry.checkpoint is not None
        else None,
        restart=program.checkpoints if entry.restart is not None else None,
        warm=program.words(("warm",), entry.warm, program.values([1], Path(), {})),
        even=file.even,
        moves_rows=entry.moves_rows,
        sized=entry.sizes is not None,
        serial=bool(entry.serial),
        needs_package=entry.needs_package,
        short_iterations=benchmark.iterations or 1,
    )


class _Templates:
    """The templates of a file with the values of options and pieces filled in."""

    def __init__(self, file: ApplicationFile) -> None:
        self._file, self._name = file, file.entry.name
        kept = _OF_CHECKPOINT if file.entry.checkpoint is not None else {}
        self._options = {ITERATIONS: file.entry.iterations, **file.entry.parameters, **kept}

    def values(self, rows: Sequence[int], run_dir: Path, options: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of all templates for these pieces, without those of one part of the file."""
        parameters = self._parameters(options)
        return {
            **dict.fromkeys(CHECKPOINT),
            **variables(rows, self._iterations(options), run_dir),
            **parameters,
        }

    def words(self, at: Location, command: Words, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Return a rendered command, its program as an absolute path or a bare name that is searched in PATH.

        Lists in it are left out if a variable in them has no value.
        """
        templates, words = self._file.templates, []
        for index, word in enumerate(command):
            places = [(*at, index)] if isinstance(word, str) else [(*at, index, k) for k in range(len(word))]
            texts = [templates[place] for place in places]
            if isinstance(word, str) or not any(text.lacks_value(values) for text in texts):
                words += [text.render(values) for text in texts]
        if words and os.sep in words[0]:
            words[0] = os.path.normpath(self._file.path.absolute().parent / words[0])
        return tuple(words)

    def _deployment(
        self, command: tuple[str, ...], values: Mapping[str, Any], scratch: Path | None, *, again: bool
    ) -> Deployment:
        entry, directory = self._file.entry, scratch or self._file.directory

        def text(*at: str) -> str:
            return self._file.templates[at].render(values)

        return Deployment(
            command=command,
            directory=directory,
            mpi=entry.mpi,
            progress=entry.progress,
            files={(directory or Path()) / name: text("files", name) for name in entry.files},
            environment={name: text("environment", name) for name in entry.environment},
            prepare=() if again else self._commands("prepare", entry.prepare, values),
            finish=self._commands("finish", entry.finish, values),
        )

    def _commands(
        self, key: str, commands: Sequence[Sequence[str]], values: Mapping[str, Any]
    ) -> tuple[tuple[str, ...], ...]:
        several = (key, 0) not in self._file.templates
        places: list[Location] = [(key, i) if several else (key,) for i in range(len(commands))]
        return tuple(
            self.words(at, tuple(command), values) for at, command in zip(places, commands, strict=True)
        )

    def _axes(self, options: Mapping[str, str]) -> Axes | None:
        """Return the second axis of the program; None for slabs only. Raise `ConfigError` if its width is no number."""
        entry = self._file.entry.axes
        if entry is None:
            return None
        template = self._file.templates.get(("axes", "width"))
        text = str(entry.width) if template is None else template.render(self._parameters(options)).strip()
        if not (text.isdecimal() and len(text) <= _MOST_DIGITS and int(text) >= entry.min_width):
            raise ConfigError(
                f"{self._file.path}: axes.width: got {text!r:.40}; expected a whole number, {entry.min_width} or more, "
                f"of at most {_MOST_DIGITS} digits"
            )
        return Axes(cut=entry.cut, width=int(text), min_width=entry.min_width)

    def _parameters(self, options: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of all options but iterations."""
        return {
            name: option.value(options.get(name))
            for name, option in self._options.items()
            if name != ITERATIONS and (name not in CHECKPOINT or name in options)
        }

    def _number(self, formula: Formula, options: Mapping[str, str]) -> float:
        try:
            return formula.value(self._parameters(options))
        except (ArithmeticError, TypeError) as error:
            raise ConfigError(f"{self._file.path}: {formula.text}: has no value: {error}") from None

    def _iterations(self, options: Mapping[str, str]) -> int:
        return int(self._file.entry.iterations.value(options.get(ITERATIONS)))


class _Program(_Templates):
    """The functions of an `Application` that follow from its file."""

    def check(self, options: Mapping[str, str]) -> None:
        """See `Application`."""
        legal = list(self._options)
        problems = [
            f"{self._name}: unknown option {name!r}{did_you_mean(name, legal)}; legal are {', '.join(legal)}"
            for name in options
            if name not in legal
        ]
        for name in [name for name in options if name in legal]:
            option = self._options[name]
            try:
                option.value(options[name])
            except ValueError:
                default = "" if option.default is None else f" (default {option.default})"
                problems.append(
                    f"{self._name}: option {name}: got {options[name]!r}; legal is {option.legal}{default}"
                )
        if "checkpoint_every" in options and "checkpoint" in legal and "checkpoint" not in options:
            problems.append(
                f"{self._name}: option checkpoint_every: needs checkpoint=FILE, where to write to"
            )
        if problems:
            raise ConfigError(problems)
        self._axes(options)

    def workload(self, size: int, options: Mapping[str, str]) -> Workload:
        """See `Application`; messages and memory that the file does not state are measured."""
        entry, iterations = self._file.entry, self._iterations(options)
        if entry.sizes is not None and size not in entry.sizes:
            raise ConfigError(
                f"{self._file.path}: sizes: {self._name} has no mesh of {size}; {entry.sizes.refusal(size)}"
            )
        messages = self._number(entry.messages, options) * iterations
        return copied(
            Workload,
            entry,
            application=self._name,
            size=size,
            iterations=iterations,
            messages=messages,
            bytes_exchanged=messages * self._number(entry.message_bytes, options),
            bytes_per_row=self._number(entry.memory_per_row, options),
            bytes_fixed=self._number(entry.memory_fixed, options),
            bytes_shared=entry.memory_shared,
            axes=self._axes(options),
            ranks=self._file.ranks,
        )

    @property
    def short_size(self) -> int:
        """See `Application`: for meshes of given sizes one of them."""
        sizes, size = self._file.entry.sizes, self._file.entry.benchmark.size
        return size if sizes is None else sizes.following(size) or sizes.preceding(size) or size

    def price_key(self, options: Mapping[str, str]) -> str:
        """See `Application`: the templates that start the program, and the values of its parameters."""
        entry, values = self._file.entry, self._parameters(options)
        parts = (str(self._file.directory or ""), entry.benchmark.command or entry.command)
        more = [*entry.files.items(), *entry.environment.items()]
        chosen = [f"{name}={values[name]}" for name, p in entry.parameters.items() if p.priced and not p.path]
        return " ".join([*map(str, parts), *map(str, more), *chosen])

    def start(
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
        """See `apples.model.template.Start`."""
        values = self.values(rows, run_dir, options)
        if (axes := self._axes(options)) is not None:
            values |= box_variables(axes.cut, boxes or slab_boxes(rows, axes.width))
        if keep is not None:
            file = str(keep.file)
            values |= zip(CHECKPOINT, (file, keep.every, file if keep.restart else None), strict=True)
        entry = self._file.entry
        serial = len(rows) == 1 and bool(entry.serial)
        at: Location = ("serial",) if serial else ("command",)
        command = entry.serial if serial else entry.command
        if done and entry.restart is not None:
            if (path := self._checkpoints().get(done)) is None:
                raise LaunchError(
                    f"{scratch or self._file.directory}: the checkpoint of {done} iterations is gone"
                )
            values |= {"done": done, "checkpoint": str(path)}
            at, command = ("restart", "command"), entry.restart.command
        return self._deployment(self.words(at, command, values), values, scratch, again=bool(done))

    def benchmark(self, result: Path, options: Mapping[str, str], rows: int) -> Deployment:
        """See `Application`."""
        entry = self._file.entry
        values = self.values([max(rows, entry.min_rows)], result.parent, options) | {"result": str(result)}
        command = self.words(("benchmark", "command"), entry.benchmark.command, values)
        return Deployment(command=command, mpi=entry.mpi, directory=self._file.directory)

    def checkpoint_bytes(self, size: int, options: Mapping[str, str]) -> float:
        """See `CheckpointFile`."""
        entry = self._file.entry.checkpoint
        return 0.0 if entry is None else size * self._number(entry.bytes_per_row, options)

    def iterations_in(self, file: Path, size: int, options: Mapping[str, str], verified: bool) -> int:
        """See `CheckpointFile`: run the command that reads a checkpoint."""
        entry = self._file.entry.checkpoint
        assert entry is not None
        values = self.values([size], file.parent, options)
        values |= {"checkpoint": str(file), "verify": "all" if verified else "head"}
        command = self.words(("checkpoint", "read"), entry.read, values)
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        except OSError as error:
            why = scripts.fault(command[0]) or error.strerror
            raise ConfigError(f"checkpoint.read: {command[0]!r} cannot be run: {why}") from error
        last = done.stdout.split()[-1:]
        if done.returncode != 0 or not last or not last[0].isdecimal():
            lines = done.stderr.strip().splitlines()
            raise ConfigError(lines or f"--checkpoint {file}: {' '.join(command)} printed no iterations")
        iterations, total = int(last[0]), self._iterations(options)
        if iterations > total:
            raise ConfigError(
                f"--checkpoint {file}: it is at iteration {iterations} already and the run ends at {total}; "
                f"give -s iterations={iterations} or more"
            )
        return iterations

    def records(self, run_dir: Path) -> tuple[RankObservation, ...]:
        """See `Application`."""
        pattern = self._file.entry.records or ""
        seen = (_observation(path) for path in sorted(run_dir.glob(pattern)))
        return tuple(sorted((one for one in seen if one is not None), key=lambda one: one.rank))

    def checkpoints(self) -> dict[int, tuple[int, int]]:
        """See `Application.restart`."""
        present = {}
        for done, path in self._checkpoints().items():
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                present[done] = (status.st_size, status.st_mtime_ns)
        return present

    def _checkpoints(self) -> dict[int, Path]:
        restart, directory = self._file.entry.restart, self._file.directory or Path()
        if restart is None or not directory.is_dir():
            return {}
        paths = [path for path in directory.iterdir() if "\n" not in path.name]
        try:
            with BoundedPattern(restart.checkpoint, whole=True) as pattern:
                groups = pattern.groups([os.fsencode(path.name) for path in paths])
        except LimitReached:
            raise LaunchError(
                f"{self._file.path}: restart.checkpoint takes too long to match; write it without nested repetitions"
            ) from None
        return {int(group): path for group, path in zip(groups, paths, strict=False) if group.isdigit()}


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
