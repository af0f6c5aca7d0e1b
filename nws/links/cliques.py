"""Cliques: the times of network probes, so that no two probes of one host's cliques disturb each other.

A full mesh of bandwidth probes at once measures only itself, so hosts are grouped in cliques and time is cut in
periods (`frame`). Each clique has a phase (`colour`), cliques that share a member have different ones, and each phase
has its part of every period. In that part one member of the clique has the token slot and probes the others. Slots
follow from the clock alone: no token is passed, so none can be lost, and a dead holder's slot passes unused. Pure, but
for the choice of phases, which only the server makes. Source: Wolski et al. 2000, §2.4 (the clique protocol, there with
a token).

    frame k                         frame k+1
    |· a0 → a1 a2 ·|· b0 → b1 ·|    |· a1 → a0 a2 ·|· b1 → b0 ·|      cliques a (colour 0), b (colour 1); · guard
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from nws.base.errors import UsageError

#: A turn shorter than this is no use: connecting alone takes as long.
SHORTEST_TURN_S = 0.1
#: More members than this leave each of them a turn only every few minutes.
MOST_MEMBERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Clique:
    """Hosts that probe each other, one at a time.

    every_s : time in which every member should have had its turn; None: as often as frames allow
    """

    name: str
    members: tuple[str, ...]
    every_s: float | None = None

    def __post_init__(self) -> None:
        if len(set(self.members)) != len(self.members):
            raise UsageError(
                f"clique {self.name!r} names a member twice: {', '.join(self.members)}; name each once"
            )
        if self.every_s is not None and not 0 < self.every_s < math.inf:
            raise UsageError(
                f"clique {self.name!r}: every {self.every_s} s; expected a positive number of seconds"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledClique:
    """A clique with its place in time: in the part of `colour` of every frame k with k % stride == phase."""

    name: str
    members: tuple[str, ...]
    colour: int
    stride: int = 1
    phase: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A slot of `holder` to probe `peers` from `start` to `end`, seconds since the epoch, alone in the clique."""

    clique: str
    holder: str
    peers: tuple[str, ...]
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Slots of all cliques from `effective_from` on (seconds since the epoch).

    version : number of the schedule; higher is newer
    frame_s : length of a period.  guard_s : left unused at both ends of a slot, for clocks that differ
    colours : parts of a period
    """

    version: int
    effective_from: float
    frame_s: float
    guard_s: float
    cliques: tuple[ScheduledClique, ...]
    colours: int

    def turn(self, host: str, now: float) -> Turn | None:
        """Return the turn that `host` holds at `now`, None when it holds none."""
        frame = math.floor(now / self.frame_s)
        for turn in self._turns(host, frame):
            if self.effective_from <= turn.start <= now < turn.end:
                return turn
        return None

    def next_turn(self, host: str, now: float) -> Turn | None:
        """Return the first slot of `host` that starts at `now` or later; None without peers."""
        first = math.floor(max(now, self.effective_from) / self.frame_s)
        return min(
            (t for t in self._turns(host, first) if t.start >= now and t.start >= self.effective_from),
            key=lambda t: t.start,
            default=None,
        )

    def round_s(self, clique: str) -> float:
        """Return seconds in which every member of that clique has had its turn once; raises `UsageError`."""
        one = self.cliques[self._place(clique)]
        return len(one.members) * one.stride * self.frame_s

    def peers(self, host: str, clique: str) -> tuple[str, ...]:
        """Return the hosts that `host` probes in that clique; raises `UsageError` when there is no such clique."""
        number = self._place(clique)
        return self._peers(host, number) if host in self.cliques[number].members else ()

    def seen_by(self, host: str) -> Schedule:
        """Return the same schedule with the cliques of `host` only: all that this host need know."""
        return replace(self, cliques=tuple(c for c in self.cliques if host in c.members))

    def to_json(self) -> dict[str, Any]:
        """Return a document that `from_json` takes back."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document

    @classmethod
    def from_json(cls, document: object) -> Schedule:
        """Return the schedule of such a document; raises `UsageError` with its errors."""
        try:
            return msgspec.convert(document, cls)
        except ValueError as error:
            raise UsageError(
                f"not a schedule of turns: {error}; is the server of another version?"
            ) from error

    def _place(self, clique: str) -> int:
        for number, one in enumerate(self.cliques):
            if one.name == clique:
                return number
        raise UsageError(
            f"no clique is called {clique!r}; there are {', '.join(c.name for c in self.cliques) or 'none'}"
        )

    def __post_init__(self) -> None:
        faults = []
        numbers = (self.effective_from, self.frame_s, self.guard_s)
        if not all(map(math.isfinite, numbers)) or self.colours < 1 or self.guard_s < 0:
            faults.append("its numbers are out of range")
        elif self.frame_s / self.colours - 2 * self.guard_s < SHORTEST_TURN_S * (1 - 1e-9):
            faults.append(f"turns are shorter than {SHORTEST_TURN_S} s")
        for one in self.cliques:
            if not 0 <= one.colour < self.colours or not 0 <= one.phase < one.stride:
                faults.append(f"clique {one.name!r} has no place in a frame")
        if faults:
            raise UsageError(f"not a schedule of turns: {'; '.join(faults)}")

    def _turns(self, host: str, frame: int) -> Iterator[Turn]:
        """Yield for each clique of `host`: its first turn in that frame or later, and the one after it."""
        for number, clique in enumerate(self.cliques):
            if host not in clique.members:
                continue
            peers = self._peers(host, number)
            if not peers:
                continue
            period = clique.stride * len(clique.members)
            mine = clique.phase + clique.stride * clique.members.index(host)
            first = frame + (mine - frame) % period
            part_s = self.frame_s / self.colours
            for k in (first, first + period):
                start = k * self.frame_s + clique.colour * part_s
                yield Turn(
                    clique=clique.name,
                    holder=host,
                    peers=peers,
                    start=start + self.guard_s,
                    end=start + part_s - self.guard_s,
                )

    def _peers(self, host: str, number: int) -> tuple[str, ...]:
        """Return the hosts that `host` probes in that clique: all others without those it probes in an earlier
        clique.
        """
        before: set[str] = set()
        for clique in self.cliques[:number]:
            if host in clique.members:
                before.update(clique.members)
        return tuple(m for m in self.cliques[number].members if m != host and m not in before)


def schedule(
    cliques: Sequence[Clique],
    *,
    version: int,
    effective_from: float,
    frame_s: float = 4.0,
    guard_s: float = 0.1,
) -> Schedule:
    """Return the slots for these cliques; the order counts: a pair in two of them is probed in the first.

    Raises `UsageError` where so many cliques meet in one host that a period is too short for all their slots.
    """
    names = [c.name for c in cliques]
    if len(set(names)) != len(names):
        raise UsageError(f"two cliques have the same name; each needs its own: {', '.join(sorted(names))}")
    if not 0 < frame_s < math.inf or not 0 <= guard_s < math.inf:
        raise UsageError(f"a frame of {frame_s} s with a guard of {guard_s} s: expected positive seconds")
    colours = _colours(cliques)
    count = max(colours, default=0) + 1
    if frame_s / count - 2 * guard_s < SHORTEST_TURN_S * (1 - 1e-9):
        need = count * (SHORTEST_TURN_S + 2 * guard_s)
        raise UsageError(
            f"a frame of {frame_s:g} s is too short for {count} cliques with a host in common: each turn needs "
            f"{SHORTEST_TURN_S} s and a guard of {guard_s:g} s at both ends; set a frame of {need:g} s or "
            "longer, or put fewer cliques on one host"
        )
    placed = []
    for number, (clique, colour) in enumerate(zip(cliques, colours, strict=True)):
        stride = 1
        if clique.every_s is not None and clique.members:
            stride = max(1, math.floor(clique.every_s / (len(clique.members) * frame_s) + 1e-9))
        placed.append(
            ScheduledClique(
                name=clique.name,
                members=clique.members,
                colour=colour,
                stride=stride,
                # cliques that rest between their turns do not all rest in the same frames
                phase=number % stride,
            )
        )
    return Schedule(
        version=version,
        effective_from=effective_from,
        frame_s=frame_s,
        guard_s=guard_s,
        cliques=tuple(placed),
        colours=count,
    )


def _colours(cliques: Sequence[Clique]) -> list[int]:
    """Return smallest colours found by going through the cliques, those with the most neighbours first."""
    import networkx as nx

    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(len(cliques)))
    at: dict[str, list[int]] = {}
    for number, clique in enumerate(cliques):
        for member in clique.members:
            for other in at.setdefault(member, []):
                graph.add_edge(number, other)
            at[member].append(number)
    colours = nx.greedy_color(graph, strategy="largest_first")
    return [colours[number] for number in range(len(cliques))]


def automatic(hosts: Sequence[str], sites: Mapping[str, str], most: int = MOST_MEMBERS) -> tuple[Clique, ...]:
    """Return cliques of at most `most` members that connect all `hosts`, their pairs linear in hosts.

    sites : host → its site; hosts without one are together

    The hosts of a site, in order of name, make its cliques; the first members of all cliques make those of the next
    level, and so on up to one. Names are ``site:east``, ``site:east/2``, ``level:2``, ``level:2/3``.
    """
    if most < 2:
        raise UsageError(f"cliques of at most {most} members: expected 2 or more")
    by_site: dict[str, list[str]] = {}
    for host in sorted(set(hosts)):
        by_site.setdefault(sites.get(host, ""), []).append(host)
    cliques: list[Clique] = []
    heads: list[str] = []
    for site in sorted(by_site):
        heads += _cut(f"site:{site}" if site else "site", by_site[site], most, cliques)
    level = 2
    while len(heads) > 1:
        heads = _cut(f"level:{level}", heads, most, cliques)
        level += 1
    return tuple(cliques)


def _cut(name: str, hosts: Sequence[str], most: int, cliques: list[Clique]) -> list[str]:
    """Cut hosts into parts of almost the same size, each a clique added to `cliques`; returns their first members."""
    count = -(-len(hosts) // most)
    ends = [len(hosts) * part // count for part in range(count + 1)]
    heads = []
    for part in range(count):
        members = tuple(hosts[ends[part] : ends[part + 1]])
        heads.append(members[0])
        if len(members) > 1:
            cliques.append(Clique(name=name if count == 1 else f"{name}/{part + 1}", members=members))
    return heads


def pairs(cliques: Iterable[Clique | ScheduledClique]) -> list[tuple[str, str]]:
    """Return ordered pairs (from, to) that these cliques measure, each once, in the order of the cliques."""
    measured: dict[tuple[str, str], None] = {}
    for clique in cliques:
        for here in clique.members:
            measured.update(dict.fromkeys((here, there) for there in clique.members if there != here))
    return list(measured)
