"""CPU and memory of hosts whose node_exporter a Prometheus server scrapes, as if our own sensors had measured them.

`read` queries all hosts at once and returns the new values with the times of their scrapes, each scrape once. A value
that Prometheus does not know now is a gap; a failed query is a `ProbeError`. Nothing is smoothed, filled or invented.
The times of reading and the destination of measurements are decided elsewhere. Source: Wolski et al. 2000, §2.4.

node_exporter's metrics: the queries to Prometheus, and the CPU share of a newcomer on a host. Pure.

Prometheus takes the differences, so an answer has a dozen numbers a host however many CPUs it has. The competitors are
not known, only how long CPUs were busy for normal and for niced processes, and how many waited (`schedstat`, or if the
kernel does not export it the processes that were runnable at scrapes). They are modelled as the number of competitors
with the same effect, and `nws.sensors.cpu.shares` divides the CPUs as for our own sensor. Values in /proc only are not
seen: cgroup quotas, processes bound to CPUs, sessions scheduled as groups. Most systems schedule sessions as groups,
and nice values then count within a session only, so niced load weighs like any other by default.
"""

import logging
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nws.base.closing import Closing
from nws.base.errors import ProbeError
from nws.sensors.cpu import Shares, shares
from nws.sensors.load import Load
from nws.sensors.sharing import NORMAL_WEIGHT, Task, weight_of_nice
from nws.series import HOST_NAME, Measurement, Resource, Series
from nws.sources.httpapi import PrometheusApi, Sample
from nws.sources.prometheussettings import PrometheusSettings

#: Longest time between two scrapes: Prometheus itself looks no further back.
_LOOK_BACK = "5m"
#: Niced processes are taken to be at this nice value, `nice`'s own default.
_USUAL_NICE = 10
#: Below this part of idle time, processes that were seen waiting at one moment are taken to wait always.
_FULL = 0.1
#: Counted time may differ from the clock's by this part; beyond, a counter has jumped.
_JUMP = 0.25
#: Busy time below this many CPUs is no competitor.
_SMALL = 0.02
#: More CPUs, or more processes that want one, than any machine has.
_MOST_CPUS, _MOST_PROCESSES = 8192, 100_000
#: The two metrics without which a host has no series.
_CPU_SECONDS, _MEMORY = "node_cpu_seconds_total", "node_memory_MemAvailable_bytes"
#: Labels that tell the numbers of one target apart, rather than targets.
_INNER = frozenset({"__name__", "reading", "mode"})


@dataclass(slots=True, kw_only=True)
class Target:
    """Prometheus' present values of one node_exporter; None for unknown ones.

    modes : CPUs busy in each mode of node_cpu_seconds_total.  cpus : their number
    waiting : processes that waited for a CPU, on average.  runnable : that ran or waited at the calmest scrape
    free_bytes : MemAvailable.  cpu_t, memory_t : times of the last scrapes, seconds since the epoch
    """

    labels: dict[str, str]
    modes: dict[str, float] = field(default_factory=dict)
    cpus: float | None = None
    cpu_t: float | None = None
    waiting: float | None = None
    runnable: float | None = None
    free_bytes: float | None = None
    memory_t: float | None = None

    @property
    def instance(self) -> str:
        """Return its address as Prometheus has it."""
        return self.labels.get("instance", "")

    def shares(self, *, nice_counts: bool = False) -> Shares | None:
        """Return the shares of processes of its CPUs; None if unknown.

        nice_counts : whether niced processes yield to those of other sessions
        """
        load = self._load(weight_of_nice(_USUAL_NICE if nice_counts else 0))
        return None if load is None else shares(load)

    def fault(self) -> str | None:
        """Return why the shares of its CPUs are unknown, None if they are known."""
        if self.cpus is None:
            return f"Prometheus has no {_CPU_SECONDS} of it; node_exporter has that since 0.16"
        if not 1 <= self.cpus <= _MOST_CPUS:
            return f"a number of CPUs that cannot be ({self.cpus:g})"
        if "idle" not in self.modes:
            return f"Prometheus has fewer than two scrapes of its {_CPU_SECONDS} of the last {_LOOK_BACK}"
        for number in (self.waiting, self.runnable):
            if not 0 <= (number or 0) <= _MOST_PROCESSES:
                return f"a number of waiting processes that cannot be ({number:g})"
        busy = self._busy()
        if min(busy.values()) < 0 or abs(sum(busy.values()) / int(self.cpus) - 1) > _JUMP:
            worst = max(busy, key=lambda mode: abs(busy[mode]))
            return (
                f"CPU times that cannot be ({busy[worst]:.3g} of {self.cpus:g} CPUs in mode {worst}: its counter "
                "falls or jumps)"
            )
        return None

    def _busy(self) -> dict[str, float]:
        """Return the CPUs busy in each mode. The kernel's iowait may fall; then it is the rest."""
        rest = max((self.cpus or 0.0) - sum(self.modes.values()) + self.modes.get("iowait", 0.0), 0.0)
        return {mode: min(value, rest) if mode == "iowait" else value for mode, value in self.modes.items()}

    def _load(self, niced_weight: float) -> Load | None:
        if self.cpus is None or self.fault() is not None:
            return None
        busy, count = self._busy(), int(self.cpus)
        part = {mode: value / sum(busy.values()) for mode, value in busy.items()}
        idle = part["idle"] + part.get("iowait", 0.0)
        interrupts = part.get("irq", 0.0) + part.get("softirq", 0.0)
        # time is stolen only while a process wants the CPU, so the loss is relative to that time
        steal = part.get("steal", 0.0)
        stolen = steal / (1 - idle) if 1 - idle > _SMALL else steal
        return Load(
            interval_s=1.0,
            available={cpu: max(1.0 - interrupts - stolen, 0.0) for cpu in range(count)},
            usable=frozenset(range(count)),
            competitors=tuple(self._tasks(part, idle, count, niced_weight)),
            quotas=(),
        )

    def _tasks(self, part: dict[str, float], idle: float, count: int, niced_weight: float) -> Iterable[Task]:
        """Return competitors that would keep the CPUs as busy, and wait as much."""
        normal = count * (part.get("user", 0.0) + part.get("system", 0.0))
        niced = count * part.get("nice", 0.0)
        used = normal + niced
        if self.waiting is not None:
            wanted = used + self.waiting * (1 - idle)
        elif self.runnable is not None and idle < _FULL:
            # the exporter itself runs while it counts the running processes
            wanted = max(used, self.runnable - 1.0)
        else:
            wanted = used
        everywhere = frozenset(range(count))
        if niced_weight == NORMAL_WEIGHT:
            yield from _pieces(wanted, NORMAL_WEIGHT, everywhere)
            return
        # on full CPUs each kind gets time in proportion to its number and its weight: the number is time by weight
        numbers = {NORMAL_WEIGHT: normal / NORMAL_WEIGHT, niced_weight: niced / niced_weight}
        total = sum(numbers.values())
        for weight, got in ((NORMAL_WEIGHT, normal), (niced_weight, niced)):
            more = wanted * numbers[weight] / total if total > 0 else 0.0
            yield from _pieces(max(got, more), weight, everywhere)


def question(match: str, *, every_s: float, over_s: float | None) -> str:
    """Return the PromQL expression that gives everything about every target at one moment.

    match, every_s, over_s : see `nws.sources.prometheussettings.PrometheusSettings`
    """
    narrowed = match.strip().strip(",")

    def metric(name: str, *matchers: str) -> str:
        return f"{name}{{{','.join(filter(None, (*matchers, narrowed)))}}}"

    def rate(name: str) -> str:
        if over_s is None:
            return f"irate({metric(name)}[{_LOOK_BACK}])"
        return f"rate({metric(name)}[{round(1000 * over_s)}ms])"

    cpus = metric(_CPU_SECONDS, 'mode="idle"')
    memory = metric(_MEMORY)
    # a scrape wakes threads that run for a moment only, so the calmest scrape is nearest to the steady load
    scrape = metric("node_procs_running")
    runnable = f"(min_over_time({scrape}[{round(1000 * (over_s or every_s))}ms]) or {scrape})"
    readings = {
        "modes": f"sum without (cpu) ({rate(_CPU_SECONDS)})",
        "cpus": f"count without (cpu, mode) ({cpus})",
        "cpu_t": f"max without (cpu, mode) (timestamp({cpus}))",
        "waiting": f"sum without (cpu) ({rate('node_schedstat_waiting_seconds_total')})",
        "runnable": runnable,
        "free_bytes": memory,
        "memory_t": f"timestamp({memory})",
    }
    return " or ".join(
        f'label_replace({expression}, "reading", "{name}", "instance", ".*")'
        for name, expression in readings.items()
    )


def targets(samples: Iterable[Sample]) -> list[Target]:
    """Return the targets an answer speaks of, in the order in which they appear first."""
    found: dict[frozenset[tuple[str, str]], Target] = {}
    for sample in samples:
        labels = {name: value for name, value in sample.labels.items() if name not in _INNER}
        target = found.setdefault(frozenset(labels.items()), Target(labels=labels))
        reading = sample.labels.get("reading")
        if reading == "modes":
            target.modes[sample.labels.get("mode", "")] = sample.value
        elif reading in ("cpus", "cpu_t", "waiting", "runnable", "free_bytes", "memory_t"):
            setattr(target, reading, sample.value)
    return list(found.values())


def _pieces(cpus: float, weight: float, where: frozenset[int]) -> Iterable[Task]:
    """Return few tasks that want that many CPUs together: equal ones, and one for a small rest."""
    if cpus < _SMALL:
        return
    count = max(math.floor(cpus + 0.5), 1)
    each = min(cpus / count, 1.0)
    yield from (Task(demand=each, weight=weight, cpus=where) for _ in range(count))
    rest = cpus - count * each
    if rest >= _SMALL:
        yield Task(demand=rest, weight=weight, cpus=where)


__all__ = ["PrometheusSettings", "PrometheusSource"]

_LOG = logging.getLogger(__name__)
#: With clocks further apart, ages of measurements would mean nothing.
_APART_S = 60.0
#: Names listed in a message.
_TOLD = 10


class PrometheusSource(Closing):
    """One Prometheus server; a context manager. One thread at a time may read.

    instances : host → instance, of the hosts that the settings name or that it had at the last reading
    faults : host → why the last reading, and the one before, had no CPU or memory of it
    """

    def __init__(self, settings: PrometheusSettings) -> None:
        self.settings = settings
        self._api = PrometheusApi(settings)
        self._question = question(settings.match, every_s=settings.every_s, over_s=settings.over_s)
        self._newest: dict[Series, float] = {}
        self._unnamed: set[str] = set()
        self._named = {host: instance for instance, host in settings.hosts.items()}
        self.instances = self._named
        self.faults: Mapping[str, str] = {}
        self._gaps: Mapping[str, str] = {}

    def read(self, now: float) -> list[Measurement]:
        """Return everything scraped since the last reading; raises `ProbeError` with the fault and its remedy.

        now : seconds since the epoch, only to check Prometheus' clock
        """
        answer = self._api.query(self._question)
        if answer.t is None or not answer.samples:
            narrowed = f" with {self.settings.match}" if self.settings.match else ""
            raise self._error(
                f"no host: it has no {_CPU_SECONDS} or {_MEMORY}{narrowed} of the "
                "last minutes; let it scrape node_exporter, or correct match"
            )
        if abs(answer.t - now) > _APART_S:
            raise self._error(
                f"its clock is {answer.t - now:+.0f} s from ours, so its measurements would be of another time; "
                "synchronise both clocks"
            )
        hosts = self._hosts(targets(answer.samples))
        self._note_gaps(hosts)
        found = [m for host, target in hosts.items() for m in self._measured(host, target)]
        fresh = [m for m in found if m.t > self._newest.get(m.series, 0.0)]
        self._newest.update((m.series, m.t) for m in fresh)
        return fresh

    def close(self) -> None:
        """Let go of the connection."""
        self._api.close()

    def _note_gaps(self, hosts: Mapping[str, Target]) -> None:
        """Note the missing values. One reading without a value is no fault: a scrape may be late."""
        self.instances = self._named | {host: target.instance for host, target in hosts.items()}
        gaps = dict.fromkeys(
            self.instances,
            f"Prometheus has no {_CPU_SECONDS} and no {_MEMORY} of it; it is off, or its node_exporter is older than "
            "0.16",
        )
        for host, target in hosts.items():
            memory = f"Prometheus has no {_MEMORY} of it" if target.free_bytes is None else None
            gaps[host] = "; ".join(filter(None, (target.fault(), memory)))
        self.faults = {
            host: f"{self.instances[host]}: {gap}"
            for host, gap in gaps.items()
            if gap and self._gaps.get(host)
        }
        self._gaps = gaps

    def _hosts(self, found: list[Target]) -> dict[str, Target]:
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
        return named

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
            for resource, share in (
                (Resource.CPU_NEW, shares.new),
                (Resource.CPU_RUNNING, shares.running),
                (Resource.CPU_CAPACITY, shares.capacity),
            ):
                yield Measurement(Series(resource, host), target.cpu_t, max(share, shares.new))
        if target.free_bytes is not None and target.free_bytes >= 0 and target.memory_t is not None:
            yield Measurement(Series(Resource.MEMORY_FREE, host), target.memory_t, target.free_bytes)

    def _error(self, what: str) -> ProbeError:
        return ProbeError(f"prometheus {self.settings.url}: {what}")


def _told(target: Target) -> str:
    return "{" + ", ".join(f"{name}={value!r}" for name, value in sorted(target.labels.items())) + "}"
