"""A clock that steps and advances, and records in one line."""

from __future__ import annotations

import numpy as np

from nws.messages.weatherdocuments import Batch, Registration
from nws.service.serviceconfig import Listen, ServiceConfig

START = 1_800_000_000.0


class Clock:
    """Seconds since the epoch and steady seconds; `step` moves the first only, `advance` both."""

    def __init__(self):
        self.wall, self.steady = START, 1000.0

    def __call__(self):
        return self.wall

    def monotonic(self):
        return self.steady

    def advance(self, seconds):
        self.wall += seconds
        self.steady += seconds

    def step(self, seconds):
        self.wall += seconds


def kill(service):
    """End a service without any of what it does at its end, as a kill does."""
    service._opened.close()


def registration(name="alpha", **changes):
    return Registration(**({"address": f"{name}.example", "port": 4000, "cpus": 4} | changes))


def registered(service, *names, **changes):
    """Register hosts; their keys."""
    return {name: service.register(name, registration(name, **changes), None).key for name in names}


def batch(*samples, source=None, first=0, status=None):
    """A batch of (series, t, value)."""
    names = tuple(dict.fromkeys(name for name, _, _ in samples))
    return Batch(
        series=names,
        index=np.array([names.index(name) for name, _, _ in samples], np.int64),
        t=np.array([t for _, t, _ in samples], np.float64),
        value=np.array([value for _, _, value in samples], np.float64),
        source=source,
        first=first,
        status=status,
    )


def settings(**changes):
    return ServiceConfig(**({"listen": Listen(port=0)} | changes))
