"""The identity of this sensor: its key, kept for later starts, and the lock that lets one sensor of a name
run at a time.

Files are in the state directory under the host's name: ``sensor-HOST.key`` (mode 0600), made before the first
registration, so that the key is known here even if the answer is lost; ``sensor-HOST.lock``, held while the sensor
runs, with its process id; and, unless another is named, the spool ``sensor-HOST.db``.
"""

import secrets
from pathlib import Path

from nws.base.closing import Closing
from nws.base.errors import StoreError, UsageError
from nws.base.files import make_private, write_whole
from nws.base.lock import FileLock, LockHeld
from nws.base.oserrors import REASON, os_errors_as
from nws.series import is_host_name


def checked_host(name: str) -> str:
    """Return a name that hosts and sites may have on a service; raises `UsageError`."""
    if not is_host_name(name):
        raise UsageError(
            f"{name!r} is no name for a host or site: expected a letter or digit, then up to 63 letters, digits, "
            "dots, underscores and dashes"
        )
    return name


class Identity(Closing):
    """Lock and key of one host's sensor; a context manager. Raises `StoreError`, and `UsageError` for a bad name."""

    def __init__(self, host: str, state: Path) -> None:
        self.host = checked_host(host)
        self._state = state
        try:
            make_private(state)
            self._lock = FileLock(self._path("lock"))
        except OSError as error:
            raise StoreError(
                f"{state}: the sensor cannot keep its files there: {error.strerror or error}; set APPLES_STATE to "
                "a directory it may write to"
            ) from error
        except LockHeld as held:
            raise StoreError(
                f"{self._path('lock')}: a sensor of {host} runs already, {held.holder}; end it, or use another --host "
                "or APPLES_STATE"
            ) from None

    @property
    def spool(self) -> Path:
        """Return where the spool is unless the user names another file."""
        return self._path("db")

    def key(self) -> str:
        """Return the key this host shows to servers; made and kept where there is none."""
        try:
            stored = self._path("key").read_text(encoding="ascii").strip()
        except FileNotFoundError:
            stored = ""
        except (OSError, UnicodeError) as error:
            raise StoreError(
                f"{self._path('key')}: the key of {self.host} cannot be read: {error}; check its owner, or remove "
                "it and have the server forget the host"
            ) from error
        if not stored:
            stored = secrets.token_urlsafe(24)
            self.keep(stored)
        return stored

    def keep(self, key: str) -> None:
        """Replace the key; raises `StoreError` with the old key unchanged."""
        path = self._path("key")
        with os_errors_as(
            StoreError,
            f"{path}: the key of {self.host} cannot be kept: {REASON}; make room, or check "
            "who owns the directory",
        ):
            write_whole(path, f"{key}\n", mode=0o600, sync=True)

    def close(self) -> None:
        """Let the next one in."""
        self._lock.release()

    def _path(self, kind: str) -> Path:
        return self._state / f"sensor-{self.host}.{kind}"
