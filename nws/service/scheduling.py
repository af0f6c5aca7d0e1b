"""Who probes whom, and when: the measuring schedule as hosts come and go.

Cliques are the configured ones, or made from the registered hosts and their sites (`nws.links.cliques`). Every
change is a
new version that takes effect at the beginning of a frame late enough for every sensor to have heard of it; hosts that
come in a crowd are taken together. Versions are kept in the store before anybody sees them, so they never go back. A
new address is a new version as well, because that is how peers hear of it. Source: Wolski et al. 2000, §2.4 (cliques).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nws.base.errors import UsageError
from nws.links.cliques import Clique, Schedule, automatic, schedule
from nws.service.config import ServiceConfig
from nws.service.keyvalues import KeyValueTable
from nws.service.records import Peers, Registration

_LOG = logging.getLogger(__name__)

_KEY = "schedule"
#: Hosts that come within this time of a change are taken together in the next one.
SETTLE_S = 2.0
#: A frame is made longer at most so many times over when cliques do not fit into it.
_MOST_FRAMES = 64


class ScheduleVersions:
    """The schedule in force or about to be. Methods raise `StoreError` and leave everything as it was.

    clock : seconds since the epoch.  steady : seconds that never step
    """

    def __init__(
        self,
        config: ServiceConfig,
        keyvalues: KeyValueTable,
        *,
        clock: Callable[[], float],
        steady: Callable[[], float],
        members: Mapping[str, Registration],
    ) -> None:
        self._config, self._keyvalues = config, keyvalues
        self._clock, self._steady = clock, steady
        self._changed_at: float | None = None
        self._waiting = False
        self._members = frozenset(members)
        self.cliques_of: dict[str, tuple[str, ...]] = {}
        self.peers: Peers = {}
        self.schedule = self._kept()
        self._enter(members, known=False)

    def changed(self, members: Mapping[str, Registration]) -> None:
        """Hosts have come, gone or moved: make a new version, or wait for others that come as well."""
        self._waiting = True
        self.update_when_due(members)

    def update_when_due(self, members: Mapping[str, Registration]) -> None:
        """Make what is waiting when it is time; to be called now and then."""
        settled = self._changed_at is None or self._steady() - self._changed_at >= SETTLE_S
        # who was silent for long leaves without a word, and is a member again when heard of
        self._waiting = self._waiting or members.keys() != self._members
        if self._waiting and settled:
            self._enter(members)
            self._members = frozenset(members)
            self._waiting = False
        # a clock that was set back has moved the beginning of the schedule far away
        elif self.schedule.effective_from > self._from(self._margin_s) + self.schedule.frame_s:
            later = replace(
                self.schedule, version=self.schedule.version + 1, effective_from=self._from(self._margin_s)
            )
            self._publish(later, self.peers)

    def site(self, name: str, reported: str | None) -> str | None:
        """Site of a host: as configured, else as its sensor has told."""
        return self._config.sites.get(name, reported)

    def peers_of(self, host: str) -> Peers:
        """Addresses of those in the cliques of a host, without itself."""
        mine = {m for c in self.schedule.cliques if host in c.members for m in c.members}
        return {name: self.peers[name] for name in sorted(mine) if name != host and name in self.peers}

    @property
    def _margin_s(self) -> float:
        """Time in which every sensor hears of a new version."""
        return 2 * self._config.every.deliver_s

    def _from(self, margin_s: float) -> float:
        frame = self._config.frame_s
        return math.ceil((self._clock() + margin_s) / frame) * frame

    def _enter(self, members: Mapping[str, Registration], *, known: bool = True) -> None:
        """The schedule of these hosts, as a new version when it differs from the one there is.

        known : the addresses that stand in `peers` are those the sensors know
        """
        cliques = self._cliques(members)
        named = {m for c in cliques for m in c.members}
        peers = {
            name: (r.address, r.port) for name, r in sorted(members.items()) if name in named and r.port > 0
        }
        now = self.schedule
        # where nobody probes yet nobody can be in the way
        margin_s = self._margin_s if any(len(c.members) > 1 for c in now.cliques) else 0.0
        made = self._made(cliques, now.version + 1, self._from(margin_s))
        same = replace(made, version=now.version, effective_from=now.effective_from) == now
        if not same:
            self._publish(made, peers)
        elif known and peers != self.peers:
            self._publish(replace(now, version=now.version + 1), peers)
        else:
            self._set(now, peers)

    def _cliques(self, members: Mapping[str, Registration]) -> tuple[Clique, ...]:
        configured = self._config.cliques
        if configured is not None:
            return tuple(
                Clique(name=name, members=c.members, every_s=c.every_s) for name, c in configured.items()
            )
        answering = [name for name, r in members.items() if r.port > 0]
        sites = {
            name: site for name in answering if (site := self.site(name, members[name].site)) is not None
        }
        return automatic(answering, sites, self._config.clique_most)

    def _made(self, cliques: tuple[Clique, ...], version: int, effective_from: float) -> Schedule:
        """The schedule; in longer frames where the configured ones have no room for all turns."""
        times = 1
        while True:
            try:
                return schedule(
                    cliques,
                    version=version,
                    effective_from=effective_from,
                    frame_s=times * self._config.frame_s,
                    guard_s=self._config.guard_s,
                )
            except UsageError as error:
                times *= 2
                if times > _MOST_FRAMES:
                    raise
                _LOG.warning("%s; frames of %g s are used", error, times * self._config.frame_s)

    def _publish(self, made: Schedule, peers: Peers) -> None:
        self._keyvalues.put(_KEY, made.to_json())
        self._changed_at = self._steady()
        self._set(made, peers)

    def _set(self, made: Schedule, peers: Peers) -> None:
        # who reads schedule and peers in this order has no new version with old addresses
        self.peers = peers
        self.schedule = made
        found: dict[str, list[str]] = {}
        for clique in made.cliques:
            for member in clique.members:
                found.setdefault(member, []).append(clique.name)
        self.cliques_of = {name: tuple(cliques) for name, cliques in found.items()}

    def _kept(self) -> Schedule:
        """The last schedule of this store; in a new store one without cliques."""
        document: Any = self._keyvalues.get(_KEY)
        if document is not None:
            try:
                return Schedule.from_json(document)
            except UsageError as error:
                _LOG.warning("the kept schedule makes no sense (%s); a new one is made", error)
        # counted from the time, so that sensors that know another store's schedule take this one for newer
        return schedule(
            (),
            version=max(int(self._clock()), 1),
            effective_from=self._from(0.0),
            frame_s=self._config.frame_s,
            guard_s=self._config.guard_s,
        )
