"""Errors that are assumed where a forecast's own error is unknown, because its series has one value.

They are learnt from the known errors of the other series of the resource. Where none is known, the error is as large as
the value, as that of a forecast without history (`nws.series.Forecast.over`). It is never zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from apples.model.pairs import FloatArray
from nws.base.hostlist import fold
from nws.base.wording import counted
from nws.series import Forecast, Resource, Series

#: Weight of the error that is as large as the value beside known errors, in series.
_NOTHING = 0.5


def is_unknown(forecast: Forecast) -> bool:
    """Return whether the expected error of a forecast is unknown."""
    return not math.isfinite(forecast.rmse)


def error_of(forecast: Forecast, assumed: float) -> float:
    """Return the standard deviation; `assumed` times the value where it is unknown."""
    return assumed * abs(forecast.value) if is_unknown(forecast) else forecast.rmse


def assumed_errors(forecasts: Mapping[Series, Forecast]) -> dict[Resource, float]:
    """Return the error that is assumed for forecasts of each resource, relative to the value.

    NaN for memory if it would be 1: a plan keeps one error of memory free, and would have none left.
    """
    known: dict[str, list[tuple[float, float]]] = {resource: [] for resource in Resource}
    for series, forecast in forecasts.items():
        if series.resource in known and not is_unknown(forecast) and math.isfinite(forecast.value):
            known[series.resource].append((forecast.rmse, forecast.value))
    assumed = {resource: _assumed(*np.reshape(known[resource], (-1, 2)).T) for resource in Resource}
    if assumed[Resource.MEMORY_FREE] == 1.0:
        assumed[Resource.MEMORY_FREE] = math.nan
    return assumed


def known_errors(forecasts: Mapping[Series, Forecast]) -> dict[Resource, bool]:
    """Return for each resource whether an error of any of its forecasts is known and not zero."""
    known = {series.resource for series, forecast in forecasts.items() if forecast.rmse > 0.0}
    return {resource: resource in known for resource in Resource}


def with_assumed(error: FloatArray, value: FloatArray) -> FloatArray:
    """Return errors with the unknown ones (NaN) of known values assumed; 0 where there is no value (NaN)."""
    known = np.isfinite(error) & np.isfinite(value)
    assumed = _assumed(error[known], value[known])
    return np.where(known, error, assumed * np.abs(np.nan_to_num(value)))


def _assumed(error: FloatArray, value: FloatArray) -> float:
    """Return the error to assume relative to its value, at most 1, from known errors and their values, float64[n].

    It is the root mean square of the known ones, times √2 because one value is as far off as the one that it is
    compared with. The fewer are known, the nearer it is to 1.
    """
    size = np.abs(value)
    relative = np.divide(np.minimum(error, size), size, out=np.sign(error), where=size > 0.0)
    count = len(relative)
    pooled = math.sqrt(float(np.square(relative).sum()) / max(count, 1))
    # errors of zero, such as those of idle hosts, do not prove that there are none
    return 1.0 if pooled == 0.0 else min(math.sqrt(2.0) * pooled ** (count / (count + _NOTHING)), 1.0)


def assumption_notes(
    names: Iterable[str], forecasts: Mapping[Series, Forecast], assumed: Mapping[Resource, float]
) -> tuple[str, ...]:
    """Return a sentence on the hosts, and one on the links between them, whose errors are assumed."""
    pool = set(names)
    unknown = [s for s, forecast in forecasts.items() if s.host in pool and is_unknown(forecast)]
    hosts = [s.host for s in unknown if s.resource is Resource.CPU_NEW]
    priced = (Resource.LATENCY, Resource.BANDWIDTH)
    links = {(s.host, s.peer) for s in unknown if s.resource in priced and s.peer in pool - {s.host}}
    notes = []
    if hosts:
        share = assumed[Resource.CPU_NEW]
        why = "as no error is known" if share == 1.0 else "from the known errors of others"
        notes.append(
            f"{fold(hosts)}: after few readings the error of the CPU share is unknown; {share:.0%} of the share is "
            f"assumed, {why}, so the range is wide"
        )
    if links:
        latency, bandwidth = (assumed[resource] for resource in priced)
        notes.append(
            f"{counted(len(links), 'link')}: after few measurements errors are unknown; {latency:.0%} of "
            f"the latency and {bandwidth:.0%} of the bandwidth are assumed, so the range is wide"
        )
    return tuple(notes)
