"""The real weather service on a port of this machine, in a thread of this process, with everything in memory.

Requests use HTTP as for any other service; only the disk is missing. The clock may be the test's own, which then
decides when hosts are lost and values are stale.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from nws.base.errors import Refused
from nws.client.remote import ServiceClient
from nws.client.remotesnapshot import Document
from nws.messages.fieldtypes import understood
from nws.messages.weatherdocuments import PutReceipt
from nws.series import Measurement

if TYPE_CHECKING:
    from nws.server.serve import ServerThread
    from nws.service.serviceconfig import ServiceConfig
    from nws.service.weatherservice import WeatherService

_T = TypeVar("_T")

#: Measurements per batch; bodies are bounded.
_BATCH = 10_000

#: Request timeout in seconds, long enough for a busy machine.
_PATIENCE_S = 60.0


def deliver(client: ServiceClient, measurements: Sequence[Measurement]) -> int:
    """Put measurements in batches; return the number stored.

    Raises `Refused` if the service leaves some out, because a test would not notice.
    """
    accepted = 0
    for at in range(0, len(measurements), _BATCH):
        answer = understood(PutReceipt, client.put(measurements[at : at + _BATCH]), client.url)
        accepted += answer.accepted
        if answer.refused.count:
            reasons = "\n".join(answer.refused.reasons)
            raise Refused(
                f"{answer.refused.count} measurements were refused; the service's clock is at {answer.now:.0f}, "
                f"times must be near it:\n{reasons}"
            )
    return accepted


class InMemoryServer:
    """A service that runs inside a ``with`` statement.

    config: the service's settings; by default a grid called ``test``
    clock: seconds since the epoch
    tokens: role (read, write, admin) → its tokens; without any, every request has every role
    """

    def __init__(
        self,
        config: ServiceConfig | None = None,
        *,
        clock: Callable[[], float] = time.time,
        tokens: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        from nws.service.serviceconfig import ServiceConfig

        self._config = config or ServiceConfig(grid="test")
        self._clock = clock
        self._tokens = {role: tuple(some) for role, some in (tokens or {}).items()}
        self._open = ExitStack()
        self._service: WeatherService | None = None
        self._thread: ServerThread | None = None

    @property
    def url(self) -> str:
        """Return the service's address, such as ``http://127.0.0.1:40123``."""
        return self._started(self._thread).url

    @property
    def service(self) -> WeatherService:
        """Return the service behind HTTP; call its `tick` to apply a moved clock at once."""
        return self._started(self._service)

    def client(self, token: str | None = None, *, host: str | None = None) -> ServiceClient:
        """Return a client, closed by the caller. token: by default the first admin's, if there are tokens."""
        admins = self._tokens.get("admin", ())
        token = token or (admins[0] if admins else None)
        return ServiceClient(self.url, token=token, host=host, timeout_s=_PATIENCE_S)

    def register(self, host: str, **registration: object) -> Document:
        """Register a host: by default one CPU at 127.0.0.1 that answers no probes."""
        made = {"address": "127.0.0.1", "port": 0, "cpus": 1, "cpu_model": "test", "memory_bytes": 1 << 30}
        with self.client() as client:
            return client.register(host, {**made, **registration})

    def put(self, measurements: Iterable[Measurement]) -> int:
        """Deliver measurements of any hosts; return the number stored. Raises `Refused` if some were not."""
        with self.client() as client:
            return deliver(client, list(measurements))

    def stop(self) -> None:
        """Stop like a server that was killed; the address stays the same."""
        self._started(self._thread).stop()

    def __enter__(self) -> InMemoryServer:
        from nws.server.serve import ServerThread
        from nws.server.tokens import Role, Tokens
        from nws.service.weatherservice import WeatherService

        with ExitStack() as opening:
            self._service = opening.enter_context(
                WeatherService(self._config, clock=self._clock, in_memory=True)
            )
            tokens = Tokens.of({Role(role): some for role, some in self._tokens.items()})
            self._thread = opening.enter_context(ServerThread(self._service, tokens))
            self._open = opening.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()

    @staticmethod
    def _started(thing: _T | None) -> _T:
        if thing is None:
            raise RuntimeError("the server has not started; use it in a `with` statement")
        return thing
