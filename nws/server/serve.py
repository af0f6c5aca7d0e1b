"""A server on a socket: in this process until a signal ends it, or in a thread for tests and programs.

Shutdown is graceful: accepted requests are answered and stored, and the forecasters' state is saved. The log has
one line per notable event, and never a token.

Log lines of the service to stderr, written by a thread, so that a blocked terminal does not block the service.

Each line has its time, unless a journal reads and adds it. Lines that cannot be written for long are dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from logging.handlers import QueueHandler, QueueListener
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn

from nws.base.detach import notify
from nws.base.errors import ConfigError, ServiceError
from nws.base.notes import level
from nws.server.asgi import WEB, create_app
from nws.server.driver import DrivenSource, Driver
from nws.server.protocol import (
    MOST_CONNECTIONS,
    MOST_HANDSHAKES,
    MOST_OF_ONE_ADDRESS,
    Handshakes,
    bounded,
    reason,
)
from nws.server.setup import ServerSetup
from nws.server.tokens import Tokens

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from nws.service.serviceconfig import ServiceConfig
    from nws.service.weatherservice import WeatherService

#: Maximum number of lines in the queue; beyond it new lines are dropped.
MOST_WAITING = 1000


class _Waiting(QueueHandler):
    """A handler that puts lines into a bounded queue."""

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue the record, or drop it if the queue is full."""
        with contextlib.suppress(queue.Full):
            self.queue.put_nowait(record)


class _Writer(QueueListener):
    """The thread that writes the lines."""

    def __init__(self, waiting: queue.Queue[logging.LogRecord], handler: logging.Handler) -> None:
        super().__init__(waiting, handler)
        self._lines = waiting

    def enqueue_sentinel(self) -> None:
        """Signal the end to the thread; if the queue is full, drop a line for that."""
        while True:
            try:
                super().enqueue_sentinel()
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self._lines.get_nowait()
            else:
                return


@contextlib.contextmanager
def log_to_stderr() -> Iterator[None]:
    """Log lines of the weather service, and errors of its HTTP libraries, to stderr while this context is open."""
    when = "" if "JOURNAL_STREAM" in os.environ else "%(asctime)s "
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(logging.Formatter(f"nws: {when}%(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    waiting: queue.Queue[logging.LogRecord] = queue.Queue(MOST_WAITING)
    listener = _Writer(waiting, stream)
    handler = _Waiting(waiting)
    loggers = [logging.getLogger(name) for name in ("nws", "uvicorn")]
    before = loggers[0].level
    loggers[0].setLevel(level())
    for logger in loggers:
        logger.addHandler(handler)
    listener.start()
    try:
        yield
    finally:
        listener.stop()
        loggers[0].setLevel(before)
        for logger in loggers:
            logger.removeHandler(handler)


_LOG = logging.getLogger(__name__)

#: Seconds for requests in progress during shutdown.
GRACE_S = 10
#: Seconds after which an idle connection is closed; sensors deliver more often.
IDLE_S = 75
#: Seconds for which one thread keeps the interpreter while another waits for it.
SWITCH_S = 5e-4
#: Files that the process needs beside its connections.
_OTHER_FILES = 64


def serve(setup: ServerSetup) -> int:
    """Serve until SIGTERM (returns 0) or SIGINT (returns 130).

    Raises `ConfigError` for a port in use, `StoreError`, and `ServiceError` if the server ends before it answers.
    """
    from nws.service.weatherservice import WeatherService

    # the event loop's thread must not wait long for a computing thread
    sys.setswitchinterval(SWITCH_S)
    most = raise_file_limit()
    warm_up()
    with bind(setup.family, setup.address, setup.config.listen.port) as listening:
        for warning in setup.warnings:
            _LOG.warning("%s", warning)
        with WeatherService(setup.config, store=setup.store) as service:
            driven = sources(setup.config)
            app = create_app(service, setup.tokens, sources=driven)
            url = setup.url(listening.getsockname()[1])

            def ready() -> None:
                _LOG.info("grid %s at %s, store %s", setup.config.grid, url, setup.store)
                notify(f"READY=1\nSTATUS=listens at {url}")

            few = max(min(MOST_HANDSHAKES, most // 4), 4)
            tls = setup.tls
            handshakes = Handshakes(tls, most=few, of_one=min(MOST_OF_ONE_ADDRESS, few // 2)) if tls else None
            server = _Server(_uvicorn_config(app, most), ready, handshakes)
            with Driver(service, driven, clock=time.time), _signals(server) as received:
                server.run(sockets=[listening])
                notify("STOPPING=1")
        _LOG.info("ended, state saved")
    if not server.started and not received:
        raise ServiceError(f"{url}: the server did not start; see its log", status=503)
    return 130 if received == [signal.SIGINT] else 0


class ServerThread:
    """A server in a thread of this process; a context manager. The caller closes the service afterwards.

    port: 0 lets the system choose, see `url`.  web: folder of the page, None for none
    """

    def __init__(
        self,
        service: WeatherService,
        tokens: Tokens,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        web: Path | None = WEB,
    ) -> None:
        self.app = create_app(service, tokens, web=web)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = bind(family, host, port)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._socket.getsockname()[1]}"
        self._ready = threading.Event()
        self.uvicorn = _Server(_uvicorn_config(self.app, MOST_CONNECTIONS), self._ready.set)
        self._thread = threading.Thread(
            target=self.uvicorn.run, kwargs={"sockets": [self._socket]}, name="nws-server", daemon=True
        )

    def start(self) -> None:
        """Start, and return when requests are answered; raises `ServiceError` on failure."""
        self._thread.start()
        while not self._ready.wait(0.05):
            if not self._thread.is_alive():
                raise ServiceError(f"{self.url}: the server did not start; see its log", status=503)

    def stop(self) -> None:
        """Finish the requests in progress, and end."""
        self.uvicorn.should_exit = True
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()

    def __enter__(self) -> ServerThread:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


def bind(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    """Return a socket bound to an address; raises `ConfigError` if it is in use."""
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # `::` accepts IPv4 as well, `::1` only this host
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind((address, port))
    except OSError as error:
        listening.close()
        reasons = {
            98: f"is taken by another program; find it with `ss -ltnp 'sport = :{port}'`, or choose another port",
            13: "needs more rights; choose a port of 1024 or more",
            99: "is no address of this host; see `ip address`",
        }
        why = reasons.get(error.errno or 0, f"cannot be bound: {error.strerror}")
        raise ConfigError(f"listen {address} port {port}: {why}") from None
    return listening


def sources(config: ServiceConfig) -> list[DrivenSource]:
    """Return the configured sources with their periods."""
    if not config.prometheus:
        return []
    from nws.sources.prometheus import PrometheusSource

    return [
        DrivenSource(source=PrometheusSource(one), name=one.url, period_s=one.every_s)
        for one in config.prometheus
    ]


def warm_up() -> None:
    """Compile or load the forecasters' kernels, up to some seconds, before the first request."""
    from nws.forecasting.backtest import expected
    from nws.forecasting.batteries import Ahead, BatteryBank
    from nws.forecasting.compiling import Kernel

    Kernel.left = -1
    bank = BatteryBank(2)
    bank.update_many([0] * 30, [0.5, 0.25] * 15, range(30))
    bank.lend([1], [0, 0])
    bank.columns([0])
    bank.outlooks([0], Ahead(over_s=(60.0,), now=30.0))
    expected([0.5, 0.25])


def raise_file_limit() -> int:
    """Raise the limit of open files; return the number of connections within it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = MOST_CONNECTIONS + _OTHER_FILES
    most = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(min(MOST_CONNECTIONS, most - _OTHER_FILES), 16)


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handling, with a callback when it is ready and bounded TLS handshakes."""

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], object], handshakes: Handshakes | None = None
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._handshakes = handshakes

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(log_fault)
        if self._handshakes is None:
            await super().startup(sockets)
        else:
            await super().startup([])
            for listening in sockets or []:
                self._handshakes.start(listening, self.config.backlog, self._protocol)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._handshakes is not None:
            self._handshakes.close()
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )


def log_fault(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log a failed call of the event loop's own in one line; any other error is a defect, logged with its traceback."""
    error = context.get("exception")
    if isinstance(error, OSError | MemoryError):
        _LOG.warning("%s: %s", context["message"], reason(error))
    else:
        loop.default_exception_handler(context)


@contextlib.contextmanager
def _signals(server: _Server) -> Iterator[list[int]]:
    """End the server on SIGTERM and SIGINT, at once on a second one; yield the received signals."""
    received: list[int] = []

    def handle(number: int, _: FrameType | None) -> None:
        server.force_exit = server.should_exit
        server.should_exit = True
        received.append(number)

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _uvicorn_config(app: Starlette, most_connections: int) -> uvicorn.Config:
    options: dict[str, Any] = {
        "http": bounded(most_connections),
        "ws": "none",
        "loop": "uvloop",
        "lifespan": "on",
        "interface": "asgi3",
        "log_config": None,
        "access_log": False,
        # any client can write this header, so the client is the connected address
        "proxy_headers": False,
        "server_header": False,
        "timeout_keep_alive": IDLE_S,
        "timeout_graceful_shutdown": GRACE_S,
    }
    return uvicorn.Config(app, **options)
