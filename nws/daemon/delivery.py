"""Delivery to the server: registers this host, delivers the spool in order, and applies the server's answers.

One job does all of it, so there is no concurrency here. A batch that the server rejects is halved until the faulty
samples are alone. Those are dropped and counted, so that nothing blocks later samples, but only while the server
accepts this host without them. A server that has lost this host's registration, or has an old address, gets a new one.
Every answer sets the clock, and nothing is delivered before it is set. `backoff` decides the pauses after failures.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from nws.base.detach import notify
from nws.base.durations import format_seconds
from nws.base.errors import (
    Forbidden,
    NotFound,
    ServiceError,
    ServiceUnreachable,
    TooMany,
    Unauthorized,
    UsageError,
    WeatherError,
)
from nws.daemon.backoff import Backoff
from nws.daemon.spool import SampleBatch, Spool
from nws.messages.weatherdocuments import PutReceipt, RegistrationReceipt, ScheduleAnswer
from nws.timing.periodic import Counts
from nws.timing.steadyclock import SteadyClock

if TYPE_CHECKING:
    from nws.client.remote import ServiceClient
    from nws.daemon.daemon import SensorDaemon

#: Samples in one batch, and batches in one run of the job.
MOST_SAMPLES = 2000
MOST_BATCHES = 20
#: Seconds between two questions whether peers have moved, and between two looks whether this host has.
NEWS_S = 60.0
#: Difference between this host's and the server's clock that is reported, seconds.
_WRONG_S = 1.0
#: Longest reason in the log, characters, and how many of one delivery it holds.
_LONGEST_REASON = 300
_SHOWN_REASONS = 2
#: Number of reasons for rejection that are logged; a server may word every one differently.
_MOST_REASONS = 50

Addresses = dict[str, tuple[str, int]]
_Answer = TypeVar("_Answer", RegistrationReceipt, ScheduleAnswer, PutReceipt)


@dataclass(slots=True)
class _Told:
    """The last exchange with the server.

    version : of its schedule.  asked_at : time of that request (counter, s)
    registration : the host's registration at the server, None without one.  looked_at : time of the last comparison
    """

    version: int | None = None
    asked_at: float = float("-inf")
    registration: Mapping[str, object] | None = None
    looked_at: float = float("-inf")


class WaitingSamples:
    """The samples of a spool on their way to the server. refused : number of those that it did not accept"""

    def __init__(self, spool: Spool, say: Callable[[str], None]) -> None:
        self._spool, self._say = spool, say
        self._limit = MOST_SAMPLES
        self._reasons: set[str] = set()
        self.refused = 0

    def batch(self) -> SampleBatch | None:
        """Return the next batch, None if no sample waits."""
        return self._spool.oldest(self._limit)

    def acknowledge(self, batch: SampleBatch, answer: PutReceipt) -> None:
        """Remove the samples that the server has from the spool, and count those that it refused."""
        if answer.next <= batch.first:
            raise _odd(f"samples {batch.first} to {batch.next - 1} with next {answer.next}")
        unsent = self._spool.acknowledge(answer.next) - len(batch.samples)
        if unsent > 0:
            self.drop(
                unsent, "the server had their numbers already; was the spool's file restored from a copy?"
            )
        self._limit = min(2 * self._limit, MOST_SAMPLES)
        if answer.refused.count:
            self.drop(answer.refused.count, _in_short(answer.refused.reasons or ("no reason given",)))

    def halve(self, batch: SampleBatch) -> bool:
        """Make the next batch half as large as a rejected one; return False for a batch of one."""
        many = len(batch.samples)
        if many > 1:
            self._limit = many // 2
        return many > 1

    def drop(self, many: int, reason: str) -> None:
        """Count samples that are lost, and report a new reason."""
        self.refused += many
        if reason not in self._reasons and len(self._reasons) < _MOST_REASONS:
            self._reasons.add(reason)
            self._say(
                f"server: {many} sample{'s' if many > 1 else ''} refused and dropped: {reason[:_LONGEST_REASON]}"
            )


class DeliveryJob:
    """The job `deliver` of one host.

    samples : those of the spool.  period_s : from one delivery to the next
    """

    def __init__(
        self,
        host: str,
        spool: Spool,
        clock: SteadyClock,
        home: SensorDaemon,
        *,
        key: str,
        say: Callable[[str], None],
        period_s: float = 10.0,
        dice: random.Random | None = None,
    ) -> None:
        self._host, self._spool, self._clock, self._home = host, spool, clock, home
        self._key, self._say = key, say
        self._dice = dice or random.Random()
        self._backoff = Backoff(say, self._dice)
        self._server: ServiceClient | None = None
        self._reload = threading.Event()
        self.samples = WaitingSamples(spool, say)
        self._told = _Told()
        self.period_s = period_s
        self._ready = False

    def reload(self) -> None:
        """Read the token anew before the next request; from any thread."""
        self._reload.set()

    def run(self, counts: Counts) -> float:
        """Register if needed, deliver waiting samples; return the seconds until the next run."""
        begun, known = self._clock.counter(), self._told.registration is not None
        try:
            more = self._deliver()
        except WeatherError as error:
            counts.failed += 1
            if isinstance(error, ServiceUnreachable):
                # this host may be the one that moved
                self._told.looked_at = float("-inf")
            return self._backoff.pause_s(error, self.period_s)
        counts.done += 1
        self._backoff.over(len(self._spool))
        if more:
            return self._dice.uniform(0.1, 0.3)
        if not known:
            # hosts that were started together need not all deliver at once
            return self.period_s * self._dice.uniform(0.1, 1.0)
        return max(self.period_s - (self._clock.counter() - begun), 0.1)

    def flush(self, within_s: float) -> None:
        """Deliver waiting samples at the end, within `within_s` seconds, and disconnect."""
        end = self._clock.counter() + within_s
        try:
            self._connected().timeout_s = within_s
            while self._deliver() and self._clock.counter() < end:
                pass
        except WeatherError as error:
            self._backoff.pause_s(error, self.period_s)
        finally:
            if self._server is not None:
                self._server.close()

    def _deliver(self) -> bool:
        """Return one run; whether more waits."""
        server = self._connected()
        fresh = self._told.registration is None
        if fresh:
            self._register(server)
        else:
            self._look_for_move(server)
        for _ in range(MOST_BATCHES):
            try:
                self._put(server)
            except (Forbidden, NotFound):
                # it may have lost this host's registration; if not, repeating the request would change nothing
                self._told.registration = None
                if fresh:
                    raise
                fresh = True
                self._register(server)
                continue
            if not len(self._spool):
                break
        self._look_for_news(server)
        return len(self._spool) > 0

    def _connected(self) -> ServiceClient:
        if self._server is None or self._reload.is_set():
            self._reload.clear()
            fresh = self._home.connect(self._key)
            if self._server is not None:
                self._server.close()
            self._server = fresh
        return self._server

    def _register(self, server: ServiceClient) -> None:
        registration = dict(self._home.registration())
        answer = self._timed(RegistrationReceipt, lambda: server.register(self._host, registration))
        if answer.key is not None and answer.key != self._key:
            # stored before use: a name whose key is lost can only be freed by an admin
            self._home.keep_key(answer.key)
            self._key = answer.key
        deliver_s = _seconds(answer.every.get("deliver"))
        self.period_s = self.period_s if deliver_s is None else deliver_s
        self._home.set_periods(_seconds(answer.every.get("cpu")), _seconds(answer.every.get("memory")))
        self._learn(answer)
        self._told.registration, self._told.looked_at = registration, self._clock.counter()
        self._say(f"server: registered {self._host} with grid {answer.grid}")

    def _look_for_move(self, server: ServiceClient) -> None:
        """Register anew when the registration is outdated: this host's address has changed."""
        now = self._clock.counter()
        if now - self._told.looked_at < NEWS_S:
            return
        self._told.looked_at = now
        # without an address the old registration stays, and waiting samples can still be delivered
        with contextlib.suppress(WeatherError):
            if dict(self._home.registration()) == self._told.registration:
                return
            self._told.registration = None
        if self._told.registration is None:
            self._register(server)

    def _put(self, server: ServiceClient) -> None:
        """Send the next batch, or a sign of life if nothing waits or the clock is not set well enough."""
        batch = self.samples.batch() if self._clock.is_set else None
        status = self._home.status()
        if batch is None:
            self._timed(PutReceipt, lambda: server.put(status=status))
            return
        samples, first, source = batch.samples, batch.first, f"{self._host}/{self._spool.stream}"
        try:
            answer = self._timed(
                PutReceipt, lambda: server.put(samples, source=source, first=first, status=status)
            )
        except (Unauthorized, Forbidden, NotFound):
            raise
        except ServiceError as error:
            # a server that names a retry time rejects the moment, not the samples
            if not 400 <= error.status < 500 or (
                isinstance(error, TooMany) and error.retry_after_s is not None
            ):
                raise
            self._refuse(server, batch, error)
            return
        self._acknowledge(batch, answer)

    def _acknowledge(self, batch: SampleBatch, answer: PutReceipt) -> None:
        self.samples.acknowledge(batch, answer)
        if not self._ready:
            self._ready = True
            notify(f"READY=1\nSTATUS={self._host} is registered and delivers")

    def _refuse(self, server: ServiceClient, batch: SampleBatch, error: ServiceError) -> None:
        """Halve a rejected batch; drop a single sample, unless the server rejects everything."""
        if not self.samples.halve(batch):
            self._timed(PutReceipt, lambda: server.put(status=self._home.status()))
            self._spool.acknowledge(batch.next)
            self.samples.drop(1, str(error))

    def _look_for_news(self, server: ServiceClient) -> None:
        renewed, moved = self._home.wants_news(self._told.version)
        now = self._clock.counter()
        if renewed or (moved and now - self._told.asked_at >= NEWS_S):
            self._told.asked_at = now
            self._learn(self._timed(ScheduleAnswer, server.schedule))

    def _learn(self, answer: RegistrationReceipt | ScheduleAnswer) -> None:
        self._told.version = answer.schedule.version
        self._home.learn(answer.schedule, answer.peers)

    def _timed(self, kind: type[_Answer], call: Callable[[], Mapping[str, Any]]) -> _Answer:
        """Return an answer as a record, by which the clock is set."""
        sent = self._clock.counter()
        document = call()
        received = self._clock.counter()
        try:
            answer = msgspec.convert(document, kind)
        except (ValueError, UsageError) as error:
            raise _odd(f"with a document that is no {kind.__name__} ({error})") from error
        behind_s = self._clock.observe(answer.now, sent=sent, received=received)
        if behind_s is not None and abs(behind_s) > _WRONG_S:
            self._put_right(behind_s)
        if isinstance(answer, PutReceipt):
            self._told.version = answer.schedule
        return answer

    def _put_right(self, behind_s: float) -> None:
        """Correct the times of samples stamped before the server set the clock."""
        many = self._spool.shift(behind_s)
        way = "behind" if behind_s > 0 else "ahead of"
        self._say(
            f"server: the clock of this host is {format_seconds(abs(behind_s))} {way} the server's; {many} samples "
            "put right; turns and samples go by the server's"
        )


def _seconds(period_s: float | None) -> float | None:
    """Return a period the server may ask for; None for anything else."""
    return period_s if period_s is not None and 0.1 <= period_s <= 86400.0 else None


def _in_short(reasons: Sequence[str]) -> str:
    """Return the first reasons of a rejection; the number of the others stands for them."""
    others = f"; and {len(reasons) - _SHOWN_REASONS} more" if len(reasons) > _SHOWN_REASONS else ""
    return "; ".join(one[: _LONGEST_REASON // 3] for one in reasons[:_SHOWN_REASONS]) + others


def _odd(what: str) -> ServiceError:
    return ServiceError(f"answered {what}; is it a weather service of another version?", status=502)
