"""What application files become, and every mistake with its line: files, changes of them and calls, recorded."""

import sys
from pathlib import Path

from apples.applications.described import read_program
from apples.errors import ConfigError
from apples.model.cut import Box
from apples.model.template import Checkpointing
from tests.transcripts import recorded, text_of


def lines_of_start(start):
    yield f"command: {' '.join(start.command)}"
    for name in ("directory", "files", "environment", "prepare", "finish", "mpi", "progress"):
        if value := getattr(start, name):
            if isinstance(value, dict):
                value = {str(key): text for key, text in value.items()}
            yield f"{name}: {value}"


def answer_of(program, directory, *, rows=(), workload=0, benchmark=0, options=None, boxes=(), keep=None):
    """Lines on the start on `rows`, on the workload of a size, or on the benchmark of so many rows."""
    options = options or {}
    if workload:
        lines = [str(program.workload(workload, options))]
        if program.checkpoint:
            lines.append(f"checkpoint of {program.checkpoint.size_bytes(workload, options):g} bytes")
        return lines
    if benchmark:
        return list(lines_of_start(program.benchmark(Path("r.json"), options, benchmark)))
    boxes = [Box(x=x, y=y, width=width, height=height) for x, y, width, height in boxes]
    if keep is not None:
        keep = Checkpointing(file=Path(keep[0]), every=keep[1], restart=keep[2])
    program.check(options)
    return list(lines_of_start(program.start(rows, directory, options, boxes=boxes, keep=keep)))


@recorded("apples/applications/programs.txt", "why", "file", "changes", "call")
def test_application_file_gives_what_is_recorded(tmp_path, monkeypatch, answered, why, file, changes, call):
    """changes : pairs of old and new text, or text to add at the end"""
    monkeypatch.chdir(tmp_path)
    text = text_of(f"apples/applications/appfile_{file}.txt")
    for old, new in [] if isinstance(changes, str) else changes:
        assert old in text
        text = text.replace(old, new)
    Path("app.yaml").write_text(text + changes if isinstance(changes, str) else text)
    try:
        lines = answer_of(read_program(Path("app.yaml")), tmp_path, **call)
    except ConfigError as refusal:
        lines = [f"refused: {problem}" for problem in refusal.problems]
    answered(
        "\n".join(lines).replace(str(tmp_path), "DIR").replace(sys.executable, "PYTHON").replace("\0", "NUL")
    )
