"""The output of a program that failed: the lines that state an error, and a file with all of it.

The last lines of an output seldom have the cause: after it come backtraces, and what MPI says about ranks that it ends.
"""

import re
from pathlib import Path

from nws.base.files import make_private, write_whole
from nws.base.paths import state_dir

#: Words of messages about errors, and names of exceptions. Indented lines are details: source lines of backtraces.
_ERROR = re.compile(
    r"^ ?(?=\S).*?(?:\b(?:error|fatal|exception|panic|cannot|can't|could not|couldn't|unable to|not found|no such|"
    r"invalid|illegal|unknown|undefined|missing|denied|out of memory|out of range|failed|failure|assertion)\b|"
    r"\w(?:Error|Exception)\b)",
    re.IGNORECASE,
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
#: Bytes of an output that are searched, at its begin and at its end; characters that are quoted.
_SEARCHED, _QUOTED = 1 << 20, 400
#: Bytes of an output that are stored, from its begin.
_STORED = 64 << 20


def described_output(name: str, output: Path, *, last: bool = False) -> str:
    """Keep the output of a failed program in a file of the state directory, and return a supplement of the message.

    Args:
        name: of the program; the next failure of a program of this name replaces the file
        output: its standard output and error
        last: quote its end even if other lines state an error
    """
    try:
        size = output.stat().st_size
        with output.open("rb") as file:
            raw = file.read(_SEARCHED)
            # Not back into the part that was read already: a line would be quoted twice.
            file.seek(max(file.tell(), size - _SEARCHED))
            raw += file.read(_SEARCHED)
    except OSError:
        return ""
    lines = [line.rstrip() for line in _CONTROLS.sub("", raw.decode(errors="replace")).split("\n")]
    quoted, stated = "" if last else error_lines(lines), "its output states"
    if not quoted:
        quoted, stated = "\n".join(lines).strip()[-_QUOTED:], "its output ended with"
    if not quoted:
        return ""
    return f"; {stated}: {quoted}" + _stored(name, output)


def error_lines(lines: list[str]) -> str:
    """Return the first different lines that state an error, each with the next one if it ends with a colon."""
    chosen: dict[str, None] = {}
    for number, line in enumerate(lines):
        if _ERROR.match(line):
            text = f"{line.strip()} {lines[number + 1].strip()}" if line.endswith(":") else line.strip()
            # All ranks print the same error; once is enough.
            chosen.setdefault(text)
    text = ""
    for line in chosen:
        if text and len(text) + len(line) > _QUOTED:
            break
        text += ("; " if text else "") + line[:_QUOTED]
    return text


def _stored(name: str, output: Path) -> str:
    """Return the clause that names the file; empty where the state directory cannot be written."""
    target = state_dir() / "output" / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.txt"
    try:
        make_private(target.parent)
        with output.open("rb") as file:
            content = file.read(_STORED)
            # One byte tells whether anything was left out, whatever the size was before.
            more = bool(file.read(1))
        write_whole(target, content, mode=0o600)
    except OSError:
        return ""
    return f"; {f'its first {_STORED >> 20} MB are' if more else 'all of it is'} in {target}"
