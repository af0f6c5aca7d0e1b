"""Estimates for unmeasured pairs, along a path of measured pairs.

Of all paths the one with the fewest hops is taken, and of those the one with the lowest latency: every hop adds an
error, and a real transfer does not reach the bandwidth that a path of many fast hops promises. Latencies add up, their
errors in quadrature; the slowest hop gives the bandwidth and its error; the oldest hop gives the time. Pure: the pairs
and their freshness are decided by callers. Source: Wolski et al. 2000, §2.4 (one forecast for every pair of a query).
"""

from dataclasses import dataclass

Pair = tuple[str, str]
"""Ordered pair of hosts: from, to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The forecast of an ordered pair of hosts.

    latency_s, latency_error_s : one way, seconds.  bandwidth_Bps, bandwidth_error_Bps : bytes per second; NaN if
    unknown.  measured_at : seconds since the epoch
    """

    latency_s: float
    latency_error_s: float
    bandwidth_Bps: float
    bandwidth_error_Bps: float
    measured_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed(Link):
    """A link put together from others. through : hosts between the two ends, in order; none when it was measured.

    measured_at : time of the oldest part
    """

    through: tuple[str, ...] = ()
