"""Every error the agent raises, in one tree; each class knows its exit code.

    ApplesError                 exit 1
    ├── NoFeasiblePlan          exit 3    no choice of hosts can hold the work
    ├── HistoryError            exit 4    records or calibration that cannot be read or written
    ├── MonitorError        exit 5    the monitor of MPI programs cannot be built, or its pages not be read
    ├── SharingError            exit 5    a node manager or machine manager that is not there, refuses, or cannot work
    └── LaunchError             exit 125  the launcher itself failed
        ├── NotExecutable       exit 126  the program is there but may not be run
        └── ProgramNotFound     exit 127  the program is not there

What the user wrote and cannot be understood is a `ConfigError` (exit 2) of the settings' reader: all problems at once.
A run that was started and did not end well is no exception: its `apples.model.plan.Outcome` carries the exit code.
"""

from __future__ import annotations

from nws.base.errors import ConfigError

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


class ApplesError(Exception):
    """Base of all errors of the agent."""

    exit_code = 1


class NoFeasiblePlan(ApplesError):
    """No choice of hosts, order and slabs can hold the work; the message says which limit binds."""

    exit_code = 3


class HistoryError(ApplesError):
    """Records or calibration on disk cannot be read or written; the message names the file and what to do."""

    exit_code = 4


class MonitorError(ApplesError):
    """The monitor of MPI programs cannot be built, or what it left cannot be read; the message says what is missing."""

    exit_code = 5


class SharingError(ApplesError):
    """A daemon that shares hosts is not there, refuses, or cannot work; the message says which and what to do."""

    exit_code = 5


class LaunchError(ApplesError):
    """The launcher failed before the application could run."""

    exit_code = 125


class NotExecutable(LaunchError):
    """The program exists but may not be executed."""

    exit_code = 126


class ProgramNotFound(LaunchError):
    """The program does not exist."""

    exit_code = 127
