"""Exceptions of the agent. Each class has its exit code.

    nws.base.errors.ReportedError
    └── ApplesError                 exit 1
        ├── NoFeasiblePlan          exit 3    no choice of hosts can hold the work
        ├── HistoryError            exit 4    run records, calibration or a queue's store cannot be read or written
        │   └── UnknownRun          exit 8    no run has the number
        ├── MonitorError            exit 5    the MPI monitor cannot be built, or its pages cannot be read
        ├── SharingError            exit 5    a daemon that shares hosts cannot work
        │   ├── RequestRejected     exit 6    a daemon rejected a request
        │   │   └── UnknownJob      exit 8    no job has the number
        │   └── NoDaemon            exit 7    no node manager or queue manager answers
        └── LaunchError             exit 125  the launcher failed
            ├── NotExecutable       exit 126  the program exists but cannot be executed
            └── ProgramNotFound     exit 127  the program does not exist

Exit codes mean the same in every command; `nws.base.errors` has the table. Options and settings files that are not
legal raise `nws.base.errors.ConfigError` (exit 2), which lists all problems.
A run that started and failed raises no exception: `apples.model.plan.Outcome` holds its exit code.
"""

from nws.base.errors import NO_ANSWER, NOT_FOUND, REJECTED, ConfigError as ConfigError, ReportedError


class ApplesError(ReportedError):
    """Base of the errors of the agent."""


class NoFeasiblePlan(ApplesError):
    """No choice of hosts, order and slabs can hold the work. The message names the limit."""

    exit_code = 3


class HistoryError(ApplesError):
    """Run records, calibration or a queue's store cannot be read or written. The message names file and remedy."""

    exit_code = 4


class UnknownRun(HistoryError):
    """The history has no run of that number."""

    exit_code = NOT_FOUND


class MonitorError(ApplesError):
    """The MPI monitor cannot be built, or its pages cannot be read. The message names the missing part."""

    exit_code = 5


class SharingError(ApplesError):
    """A daemon that shares hosts cannot work. The message names it and a remedy."""

    exit_code = 5


class NoDaemon(SharingError):
    """No node manager or queue manager answers. The message names the sockets and a remedy."""

    exit_code = NO_ANSWER


class RequestRejected(SharingError):
    """A daemon rejected a request. The message is the daemon's."""

    exit_code = REJECTED


class UnknownJob(RequestRejected):
    """The queue has no job of that number."""

    exit_code = NOT_FOUND


class LaunchError(ApplesError):
    """The launcher failed before the application could run."""

    exit_code = 125


class NotExecutable(LaunchError):
    """The program exists but cannot be executed."""

    exit_code = 126


class ProgramNotFound(LaunchError):
    """The program does not exist."""

    exit_code = 127
