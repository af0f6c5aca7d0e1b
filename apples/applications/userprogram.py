"""A user's own MPI program as a template, from its application file.

The program is started as it is. Its costs come from short runs under the monitor (`apples.platforms.programcosts`), and
the observations of a run from the monitor's pages; here is only how to start it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from apples.applications.appfile import ApplicationFile, read_application
from apples.applications.rendering import box_variables, variables
from apples.errors import ConfigError, LaunchError
from apples.model.cut import Axes, Box, slab_boxes
from apples.model.plan import RankObservation
from apples.model.template import Benchmark, Deployment, Workload
from nws.base.reader import did_you_mean
from nws.base.yamltree import Location

#: Option that every program has.
ITERATIONS = "iterations"

#: Of the width of a row: products with any size stay whole numbers of 64 bits.
_MOST_DIGITS = 9


class UserProgram:
    """`apples.model.template.Template` and `Deployable` of the program of an application file."""

    def __init__(self, file: ApplicationFile) -> None:
        self._file = file
        self.name, self.source, self.even = file.entry.name, file.path, file.even
        self.summary = f"the user's own program ({file.path})"
        self.short_size = file.entry.benchmark.size
        self.moves_rows, self.restarts = file.entry.moves_rows, file.entry.restart is not None

    @staticmethod
    def read(path: str | Path) -> UserProgram:
        """Return the program of an application file; raise `ConfigError` with every problem of the file."""
        return UserProgram(read_application(path))

    def check(self, options: Mapping[str, str]) -> None:
        """Raise `ConfigError` for unknown or illegal options (`apples.model.template.Template.check`)."""
        legal = [ITERATIONS, *self._file.entry.parameters]
        problems = [
            f"{self.name}: unknown option {name!r}{did_you_mean(name, legal)}; legal are {', '.join(legal)}"
            for name in options
            if name not in legal
        ]
        problems += [
            f"{self.name}: option {name}: got {text!r}; expected {what}"
            for name, text in options.items()
            if name in legal and (what := self._expected(name, text))
        ]
        if problems:
            raise ConfigError(problems)
        self._axes(options)

    def workload(self, size: int, options: Mapping[str, str]) -> Workload:
        """Return the limits of the file; messages and memory are measured (`apples.platforms.programcosts`)."""
        entry = self._file.entry
        return Workload(
            application=self.name,
            size=size,
            iterations=self._iterations(options),
            bytes_per_row=entry.memory_per_row,
            min_rows=entry.min_rows,
            max_rows=entry.max_rows,
            row=entry.row,
            bytes_shared=entry.memory_shared,
            limits=entry.limits,
            axes=self._axes(options),
        )

    def command(self, rows: Sequence[int], run_dir: Path, options: Mapping[str, str]) -> list[str]:
        """Return program and arguments of every rank (`apples.model.template.Template.command`)."""
        return list(self.deployment(rows, run_dir, options).command)

    def warm_command(self) -> list[str]:
        """Return no command: nothing is compiled."""
        return []

    def benchmark_command(
        self, output: Path, options: Mapping[str, str], rows: int | None = None
    ) -> list[str]:
        """Return words that differ where the cost of a row may differ; real ranks are started by `deployment`."""
        pieces = [max(rows or 1, self._file.entry.min_rows)]
        start = self.deployment(pieces, Path("RUN_DIR"), self.short(options))
        texts = [f"{path.name}={text}" for path, text in start.files.items()]
        texts += [f"{name}={text}" for name, text in start.environment.items()]
        return [*start.command[:1], str(self._file.directory), *start.command, *texts]

    def read_benchmark(self, output: Path, wall_s: float) -> Benchmark:
        """Raise `LaunchError`: the program writes no benchmark, the monitor measures it."""
        raise LaunchError(f"{self.name} is {self.summary} and writes no benchmark")

    def observations(self, run_dir: Path) -> tuple[RankObservation, ...]:
        """Return no records: the program writes none, the monitor observes it."""
        return ()

    def short(self, options: Mapping[str, str], iterations: int | None = None) -> dict[str, str]:
        """Return options of a short run (`apples.model.template.Deployable.short`)."""
        count = self._file.entry.benchmark.iterations if iterations is None else iterations
        return {**options, ITERATIONS: str(count)}

    def deployment(
        self,
        rows: Sequence[int],
        run_dir: Path,
        options: Mapping[str, str],
        *,
        boxes: Sequence[Box] = (),
        scratch: Path | None = None,
        done: int = 0,
    ) -> Deployment:
        """Return the start of a run on these pieces (`apples.model.template.Deployable.deployment`)."""
        values = {**variables(rows, self._iterations(options), run_dir), **self._parameters(options)}
        if (axes := self._axes(options)) is not None:
            values |= box_variables(axes.cut, boxes or slab_boxes(rows, axes.width))
        entry, directory = self._file.entry, scratch or self._file.directory
        if done:
            if (path := self._checkpoints().get(done)) is None:
                raise LaunchError(f"{directory}: the checkpoint of {done} iterations is gone")
            values |= {"done": done, "checkpoint": str(path)}
        unused = {"axes"} if done else {"axes", "restart"}
        texts = {at: text.render(values) for at, text in self._file.templates.items() if at[0] not in unused}
        command = _words(texts, ("command",), len(entry.command))
        if done and entry.restart is not None:
            command = _words(texts, ("restart", "command"), len(entry.restart.command))
        return Deployment(
            command=self._resolved(command),
            directory=directory,
            mpi=entry.mpi,
            progress=entry.progress,
            files={directory / name: texts["files", name] for name in entry.files},
            environment={name: texts["environment", name] for name in entry.environment},
            prepare=() if done else self._commands(texts, "prepare", entry.prepare),
            finish=self._commands(texts, "finish", entry.finish),
        )

    def checkpoints(self) -> dict[int, tuple[int, int]]:
        """Return the program's checkpoints (`apples.model.template.SelfCheckpointing.checkpoints`)."""
        found = {}
        for done, path in self._checkpoints().items():
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                found[done] = (status.st_size, status.st_mtime_ns)
        return found

    def _checkpoints(self) -> dict[int, Path]:
        restart, directory = self._file.entry.restart, self._file.directory
        if restart is None or not directory.is_dir():
            return {}
        matches = ((re.fullmatch(restart.checkpoint, path.name), path) for path in directory.iterdir())
        return {int(match[1]): path for match, path in matches if match and (match[1] or "").isdecimal()}

    @property
    def directory(self) -> Path:
        """Return the directory in which the program starts."""
        return self._file.directory

    def _commands(
        self, texts: Mapping[Location, str], key: str, commands: Sequence[Sequence[str]]
    ) -> tuple[tuple[str, ...], ...]:
        several = (key, 0) not in texts
        places: list[Location] = [(key, i) if several else (key,) for i in range(len(commands))]
        return tuple(
            self._resolved(_words(texts, at, len(command)))
            for at, command in zip(places, commands, strict=True)
        )

    def _resolved(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command with a program that is a relative path made absolute; a bare name is searched in PATH."""
        program, *arguments = words
        if os.sep in program:
            program = os.path.normpath(self._file.path.absolute().parent / program)
        return (program, *arguments)

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
        """Return the file's parameters, changed by the user's options to values of the same types."""
        found: dict[str, Any] = {}
        for name, default in self._file.entry.parameters.items():
            text = options.get(name)
            found[name] = default if text is None else _read(default, text)
        return found

    def _expected(self, name: str, text: str) -> str:
        """Return the legal values of an option in words; empty if `text` is one."""
        default = 1 if name == ITERATIONS else self._file.entry.parameters[name]
        try:
            value = _read(default, text)
        except ValueError:
            kinds = {bool: "true or false", int: "a whole number", float: "a number"}
            return kinds[type(default)] if name != ITERATIONS else "a whole number, 1 or more"
        return "a whole number, 1 or more" if name == ITERATIONS and value < 1 else ""

    def _iterations(self, options: Mapping[str, str]) -> int:
        return int(options.get(ITERATIONS, self._file.entry.iterations))


def _words(texts: Mapping[Location, str], at: Location, count: int) -> tuple[str, ...]:
    return tuple(texts[*at, index] for index in range(count))


def _read(default: object, text: str) -> Any:
    """Return `text` as a value of the type of `default`; raise `ValueError`."""
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    if isinstance(default, int):
        return int(text)
    return float(text) if isinstance(default, float) else text
