"""Events such as plans made, hosts lost and remarks, stored and queried by time.

Events of the service itself must survive a full disk, and must not stop the operation that caused them. They wait
in a bounded queue in memory until they can be written.
"""

import re
import threading
from collections import deque
from collections.abc import Iterable

from nws.base.errors import Refused
from nws.base.sealed import crc
from nws.memory.database import Database, refuse_missing_events
from nws.memory.integrity import DamagedRows, put_rows
from nws.messages.weatherdocuments import KIND, Event
from nws.series import HOST_NAME_LEGAL, is_host_name

_KIND = re.compile(KIND)
_LONGEST_TEXT = 1000
#: Maximum length of the queue of the service's own events; beyond it the oldest are dropped.
_MOST_WAITING = 10_000
#: Maximum number of stored events; beyond it the oldest are deleted.
_MOST_KEPT = 200_000


class Events:
    """The table `event` of one store; thread-safe. Methods raise `StoreError`.

    ahead_s: maximum lead of an event's time over the clock
    """

    def __init__(self, database: Database, *, ahead_s: float) -> None:
        self._database, self._ahead_s = database, ahead_s
        self._waiting: deque[Event] = deque(maxlen=_MOST_WAITING)
        self._lock = threading.Lock()
        self.taken = 0

    def add(self, event: Event, now: float) -> None:
        """Store an event; raises `Refused` if it is invalid."""
        if not _KIND.fullmatch(event.kind):
            raise Refused(f"event of kind {event.kind!r}: expected 1 to 40 of a-z and blanks between words")
        if event.host is not None and not is_host_name(event.host):
            raise Refused(f"event of host {event.host!r}: not a host name; legal are {HOST_NAME_LEGAL}")
        if len(event.text) > _LONGEST_TEXT:
            raise Refused(
                f"event with {len(event.text)} characters of text: at most {_LONGEST_TEXT} are kept"
            )
        if not 0 <= event.t <= now + self._ahead_s:
            raise Refused(
                f"event at {event.t}: expected seconds since the epoch, at most {self._ahead_s:g} s ahead of {now:.0f}"
            )
        self._write([event])

    def enqueue(self, events: Iterable[Event]) -> None:
        """Queue the service's own events; `flush` writes them."""
        with self._lock:
            self._waiting.extend(events)

    def flush(self) -> None:
        """Write the queued events."""
        with self._lock:
            if self._waiting:
                self._write(list(self._waiting))
                self._waiting.clear()

    def between(self, since: float, until: float, most: int) -> list[Event]:
        """Return the newest `most` events from `since` to `until`, both included, oldest first."""
        with self._database.reading() as connection:
            refuse_missing_events(connection)
            rows = connection.execute(
                "SELECT t, kind, host, text, crc FROM event WHERE t BETWEEN ? AND ? ORDER BY t DESC, id DESC LIMIT ?",
                (since, until, most),
            ).fetchall()
            if any(crc("event", *row[:-1]) != row[-1] for row in rows):
                raise DamagedRows("an event")
        events = [Event(t=t, kind=kind, host=host, text=text) for t, kind, host, text, _ in reversed(rows)]
        with self._lock:
            waiting = [e for e in self._waiting if since <= e.t <= until]
        return sorted([*events, *waiting], key=lambda e: e.t)[-most:] if most > 0 else []

    def forget(self, before: float) -> None:
        """Delete events before a time (seconds since the epoch) and those beyond the maximum number."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM event WHERE t < ?", (before,))
            connection.execute("DELETE FROM event WHERE id <= (SELECT max(id) FROM event) - ?", (_MOST_KEPT,))

    def _write(self, events: list[Event]) -> None:
        with self._database.writing() as connection:
            put_rows(connection, "event", [(float(e.t), e.kind, e.host, e.text) for e in events])
        self.taken += len(events)
