"""CPU and memory of hosts whose node_exporter a Prometheus server scrapes, as if our own sensors had measured them.

`read` queries all hosts at once and returns the new values with the times of their scrapes, each scrape once. A value
that Prometheus does not know now is a gap; a failed query is a `ProbeError`. Nothing is smoothed, filled or invented.
The times of reading and the destination of measurements are decided elsewhere. Source: Wolski et al. 2000, §2.4.
"""

import logging
import re
from collections.abc import Iterable
from typing import Self

from nws.base.errors import ProbeError
from nws.series import HOST_NAME, Measurement, Resource, Series
from nws.sources.httpapi import PrometheusApi
from nws.sources.nodes import Target, question, targets
from nws.sources.settings import PrometheusSettings

__all__ = ["PrometheusSettings", "PrometheusSource"]

_LOG = logging.getLogger(__name__)
#: With clocks further apart, ages of measurements would mean nothing.
_APART_S = 60.0
#: Names listed in a message.
_TOLD = 10


class PrometheusSource:
    """One Prometheus server; a context manager. One thread at a time may read."""

    def __init__(self, settings: PrometheusSettings) -> None:
        self.settings = settings
        self._api = PrometheusApi(settings)
        self._question = question(settings.match, every_s=settings.every_s, over_s=settings.over_s)
        self._newest: dict[Series, float] = {}
        self._unnamed: set[str] = set()

    def read(self, now: float) -> list[Measurement]:
        """Return everything scraped since the last reading; raises `ProbeError` with the fault and its remedy.

        now : seconds since the epoch, only to check Prometheus' clock
        """
        answer = self._api.query(self._question)
        if answer.t is None or not answer.samples:
            narrowed = f" with {self.settings.match}" if self.settings.match else ""
            raise self._error(
                f"no host: it has no node_cpu_seconds_total or node_memory_MemAvailable_bytes{narrowed} of the "
                "last minutes; let it scrape node_exporter, or correct match"
            )
        if abs(answer.t - now) > _APART_S:
            raise self._error(
                f"its clock is {answer.t - now:+.0f} s from ours, so its measurements would be of another time; "
                "synchronise both clocks"
            )
        found = [
            m for host, target in self._hosts(targets(answer.samples)) for m in self._measured(host, target)
        ]
        fresh = [m for m in found if m.t > self._newest.get(m.series, 0.0)]
        self._newest.update((m.series, m.t) for m in fresh)
        return fresh

    def close(self) -> None:
        """Let go of the connection."""
        self._api.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _hosts(self, found: list[Target]) -> Iterable[tuple[str, Target]]:
        """Return targets by the names of their hosts; raises `ProbeError` where two are one, or none is wanted."""
        named: dict[str, Target] = {}
        for target in found:
            host = self._name(target.instance)
            if host is None:
                continue
            if host in named:
                raise self._error(
                    f"two targets are host {host}: {_told(named[host])} and {_told(target)}; tell them apart "
                    "with match, or name them under hosts"
                )
            named[host] = target
        if not named:
            there = ", ".join(sorted({t.instance for t in found})[:_TOLD])
            raise self._error(f"none of the hosts that are wanted; its instances are {there}; correct hosts")
        return named.items()

    def _name(self, instance: str) -> str | None:
        """Return the name of an instance's host; None when it is not selected, or no legal name."""
        if self.settings.hosts:
            return self.settings.hosts.get(instance)
        host = re.sub(r":\d+$", "", instance)
        if HOST_NAME.fullmatch(host):
            return host
        if instance not in self._unnamed:
            self._unnamed.add(instance)
            _LOG.warning(
                "prometheus %s: instance %r gives no name of a host and is left out; name it under hosts",
                self.settings.url,
                instance,
            )
        return None

    def _measured(self, host: str, target: Target) -> Iterable[Measurement]:
        """Return the series of one host that are known."""
        shares = target.shares(nice_counts=self.settings.nice_counts)
        if shares is not None and target.cpu_t is not None:
            yield Measurement(Series(Resource.CPU_NEW, host), target.cpu_t, shares.new)
            yield Measurement(
                Series(Resource.CPU_RUNNING, host), target.cpu_t, max(shares.running, shares.new)
            )
            yield Measurement(
                Series(Resource.CPU_CAPACITY, host), target.cpu_t, max(shares.capacity, shares.new)
            )
        if target.free_bytes is not None and target.free_bytes >= 0 and target.memory_t is not None:
            yield Measurement(Series(Resource.MEMORY_FREE, host), target.memory_t, target.free_bytes)

    def _error(self, what: str) -> ProbeError:
        return ProbeError(f"prometheus {self.settings.url}: {what}")


def _told(target: Target) -> str:
    return "{" + ", ".join(f"{name}={value!r}" for name, value in sorted(target.labels.items())) + "}"
