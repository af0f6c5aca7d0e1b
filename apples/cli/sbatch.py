"""Scripts as `sbatch` takes them: their `#SBATCH` lines give options of `apples submit`; the command line's go before.

As Slurm does, lines are read up to the first command of the script, a `#` ends a line's options, and later lines
replace earlier ones. A line that cannot be obeyed is a problem with file and line, never ignored. Source: sbatch(1).
"""

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from apples.cli.optiongroups import Problems

_MARK = "#SBATCH"
#: Longest script whose lines are read, bytes.
_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchScript:
    """A script with `#SBATCH` lines. words : the command that runs it.  lines : number → options of each such line"""

    path: Path
    words: tuple[str, ...]
    lines: Mapping[int, str]

    def options(
        self, command: click.Command, check: Callable[[Mapping[str, Any], Problems], None]
    ) -> list[str]:
        """Return the words of all lines; raise `ConfigError` with the problems of each line.

        Args:
            command: whose options are legal.
            check: appends problems of one line's values that their types do not show.
        """
        options = [p for p in command.params if isinstance(p, click.Option) and p.expose_value]
        # Without arguments, the parser returns words that are no options.
        command, words, problems = click.Command(command.name, params=[*options]), list[str](), Problems()
        for number, text in self.lines.items():
            of_line = Problems()
            try:
                words += (of_words := list(_words(text)))
                check(dict(_values(command, of_words)), of_line)
            except click.NoSuchOption as error:
                of_line.append(f"{error.option_name}: no such option of a job here")
            except click.UsageError as error:
                of_line.append(error.format_message())
            problems += [f"{self.path}:{number}: {problem}" for problem in of_line]
        if problems:
            flags = [next(word for word in option.opts if word.startswith("--")) for option in options]
            problems.append(
                f"legal in {_MARK} lines are {', '.join(sorted(flags))}; remove the others, or submit it to Slurm"
            )
        problems.check()
        return words


def _values(command: click.Command, words: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield the parameters of a command that words set; raise `click.UsageError`."""
    context = click.Context(command)
    opts, others, order = command.make_parser(context).parse_args(list(words))
    if others or not all(parameter.expose_value for parameter in order):
        raise click.UsageError(f"expected options of a job; got {' '.join(words)}")
    for parameter in order:
        yield parameter.name or "", parameter.type_cast_value(context, opts[parameter.name or ""])


def _words(text: str) -> Iterator[str]:
    """Yield the words of a line up to a comment, as a shell splits them; raise `click.UsageError`."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        for word in lexer:
            if word.startswith("#"):
                return
            yield word
    except ValueError as error:
        raise click.UsageError(f"{text.strip()}: {error}") from None


def read_script(name: str, directory: Path) -> BatchScript | None:
    """Return the script that a command's first word names, or None if it is another program.

    Args:
        name: as `sbatch` takes it, from this directory on.
        directory: in which the job starts, where its program would be searched.
    """
    for path in (Path(name).absolute(), (directory / name).absolute()):
        if path.is_file() and os.access(path, os.R_OK):
            with path.open(encoding="utf-8", errors="replace") as file:
                first, *texts = file.read(_LONGEST).splitlines() or [""]
            if first.startswith("#!") and (lines := dict(_lines(texts))):
                # Slurm runs scripts that may not be executed, too.
                interpreter = () if os.access(path, os.X_OK) else first[2:].split(maxsplit=1)
                return BatchScript(path=path, words=(*interpreter, str(path)), lines=lines)
    return None


def _lines(texts: list[str]) -> Iterator[tuple[int, str]]:
    """Yield number and options of the marked lines before the first command; `texts` begin with line 2."""
    for number, text in enumerate(texts, 2):
        if text.strip() and not text.startswith("#"):
            return
        if text.startswith(_MARK) and text[len(_MARK) :][:1].isspace():
            yield number, text[len(_MARK) :]
