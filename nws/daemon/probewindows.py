"""Network probes of this host: in the turns of its cliques, one peer after the other, never beyond a turn's end.

Every peer is probed once a round; a round that does not fit into a turn continues in the next. Peers that failed last
time are tried in the remaining time of a turn, and one of them a round in any case. Turns depend on the server's time
alone, and none is taken before it is known. A schedule with a later start is waited for, and no turn of the old one
reaches into it. Probes are counted one by one; `missed` counts turns that passed while this host was busy or asleep.
"""

import threading
from collections.abc import Callable, Mapping, Sequence

from nws.base.errors import ProbeError
from nws.links.cliques import Schedule, Turn
from nws.sensors.network import Losses, NetworkSensor, ProbePlan
from nws.series import Measurement
from nws.timing.periodic import Counts
from nws.timing.steadyclock import SteadyClock

#: Pause without any turn; a new schedule ends it early.
_IDLE_S = 60.0
#: Until the time is known well enough.
_UNSET_S = 1.0
#: Less than this part of a turn left, and no probe is begun.
_LEAST_PART = 0.05
#: A failure so near the end of a turn is the end's doing, seconds.
_CLOSE_S = 0.01
#: A peer that does not answer the first packet costs no more than this part of a turn.
_PATIENCE_PART = 0.25
_MOST_MISSED = 10_000

#: 0.3 ms at 100 Gb/s, which can still be timed; longer transfers would cost more CPU than a sensor may take.
_MOST_BYTES = 4 << 20

Peers = Mapping[str, tuple[str, int]]


Prober = Callable[..., list[Measurement]]
"""Measures the link to a peer at (address, port) in `within_s` seconds, `patience_s` for the first answer; raises
`ProbeError`."""


class ProbeWindows:
    """The schedule of probes and their execution: the job `network`.

    `learn` and `admits` may be called from any thread.

    keep : receives measurements; raises `ProbeError` when it cannot store them
    say : receives a line when a peer begins to fail, and when it answers again
    stopping : whether the daemon is about to end
    wants_news : set when a peer was unreachable at its address; cleared by the next query of the server
    """

    def __init__(
        self,
        host: str,
        clock: SteadyClock,
        *,
        probe: Prober,
        keep: Callable[[Sequence[Measurement]], None],
        say: Callable[[str], None],
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._host, self._clock = host, clock
        self._probe, self._keep, self._say, self._stopping = probe, keep, say, stopping
        self._lock = threading.Lock()
        self._schedule: Schedule | None = None
        self._coming: Schedule | None = None
        self._peers: Peers = {}
        self._welcome: frozenset[str] = frozenset()
        self._pending: dict[str, list[str]] = {}
        # those whose last probe failed, in the order they are to be tried again
        self._failing: dict[str, None] = {}
        self._accounted: float | None = None
        self.wants_news = False

    @property
    def version(self) -> int | None:
        """Return version of the newest schedule that is known."""
        newest = self._coming or self._schedule
        return None if newest is None else newest.version

    def learn(self, schedule: Schedule, peers: Peers) -> None:
        """Take over a schedule and the addresses of all hosts."""
        now = self._clock()
        with self._lock:
            if self._schedule is None or schedule.effective_from <= now:
                self._take_over(schedule)
            elif schedule.version != self._schedule.version:
                self._coming = schedule
            self._peers = dict(peers)
            known = [s for s in (self._schedule, self._coming) if s is not None]
            mates = {m for s in known for c in s.cliques if self._host in c.members for m in c.members}
            self._welcome = frozenset(peers[m][0] for m in mates if m != self._host and m in peers)
            self.wants_news = False

    def admits(self, address: str) -> bool:
        """Return whether a host at that address is in a clique with this one."""
        return address in self._welcome

    def run(self, counts: Counts) -> float:
        """Use the turn that is now, if there is one; seconds until the next."""
        with self._lock:
            now = self._clock()
            if self._schedule is None or not self._clock.is_set:
                return _IDLE_S if self._schedule is None else _UNSET_S
            if self._coming is not None and now >= self._coming.effective_from:
                self._take_over(self._coming)
            schedule = self._schedule
            if self._accounted is None or self._accounted > now + 2 * schedule.frame_s:
                # a new schedule, or a server whose clock was set back
                self._accounted = max(now, schedule.effective_from)
            self._count_missed(now, counts)
            turn = self._now(now)
            if turn is not None:
                self._accounted = turn.end
        if turn is not None:
            self._use(turn, counts)
        with self._lock:
            now = self._clock()
            following = self._after(now if self._accounted is None else max(now, self._accounted))
        return _IDLE_S if following is None else min(max(following.start - now, 0.0), _IDLE_S)

    def _take_over(self, schedule: Schedule) -> None:
        if self._schedule is None or schedule.version != self._schedule.version:
            self._pending.clear()
            self._accounted = None
        self._schedule, self._coming = schedule, None

    def _now(self, now: float) -> Turn | None:
        """Return the turn that is now, unless it was used already."""
        assert self._schedule is not None
        assert self._accounted is not None
        turn = self._schedule.turn(self._host, now)
        used = turn is not None and turn.end <= self._accounted
        return turn if turn is not None and not used and self._is_whole(turn) else None

    def _after(self, now: float) -> Turn | None:
        assert self._schedule is not None
        turn = self._schedule.next_turn(self._host, now)
        if turn is not None and self._is_whole(turn):
            return turn
        return None if self._coming is None else self._coming.next_turn(self._host, now)

    def _is_whole(self, turn: Turn) -> bool:
        return self._coming is None or turn.end <= self._coming.effective_from

    def _count_missed(self, now: float, counts: Counts) -> None:
        """Count windows that ended since the last one used or counted."""
        assert self._accounted is not None
        missed = 0
        while (turn := self._after(self._accounted)) is not None and turn.end <= now:
            missed += 1
            self._accounted = turn.end
            if missed == _MOST_MISSED:
                self._accounted = now
        if missed:
            counts.missed += missed
            self._say(
                f"network: {missed} turn{'s were' if missed > 1 else ' was'} missed: this host was busy or asleep"
            )

    def _use(self, turn: Turn, counts: Counts) -> None:
        """Probe peers until the turn is over or all have had their probe."""
        length = turn.end - turn.start
        pending = self._round(turn)
        tried: set[str] = set()
        while pending:
            peer = pending[0]
            left = turn.end - self._clock()
            if self._stopping() or left < _LEAST_PART * length:
                return
            failure = self._try(peer, left, _PATIENCE_PART * length)
            if failure and tried and peer not in self._failing and self._clock() >= turn.end - _CLOSE_S:
                # it had only the remainder of the turn; it is first in the next
                return
            tried.add(peer)
            del pending[0]
            self._account(peer, failure, counts)
        again = [p for p in self._failing if p in turn.peers and p not in tried]
        for peer in (p for p in again if self._address(p) is not None):
            left = turn.end - self._clock()
            if self._stopping() or left < _PATIENCE_PART * length:
                return
            self._account(peer, self._try(peer, left, _PATIENCE_PART * length), counts)

    def _round(self, turn: Turn) -> list[str]:
        """Return peers left of the round under way.

        When it is through those of a new one, with one that failed last time.
        """
        pending = self._pending.setdefault(turn.clique, [])
        reachable = [p for p in turn.peers if self._address(p) is not None]
        pending[:] = [p for p in pending if p in reachable]
        if not pending:
            pending += [p for p in reachable if p not in self._failing]
            pending += [p for p in self._failing if p in reachable][:1]
        return pending

    def _address(self, peer: str) -> tuple[str, int] | None:
        """Return where a peer answers; None for one that is not registered, or answers no probes."""
        address = self._peers.get(peer)
        return address if address is not None and address[1] > 0 else None

    def _try(self, peer: str, within_s: float, patience_s: float) -> str | None:
        """Return one probe; why it failed."""
        address = self._address(peer)
        if address is None:
            return f"{peer} is not registered any more"
        try:
            self._keep(self._probe(peer, address, within_s=within_s, patience_s=patience_s))
        except ProbeError as error:
            return str(error)
        return None

    def _account(self, peer: str, failure: str | None, counts: Counts) -> None:
        known = peer in self._failing
        self._failing.pop(peer, None)
        if failure is None:
            counts.done += 1
            if known:
                self._say(f"network: {peer} answers again")
            return
        counts.failed += 1
        self._failing[peer] = None
        self.wants_news = True
        if not known:
            self._say(f"network: {failure}")


def prober(host: str, clock: SteadyClock, source: Callable[[], str | None]) -> Prober:
    """Return probes by `NetworkSensor` from the address that `source` returns at the time."""
    losses = Losses()

    def probe(
        peer: str, address: tuple[str, int], *, within_s: float, patience_s: float
    ) -> list[Measurement]:
        plan = ProbePlan(most_bytes=_MOST_BYTES, connect_s=patience_s)
        sensor = NetworkSensor(
            host=host, peer=peer, address=address, source=source(), plan=plan, losses=losses, clock=clock
        )
        return sensor.measure(within_s=within_s)

    return probe
