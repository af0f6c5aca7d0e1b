"""Writes `status-00003.json`, the start and end of one rank. Imported by the rank wrapper, so it imports little.

`apples.hosts.hostmessages.RankRecord` documents the fields.
"""

from __future__ import annotations

import os
import time

from nws.base.files import write_whole

#: Error of a rank that left the others waiting, as `STOP` of Fortran does.
LEFT_EARLY = "ended with exit code 0 before MPI_Finalize"


def quoted(text: str) -> str:
    """Return `text` as a JSON string, without the import of json (2 ms)."""
    return '"' + "".join(c if c >= " " and c not in '"\\' else f"\\u{ord(c):04x}" for c in text) + '"'


def host_of(rank: int, hosts: str) -> str:
    """Return the host of a rank in `alpha:2,beta:1`, which lists the chain in rank order; empty beyond its end."""
    for entry in hosts.split(","):
        name, _, count = entry.rpartition(":")
        # Negative in the entry that has the rank.
        rank -= int(count)
        if rank < 0:
            return name
    return ""


class StatusFile:
    """The status file of one rank, and the descriptor that notifies the host agent of changes.

    pid : the program, once it runs.  swept : processes that it left, and that were killed
    bell : descriptor that gets the rank after each change, None for none
    """

    def __init__(self, run_dir: str, rank: int, host: str, bell: int | None) -> None:
        self.directory = run_dir
        self.path = os.path.join(run_dir, f"status-{rank:05d}.json")
        self.rank, self.host = rank, host
        self.pid: int | None = None
        self.swept = 0
        self._bell = bell
        self._started = time.time()

    def started(self) -> None:
        """Record that the program runs."""
        self._write({})

    def ended(
        self, wait_status: int, *, ended_by: str, error: str | None = None, peak_bytes: int | None = None
    ) -> None:
        """Record the end.

        Args:
            wait_status: value that `os.waitpid` returned
            peak_bytes: largest resident memory of the program
        """
        killed = os.WIFSIGNALED(wait_status)
        self._write(
            {
                "ended": time.time(),
                "exit_code": None if killed else os.WEXITSTATUS(wait_status),
                "signal": os.WTERMSIG(wait_status) if killed else None,
                "ended_by": quoted(ended_by),
                "error": None if error is None else quoted(error),
                "peak_bytes": peak_bytes,
                "swept": self.swept,
            }
        )

    def _write(self, end: dict[str, object]) -> None:
        """Write the file beside its place and rename it, so that readers never see a part."""
        fields: dict[str, object] = {
            "rank": self.rank,
            "host": quoted(self.host),
            "pid": self.pid,
            "keeper": os.getpid(),
            "started": self._started,
            **(end or dict.fromkeys(("ended", "exit_code", "signal", "ended_by", "error"))),
        }
        body = ", ".join(f'"{key}": {"null" if value is None else value}' for key, value in fields.items())
        # Before the bell, after which the agent reads the file.
        write_whole(self.path, "{" + body + "}\n")
        if self._bell is not None:
            try:
                # Shorter than PIPE_BUF, so that the numbers of two ranks never mix.
                os.write(self._bell, f"{self.rank}\n".encode())
            except OSError:
                # The host agent is dead, and the lifeline is closed.
                self._bell = None
