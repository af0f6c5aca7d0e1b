"""The ranks' status files, read from the run directory. Decides nothing.

A rank has no file (it never started), a file without an end (it runs, or its supervisor was killed) or a complete one.
Files are renamed into place, so a file that cannot be parsed is an error.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import Literal

EndedBy = Literal["itself", "request", "parent"]


_ABSENT = type(None)
#: Legal types of the values of a status file, by field of `RankRecord`.
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("rank", "keeper"), (int,)),
    **dict.fromkeys(("pid", "exit_code", "signal", "peak_bytes"), (int, _ABSENT)),
    "host": (str,),
    **dict.fromkeys(("ended_by", "error"), (str, _ABSENT)),
    "started": (float, int),
    "ended": (float, int, _ABSENT),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRecord:
    """One status file.

    pid, keeper : processes of the program and its supervisor.  started, ended : seconds since the epoch
    ended_by : "itself"; "request", after a signal or a closed lifeline; "parent", because its parents were killed
    error : an event instead of an exit or a signal, as in `cannot run …`, `aborted the run …`
    peak_bytes : largest resident memory of the program, None where it is unknown
    """

    rank: int
    host: str
    pid: int | None
    keeper: int
    started: float
    ended: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    ended_by: EndedBy | None = None
    error: str | None = None
    peak_bytes: int | None = None

    @property
    def failed(self) -> bool:
        """Return whether it ended with another exit code than 0."""
        return self.ended is not None and self.exit_code != 0

    @property
    def shell_code(self) -> int:
        """Return the exit code as a shell shows it, 128 + signal for a killed rank; 0 while it runs."""
        return 128 + self.signal if self.signal is not None else self.exit_code or 0

    def describe(self) -> str:
        """Return one line, as in `rank 3 on beta was killed by signal 9 (KILL)`."""
        who = f"rank {self.rank} on {self.host}"
        if self.ended is None:
            return f"{who} runs (pid {self.pid})"
        if self.error is not None:
            return f"{who} {self.error}"
        if self.signal is not None:
            return f"{who} was killed by signal {self.signal} ({signal_name(self.signal)})"
        return f"{who} ended with exit code {self.exit_code}"


def signal_name(number: int) -> str:
    """Return `KILL` for 9. Real-time signals have no name and are called by number."""
    try:
        return Signals(number).name.removeprefix("SIG")
    except ValueError:
        return f"number {number}"


def status_path(run_dir: Path, rank: int) -> Path:
    """Return the path of a rank's status file."""
    return run_dir / f"status-{rank:05d}.json"


def parse_status(text: bytes) -> RankRecord:
    """Return the record in a status file's text; raises `ValueError` or `TypeError` for other text."""
    # Not by pydantic: its import would delay the launcher while the first ranks start.
    record = RankRecord(**json.loads(text))
    for name, kinds in _KINDS.items():
        if type(getattr(record, name)) not in kinds:
            raise ValueError(f"{name} is {getattr(record, name)!r:.100}")
    return record


def clear_statuses(run_dir: Path) -> None:
    """Remove the status files of an earlier run, also those that a killed supervisor did not complete."""
    for pattern in ("status-*.json*", ".status-*.whole-tmp"):
        for path in run_dir.glob(pattern):
            path.unlink(missing_ok=True)
