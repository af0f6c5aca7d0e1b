"""Every error the weather service raises, in one tree; each class knows its exit code.

WeatherError                exit 1
├── UsageError              exit 2   a name, option or input file that cannot be understood
│   └── ConfigError         exit 2   a settings file or option; all its problems at once
├── StoreError              exit 4   a store that cannot be read or written
└── ProbeError              exit 5   a measurement that could not be made
"""

from __future__ import annotations

from collections.abc import Iterable


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
