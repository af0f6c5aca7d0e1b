"""Conversations with a daemon over several connections at a time, in pieces, and the checks in between.

`fuzz_listeners.py` has the listeners. After every few thousand inputs the daemon must answer a legal request within a
second, and its log must have no traceback.
"""

import collections
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

#: Connections that are open at a time, and inputs between two checks.
_AT_A_TIME, _BETWEEN_CHECKS = 6, 5000
#: Time in which a legal request is answered, and in which a conversation ends that has an end, seconds.
ANSWER_S, _PATIENCE_S = 1.0, 30.0
#: Longest wait for an answer of a conversation that need not have one, seconds.
_LINGER_S = 0.05
_PIECES = (1, 1, 1, 2, 3, 7)


class Failed(Exception):
    """Raised when a daemon or reader does what it may not do."""


@dataclass(slots=True, eq=False)
class Conversation:
    """Inputs over one connection.

    kind : for the counts.  raw : bytes to send.  inputs : number of inputs in them
    over : whether these received bytes are the whole answer; None if no answer is due
    label : names the answer for the counts.  at : bytes sent so far.  sent_at : instant of the last, 0 before
    """

    kind: str
    connection: socket.socket
    raw: bytes
    inputs: int = 1
    over: Callable[[bytearray], bool] | None = None
    label: Callable[[bytes], str] = lambda received: "answered" if received else "closed"
    received: bytearray = field(default_factory=bytearray)
    at: int = 0
    sent_at: float = 0.0

    @property
    def sent(self):
        """Whether all bytes are sent."""
        return self.at >= len(self.raw)


@dataclass(slots=True)
class Result:
    """Counts of one listener. `answers`: by kind and answer. `slowest_s`: of the legal requests in between."""

    answers: collections.Counter[tuple[str, str]] = field(default_factory=collections.Counter)
    inputs: int = 0
    slowest_s: float = 0.0


def attack(listener, inputs, chance):
    """Send at least so many inputs; raises `Failed` with the last ones before a failure."""
    result = Result()
    open_ones: list[Conversation] = []
    last: collections.deque[bytes] = collections.deque(maxlen=2 * _AT_A_TIME)
    check_at = 0
    try:
        while result.inputs < inputs or open_ones:
            while len(open_ones) < _AT_A_TIME and result.inputs < inputs:
                open_ones.append(listener.conversation())
                open_ones[-1].connection.setblocking(False)
                open_ones[-1].sent_at = 0.0 if open_ones[-1].raw else time.monotonic()
                last.append(open_ones[-1].raw[:300])
                result.inputs += open_ones[-1].inputs
            for one in _turn(open_ones, chance):
                open_ones.remove(one)
                one.connection.close()
                listener.ended(one)
                result.answers[one.kind, one.label(bytes(one.received))] += 1
            if result.inputs >= check_at:
                check_at = result.inputs + _BETWEEN_CHECKS
                result.slowest_s = max(result.slowest_s, _checked(listener))
        result.slowest_s = max(result.slowest_s, _checked(listener))
    except (Failed, OSError) as error:
        listener_inputs = "\n".join(f"  {raw!r}" for raw in last)
        raise Failed(f"{error!r} after {result.inputs} inputs; the last:\n{listener_inputs}") from error
    finally:
        for one in open_ones:
            one.connection.close()
    return result


def _checked(listener):
    """Return the seconds that a legal request took, after all checks."""
    listener.check()
    begun = time.monotonic()
    listener.probe()
    took_s = time.monotonic() - begun
    if took_s > ANSWER_S:
        raise Failed(f"a legal request took {took_s:.2f} s")
    return took_s


def _turn(open_ones, chance):
    """Send a piece of each conversation and read what has arrived; yield those that are over."""
    poll = select.poll()
    for one in open_ones:
        poll.register(one.connection, select.POLLIN | (0 if one.sent else select.POLLOUT))
    ready = dict(poll.poll(1000.0 * _LINGER_S))
    now = time.monotonic()
    for one in list(open_ones):
        event = ready.get(one.connection.fileno(), 0)
        closed = False
        if event & select.POLLOUT:
            _send(one, chance, now)
        if event & (select.POLLIN | select.POLLHUP | select.POLLERR):
            closed = _receive(one)
        waited_s = now - one.sent_at if one.sent_at else 0.0
        if one.over is None:
            closed = closed or (one.sent and waited_s >= _LINGER_S)
        elif event & select.POLLIN:
            closed = closed or one.over(one.received)
        if closed:
            yield one
        elif waited_s > _PATIENCE_S:
            raise Failed(
                f"no answer in {_PATIENCE_S:g} s to {one.kind}; received {bytes(one.received[-500:])!r}"
            )


def _send(one, chance, now):
    """Send one piece."""
    size = max(len(one.raw) // chance.choice(_PIECES), 1)
    try:
        one.at += one.connection.send(memoryview(one.raw)[one.at : one.at + size])
    except BlockingIOError:
        return
    except OSError:
        # The other side has closed. Its answer can be read all the same.
        one.at = len(one.raw)
    if one.sent:
        one.sent_at = now


def _receive(one):
    try:
        data = one.connection.recv(1 << 16)
    except BlockingIOError:
        return False
    except OSError:
        return True
    one.received += data
    return not data
