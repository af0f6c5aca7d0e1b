"""Exceptions of the agent. Each class has its exit code.

    nws.base.errors.ReportedError
    └── ApplesError                 exit 1
        ├── NoFeasiblePlan          exit 3    no choice of hosts can hold the work
        ├── HistoryError            exit 4    run records, calibration or a queue's store cannot be read or written
        ├── MonitorError            exit 5    the MPI monitor cannot be built, or its pages cannot be read
        ├── SharingError            exit 5    a node manager or machine manager does not answer or rejects a request
        └── LaunchError             exit 125  the launcher failed
            ├── NotExecutable       exit 126  the program exists but cannot be executed
            └── ProgramNotFound     exit 127  the program does not exist

Options and settings files that are not legal raise `nws.base.errors.ConfigError` (exit 2), which lists all problems.
A run that started and failed raises no exception: `apples.model.plan.Outcome` holds its exit code.
"""

from __future__ import annotations

from nws.base.errors import ConfigError, ReportedError

__all__ = [
    "ApplesError",
    "ConfigError",
    "HistoryError",
    "LaunchError",
    "MonitorError",
    "NoFeasiblePlan",
    "NotExecutable",
    "ProgramNotFound",
    "SharingError",
]


class ApplesError(ReportedError):
    """Base of the errors of the agent."""


class NoFeasiblePlan(ApplesError):
    """No choice of hosts, order and slabs can hold the work. The message names the limit."""

    exit_code = 3


class HistoryError(ApplesError):
    """Run records, calibration or a queue's store cannot be read or written. The message names file and remedy."""

    exit_code = 4


class MonitorError(ApplesError):
    """The MPI monitor cannot be built, or its pages cannot be read. The message names the missing part."""

    exit_code = 5


class SharingError(ApplesError):
    """A node manager or machine manager does not answer or rejects a request. The message names it and a remedy."""

    exit_code = 5


class LaunchError(ApplesError):
    """The launcher failed before the application could run."""

    exit_code = 125


class NotExecutable(LaunchError):
    """The program exists but cannot be executed."""

    exit_code = 126


class ProgramNotFound(LaunchError):
    """The program does not exist."""

    exit_code = 127
