"""Golden transcripts: commands at the margin, and below each, indented, what it answers."""

import math
import re
import textwrap
from pathlib import Path

import pytest

#: Names in rows of inputs, beside literals.
NAMES = {"nan": math.nan, "inf": math.inf}
GOLDEN = Path(__file__).with_name("golden")


def transcripts(directory):
    """Parametrize a test by `transcript`, the files of a directory of `tests/golden`."""
    files = sorted((GOLDEN / directory).glob("*.txt"))
    return pytest.mark.parametrize("transcript", [str(f.relative_to(GOLDEN)) for f in files], ids=lambda f: f)


def replay(transcript, session):
    """Return the text of a transcript with the answers of `session` to its commands.

    A command is a method of `session` and its words; NAME=VALUE are keywords. It returns lines of text, or None.
    """
    lines = []
    for line in (GOLDEN / transcript).read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            continue
        lines.append(line)
        if line and not line.startswith("#"):
            command, *words = line.split()
            options = dict(word.split("=", 1) for word in words if "=" in word)
            answer = getattr(session, command)(*(word for word in words if "=" not in word), **options)
            lines += [f"    {text}".rstrip() for text in answer or ()]
    return "\n".join(lines) + "\n"


def rows_of(name):
    """Return [inputs, answer] of each row of a file: inputs are a Python tuple at the margin, the answer is below."""
    rows = []
    for line in (GOLDEN / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("    "):
            rows[-1][1].append(line[4:])
        elif line and not line.startswith("#"):
            rows.append((line, []))
    return [[inputs, "\n".join(answer)] for inputs, answer in rows]


def recorded(name, *columns):
    """Parametrize a test by the rows of a file of `tests/golden`. It gives its answer to the fixture `answered`."""
    lines = [inputs for inputs, _ in rows_of(name)]
    rows = [(*eval(line, dict(NAMES)), (name, number)) for number, line in enumerate(lines)]
    return pytest.mark.parametrize(
        (*columns, "answered"), rows, indirect=["answered"], ids=[line[:60] for line in lines]
    )


def agrees(answer, text):
    """Return whether an answer is the recorded text, in which `…` stands for what depends on machine and versions."""
    return re.fullmatch(".*".join(map(re.escape, text.split("…"))), answer, re.DOTALL) is not None


def record(name, number, answer):
    """Write the answer of a row anew."""
    rows = rows_of(name)
    rows[number][1] = answer
    lines = [f"{inputs}\n" + textwrap.indent(text, "    ", lambda line: True) for inputs, text in rows]
    (GOLDEN / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def text_of(name):
    """Return the text of a file of `tests/golden`: a program, a configuration or an output that a test needs."""
    return (GOLDEN / name).read_text(encoding="utf-8")
