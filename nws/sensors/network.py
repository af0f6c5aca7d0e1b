"""Network sensor: latency and bandwidth from this host to a peer's echo server.

Latency is half of a one-byte round trip, the median of several (the first, which warms caches and wakes the server, is
not counted). Bandwidth is bytes over the time up to the receiver's acknowledgement, less one round trip, from sends of
64 KB. The transfer grows until it lasts long enough to time, and the median of three of that length counts, of fewer if
time is short. Loss is the share of small messages that the kernel sent again: a sensor that probes a link again and
again (`Losses`) measures it over the newest probes. A probe that fails or exceeds its time leaves no measurement. The
times of probes are decided elsewhere.
Source: Wolski et al. 2000, §2.4.
"""

from __future__ import annotations

import math
import socket
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from nws.base.closing import Closing
from nws.base.errors import ProbeError
from nws.sensors.echo import ACK, BUSY, HEADER, READY, EchoServer
from nws.series import Measurement, Resource, Series

SEND_BYTES = 64 << 10
_BLOCK = memoryview(bytes(SEND_BYTES))
#: Offsets of `tcpi_total_retrans` and `tcpi_dsack_dups` in the kernel's `struct tcp_info`.
_RETRANSMITTED, _ARRIVED_TWICE = 100, 216
#: Fewer messages that were sent again show no loss: single repetitions are timers.
_LEAST_LOST = 3
#: Pause between two small messages that show loss, seconds.
_EVERY_S = 0.001


def lost_share(repeated: int, messages: int) -> float:
    """Return the share of messages that were lost, from the number that were sent again."""
    return min(repeated / messages, 1.0) if repeated >= _LEAST_LOST else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlan:
    """Limits of one probe.

    round_trips : timed one-byte round trips
    first_bytes : length of the first transfer
    enough_s : a transfer that lasts this long, and two round trips, can be timed
    most_bytes : length of the longest transfer
    timeout_s : silence after which the peer counts as lost.  connect_s : the same for the first answer
    """

    round_trips: int = 21
    first_bytes: int = 8 << 10
    enough_s: float = 0.01
    most_bytes: int = 16 << 20
    timeout_s: float = 5.0
    connect_s: float = 5.0


class EchoConnection(Closing):
    """One connection to an echo server; a context manager. Every failure is a `ProbeError` naming the peer.

    timeout_s : silence that is borne.  connect_s : silence before the connection is made
    source : numeric address of this host that it goes out from, None: the system's choice
    until : reading of `timer` at which it gives up, whatever is under way
    """

    def __init__(
        self,
        name: str,
        address: tuple[str, int],
        *,
        timeout_s: float = 5.0,
        timer: Callable[[], float] = time.perf_counter,
        connect_s: float = 5.0,
        source: str | None = None,
        until: float = math.inf,
    ) -> None:
        self._name = f"{name} at {address[0]} port {address[1]}"
        self._timer, self._timeout_s, self._until = timer, timeout_s, until
        try:
            self._socket = socket.create_connection(
                address,
                timeout=min(self._allowed_s(), connect_s),
                source_address=None if source is None else (source, 0),
            )
        except OSError as error:
            raise self._failed("cannot connect", error) from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout(self._allowed_s())
            greeting = self._socket.recv(1)
        except OSError as error:
            self._socket.close()
            raise self._failed("no greeting", error) from error
        if greeting != READY:
            self._socket.close()
            if greeting == BUSY:
                said = "it is busy with other probes"
            elif not greeting:
                said = "it hung up on us, as it does on hosts that are in no clique with it"
            else:
                said = f"got {greeting!r}, expected {READY!r}"
            raise ProbeError(
                f"echo server of {self._name}: {said}; try again later, or check what listens there"
            )

    def exchange_s(self, length: int) -> float:
        """Return seconds from the first byte of a message of `length` bytes to its acknowledgement."""
        start = self._timer()
        try:
            self._socket.settimeout(self._allowed_s())
            if length <= SEND_BYTES:
                self._socket.sendall(HEADER.pack(length) + _BLOCK[:length])
            else:
                self._socket.sendall(HEADER.pack(length))
                for offset in range(0, length, SEND_BYTES):
                    self._socket.settimeout(self._allowed_s())
                    self._socket.sendall(_BLOCK[: min(SEND_BYTES, length - offset)])
                self._socket.settimeout(self._allowed_s())
            answer = self._socket.recv(1)
        except OSError as error:
            raise self._failed(f"a message of {length} bytes was not acknowledged", error) from error
        if answer != ACK:
            raise ProbeError(
                f"echo server of {self._name}: a message of {length} bytes was answered by "
                f"{answer!r} instead of {ACK!r}; the server ended, or something else listens there"
            )
        return self._timer() - start

    def repeated(self, messages: int) -> int:
        """Return how many of so many small messages, a millisecond apart, the kernel had to send again.

        So few bytes overflow no queue: what is lost is lost on the way. Where a busy host was only late, the message
        arrives twice, and its receiver reports that (RFC 2883).
        """
        before = self._retransmitted()
        try:
            for _ in range(messages):
                self._socket.settimeout(self._allowed_s())
                self._socket.sendall(HEADER.pack(1) + _BLOCK[:1])
                time.sleep(_EVERY_S)
            left = messages
            while left:
                self._socket.settimeout(self._allowed_s())
                answers = self._socket.recv(left)
                if not answers:
                    raise ConnectionResetError("the server ended")
                left -= len(answers)
        except OSError as error:
            raise self._failed(f"{messages} messages were not acknowledged", error) from error
        return max(self._retransmitted() - before, 0)

    def _retransmitted(self) -> int:
        """Return the number of segments that the kernel has sent again, without those that then arrived twice."""
        info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ARRIVED_TWICE + 4)
        again, twice = (
            int.from_bytes(info[at : at + 4], sys.byteorder) for at in (_RETRANSMITTED, _ARRIVED_TWICE)
        )
        return again - twice

    @property
    def left_s(self) -> float:
        """Return seconds until it gives up."""
        return self._until - self._timer()

    def _allowed_s(self) -> float:
        """Return silence that is borne now; raises `TimeoutError` when the time is over."""
        if self.left_s <= 0:
            raise TimeoutError
        return min(self._timeout_s, self.left_s)

    def _failed(self, what: str, error: OSError) -> ProbeError:
        if self.left_s <= 0:
            return ProbeError(f"echo server of {self._name}: {what} before the time for probes was over")
        why = "timed out" if isinstance(error, TimeoutError) else error.strerror or str(error)
        return ProbeError(f"echo server of {self._name}: {what}: {why}; is it running, is the port open?")

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def round_trip_s(link: EchoConnection, count: int) -> float:
    """Return median of `count` one-byte round trips, seconds."""
    link.exchange_s(1)
    return statistics.median(link.exchange_s(1) for _ in range(count))


def bandwidth_Bps(link: EchoConnection, round_trip: float, plan: ProbePlan) -> float:
    """Return bytes per second of transfers long enough to time; `round_trip` in seconds is taken off each."""

    def transfer_s(length: int) -> float:
        # a transfer is never faster than the clock can resolve, however long the last round trip was
        return max(link.exchange_s(length) - round_trip, 1e-6)

    # on a long path a transfer must outlast the variation of round trips, and the slow start of the connection
    enough_s = max(plan.enough_s, min(2 * round_trip, link.left_s / 8))
    length = plan.first_bytes
    while (took := transfer_s(length)) < enough_s and length < plan.most_bytes:
        # aim past the mark, for a connection that still speeds up
        longer = 1.5 * length * enough_s / took
        length = min(max(2 * length, int(longer)), 16 * length, plan.most_bytes)
    taken = [took]
    while len(taken) < 3 and link.left_s > 2 * (max(taken) + round_trip):
        taken.append(transfer_s(length))
    return length / statistics.median(taken)


class Losses:
    """Shares of packets lost to each peer, over its newest probes; of links that never lost any nothing is stated.

    messages : small messages of a probe.  probes : probes that count
    """

    def __init__(self, messages: int = 50, probes: int = 8) -> None:
        self.messages, self._probes = messages, probes
        self._repeated: dict[str, deque[int]] = {}
        self._lossy: set[str] = set()

    def share(self, peer: str, link: EchoConnection) -> float | None:
        """Return the share after a further probe; None if no packet to that peer was ever lost, or time is short."""
        if link.left_s < 4 * self.messages * _EVERY_S:
            return None
        newest = self._repeated.setdefault(peer, deque(maxlen=self._probes))
        try:
            newest.append(link.repeated(self.messages))
        except ProbeError:
            # acknowledgements that do not arrive before the turn ends cost only this value
            return None
        lost = lost_share(sum(newest), self.messages * len(newest))
        if lost > 0:
            self._lossy.add(peer)
        return lost if peer in self._lossy else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSensor:
    """Measures LATENCY, BANDWIDTH and, with `losses`, LOSS from `host` to the echo server of `peer` at `address`.

    Without an address it starts a temporary server and probes this host through the loopback interface, a lower
    bound for ranks on one host. One sensor probes one link, so that links can take turns.
    source : numeric address of this host for outgoing probes, None: the system's choice
    """

    host: str
    peer: str | None = None
    address: tuple[str, int] | None = None
    source: str | None = None
    plan: ProbePlan = field(default_factory=ProbePlan)
    losses: Losses | None = None
    clock: Callable[[], float] = time.time
    timer: Callable[[], float] = time.perf_counter

    def measure(self, *, within_s: float = math.inf) -> list[Measurement]:
        """Return the measurements now; raises `ProbeError` when the peer does not answer correctly.

        within_s : seconds after which the probe is given up
        """
        until = self.timer() + within_s
        if self.address is not None:
            return self._probe(self.address, until)
        with EchoServer() as server:
            return self._probe(server.address, until)

    def _probe(self, address: tuple[str, int], until: float) -> list[Measurement]:
        peer = self.peer or self.host
        with EchoConnection(
            peer,
            address,
            timeout_s=self.plan.timeout_s,
            connect_s=self.plan.connect_s,
            timer=self.timer,
            source=self.source,
            until=until,
        ) as link:
            round_trip = round_trip_s(link, self.plan.round_trips)
            bandwidth = bandwidth_Bps(link, round_trip, self.plan)
            lost = None if self.losses is None else self.losses.share(peer, link)
        now = self.clock()
        values = {Resource.LATENCY: round_trip / 2, Resource.BANDWIDTH: bandwidth, Resource.LOSS: lost}
        return [
            Measurement(Series(resource, self.host, peer), now, value)
            for resource, value in values.items()
            if value is not None
        ]
