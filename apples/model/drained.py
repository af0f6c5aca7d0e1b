"""Drained hosts: those that runs leave and that later plans avoid, as one document on disk.

`apples drain HOST` adds an entry, which holds until its time or `--undo`. Runs in progress look at the file each
second. Entries of the past are dropped at the next change.
"""

import os
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct

from apples.model import jsonstore
from apples.model.jsonstore import Format
from apples.model.launchrequest import Notify
from nws.client import state_dir

#: Most entries, longest name of a host, and the last end: the year 9999, in seconds since the epoch.
MOST, LONGEST, LAST = 10_000, 255, 253_370_764_800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainedHost:
    """A drained host. since, until : seconds since the epoch; until None for without end"""

    host: str
    since: float
    until: float | None = None

    @property
    def legal(self) -> bool:
        """Whether messages can contain it: a printable name, and an end that a calendar has."""
        named = 0 < len(self.host) <= LONGEST and self.host.isprintable()
        return named and (self.until is None or 0.0 <= self.until <= LAST)

    def reason(self) -> str:
        """Return why plans leave the host out, as a predicate."""
        end = (
            ""
            if self.until is None
            else time.strftime(" until %Y-%m-%d %H:%M:%S", time.localtime(self.until))
        )
        return f"is drained{end} (apples drain --undo {self.host})"


class _Document(Struct):
    """The content of the file."""

    hosts: list[DrainedHost]

    def __post_init__(self) -> None:
        if len(self.hosts) > MOST or not all(one.legal for one in self.hosts):
            raise ValueError("hosts that messages cannot contain")


FORMAT = Format(
    name="apples-drained",
    version=1,
    lost="runs use drained hosts again",
    content=_Document,
    what="list of drained hosts",
)


class DrainedHosts:
    """The document of a state directory; without a file there are no hosts.

    notify : receives why a file cannot be used, once, which then has no hosts; without it, methods raise `HistoryError`
    """

    def __init__(self, path: Path | None = None, notify: Notify | None = None) -> None:
        self.path, self._notify = path or state_dir() / "drained.json", notify
        self._seen: tuple[int, int] | None = None
        self._known: dict[str, DrainedHost] = {}

    def at(self, now: float) -> dict[str, DrainedHost]:
        """Return the hosts that are drained at an instant, by name. The file is read only if it has changed."""
        try:
            status = os.stat(self.path)
        except OSError:
            return {}
        if (seen := (status.st_ino, status.st_mtime_ns)) != self._seen:
            # A damaged file is reported once.
            self._seen, self._known = seen, {}
            document = jsonstore.read(self.path, FORMAT, self._notify) or _Document(hosts=[])
            self._known = {entry.host: entry for entry in document.hosts}
        return {host: e for host, e in self._known.items() if e.until is None or now < e.until}

    def change(self, now: float, *, add: Iterable[DrainedHost] = (), remove: Collection[str] = ()) -> None:
        """Add and remove hosts; the caller holds a lock."""
        entries = self.at(now) | {drain.host: drain for drain in add}
        remaining = [entry for host, entry in entries.items() if host not in remove]
        jsonstore.write(self.path, FORMAT, _Document(hosts=remaining[-MOST:]))
