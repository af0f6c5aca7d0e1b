"""Cost of scheduling 34 hosts: forecasts fetched, hosts ordered, schedules made, the best chosen (A7).

Measured on this machine, so no two runs agree to the last bit. The forecasts are fetched over HTTP from a weather
service on this machine, which has the readings of all hosts and of all pairs. For comparison they are also fetched
from a service in the same process. The paper's 4 s include a network across the country, which is not part of this.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from apples.model.snapshots import from_forecasts
from apples.planning.planner import make_plan
from apples.platforms.mock import EPOCH, MockPlatform
from apples.platforms.serviceforecasts import ServiceWeather
from apples.simulation.mock_sensors import MockSensors
from apples_experiments.mock_runs import PLANNERS, Session, calibrated, constants
from apples_experiments.result import Curve, Figure, Progress, Result, Row
from apples_experiments.settings import load_settings
from nws.client import Endpoint
from nws.testing import InMemoryServer

#: §4.1: "on average less than 4 seconds", "on average roughly 1 second".
_PAPER_FETCH_S, _PAPER_PLAN_S = 4.0, 1.0
_REPEATS, _FETCHES = 5, 20

#: Age of the service's oldest readings, seconds.
_READ_S = 900.0

#: Readings the service has of every series at the time of the request.
_ROUNDS = 5


def planning_cost(progress: Progress) -> Result:
    """Return A7: medians over sizes and repeats."""
    settings = load_settings()
    seed = settings.loaded.first_seed
    session = Session(settings, seed=seed, load="loaded")
    session.world.observe()
    progress("fetching the forecasts of all hosts and pairs")
    in_process_s = statistics.median(
        _seconds(lambda: session.world.snapshot(lambda line: None)) for _ in range(_FETCHES)
    )
    series, fetch_s = _over_http(session.world, seed, progress)
    snapshot = session.world.snapshot(lambda line: None)
    medians: dict[str, list[float]] = {}
    candidates: dict[str, int] = {}
    for planner, options in PLANNERS.items():
        costs = calibrated(settings, planner, progress)
        progress(f"planning with the {planner} planner")
        for size in settings.sizes:
            workload = session.world.workload(size)
            candidates[planner] = make_plan(snapshot, workload, costs, options).candidates
            work = partial(make_plan, snapshot, workload, costs, options)
            took = [_seconds(work) for _ in range(_REPEATS)]
            medians.setdefault(planner, []).append(statistics.median(took))
    sizes = tuple(map(float, settings.sizes))
    return Result(
        rows=(
            Row(name="forecasts fetched", paper=_PAPER_FETCH_S, ours=fetch_s, unit="s"),
            Row(name="forecasts fetched, in one process", paper=None, ours=in_process_s, unit="s"),
            Row(
                name="order and plan", paper=_PAPER_PLAN_S, ours=statistics.median(medians["paper"]), unit="s"
            ),
            Row(
                name="order and plan, our planner",
                paper=_PAPER_PLAN_S,
                ours=statistics.median(medians["apples"]),
                unit="s",
            ),
            Row(name="schedules compared", paper=None, ours=candidates["paper"], unit="schedules"),
            Row(name="hosts", paper=34, ours=len(snapshot.hosts), unit="hosts"),
            Row(name="series forecast", paper=None, ours=series, unit="series"),
        ),
        constants=constants(settings, calibrated(settings, "paper", progress)),
        seeds=(seed,),
        figure=Figure(
            title="Time to order and plan for 34 hosts",
            x_label="size",
            y_label="planning time [s]",
            curves=tuple(Curve(label=p, x=sizes, y=tuple(m)) for p, m in medians.items()),
        ),
        notes=(
            "Paper: machines of 1999, forecasts from a server at another university. Ours: the machine this ran on, "
            "forecasts over HTTP from a service on it; the median fetch, after one that is not counted.",
        ),
    )


def _over_http(world: MockPlatform, seed: int, progress: Progress) -> tuple[int, float]:
    """Return series of a service that has the world's readings, and seconds from request to snapshot of the grid."""
    sensors = MockSensors(world.truth, np.random.default_rng(seed), since=world.truth.now - _READ_S)
    rounds = list(sensors.read(world.truth.now))
    with InMemoryServer(clock=world.now) as server:
        for host in world.pool.hosts:
            server.register(host.name, cpus=host.slots, cpu_model=host.cpu_type)
        for of_pairs in (False, True):
            for one in [r for r in rounds if r.series[0].is_pair is of_pairs][-_ROUNDS:]:
                server.put(replace(m, t=EPOCH + m.t) for m in one.measurements())
        service = ServiceWeather(Endpoint.of(server.url), stale_after_s=_READ_S)

        def fetch() -> int:
            outlook = service.forecasts(world.pool)
            from_forecasts(world.pool, outlook.forecasts, now=outlook.now, source=outlook.source)
            return len(outlook.forecasts)

        series = fetch()
        progress(f"asking the service for {series} forecasts")
        return series, statistics.median(_seconds(fetch) for _ in range(_FETCHES))


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
