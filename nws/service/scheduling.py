"""The measuring schedule, which host probes which and when, as hosts join and leave.

Cliques are configured, or built from the registered hosts and their sites (`nws.links.cliques`). Every change is a
new version that takes effect at the start of a frame, late enough for every sensor to know it. Hosts that join
within a short time share one version. A version is stored before any sensor sees it, so version numbers never
decrease. A new address also makes a new version, because sensors learn peers' addresses with it. Source: Wolski et
al. 2000, §2.4 (cliques).
"""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nws.base.errors import UsageError
from nws.links.cliques import Clique, Schedule, automatic, schedule
from nws.memory.keyvalues import KeyValueTable
from nws.messages.weatherdocuments import Peers, Registration
from nws.service.serviceconfig import ServiceConfig

_LOG = logging.getLogger(__name__)

_KEY = "schedule"
#: Seconds after a change in which further changes are collected for the next version.
SETTLE_S = 2.0
#: Maximum factor by which a frame is lengthened if cliques do not fit into it.
_MOST_FRAMES = 64


class ScheduleVersions:
    """The schedule in force or about to be. Methods raise `StoreError` and then change nothing.

    clock: seconds since the epoch.  steady: seconds that never step
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
        self.schedule = self._stored()
        self._enter(members, known=False)

    def changed(self, members: Mapping[str, Registration]) -> None:
        """Make a new version after hosts joined, left or moved, or wait for further changes."""
        self._waiting = True
        self.update_when_due(members)

    def update_when_due(self, members: Mapping[str, Registration]) -> None:
        """Make a waiting version if it is due; call this at intervals."""
        settled = self._changed_at is None or self._steady() - self._changed_at >= SETTLE_S
        # a host leaves by long silence, without a call of `changed`, and joins again at its next contact
        self._waiting = self._waiting or members.keys() != self._members
        if self._waiting and settled:
            self._enter(members)
            self._members = frozenset(members)
            self._waiting = False
        # a clock that was set back has moved the start of the schedule far into the future
        elif self.schedule.effective_from > self._from(self._margin_s) + self.schedule.frame_s:
            later = replace(
                self.schedule, version=self.schedule.version + 1, effective_from=self._from(self._margin_s)
            )
            self._publish(later, self.peers)

    def site(self, name: str, reported: str | None) -> str | None:
        """Return the site of a host: as configured, else as reported by its sensor."""
        return self._config.sites.get(name, reported)

    def peers_of(self, host: str) -> Peers:
        """Return the addresses of the other hosts in the cliques of a host."""
        mine = {m for c in self.schedule.cliques if host in c.members for m in c.members}
        return {name: self.peers[name] for name in sorted(mine) if name != host and name in self.peers}

    @property
    def _margin_s(self) -> float:
        """Return the time in which every sensor learns of a new version."""
        return 2 * self._config.every.deliver_s

    def _from(self, margin_s: float) -> float:
        frame = self._config.frame_s
        return math.ceil((self._clock() + margin_s) / frame) * frame

    def _enter(self, members: Mapping[str, Registration], *, known: bool = True) -> None:
        """Set the schedule of these hosts, as a new version if it differs from the present one.

        Args:
            members: the hosts
            known: the sensors know the addresses in `peers`
        """
        cliques = self._cliques(members)
        named = {m for c in cliques for m in c.members}
        peers = {
            name: (r.address, r.port) for name, r in sorted(members.items()) if name in named and r.port > 0
        }
        now = self.schedule
        # without probing yet, a new schedule cannot collide with an old one
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
        """Return the schedule, with longer frames if the configured ones cannot hold all slots."""
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
        # peers first: a reader of schedule, then peers, never gets a new version with old addresses
        self.peers = peers
        self.schedule = made
        members: dict[str, list[str]] = {}
        for clique in made.cliques:
            for member in clique.members:
                members.setdefault(member, []).append(clique.name)
        self.cliques_of = {name: tuple(cliques) for name, cliques in members.items()}

    def _stored(self) -> Schedule:
        """Return the last schedule of this store; in a new store one without cliques."""
        document: Any = self._keyvalues.get(_KEY)
        if document is not None:
            try:
                return Schedule.from_json(document)
            except UsageError as error:
                _LOG.warning("the stored schedule is invalid (%s); making a new one", error)
        # start at the present time, so that sensors with another store's schedule accept this one as newer
        return schedule(
            (),
            version=max(int(self._clock()), 1),
            effective_from=self._from(0.0),
            frame_s=self._config.frame_s,
            guard_s=self._config.guard_s,
        )
