"""Base of the errors that a command reports, and the exceptions of the weather service. Each class has its exit code.

The packages derive their trees from `ReportedError`: `WeatherError` here, `apples.errors.ApplesError` and
`stencil_app.errors.StencilError`. `nws.base.command` prints such an error without a traceback.

ReportedError                    exit 1
├── apples.errors.ApplesError           (tree in that module)
├── stencil_app.errors.StencilError     (tree in that module)
└── WeatherError                 exit 1
    ├── UsageError               exit 2   an option or input file is not legal
    │   ├── ConfigError          exit 2   a settings file or option is not legal; lists all problems
    │   └── UnknownName          exit 8   no series or host has the name
    ├── StoreError               exit 4   a file of the weather service cannot be read or written
    │   └── StoreDamaged         exit 4   its content is damaged
    ├── SshNotFound              exit 127 this machine has no `ssh`
    ├── DeploymentFailed         exit 5   hosts could not be set up
    ├── ProbeError               exit 5   a measurement failed
    ├── ServiceError             exit 6   the weather service rejected a request; `status` as in HTTP
    │   ├── Malformed            400      the request does not match the interface
    │   ├── Unauthorized         401      the token is missing or unknown
    │   ├── Forbidden            403      the token or key does not permit the request
    │   │   ├── KeyRefused       403      the key is not the host's
    │   │   └── ForeignSeries    403      the series belongs to another host
    │   ├── NotFound             404      the name is unknown; exit 8
    │   │   ├── UnknownHost      404      the host is not registered
    │   │   └── UnknownSeries    404      the series has no measurement
    │   ├── NameTaken            409      another host is registered under the name
    │   ├── TooMany              429      a limit of the service is reached
    │   │   └── TooManySeries    429      the host has reached its limit of series
    │   └── Refused              422      the request is valid but cannot be carried out
    └── ServiceUnreachable       exit 7   the service did not answer

Exit codes mean the same in every command: 1 other errors, 2 usage, 3 no feasible plan, 4 unreadable or unwritable
files, 5 a measurement or daemon that cannot work, 6 a rejected request, 7 no answer from a daemon or service, 8 an
unknown job, run, host or series, 124 to 127 the launcher, 128 + n signal n.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

#: Exit codes shared by errors of several packages.
REJECTED, NO_ANSWER, NOT_FOUND = 6, 7, 8


class ReportedError(Exception):
    """Base of the errors that a command prints as a message, without a traceback.

    exit_code : exit code of the command.  problems : one line each; the message is these lines
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, problems: str | Iterable[str] = ()) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class WeatherError(ReportedError):
    """Base of the errors of the weather service."""


class UsageError(WeatherError):
    """A value given by the user is not legal. The message lists the legal values."""

    exit_code = 2


class ConfigError(UsageError):
    """A settings file or option is not legal. `problems` starts each line with file:line where known."""


class UnknownName(UsageError):
    """No series or host has the name. The message lists the known names."""

    exit_code = NOT_FOUND


class StoreError(WeatherError):
    """A file of the weather service cannot be read or written. The message names the file and a remedy."""

    exit_code = 4


class StoreDamaged(StoreError):
    """The content of a file differs from the written content. The message names the damage and a remedy."""


class SshNotFound(WeatherError):
    """This machine has no `ssh`."""

    exit_code = 127


class DeploymentFailed(WeatherError):
    """Hosts could not be set up. The message has a line for each, with the reason."""

    exit_code = 5


class ProbeError(WeatherError):
    """A measurement failed. No value is recorded in its place."""

    exit_code = 5


class ServiceError(WeatherError):
    """The weather service rejected a request.

    status : HTTP status.  problems : further problems, one line each, not part of the message
    retry_after_s : seconds until a retry may succeed, None if a retry is useless
    """

    exit_code = REJECTED
    default_status: ClassVar[int] = 500

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        problems: Iterable[str] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = self.default_status if status is None else status
        self.problems = tuple(problems)
        self.retry_after_s = retry_after_s

    @staticmethod
    def of(
        status: int, message: str, *, problems: Iterable[str] = (), retry_after_s: float | None = None
    ) -> ServiceError:
        """Return the error of an HTTP status, in the status's class if it has one. Clients use it for an answer."""
        kind = _BY_STATUS.get(status, ServiceError)
        return kind(message, status=status, problems=problems, retry_after_s=retry_after_s)


class Malformed(ServiceError):
    """The request does not match the interface."""

    default_status = 400


class Unauthorized(ServiceError):
    """The token is missing or unknown."""

    default_status = 401


class Forbidden(ServiceError):
    """The token or key does not permit the request."""

    default_status = 403


class KeyRefused(Forbidden):
    """The key differs from the one that the host registered."""


class ForeignSeries(Forbidden):
    """The series belongs to another host."""


class NotFound(ServiceError):
    """The name is unknown."""

    exit_code = NOT_FOUND
    default_status = 404


class UnknownHost(NotFound):
    """The host is not registered."""


class UnknownSeries(NotFound):
    """The series has no measurement."""


class NameTaken(ServiceError):
    """Another host is registered under this name."""

    default_status = 409


class TooMany(ServiceError):
    """A limit of the service is reached. `retry_after_s` is the time until a retry may succeed."""

    default_status = 429


class TooManySeries(TooMany):
    """The host has reached its limit of series."""


class Refused(ServiceError):
    """The request is valid but cannot be carried out."""

    default_status = 422


class ServiceUnreachable(WeatherError):
    """The service did not answer: it does not run, the address is wrong or the network is down."""

    exit_code = NO_ANSWER


_BY_STATUS: dict[int, type[ServiceError]] = {
    kind.default_status: kind
    for kind in (Malformed, Unauthorized, Forbidden, NotFound, NameTaken, TooMany, Refused)
}
