"""Running an external program to its end: its output, or one error for every way to fail.

The interpreter that a program of this installation starts another one with.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence

#: `-P`: nothing is imported from the working directory, where the user may have modules of the same names, or a
#: checkout of this project whose kernels have not been compiled yet.
OWN_PYTHON = (sys.executable, "-P")


class ProgramFailed(Exception):
    """A program that could not be started, failed, or exceeded its time limit.

    reason : in a sentence, such as "exit code 3".  stderr : the text that it wrote to standard error
    code : exit code, negative for a signal; None if it did not start or did not end in time
    """

    def __init__(self, reason: str, *, stderr: str = "", code: int | None = None) -> None:
        super().__init__(reason)
        self.reason, self.stderr, self.code = reason, stderr, code

    @property
    def last_line(self) -> str:
        """The last line that is not empty of standard error, "no reason given" if there is none."""
        return (self.stderr.strip().splitlines() or ["no reason given"])[-1]


def output_of(
    command: Sequence[str], *, limit_s: float | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Run a program with empty standard input and return its standard output.

    Args:
        command: the program and its arguments.
        limit_s: time after which it is killed, seconds; None for no limit.
        environment: its environment, that of this process by default.

    Raises:
        ProgramFailed: it did not start, did not end in time, or ended with another exit code than 0.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            env=environment,
            # an interrupt at the terminal is for this process, which then ends the program
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        # bytes or text, depending on how far it was read
        text = expired.stderr or b""
        stderr = text.decode(errors="replace") if isinstance(text, bytes) else text
        raise ProgramFailed(f"no end after {limit_s:g} s", stderr=stderr) from None
    except OSError as error:
        raise ProgramFailed(str(error)) from error
    if done.returncode != 0:
        raise ProgramFailed(f"exit code {done.returncode}", stderr=done.stderr, code=done.returncode)
    return done.stdout
