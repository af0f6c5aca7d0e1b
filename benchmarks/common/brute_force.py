"""A reference for the planner: every set of slots in every order, priced by code that shares nothing with it.

The costs are computed from the snapshot's own numbers, one chain at a time, as docs/planning.md states the exchange
model. A chain counts only if it ends before the best one so far, so one test of that finish replaces most searches.
`prune` also drops prefixes that cannot place the rows by that finish; without it every chain is priced.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from apples.model.grid import Snapshot
from apples.model.template import Costs, Workload
from nws.base.jit import cached, digest

#: Time slice of the exchange model, seconds.
SLICE_S = 4e-3
_BISECTIONS = 60
_SOURCES = digest([Path(__file__)])


def reference(snapshot: Snapshot, workload: Workload, costs: Costs, *, prune: bool = True) -> float:
    """Return the smallest makespan in seconds over all chains in whole rows; inf if no chain holds the work."""
    slots = np.repeat(np.arange(len(snapshot.hosts)), [h.slots for h in snapshot.hosts])
    widest = max(h.slots for h in snapshot.hosts) + 1
    share = np.ones((len(snapshot.hosts), widest))
    slope, cap = np.ones_like(share), np.zeros_like(share)
    for h, (host, now) in enumerate(zip(snapshot.hosts, snapshot.conditions, strict=True)):
        for m in range(1, host.slots + 1):
            total = now.capacity.value if now.capacity else host.slots * now.availability.value
            share[h, m] = min(now.availability.value, total / m, 1.0)
            bench = costs.seconds_per_row[host.cpu_type]
            seconds = bench[max(k for k in bench if k <= m)] if min(bench) <= m else bench[min(bench)]
            slope[h, m] = seconds * workload.iterations / share[h, m]
            room = (now.memory_bytes.value / m - workload.bytes_fixed) / workload.bytes_per_row
            limits = [np.floor(max(room, 0.0)), float(workload.size)]
            if workload.max_rows is not None:
                limits.append(float(workload.max_rows))
            cap[h, m] = min(limits)
    delay, bandwidth = np.asarray(snapshot.latency_s), np.asarray(snapshot.bandwidth_Bps)
    works = (bandwidth > 0) & np.isfinite(delay)
    latency = np.where(works, delay, 0.0)
    transfer = np.where(works, workload.bytes_exchanged / np.where(works, bandwidth, 1.0), 0.0)
    side = np.where(
        works, workload.messages * latency + transfer + _retransmissions(snapshot, workload), np.inf
    )
    overhead = np.array([costs.overhead.seconds(workload.size, p) for p in range(len(slots) + 1)])
    rates = np.array(
        [
            costs.start_cpu_s,
            costs.message_cpu_s * workload.messages,
            costs.reduction_hops * workload.messages,
            float(workload.iterations),
        ]
    )
    search: Any = _search
    found = search(slots, share, slope, cap, side, transfer, latency, overhead, rates,
                   workload.size, max(workload.min_rows, 1), prune)  # fmt: skip
    return float(found)


def _retransmissions(snapshot: Snapshot, workload: Workload) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the seconds that lost packets add to an exchange, float64[H, H], pair by pair from docs/planning.md."""
    count = len(snapshot.hosts)
    more = np.zeros((count, count))
    if snapshot.loss is None:
        return more
    for a in range(count):
        for b in range(count):
            p, width = float(snapshot.loss[a, b]), float(snapshot.bandwidth_Bps[a, b])
            trip = float(snapshot.latency_s[a, b]) + float(snapshot.latency_s[b, a])
            if p == 0 or not width > 0 or not np.isfinite(trip):
                continue
            timeout, wait = trip + 0.2, 0.0
            # The k-th retransmission in a row waits twice as long as the one before, up to 64 timeouts.
            for k in range(400):
                wait += p ** (k + 1) * timeout * 2 ** min(k, 6)
            most = 1448 / trip * np.sqrt(3 / 2) / np.sqrt(p)
            slower = max(workload.bytes_exchanged / most - workload.bytes_exchanged / width, 0.0)
            more[a, b] = workload.messages * wait + slower
    return more


@cached(sources=_SOURCES)
def _search(slots, share, slope, cap, side, transfer, latency, overhead, rates, size, least, prune):  # type: ignore[no-untyped-def]
    """Return the best makespan over all sets of slots; slots of a host are taken in order."""
    total, best = len(slots), np.inf
    members = np.empty(total, np.int64)
    for mask in range(1, 1 << total):
        n, canonical = 0, True
        for p in range(total):
            if mask >> p & 1:
                if p and slots[p] == slots[p - 1] and not mask >> (p - 1) & 1:
                    canonical = False
                members[n] = slots[p]
                n += 1
        if not canonical:
            continue
        on = np.zeros(len(share), np.int64)
        for i in range(n):
            on[members[i]] += 1
        s, c, fixed = np.empty(n), np.empty(n), np.empty(n)
        absent, speed, slowest = 0.0, 0.0, 0.0
        for i in range(n):
            h = members[i]
            absent -= np.log(share[h, on[h]])
            speed += 1 / slope[h, on[h]]
            slowest = max(slowest, 1 / share[h, on[h]])
        iteration = size / speed / rates[3]
        room = 0.0
        for i in range(n):
            h = members[i]
            others = absent + np.log(share[h, on[h]])
            s[i] = slope[h, on[h]] * np.exp(others / (1 + (iteration / SLICE_S) ** 2))
            c[i] = cap[h, on[h]]
            room += c[i]
            fixed[i] = overhead[n] + rates[0] * slowest + (rates[1] / share[h, on[h]] if n > 1 else 0.0)
            if c[i] < least:
                room = -np.inf
        if room < size or n * least > size:
            continue
        best = _orders(members[:n], s, c, fixed, side, transfer, latency, rates[2], size, least, best, prune)
    return best


@cached(sources=_SOURCES)
def _orders(hosts, s, c, fixed, side, transfer, latency, hops, size, least, best, prune):  # type: ignore[no-untyped-def]
    """Return the smaller of `best` and the best makespan of one set over its orders, depth first."""
    n = len(hosts)
    chain, used = np.full(n, -1), np.zeros(n, np.bool_)
    depth = 0
    while depth >= 0:
        i = chain[depth]
        if i >= 0:
            used[i] = False
        i += 1
        while i < n and (used[i] or not _reaches(hosts, chain, depth, i, side)):
            i += 1
        if i == n:
            chain[depth] = -1
            depth -= 1
            continue
        chain[depth] = i
        used[i] = True
        if depth < n - 1:
            if not prune or best == np.inf or _promising(hosts, s, c, fixed, side, chain, depth, size, best):
                depth += 1
            continue
        best = _price(hosts[chain], s[chain], c[chain], fixed[chain], side, transfer, latency, hops, size,
                      least, best)  # fmt: skip
    return best


@cached(sources=_SOURCES)
def _reaches(hosts, chain, depth, i, side):  # type: ignore[no-untyped-def]
    """Return whether member i can follow the chain: the link works both ways, equal slots in ascending order."""
    for j in range(i):
        if hosts[j] == hosts[i]:
            seen = False
            for d in range(depth):
                seen = seen or chain[d] == j
            if not seen:
                return False
    if depth == 0:
        return True
    a, b = hosts[chain[depth - 1]], hosts[i]
    return side[a, b] < np.inf and side[b, a] < np.inf


@cached(sources=_SOURCES)
def _promising(hosts, s, c, fixed, side, chain, depth, size, best):  # type: ignore[no-untyped-def]
    """Return whether the members could place the work before `best` if only known exchanges cost anything."""
    rows = 0.0
    for i in range(len(hosts)):
        at = -1
        for d in range(depth + 1):
            if chain[d] == i:
                at = d
        wait = 0.0
        if at > 0:
            wait = side[hosts[i], hosts[chain[at - 1]]]
        if 0 <= at < depth:
            wait = max(wait, side[hosts[i], hosts[chain[at + 1]]])
        rows += min(max((best - fixed[i] - wait) / s[i], 0.0), c[i])
    return rows >= size


@cached(sources=_SOURCES)
def _price(hosts, s, c, fixed, side, transfer, latency, hops, size, least, best):  # type: ignore[no-untyped-def]
    """Return the smaller of `best` and the makespan of one chain."""
    n = len(hosts)
    flows = np.zeros(n)
    for i in range(n - 1):
        if hosts[i] != hosts[i + 1]:
            for k in range(n):
                flows[k] += (hosts[k] == hosts[i]) + (hosts[k] == hosts[i + 1])
    slow = 0.0
    for i in range(n - 1):
        slow = max(slow, latency[hosts[i], hosts[i + 1]], latency[hosts[i + 1], hosts[i]])
    start = np.empty(n)
    for i in range(n):
        wait = 0.0
        for j in (i - 1, i + 1):
            if 0 <= j < n:
                a, b = hosts[i], hosts[j]
                more = transfer[a, b] * (max(flows[i], flows[j]) - 1) if a != b else 0.0
                wait = max(wait, side[a, b] + more)
        start[i] = fixed[i] + wait + hops * slow
    if best < np.inf and not _places(start, s, c, size, least, best * (1 - 1e-12)):
        return best
    low, high = 0.0, best
    if best == np.inf:
        high = np.max(start + s * c)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if _places(start, s, c, size, least, middle):
            high = middle
        else:
            low = middle
    return high


@cached(sources=_SOURCES)
def _places(start, s, c, size, least, finish):  # type: ignore[no-untyped-def]
    """Return whether the ranks can place all rows by `finish`, each at least the smallest slab."""
    rows = 0.0
    for i in range(len(s)):
        mine = min(np.floor((finish - start[i]) / s[i] + 1e-9), c[i])
        if mine < least:
            return False
        rows += mine
    return rows >= size
