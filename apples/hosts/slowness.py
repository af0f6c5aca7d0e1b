"""Slow hosts and the reasons, computed from measurements of each host. Pure.

A host can be slow because its control groups limit it (throttled), because other processes use it (busy), because its
CPU is slower than the others', or because its links are. The measurements separate these: the kernel counts CPU
seconds, which do not depend on the load, and the CPU share does not depend on the speed of the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from apples.hosts.hostmessages import Survey
from apples.hosts.speed import Kernel, LinkSpeed

#: A CPU counts as slow beyond this factor of the median, a link beyond the other, a host as busy below this share.
SLOW_CPU, SLOW_LINK, BUSY = 1.25, 3.0, 0.75

#: A link that loses this share of its messages is lossy.
LOSSY = 0.01

#: A link of this latency (s) or bandwidth (bytes/s) is not slow, whatever the others are.
QUICK_LATENCY_S, QUICK_BANDWIDTH_BPS = 0.5e-3, 50e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The speed of one host, and the reasons if it is slow.

    speed : cells and iterations a second of one new process, None if not known
    relative : the same over the fastest host's.  latency_s, bandwidth_Bps : medians of its links, both directions
    reasons : one sentence each
    """

    host: str
    speed: float | None
    relative: float | None
    latency_s: float | None
    bandwidth_Bps: float | None
    reasons: tuple[str, ...]


def verdicts(
    surveys: Mapping[str, Survey], kernels: Mapping[str, Kernel], links: Sequence[LinkSpeed]
) -> list[Verdict]:
    """Return a verdict for every surveyed host, in the order of the argument."""
    cells = {host: k.seconds_per_cell for host, k in kernels.items() if k.seconds_per_cell}
    # Speed of the CPU times the share that a new process gets of it.
    speeds = {host: surveys[host].availability / cells[host] for host in surveys if host in cells}
    best = max(speeds.values(), default=0.0)
    judged = []
    for host, survey in surveys.items():
        links_of_host = [link for link in links if host in (link.source, link.target)]
        latency_s, bandwidth_Bps = typical(links_of_host)
        reasons = [
            *_share(survey),
            *_cpu(host, cells),
            *_links(host, surveys, links),
            *(f"the kernel did not run: {k.error}" for h, k in kernels.items() if h == host and k.error),
        ]
        speed = speeds.get(host)
        judged.append(
            Verdict(
                host=host,
                speed=speed,
                relative=None if speed is None or best <= 0 else speed / best,
                latency_s=latency_s,
                bandwidth_Bps=bandwidth_Bps,
                reasons=tuple(reasons),
            )
        )
    return judged


def slowest(judged: Sequence[Verdict]) -> Verdict | None:
    """Return the host of least speed among those with a reason, None if there are none."""
    held = [verdict for verdict in judged if verdict.reasons]
    return min(
        held, key=lambda v: (v.relative if v.relative is not None else 0.0, -len(v.reasons)), default=None
    )


def typical(links: Sequence[LinkSpeed]) -> tuple[float | None, float | None]:
    """Return the median latency (s) and bandwidth (bytes/s) of the measured links; None without any."""
    latencies = [link.latency_s for link in links if link.latency_s is not None]
    widths = [link.bandwidth_Bps for link in links if link.bandwidth_Bps is not None]
    return (median(latencies) if latencies else None, median(widths) if widths else None)


def _share(survey: Survey) -> list[str]:
    reasons = []
    most = 1.0 if survey.quota is None else min(1.0, survey.quota)
    if most < 1.0:
        reasons.append(f"throttled: its control groups leave it {survey.quota:.2f} of a CPU")
    # Relative to its limits: a throttled host is not busy as well.
    if survey.availability < BUSY * most:
        reasons.append(
            f"busy: a new process gets {survey.availability:.2f} of a CPU where it could have {most:.2f} "
            f"(load {survey.load:.1f})"
        )
    return reasons


def _cpu(host: str, cells: Mapping[str, float]) -> list[str]:
    # Without this host, which of two would be half of the median.
    others = [seconds for name, seconds in cells.items() if name != host]
    if host not in cells or not others or cells[host] <= SLOW_CPU * median(others):
        return []
    return [f"slow CPU: a cell takes it {cells[host] / median(others):.2f} times as long as the others"]


def _links(host: str, hosts: Mapping[str, Survey], links: Sequence[LinkSpeed]) -> list[str]:
    """Return the reasons about links: a host's links are slow if all are, compared with the links of the others."""
    links_of_host = [link for link in links if host in (link.source, link.target)]
    # Links between other hosts only: this host's own would hide that they are slow.
    rest = [link for link in links if host not in (link.source, link.target)]
    failed = [link for link in links_of_host if link.error is not None]
    reasons = [f"no link: {link.source} → {link.target}: {link.error}" for link in failed[:1]]
    lossy = max(
        (link for link in links_of_host if link.lost), key=lambda link: link.lost or 0.0, default=None
    )
    if lossy is not None and lossy.lost is not None and lossy.lost >= LOSSY:
        reasons.append(
            f"lossy link: {lossy.lost:.1%} of the messages {lossy.source} → {lossy.target} had to be sent again; "
            "ranks wait for each"
        )
    (latency_s, width), (usual_s, usual_width) = typical(links_of_host), typical(rest)
    if (
        latency_s is not None
        and usual_s is not None
        and latency_s > max(SLOW_LINK * usual_s, QUICK_LATENCY_S)
    ):
        reasons.append(
            f"slow link: latency {latency_s * 1e3:.2f} ms, between the others {usual_s * 1e3:.2f} ms"
        )
    if (
        width is not None
        and usual_width is not None
        and width < min(usual_width / SLOW_LINK, QUICK_BANDWIDTH_BPS)
    ):
        reasons.append(
            f"slow link: {width * 8e-6:.3g} Mbit/s, between the others {usual_width * 8e-6:.3g} Mbit/s"
        )
    return reasons
