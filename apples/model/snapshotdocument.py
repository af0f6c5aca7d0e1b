"""A snapshot as a JSON document, and the values of hosts and links in such a document.

Links are listed as they differ: first from the commonest link (``usual``), in large pools by classes of hosts
(``classes``, ``between``), then pair by pair (``pairs``). Equal hosts of large pools are one entry with a bracket
expression as ``host``. At most `LISTED_PAIRS` pairs are listed; ``omitted`` counts the others.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from apples.model.grid import LISTED_PAIRS, Conditions, Estimate, Host, Snapshot
from apples.model.pairs import FEW, FloatArray, PairValues
from nws.base.hostlist import expand, fold
from nws.base.records import document_of

Json = dict[str, Any]


def snapshot_document(snapshot: Snapshot) -> Json:
    """Return the JSON object of a snapshot. Names of stale series have the same limit as pairs."""
    return {
        "source": snapshot.source,
        "taken_at": snapshot.taken_at,
        "hosts": [_host(*group) for group in host_groups(snapshot)],
        "links": _links(snapshot),
        "stale": list(snapshot.stale[:LISTED_PAIRS]),
    }


def host_entries(snapshot: Mapping[str, Any]) -> dict[str, Json]:
    """Return the entry of each host of a document, by name."""
    entries: dict[str, Json] = {}
    for entry in snapshot.get("hosts", []):
        name = entry["host"]
        entries.update(dict.fromkeys(expand(name), entry) if "[" in name or "," in name else {name: entry})
    return entries


def link_entries(snapshot: Mapping[str, Any], pairs: Iterable[tuple[str, str]]) -> list[Json | None]:
    """Return the entry of each of these ordered pairs of different hosts; None if the document has no links."""
    links = snapshot.get("links", {})
    single = {(pair["from"], pair["to"]): pair for pair in links.get("pairs", [])}
    kind = {name: c for c, names in enumerate(links.get("classes", [])) for name in expand(names)}
    between = {(entry["from"], entry["to"]): entry for entry in links.get("between", [])}
    usual = links.get("usual")
    return [single.get((a, b)) or between.get((kind.get(a), kind.get(b))) or usual for a, b in pairs]


def _links(snapshot: Snapshot) -> Json:
    classes = snapshot.latency_s.classes
    start, end = np.nonzero(classes.occurs())
    values = snapshot.latency_s.table + 1j * snapshot.bandwidth_Bps.table
    weight = np.outer(classes.size, classes.size) - np.diag(classes.size)
    kinds, which = np.unique(values[start, end], return_inverse=True)
    if not kinds.size:
        return {"usual": None, "pairs": [], "omitted": 0, "within": _within(snapshot), **_sources(snapshot)}
    usual = complex(kinds[np.bincount(which, weight[start, end]).argmax()])
    differ = values[start, end] != usual
    if snapshot.loss is not None:
        differ |= snapshot.loss.table[start, end] > 0
    start, end = start[differ], end[differ]
    entries: Json = {"usual": {"latency_s": usual.real, "bandwidth_Bps": usual.imag}}
    omitted = 0
    if classes.kind is not None:
        members = [np.flatnonzero(classes.kind == c) for c in range(len(classes.size))]
        entries["classes"] = [fold(snapshot.hosts[h].name for h in some.tolist()) for some in members]
        entries["between"] = [
            {
                "from": a,
                "to": b,
                **_link(snapshot, float(values[a, b].real), float(values[a, b].imag), _loss(snapshot, a, b)),
            }
            for a, b in zip(start[:LISTED_PAIRS].tolist(), end[:LISTED_PAIRS].tolist(), strict=True)
        ]
        omitted = max(len(start) - LISTED_PAIRS, 0)
        start, end = classes.ends
    return {
        **entries,
        "pairs": [
            _pair(snapshot, i, j)
            for i, j in zip(start[:LISTED_PAIRS].tolist(), end[:LISTED_PAIRS].tolist(), strict=True)
        ],
        "omitted": omitted + max(len(start) - LISTED_PAIRS, 0),
        "within": _within(snapshot),
        **_sources(snapshot),
    }


def _loss(snapshot: Snapshot, a: int, b: int) -> float:
    """Return the loss between two classes."""
    return 0.0 if snapshot.loss is None else float(snapshot.loss.table[a, b])


def _link(snapshot: Snapshot, latency_s: float, bandwidth_Bps: float, loss: float) -> Json:
    entries = {"latency_s": latency_s, "bandwidth_Bps": bandwidth_Bps}
    return {**entries, "loss": loss} if loss > 0 else entries


def _pair(snapshot: Snapshot, i: int, j: int) -> Json:
    names = snapshot.hosts[i].name, snapshot.hosts[j].name
    loss = 0.0 if snapshot.loss is None else float(snapshot.loss[i, j])
    values = _link(snapshot, float(snapshot.latency_s[i, j]), float(snapshot.bandwidth_Bps[i, j]), loss)
    pair: Json = {"from": names[0], "to": names[1], **values}
    if snapshot.pair_age_s is not None:
        age_s = float(snapshot.pair_age_s[i, j])
        pair["age_s"] = age_s if math.isfinite(age_s) else None
    if snapshot.composed is not None and snapshot.composed[i, j]:
        pair["through"] = list(snapshot.through.get(names, ()))
    return pair


def _within(snapshot: Snapshot) -> list[Json]:
    """Return the links within hosts, one entry for each class of hosts."""
    classes = snapshot.latency_s.classes
    names = [snapshot.hosts[h].name for h in classes.first.tolist()]
    return [
        {"host": name, "latency_s": float(latency), "bandwidth_Bps": float(bandwidth)}
        for name, latency, bandwidth in zip(
            names, snapshot.latency_s.within, snapshot.bandwidth_Bps.within, strict=True
        )
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSources:
    """Numbers of pairs whose values were measured, composed and stated; age of the oldest in use, seconds."""

    measured: int
    composed: int
    nominal: int
    oldest_s: float | None


def link_sources(snapshot: Snapshot) -> LinkSources | None:
    """Return the sources of a snapshot's links; None if it keeps no ages."""
    if snapshot.pair_age_s is None:
        return None
    ages, hosts = _each_pair(snapshot.pair_age_s), len(snapshot.hosts)
    known = ages[np.isfinite(ages)]
    composed = 0 if snapshot.composed is None else int(_each_pair(snapshot.composed).sum())
    return LinkSources(
        measured=len(known) - composed,
        composed=composed,
        nominal=hosts * (hosts - 1) - len(known),
        oldest_s=float(known.max()) if len(known) else None,
    )


def composed_pairs(snapshot: Snapshot, most: int) -> list[tuple[str, str, tuple[str, ...], float]]:
    """Return the first composed pairs of single hosts: both ends, the hosts between, and the age in seconds."""
    if snapshot.composed is None or snapshot.pair_age_s is None:
        return []
    classes, names = snapshot.latency_s.classes, [host.name for host in snapshot.hosts]
    start, end = np.nonzero(classes.occurs()) if classes.kind is None else classes.ends
    listed = [(i, j) for i, j in zip(start.tolist(), end.tolist(), strict=True) if snapshot.composed[i, j]]
    return [
        (names[i], names[j], snapshot.through.get((names[i], names[j]), ()), float(snapshot.pair_age_s[i, j]))
        for i, j in listed[:most]
    ]


def _sources(snapshot: Snapshot) -> Json:
    sources = link_sources(snapshot)
    return {} if sources is None else asdict(sources)


def _each_pair(values: PairValues) -> FloatArray:
    """Return the values of all pairs of different hosts; where classes are listed, of the single pairs only."""
    if values.classes.kind is None:
        return values.occurring()
    start, end = values.classes.ends
    single: FloatArray = values.single[start != end]
    return single


def host_groups(snapshot: Snapshot) -> list[tuple[list[str], Host, Conditions]]:
    """Return names, first host and conditions of each host; of more than `FEW`, of each run of equal hosts."""
    groups: list[tuple[list[str], Host, Conditions]] = []
    fold_them = len(snapshot.hosts) > FEW
    before: tuple[Any, ...] | None = None
    for host, conditions in zip(snapshot.hosts, snapshot.conditions, strict=True):
        key = (host.slots, host.cpu_type, host.site, conditions)
        if fold_them and key == before:
            groups[-1][0].append(host.name)
            continue
        before = key
        groups.append(([host.name], host, conditions))
    return groups


def _host(names: list[str], host: Host, conditions: Conditions) -> Json:
    capacity = conditions.capacity
    return {
        "host": fold(names),
        **document_of(host, "slots", "cpu_type", "site"),
        "availability": _estimate(conditions.availability),
        "capacity": None if capacity is None else _estimate(capacity),
        "memory_bytes": _estimate(conditions.memory_bytes),
        "cpu_limit": conditions.cpu_limit if math.isfinite(conditions.cpu_limit) else None,
    }


def _estimate(estimate: Estimate) -> Json:
    def finite(x: float) -> float | None:
        return x if math.isfinite(x) else None

    return {
        "value": finite(estimate.value),
        "error": finite(estimate.error),
        **document_of(estimate, "assumed", "method", "samples"),
        "age_s": finite(estimate.age_s),
    }
