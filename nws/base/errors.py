"""Every error the weather service raises, in one tree; each class knows its exit code.

WeatherError                 exit 1
├── UsageError               exit 2   a name, option or input file that cannot be understood
│   └── ConfigError          exit 2   a settings file or option; all its problems at once
├── StoreError               exit 4   a store that cannot be read or written
├── ProbeError               exit 5   a measurement that could not be made
├── ServiceError             exit 6   the weather service refuses; `status` says why
│   ├── Malformed            400      the request is not what the interface describes
│   ├── Unauthorized         401      no token, or one the service does not know
│   ├── Forbidden            403      not with this token or key
│   │   ├── KeyRefused       403      the key is not this host's
│   │   └── ForeignSeries    403      a host wrote another host's series
│   ├── NotFound             404      nothing of that name
│   │   ├── UnknownHost      404      a host that is not registered
│   │   └── UnknownSeries    404      a series nobody has measured
│   ├── NameTaken            409      another host holds this name
│   ├── TooMany              429      a limit of the service is reached
│   │   └── TooManySeries    429      one host has as many series as it may have
│   └── Refused              422      understood, and not acceptable
└── ServiceUnreachable       exit 7   no answer from the service
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


class WeatherError(Exception):
    """Base of all errors of the weather service."""

    exit_code = 1


class UsageError(WeatherError):
    """What the user wrote cannot be understood; the message says what is legal."""

    exit_code = 2


class ConfigError(UsageError):
    """What the user set cannot be understood. `problems`: one line each, file:line first where known."""

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class StoreError(WeatherError):
    """The store on disk cannot be read or written; the message names the file and what to do."""

    exit_code = 4


class ProbeError(WeatherError):
    """A sensor could not take its measurement; nothing is recorded in its place."""

    exit_code = 5


class ServiceError(WeatherError):
    """The weather service refuses.

    status : as in HTTP.  problems : everything that is wrong, one line each, where there is more than the message
    retry_after_s : when asking again makes sense, seconds; None when it does not
    """

    exit_code = 6
    default_status: ClassVar[int] = 500

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        problems: Iterable[str] = (),
        retry_after_s: float | None = None,
    ) -> None:
        self.status = self.default_status if status is None else status
        self.problems = tuple(problems)
        self.retry_after_s = retry_after_s
        super().__init__(message)

    @staticmethod
    def of(
        status: int, message: str, *, problems: Iterable[str] = (), retry_after_s: float | None = None
    ) -> ServiceError:
        """The error of a status, in its own class where there is one; for clients, who read it from an answer."""
        kind = _BY_STATUS.get(status, ServiceError)
        return kind(message, status=status, problems=problems, retry_after_s=retry_after_s)


class Malformed(ServiceError):
    """The request is not what the interface describes."""

    default_status = 400


class Unauthorized(ServiceError):
    """No token, or one the service does not know."""

    default_status = 401


class Forbidden(ServiceError):
    """Not with this token or key."""

    default_status = 403


class KeyRefused(Forbidden):
    """The key is not the one the host was given when it registered."""


class ForeignSeries(Forbidden):
    """A host wrote a series that belongs to another host."""


class NotFound(ServiceError):
    """Nothing of that name."""

    default_status = 404


class UnknownHost(NotFound):
    """A host that is not registered."""


class UnknownSeries(NotFound):
    """A series nobody has measured."""


class NameTaken(ServiceError):
    """Another host holds this name."""

    default_status = 409


class TooMany(ServiceError):
    """A limit of the service is reached; `retry_after_s` says when it may be different."""

    default_status = 429


class TooManySeries(TooMany):
    """One host has as many series as it may have."""


class Refused(ServiceError):
    """Understood, and not acceptable."""

    default_status = 422


class ServiceUnreachable(WeatherError):
    """No answer from the service: not running, wrong address, or the network between."""

    exit_code = 7


_BY_STATUS: dict[int, type[ServiceError]] = {
    kind.default_status: kind
    for kind in (Malformed, Unauthorized, Forbidden, NotFound, NameTaken, TooMany, Refused)
}
