"""Meanings of the error messages of Slurm's commands, each with its remedy. Pure; runs nothing.

The first mark in a line of Slurm's own decides. A message without a mark is passed on unchanged. Prologues, plugins of
a site and programs print other lines, which may hold the same words.
"""

import re
import tomllib
from pathlib import Path

#: Lines of Slurm's commands: errors, and all. `slurm_load_jobs error: text`, `salloc: error: text`, `srun: text`
_ERROR = re.compile(r"(?:[\w.-]+: (?:error|fatal)|slurm_\w+(?: error)?): ")
_ANY = re.compile(r"(?:s(?:alloc|batch|run|info|queue|acct\w*|cancel|control)|slurm\w*): ")
#: Ends of a job that `salloc` or a step reports.
_ENDS = {
    "TIMEOUT": re.compile(r"exceeded (?:its )?time limit|due to time limit"),
    "PREEMPTED": re.compile(r"due to preemption|(?:has been|was|is being) preempted"),
}

_TABLES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("meanings.toml").read_text(encoding="utf-8")
)
#: Meanings of messages, texts of waits, meanings of hopeless reasons, and of states of nodes that start nothing.
_MEANINGS, WAITS, HOPELESS, AWAY = _TABLES.values()
#: In the reason of a job that may not start before a reservation of its nodes has ended (`May be reserved for other
#: job`, `Reserved for maintenance`); Slurm names that time.
RESERVED = "reserved for"


def meaning(stderr: str, code: int | None = None) -> str:
    """Return the meaning of an error message, one sentence with its remedy.

    Args:
        stderr: the command's output
        code: its exit code, None if it was killed after its time limit
    """
    lines = slurm_lines(stderr)
    for mark, what in _MEANINGS.items():
        for line in lines:
            if mark in line.lower():
                return what.format(message=_bare(line))
    if code is None:
        return "Slurm does not answer; its controller is off, overloaded, or cut off (scontrol ping)"
    lines = lines or stderr.strip().splitlines()[-1:]
    last = f": {_bare(lines[-1])}" if lines else ""
    return f"Slurm refused (exit code {code}){last}"


def slurm_lines(stderr: str) -> list[str]:
    """Return the lines that Slurm's commands printed: the errors, if there are any."""
    lines = [line.strip() for line in stderr.splitlines()]
    errors = [line for line in lines if _ERROR.match(line)]
    return errors or [line for line in lines if _ANY.match(line)]


def reported_end(stderr: str) -> str | None:
    """Return the state of a job whose end Slurm reported in its output, None if it did not."""
    lines = [line.lower() for line in stderr.splitlines() if _ERROR.match(line) or _ANY.match(line)]
    return next((state for state, text in _ENDS.items() if any(map(text.search, lines))), None)


def _bare(line: str) -> str:
    """Return `salloc: error: text` without its prefix."""
    for mark in (": error: ", ": fatal: "):
        line = line.rpartition(mark)[2]
    return line


def hopeless(reason: str) -> str | None:
    """Return why a job will wait forever, None if it will not.

    Args:
        reason: Slurm's word, or its sentence with underscores for blanks
    """
    word, text = reason.partition(",")[0], reason.lower().replace("_", " ")
    if word in HOPELESS and RESERVED not in text:
        return HOPELESS[word]
    if "use this partition" in text or "not permitted" in text:
        return HOPELESS["QOSNotAllowed" if "qos" in text else "AccountNotAllowed"]
    return None
