"""Golden transcripts: commands at the margin, and below each, indented, what it answers."""

from pathlib import Path

import pytest

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
