"""Costs and capacity of one host for every number of ranks that may share it, or the reason to exclude it.

Comp_i of §3.1 and the limits of §3.3 (memory, largest array, constraints that name this host alone), as one small
table per host. Shares above a whole CPU are cut to one, and an unknown error never counts as certainty. Other hosts,
links and chains play no part.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from apples.model.grid import LEAST_SHARE, Conditions, Estimate, FloatArray, Host
from apples.model.template import Costs, LinearConstraint, Workload
from apples.planning.planningoptions import PlanningOptions
from nws.base.wording import counted
from nws.series import SCORES, SHARES

#: Rows of a host's table before the quantiles of its CPU share, and all of them.
QUANTILES = 8
ROWS = QUANTILES + len(SHARES)
#: Further error of costs on a host without a free CPU, in units of that on an idle one: load changes within a run.
_LOADED = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDemands:
    """The demands of one problem on every host. min_rows : smallest slab, one row or more.

    unknown_error : standard deviation assumed for a CPU share without one
    """

    workload: Workload
    costs: Costs
    options: PlanningOptions
    min_rows: int
    unknown_error: float


def is_known(error: float) -> bool:
    """Return whether a standard deviation is a number (NaN marks a series of one sample)."""
    return math.isfinite(error) and error >= 0


def host_table(host: Host, conditions: Conditions, demands: HostDemands) -> tuple[str | None, FloatArray]:
    """Return (reason to leave the host out or None, float64[ROWS, slots+1]), [:, m] for m ranks on the host.

    Rows of the table: seconds per row, capacity of one rank in rows, rows that fit in memory, CPU share forecast,
    CPU share used as the price, its coefficient of variation during the run, 1 if nothing is known about its error and
    else 0, presence (`Conditions.presence`); from `QUANTILES` on quantiles of the share at `SHARES`, made wider by the
    error of the cost of a row.
    """
    table = np.full((ROWS, max(host.slots, 0) + 1), np.nan)
    reason = _unusable(host, conditions, demands)
    if reason is not None:
        return reason, table
    workload, options = demands.workload, demands.options
    fear = NormalDist().inv_cdf(options.quantile)
    for m in range(1, host.slots + 1):
        share = min(conditions.share(m, host.slots), 1.0)
        binding = conditions.binding(m, host.slots)
        # However large the error, a host that is up stays in the plan's reach, at a high price.
        error = binding.error if is_known(binding.error) else demands.unknown_error
        relative = error / max(binding.value, LEAST_SHARE)
        careful = min(max(share * (1.0 - fear * relative), min(share, LEAST_SHARE)), 1.0)
        memory = _memory_rows(conditions, workload, m)
        limit = min(_limits(host.name, workload, m).values(), default=math.inf)
        cap = limit if options.allow_spill else min(limit, memory)
        row_s = demands.costs.row_seconds(host.cpu_type, m, host.name) * workload.iterations
        seconds = (row_s + demands.costs.start_row_cpu_s) / careful
        presence = conditions.presence(careful, m)
        table[:QUANTILES, m] = (
            seconds,
            cap,
            memory,
            share,
            careful,
            binding.variation,
            binding.guessed,
            presence,
        )
        quantiles = np.clip(share * _spread(binding, relative), LEAST_SHARE, 1.0)
        # The cost of a row is as uncertain for the time of a rank as its share.
        cost_error = demands.costs.host_error(host.name) * math.hypot(1.0, _LOADED * (1.0 - share))
        table[QUANTILES:, m] = _wider(quantiles, cost_error)
    table[:, 0] = table[:, 1]
    if table[1, 1] < demands.min_rows:
        return _too_small(host, conditions, demands), table
    return None, table


def _spread(estimate: Estimate, relative: float) -> FloatArray:
    """Return the quantiles of a CPU share divided by its value, at `SHARES`.

    relative : standard deviation divided by the value; without quantiles, that of the logarithm, so that no share is 0
    """
    if estimate.quantiles:
        return np.array(estimate.quantiles) / estimate.value
    return np.exp(np.array(SCORES) * relative)


def _wider(quantiles: FloatArray, error: float) -> FloatArray:
    """Return quantiles of a share, float64[shares], with a further, independent error of this size of its logarithm."""
    if not error:
        return quantiles
    logs, scores = np.log(quantiles), np.array(SCORES)
    middle = logs[len(logs) // 2]
    wider: FloatArray = np.exp(middle + np.sign(scores) * np.hypot(logs - middle, scores * error))
    return wider


def _unusable(host: Host, conditions: Conditions, demands: HostDemands) -> str | None:
    """Return why the host has no usable forecast or cannot run a rank, or None."""
    if host.slots < 1:
        return "it has no slot"
    known = demands.costs.seconds_per_row
    if not known.get(host.cpu_type):
        listed = ", ".join(sorted(known)) or "none"
        return (
            f"no benchmark for CPU type {host.cpu_type!r} (known: {listed}); run apples calibrate on such a host, "
            "or state its seconds_per_row in the grid file"
        )
    for m in range(1, host.slots + 1):
        seconds = demands.costs.row_seconds(host.cpu_type, m, host.name)
        if not (math.isfinite(seconds) and seconds > 0):
            return (
                f"the benchmark for CPU type {host.cpu_type!r} says {seconds} s a "
                f"{demands.workload.row}; apples calibrate"
            )
    share = conditions.share(1, host.slots)
    if math.isnan(share):
        return "its CPU availability is not known"
    if share < LEAST_SHARE:
        return f"a new process would get {share:.3f} of a CPU, less than {LEAST_SHARE}"
    if demands.workload.bytes_per_row > 0 and math.isnan(conditions.memory_bytes.value):
        return "its free memory is not known"
    return None


def _too_small(host: Host, conditions: Conditions, demands: HostDemands) -> str:
    """Return the limit that keeps even the smallest slab off the host."""
    workload, least = demands.workload, demands.min_rows
    for name, rows in _limits(host.name, workload, 1).items():
        if rows < least:
            return f"{name} allows {counted(round(max(rows, 0)), workload.row)} a rank, fewer than {least}"
    free = conditions.memory_bytes.value
    rows = _memory_rows(conditions, workload, 1)
    return f"{free / 1e6:.0f} MB free hold {counted(round(rows), workload.row)}, fewer than {least}"


def _memory_rows(conditions: Conditions, workload: Workload, ranks: int) -> float:
    """Return the whole rows of each of `ranks` ranks in free memory, one forecast error kept free (BMmem·x < Mem)."""
    if workload.bytes_per_row <= 0 or math.isinf(conditions.memory_bytes.value):
        return math.inf
    error = conditions.memory_bytes.error
    free = conditions.memory_bytes.value - (error if is_known(error) else 0.0) - workload.bytes_shared
    free /= ranks
    return math.floor(max(free - workload.bytes_fixed, 0.0) / workload.bytes_per_row)


def _limits(host: str, workload: Workload, ranks: int) -> dict[str, float]:
    """Return the most rows of one of `ranks` ranks, by the name of the limit; memory is not included."""
    limits = {} if workload.max_rows is None else {"the array limit": float(workload.max_rows)}
    for c in workload.constraints:
        if own_host(c) == host:
            limits[c.name] = math.floor(c.bound / c.coefficients[host] / ranks + 1e-9)
    return limits


def own_host(constraint: LinearConstraint) -> str | None:
    """Return the only host that a constraint limits from above; None if it ties hosts together or demands rows."""
    live = [name for name, c in constraint.coefficients.items() if c]
    plain = len(live) == 1 and constraint.coefficients[live[0]] > 0 and constraint.bound >= 0
    return live[0] if plain else None
