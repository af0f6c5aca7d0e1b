"""From forecasts to a snapshot of a grid's hosts and pairs at one instant.

Pure. A host or pair without a forecast keeps its nominal value, marked as such, so that one silent sensor never
stops a plan; `unmeasured` names the hosts. An unknown error is assumed (`apples.model.assumed`), never zero. Source:
Wolski et al. 2000, §3.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from apples.errors import NoFeasiblePlan
from apples.model.assumed import (
    assumed_errors,
    assumption_notes,
    error_of,
    is_unknown,
    known_errors,
    with_assumed,
)
from apples.model.grid import LISTED_PAIRS, Conditions, Estimate, Grid, Host, Snapshot
from apples.model.pairs import PairValues, listing, together
from nws.base.wording import counted
from nws.series import Forecast, Resource, Series

#: Seconds within which series of one host come from the same reading, or from two sources of the same moment.
_SAME_READING_S = 60.0

if TYPE_CHECKING:
    from nws.client import LinkMatrix


def without(snapshot: Snapshot, absent: Mapping[str, str]) -> Snapshot:
    """Return the snapshot without these hosts, each for a reason.

    Raises `NoFeasiblePlan` with all reasons if none is left.
    """
    if not absent:
        return snapshot
    present = [host.name for host in snapshot.hosts if host.name not in absent]
    if not present:
        reasons = "\n".join(f"{host}: {why}" for host, why in absent.items())
        raise NoFeasiblePlan(f"no host of the pool can take part:\n{reasons}")
    return replace(snapshot.restrict(present), absent={**snapshot.absent, **absent})


def from_forecasts(
    grid: Grid,
    forecasts: Mapping[Series, Forecast],
    *,
    now: float,
    source: str,
    through: Mapping[tuple[str, str], tuple[str, ...]] | None = None,
) -> Snapshot:
    """Return the snapshot of the grid at `now` (seconds since the epoch) from the forecasts of one query.

    through : pairs whose forecasts are composed, with the hosts on the way
    """
    nominal = Snapshot.nominal(grid, taken_at=now)
    index = {host.name: i for i, host in enumerate(grid.hosts)}
    measured: dict[Resource, dict[tuple[int, int], Forecast]] = {r: {} for r in Resource if r.is_pair}
    oldest: dict[tuple[int, int], float] = {}
    for series, forecast in forecasts.items():
        i, j = index.get(series.host), index.get(series.peer or "")
        if i is None or j is None or series.resource not in measured:
            continue
        if not (0 <= forecast.value < 1 if series.resource is Resource.LOSS else forecast.value > 0):
            continue
        measured[Resource(series.resource)][i, j] = forecast
        # a pair is as old as the oldest of its series
        oldest[i, j] = min(oldest.get((i, j), math.inf), forecast.measured_at)
    paths = {pair: path for pair, path in (through or {}).items() if pair[0] in index and pair[1] in index}
    joined = [(index[a], index[b]) for a, b in paths]
    classes = nominal.latency_s.classes
    quantities = [
        nominal.latency_s,
        nominal.latency_error_s,
        nominal.bandwidth_Bps,
        nominal.bandwidth_error_Bps,
        PairValues.same(classes, math.nan),
        PairValues.same(classes, 0.0),
        PairValues.same(classes, 0.0) if nominal.loss is None else nominal.loss,
    ]
    quantities = listing(quantities, [*oldest, *joined])
    assumed, known = assumed_errors(forecasts), known_errors(forecasts)
    for k, resource in ((0, Resource.LATENCY), (2, Resource.BANDWIDTH)):
        newest = measured[resource]
        quantities[k] = quantities[k].set(list(newest), [forecast.value for forecast in newest.values()])
        errors = [error_of(forecast, assumed[resource]) for forecast in newest.values()]
        quantities[k + 1] = quantities[k + 1].set(list(newest), errors)
    latency, latency_error, bandwidth, bandwidth_error, age, composed, loss = quantities
    loss = loss.set(list(measured[Resource.LOSS]), [f.value for f in measured[Resource.LOSS].values()])
    return Snapshot(
        hosts=grid.hosts,
        conditions=tuple(
            _conditions(host, idle, forecasts, assumed, known, now)
            for host, idle in zip(grid.hosts, nominal.conditions, strict=True)
        ),
        latency_s=latency,
        bandwidth_Bps=bandwidth,
        latency_error_s=latency_error,
        bandwidth_error_Bps=bandwidth_error,
        loss=loss if loss.most() > 0 else None,
        taken_at=now,
        source=source,
        notes=assumption_notes(index, forecasts, assumed),
        pair_age_s=age.set(list(oldest), [max(now - then, 0.0) for then in oldest.values()]),
        composed=composed.set(joined, [1.0] * len(joined)),
        through=paths,
    )


def with_composed(
    snapshot: Snapshot, matrix: LinkMatrix, names: Mapping[str, str], *, now: float
) -> Snapshot:
    """Return the snapshot with the matrix's estimates for unmeasured pairs.

    names : host → name in the matrix; other hosts keep their values.  now : by the clock of the matrix
    """
    places = {name: k for k, name in enumerate(matrix.hosts)}
    index = np.array([places.get(names.get(host.name, ""), -1) for host in snapshot.hosts], np.int64)
    pick = np.ix_(index, index)
    known = (index >= 0)[:, None] & (index >= 0)
    shape = snapshot.latency_s.shape
    age = np.full(shape, math.nan) if snapshot.pair_age_s is None else np.asarray(snapshot.pair_age_s)
    latency, bandwidth = matrix.latency_s[pick], matrix.bandwidth_Bps[pick]
    composed = matrix.composed[pick] & known & np.isnan(age) & (latency > 0)
    wide = composed & (bandwidth > 0)
    first = np.argwhere(composed)[:LISTED_PAIRS].tolist()
    before = np.zeros(shape) if snapshot.composed is None else np.asarray(snapshot.composed)
    latency_error = with_assumed(matrix.latency_error_s[pick], latency)
    bandwidth_error = with_assumed(matrix.bandwidth_error_Bps[pick], bandwidth)
    estimated = together(
        [
            np.where(composed, latency, snapshot.latency_s),
            np.where(composed, latency_error, snapshot.latency_error_s),
            np.where(wide, bandwidth, snapshot.bandwidth_Bps),
            np.where(wide, bandwidth_error, snapshot.bandwidth_error_Bps),
            np.where(composed, np.maximum(now - matrix.measured_at[pick], 0.0), age),
            np.where(composed, 1.0, before),
        ]
    )
    return replace(
        snapshot,
        latency_s=estimated[0],
        latency_error_s=estimated[1],
        bandwidth_Bps=estimated[2],
        bandwidth_error_Bps=estimated[3],
        pair_age_s=estimated[4],
        composed=estimated[5],
        through={
            **snapshot.through,
            **{
                (snapshot.hosts[i].name, snapshot.hosts[j].name): matrix.through(int(index[i]), int(index[j]))
                for i, j in first
            },
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeShares:
    """Time shares that hosts give already to jobs under a sharing policy.

    here : number on this machine, whose node is called `node`.  held : on other hosts, by name, if known
    exclusive : a new job has to wait for the others, and is alone then
    """

    here: int
    node: str
    held: Mapping[str, int] = field(default_factory=dict)
    exclusive: bool = False


def with_time_shares(snapshot: Snapshot, turns: TimeShares, own: Iterable[str] = ()) -> Snapshot:
    """Return the snapshot for a new job that takes turns: one of k + 1 where k jobs take turns already.

    Sensors see one job run at a time and cannot count the others, so the smaller of both shares counts. A job that is
    alone during its turn does not share with the others, and the length of its wait is not forecast.
    own : this machine's names in the grid
    """
    held = {**turns.held, **dict.fromkeys(own, turns.here)}
    conditions, waits = [], []
    for host, measured in zip(snapshot.hosts, snapshot.conditions, strict=True):
        k, known = held.get(host.name, 0), measured
        if k:
            known = _shared(known, host, 1.0 if turns.exclusive else 1.0 / (k + 1), alone=turns.exclusive)
            waits.append(f"{host.name} gives {counted(k, 'turn')} away already")
        conditions.append(known)
    if not waits:
        return snapshot
    meaning = "the run gets one more, of the same length"
    if turns.exclusive:
        meaning = "the run waits for them, and is alone then"
    return replace(
        snapshot, conditions=tuple(conditions), notes=(*snapshot.notes, f"{', '.join(waits)}: {meaning}")
    )


def _shared(known: Conditions, host: Host, share: float, *, alone: bool) -> Conditions:
    """Return one host's conditions for a job that has `share` of its time."""

    def capped(estimate: Estimate, most: float) -> Estimate:
        if not alone and estimate.value <= most:
            return estimate
        return replace(estimate, value=most, method="turns", quantiles=(), outlooks=())

    capacity = None if known.capacity is None else capped(known.capacity, share * host.slots)
    # Its time slots, not its quota, are then what keeps the job from its CPU.
    limit = known.cpu_limit if alone else math.inf
    return replace(known, availability=capped(known.availability, share), capacity=capacity, cpu_limit=limit)


def unmeasured(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the hosts without a CPU measurement; they count as idle."""
    pairs = zip(snapshot.hosts, snapshot.conditions, strict=True)
    return tuple(host.name for host, conditions in pairs if conditions.availability.method == "nominal")


def _conditions(
    host: Host,
    idle: Conditions,
    forecasts: Mapping[Series, Forecast],
    assumed: Mapping[Resource, float],
    known: Mapping[Resource, bool],
    now: float,
) -> Conditions:
    def estimate(resource: Resource, most: float) -> Estimate | None:
        forecast = forecasts.get(Series(resource, host.name))
        if forecast is None or not math.isfinite(forecast.value):
            return None
        return Estimate(
            value=min(max(forecast.value, 0.0), most),
            error=error_of(forecast, assumed[resource]),
            assumed=is_unknown(forecast),
            guessed=is_unknown(forecast) and not known[resource],
            method=forecast.method,
            samples=forecast.samples,
            age_s=max(now - forecast.measured_at, 0.0),
            outlooks=forecast.outlooks,
        )

    limit, share = (forecasts.get(Series(one, host.name)) for one in (Resource.CPU_LIMIT, Resource.CPU_NEW))
    # A quota that was lifted leaves its series behind.
    if limit is not None and (share is None or limit.measured_at < share.measured_at - _SAME_READING_S):
        limit = None
    return Conditions(
        availability=estimate(Resource.CPU_NEW, 1.0) or idle.availability,
        capacity=estimate(Resource.CPU_CAPACITY, float(host.slots)) or idle.capacity,
        memory_bytes=estimate(Resource.MEMORY_FREE, math.inf) or idle.memory_bytes,
        cpu_limit=limit.last if limit is not None and limit.last > 0 else math.inf,
    )
