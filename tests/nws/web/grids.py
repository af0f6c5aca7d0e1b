"""Grids to look at: hosts, sites, series with known values, gaps, lost and stale hosts, events; on a clock that stands
still until a test moves it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from nws.messages.weatherdocuments import Batch, Event, Registration
from nws.server.serve import ServerThread
from nws.server.tokens import Tokens
from nws.service.serviceconfig import CliqueConfig, Limits, ServiceConfig
from nws.service.weatherservice import WeatherService

#: 2026-11-20 12:00:00 UTC, a Friday.
NOON = 1_795_176_000.0
EVERY_S = 10.0
GAP = (NOON - 2400.0, NOON - 2040.0)
STALE_SINCE_S, LOST_SINCE_S = 900.0, 1800.0


@dataclass
class Clock:
    """Seconds since the epoch, as a test says."""

    now: float = NOON

    def __call__(self) -> float:
        return self.now


@dataclass
class Grid:
    """A service with its clock, and which hosts it has. `sites`: site → hosts; two hosts are out of order."""

    service: WeatherService
    clock: Clock
    sites: dict[str, list[str]]
    lost: set[str] = field(default_factory=set)
    stale: set[str] = field(default_factory=set)

    @property
    def hosts(self) -> list[str]:
        """All hosts, by name."""
        return sorted(name for names in self.sites.values() for name in names)

    def put(self, name: str, times: np.ndarray, values: np.ndarray) -> None:
        """Samples of one series."""
        index = np.zeros(len(times), np.int64)
        self.service.put(Batch(series=(name,), index=index, t=times, value=values), as_host=None)


def cpu_at(t: np.ndarray) -> np.ndarray:
    """A share of a CPU that anybody can foretell roughly: a slow wave with a tooth."""
    return np.round(0.6 + 0.3 * np.sin(t / 600.0) + 0.04 * ((t // EVERY_S) % 3 - 1), 4)


def times_until(end: float, *, length_s: float = 3600.0) -> np.ndarray:
    """Every ten seconds for an hour, except in the gap."""
    t = end - EVERY_S * np.arange(round(length_s / EVERY_S))[::-1]
    return t[(t <= GAP[0]) | (t >= GAP[1])]


def latency_s(a: int, b: int, *, far: bool) -> float:
    """Latency of a link by its hosts' numbers: loopback 40 µs, same site 0.2 ms, another 5 ms; no two alike."""
    return 40e-6 if a == b else (5e-3 if far else 2e-4) * (1 + 0.02 * a + 0.001 * b)


def small_grid(clock: Clock, *, grid: str = "lab", limits: Limits | None = None) -> Grid:
    """Eight hosts at two sites in two cliques joined by e1 and w1; e3 is stale, w4 lost.

    e2 measures once in a while only: its bandwidth to e1 is a quarter of that back.
    """
    sites = {"east": ["e1", "e2", "e3", "e4"], "west": ["w1", "w2", "w3", "w4"]}
    cliques = {
        "east": CliqueConfig(members=tuple(sites["east"])),
        "west": CliqueConfig(members=tuple(sites["west"])),
        "between": CliqueConfig(members=("e1", "w1")),
    }
    config = ServiceConfig(grid=grid, cliques=cliques, limits=limits or Limits(requests_per_minute=100_000))
    service = WeatherService(config, clock=clock, in_memory=True)
    made = Grid(service=service, clock=clock, sites=sites, lost={"w4"}, stale={"e3"})
    clock.now = NOON - LOST_SINCE_S
    _register(made, made.hosts)
    clock.now = NOON
    _register(made, [h for h in made.hosts if h not in made.lost])
    for host in made.hosts:
        _own_series(made, host)
    for members in (*sites.values(), ["e1", "w1"]):
        _links(made, members)
    service.tick()
    for back_s, kind, host, text in (
        (3000.0, "plan made", None, "64 rows on e1, e2, w1"),
        (1200.0, "run ended", None, "exit 0 after 30 min"),
        (300.0, "note", "e1", "<b>fan</b> replaced"),
    ):
        service.event(Event(t=NOON - back_s, kind=kind, host=host, text=text))
    return made


def _register(grid: Grid, names: list[str]) -> None:
    for name in names:
        site = next(site for site, hosts in grid.sites.items() if name in hosts)
        told = Registration(
            address="10.0.0.1",
            port=4000,
            site=site,
            cpus=8,
            cpu_model="Model 7",
            memory_bytes=32_000_000_000,
            version="1",
        )
        grid.service.register(name, told, f"key-of-{name}-0123456789abcdef")


def _end(grid: Grid, host: str) -> float:
    late = LOST_SINCE_S if host in grid.lost else STALE_SINCE_S if host in grid.stale else 5.0
    return NOON - late


def _own_series(grid: Grid, host: str) -> None:
    t = times_until(_end(grid, host))
    grid.put(f"cpu.new@{host}", t, cpu_at(t))
    grid.put(f"cpu.running@{host}", t, np.minimum(cpu_at(t) + 0.1, 1.0))
    grid.put(f"cpu.capacity@{host}", t, 8 * cpu_at(t))
    grid.put(f"memory.free@{host}", t, 16e9 + 4e9 * np.sin(t / 900.0))


def _links(grid: Grid, members: list[str]) -> None:
    order = {host: k for k, host in enumerate(grid.hosts)}
    for a in members:
        for b in members:
            t = times_until(min(_end(grid, a), _end(grid, b)), length_s=600.0)
            latency = latency_s(order[a], order[b], far=a[0] != b[0])
            bandwidth = 25e6 if (a, b) == ("e2", "e1") else 100e6 if a[0] == b[0] else 12e6
            grid.put(f"network.latency@{a}>{b}", t, np.full(len(t), latency))
            grid.put(f"network.bandwidth@{a}>{b}", t, np.full(len(t), bandwidth))


def large_grid(clock: Clock, hosts: int, sites: int) -> Grid:
    """Many hosts with one value of each series, in automatic cliques; whoever is in one clique measures each other."""
    names = {f"site{k:02d}": [f"n{i:04d}" for i in range(hosts) if i % sites == k] for k in range(sites)}
    config = ServiceConfig(grid="large", limits=Limits(requests_per_minute=100_000))
    service = WeatherService(config, clock=clock, in_memory=True)
    made = Grid(service=service, clock=clock, sites=names)
    # the first schedule takes effect some frames after the first hosts came
    clock.now -= 40.0
    _register(made, made.hosts)
    service.tick()
    clock.now += 40.0
    service.tick()
    members: dict[str, list[str]] = {}
    for state in service.hosts():
        for clique in state.cliques:
            members.setdefault(clique, []).append(state.name)
    pairs = sorted({(a, b) for m in members.values() for a in m for b in m if a != b})
    series = [f"{r}@{h}" for h in made.hosts for r in ("cpu.new", "memory.free")]
    series += [f"network.{r}@{a}>{b}" for a, b in pairs for r in ("latency", "bandwidth")]
    value = {"cpu": 0.5, "memory": 8e9, "network.latency": 2e-4, "network.bandwidth": 1e8}
    values = [next(v for k, v in value.items() if name.startswith(k)) for name in series]
    for first in range(0, len(series), 4000):
        some = series[first : first + 4000]
        batch = Batch(
            series=tuple(some),
            index=np.arange(len(some)),
            t=np.full(len(some), clock.now - 5.0),
            value=np.array(values[first : first + 4000]),
        )
        service.put(batch, as_host=None)
    return made


def serve(grid: Grid, tokens: Tokens | None = None, *, port: int = 0) -> ServerThread:
    """A real server over a grid, not yet started."""
    return ServerThread(grid.service, tokens or Tokens.none(), port=port)


def is_near(a: float, b: float) -> bool:
    """Whether two figures are the same but for rounding to three digits."""
    return math.isclose(a, b, rel_tol=6e-3)
