"""The command `stencil-app iterations`: the iterations in a checkpoint, if it is of a run with these parameters.

For AppLeS, which resumes runs (`checkpoint.read` of application files). Its errors use the options of `apples-run`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stencil_app.errors import CheckpointError
from stencil_app.options import Option, Value, parse_all

if TYPE_CHECKING:
    from stencil_app.mesh.layout import Array
    from stencil_app.physics import Physics


class _ForChecksums:
    """Rows that are read for their checksums only."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return self._rows

    def __setitem__(self, row: int, values: Array) -> None:
        """Discard the values."""


def iterations_command(registry: Mapping[str, Physics]) -> click.Command:
    """Return the command for these physics and the problems of magnetohydrodynamics."""

    @click.command(name="iterations")
    @click.option("--verify", type=click.Choice(["all", "head"]), default="all", help="How much is read.")
    @click.argument("application")
    @click.argument("file", type=click.Path(path_type=Path))
    @click.argument("parameters", metavar="[NAME=VALUE]...", nargs=-1)
    def iterations(application: str, file: Path, parameters: tuple[str, ...], verify: str) -> None:
        """Print the iterations in the checkpoint FILE of APPLICATION (heat, mhd/blast, …).

        Fails if the file is damaged, or of a run with other parameters; those not given have their defaults.
        """
        texts = dict(text.split("=", 1) for text in parameters)
        name, slash, problem = application.partition("/")
        if slash:
            from stencil_app.mhd.case import entry

            expected = {"problem": problem, **_values(entry(problem).options, texts)}
        else:
            expected = {"size": int(texts["size"]), **_values(registry[name].options, texts)}
        click.echo(_iterations(file, name, expected, verified=verify == "all"))

    return iterations


def _values(options: Sequence[Option], texts: Mapping[str, str]) -> dict[str, Value]:
    values, problems = parse_all(options, texts)
    if problems:
        raise click.UsageError("; ".join(problems))
    return values


def _iterations(file: Path, name: str, parameters: Mapping[str, Value], *, verified: bool) -> int:
    from stencil_app.files.checkpoint import mismatches, read_header, read_rows

    try:
        header = read_header(file)
        wrong = mismatches(file, header, name, parameters)
        if wrong:
            raise CheckpointError(wrong)
        if verified:
            read_rows(file, header, _ForChecksums(header.mesh[0]), 0)
    except CheckpointError as error:
        for problem in error.problems:
            click.echo(_of_apples(problem), err=True)
        raise click.exceptions.Exit(1) from None
    return header.iteration


def _of_apples(problem: str) -> str:
    """Return a problem of `--restart` in the options of `apples-run`."""
    text = problem.replace("without --restart", "without --resume").replace("--restart ", "--checkpoint ")
    text = re.sub(r"give --(?:size|nz) (\S+)$", r"give \1 as SIZE", text)
    return re.sub(r"give --(\w+) (\S+)$", r"give -s \1=\2", text)
