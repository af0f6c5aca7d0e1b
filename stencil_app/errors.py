"""Every error the application raises, in one tree; each class knows its exit code.

    StencilError            exit 1
    ├── UsageError          exit 2   options or input that cannot be understood; all problems at once
    │   └── CheckpointError exit 2   a file given to restart from that cannot be used
    ├── OutputError         exit 4   a file that could not be written
    └── DivergedError       exit 5   the values of the mesh stopped being finite

All ranks of a run raise the same error (see `stencil_app.running.mpi.agree`); only rank 0 prints it. A run that
is ended by a signal is no error: its exit code is 128 + signal.
"""

from __future__ import annotations

from collections.abc import Iterable


class StencilError(Exception):
    """Base of all errors of the application. `problems`: one line each."""

    exit_code = 1

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class UsageError(StencilError):
    """What the user wrote cannot be understood or done; every problem says what is legal."""

    exit_code = 2


class CheckpointError(UsageError):
    """A checkpoint that is no checkpoint, is damaged, or belongs to another run."""


class OutputError(StencilError):
    """A result, record or checkpoint could not be written; nothing half-written is left behind."""

    exit_code = 4


class DivergedError(StencilError):
    """The solution is no longer finite; says where. The last checkpoint is left as it was."""

    exit_code = 5
