"""The outcome of the last write to the store, and its damage, from which the service's health follows."""

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from nws.base.errors import StoreError
from nws.memory.integrity import DamageLog
from nws.service.records import Health

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")


class StoreStatus:
    """The outcome of the last write to the store, and the damage that was found; thread-safe."""

    def __init__(self, damage: DamageLog) -> None:
        self._damage = damage
        self._lock = threading.Lock()
        self._reason: str | None = None

    @property
    def degraded(self) -> bool:
        """Return whether the last write failed."""
        return self._reason is not None

    def record_failure(self, error: StoreError) -> None:
        """Note a failed write; the first of a row is logged."""
        with self._lock:
            if self._reason is None:
                _LOG.error("the service is degraded: it cannot write its store, reading continues: %s", error)
            self._reason = str(error)

    def record_success(self) -> None:
        """Note a write that succeeded."""
        with self._lock:
            if self._reason is not None:
                _LOG.warning("the store can be written again")
            self._reason = None

    def write(self, action: Callable[[], _T]) -> _T:
        """Return the result of a write; a `StoreError` is noted and raised again."""
        try:
            return action()
        except StoreError as error:
            self.record_failure(error)
            raise

    def health(self) -> Health:
        """Return the state of the service as a document."""
        reason, damage = self._reason, self._damage.summary()
        if reason is None and damage is None:
            return Health(status="ok", store="writable")
        store = "writable" if reason is None else "not writable"
        return Health(status="degraded", store=store, reason=reason or damage)
