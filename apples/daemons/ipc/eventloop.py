"""The event loop of a daemon: ready descriptors, alarms and terminating signals.

Not asyncio: a heartbeat every 100 ms has to be early in its slice. asyncio rounds to milliseconds, adds 60 ms to the
start and most of the cost of a heartbeat. Waking up costs most, and setting a kernel timer costs as much again;
only a daemon with short slices of its own needs that.
"""

import gc
import heapq
import itertools
import os
import select
import signal
from collections.abc import Callable

from apples.daemons.ipc.timer import Timer, now
from apples.hosts.kernel import SignalQueue

Handler = Callable[[], None]

#: Ready descriptors handled before alarms and urgent handlers run again: a flood must not delay the heartbeat.
#: Their events fit into Python's small blocks of memory, which are at hand at every turn.
_MOST_READY = 32


class Alarm:
    """A call at an instant, until it is cancelled. `when`: monotonic seconds."""

    __slots__ = ("call", "when")

    def __init__(self, when: float, call: Handler) -> None:
        self.when = when
        self.call: Handler | None = call

    def cancel(self) -> None:
        """Cancel the call."""
        self.call = None


class Loop:
    """Runs handlers until `stop`. Handlers must not block.

    precise : alarms are exact to the microsecond, at the cost of a kernel timer; otherwise up to a millisecond late
    failed : called with each exception that a handler or alarm raises, and the loop goes on; None: it leaves `run`
    """

    def __init__(self, *, precise: bool = True, failed: Callable[[Exception], None] | None = None) -> None:
        self._failed = failed
        self._epoll = select.epoll()
        self._timer = Timer() if precise else None
        if self._timer is not None:
            # By its edge: every expiry wakes us once, and none has to be read away.
            self._epoll.register(self._timer.fileno(), select.EPOLLIN | select.EPOLLET)
        self._ready: dict[int, Handler] = {}
        self._alarms: list[tuple[float, int, Alarm]] = []
        # Breaks ties: alarms of one instant go in the order in which they were made, and are never compared.
        self._order = itertools.count()
        self._armed: float | None = None
        self._deadline: float | None = None
        self._overdue: Handler | None = None
        self._urgent: Handler = lambda: None
        self._stopped = False

    def watch(self, fd: int, handler: Handler, *, writing: bool = False) -> None:
        """Call `handler` whenever `fd` is readable (or writable, or broken), in place of an earlier handler."""
        # A socket with room is always writable, so writing is watched only while bytes wait.
        mask = select.EPOLLOUT | select.EPOLLIN if writing else select.EPOLLIN
        if fd in self._ready:
            # A descriptor can be registered once.
            self._epoll.modify(fd, mask)
        else:
            self._epoll.register(fd, mask)
        self._ready[fd] = handler

    def hurry(self, handler: Handler) -> None:
        """Call `handler`, which may find nothing to do, when many descriptors are ready: its own may be the last."""
        self._urgent = handler

    def forget(self, fd: int) -> None:
        """Stop watching a descriptor; to be called before it is closed."""
        # A closed descriptor leaves epoll by itself, but only when its last copy is closed.
        if self._ready.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def at(self, when: float, call: Handler) -> Alarm:
        """Call once at `when`, monotonic seconds; return the alarm."""
        alarm = Alarm(when, call)
        heapq.heappush(self._alarms, (when, next(self._order), alarm))
        return alarm

    def after(self, seconds: float, call: Handler) -> Alarm:
        """Call once, `seconds` from now; return the alarm."""
        return self.at(now() + seconds, call)

    def expect(self, by: float, overdue: Handler) -> None:
        """Call `overdue` once unless this method is called again before `by`. Postponing it costs nothing.

        Not with precise alarms.
        """
        self._deadline, self._overdue = by, overdue

    def run(self) -> None:
        """Run until `stop`."""
        # Alarms that were due before the loop began.
        patience_s = self._ring()
        while not self._stopped:
            # After SIGSTOP and SIGCONT the first poll may return empty without having looked.
            ready = self._epoll.poll(patience_s, _MOST_READY) or self._epoll.poll(0, _MOST_READY)
            if len(ready) == _MOST_READY:
                # There may be more than one poll returns, and the heartbeat's descriptor among the rest.
                self._urgent()
            for fd, _ in ready:
                if (handler := self._ready.get(fd)) is None:
                    # The timer: due alarms run below.
                    self._armed = None
                    continue
                # As `_call`, without its frame: this is done at each heartbeat.
                try:
                    handler()
                except Exception as error:
                    self._report(error)
            patience_s = self._ring()

    def stop(self) -> None:
        """Leave `run` after the current handler."""
        self._stopped = True

    def close(self) -> None:
        """Close the descriptors."""
        if self._timer is not None:
            self._timer.close()
        self._epoll.close()

    def _call(self, handler: Handler) -> None:
        try:
            handler()
        except Exception as error:
            self._report(error)

    def _report(self, error: Exception) -> None:
        if self._failed is None:
            raise error
        self._failed(error)

    def _ring(self) -> float | None:
        """Run due alarms; return the time to wait for descriptors, None without limit or if the timer ends it."""
        instant = now()
        if self._deadline is not None and self._deadline <= instant and self._overdue is not None:
            # Once: the next heartbeat sets another one.
            self._deadline = None
            self._overdue()
            instant = now()
        alarms, looked_at = self._alarms, instant
        # Alarms that become due meanwhile run after the descriptors, so that a late one cannot starve them.
        while alarms and (alarms[0][0] <= looked_at or alarms[0][2].call is None) and not self._stopped:
            # Cancelled alarms stay in the heap until their turn: removing them there would cost a search.
            alarm = heapq.heappop(alarms)[2]
            if alarm.call is not None:
                self._armed = None
                self._call(alarm.call)
                instant = now()
        first = alarms[0][0] if alarms else None
        if self._timer is None:
            if self._deadline is not None and (first is None or self._deadline < first):
                first = self._deadline
            return None if first is None else max(first - instant, 0.0)
        if first != self._armed:
            # Only if it has changed, because each setting is a system call.
            self._timer.set(first)
            self._armed = first
        return None


def run_until_signal(
    loop: Loop, closing: Callable[[], None], *, starting: Callable[[], None] = lambda: None
) -> int | None:
    """Call `starting`, run the loop until TERM, INT or HUP arrives or it is stopped, and call `closing`.

    Returns the number of the signal, None if the loop was stopped without one. A second signal ends the process.
    """
    ended_by: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    try:
        with SignalQueue(numbers, ignored=True) as signals:

            def end() -> None:
                ended_by.extend(signals.take())
                if ended_by:
                    for number in numbers:
                        signal.signal(number, signal.SIG_DFL)
                    loop.stop()

            loop.watch(signals.fileno(), end)
            starting()
            loop.run()
            loop.forget(signals.fileno())
    finally:
        closing()
    return ended_by[0] if ended_by else None


def become_realtime(priority: int) -> bool:
    """Run under SCHED_FIFO, child processes not, so that heartbeats never wait for a processor.

    Only the program of a daemon calls this: the class is the process's, not an object's. Returns False if a right is
    missing (CAP_SYS_NICE, or an rtprio limit).
    """
    try:
        # Without the second flag every program that the daemon starts would run before all others.
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(priority))
    except PermissionError:
        return False
    return True


def settle_memory() -> None:
    """Exclude all objects made so far from garbage collection, which would scan them again and again."""
    gc.collect()
    # Collected before: garbage would be frozen as well.
    gc.freeze()
