"""Exceptions of the application. Each class has its exit code.

    nws.base.errors.ReportedError
    └── StencilError            exit 1
        ├── UsageError          exit 2   options or input are not legal; lists all problems
        │   └── CheckpointError exit 2   a checkpoint cannot be used for a restart
        ├── OutputError         exit 4   a file cannot be written
        └── DivergedError       exit 5   the values of the mesh are not finite

All ranks of a run raise the same error (see `stencil_app.running.mpi.agree`) and rank 0 prints it. A run that a signal
ends raises no exception: its exit code is 128 + signal.
"""

from nws.base.errors import ReportedError


class StencilError(ReportedError):
    """Base of the errors of the application. `problems`: one line each."""


class UsageError(StencilError):
    """Options or input are not legal. Each problem lists the legal values."""

    exit_code = 2


class CheckpointError(UsageError):
    """A file is no checkpoint, is damaged, or belongs to another run."""


class OutputError(StencilError):
    """A result, record or checkpoint cannot be written. No incomplete file remains."""

    exit_code = 4


class DivergedError(StencilError):
    """The solution is not finite at the cell in the message. The last checkpoint is kept."""

    exit_code = 5
