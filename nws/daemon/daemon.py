"""The daemon of one host: joins spool, sensors, probe windows and delivery in one timetable.

Five jobs: `cpu` and `memory` at their periods, `sample` for `cpu` each second, `network` in this host's turns,
`deliver` when it is due. TERM and INT end it: running jobs finish, waiting samples are delivered within a few seconds,
and the others stay in the spool. HUP makes it read the token file. Measurements and messages belong to the parts.
"""

import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from types import FrameType

from nws.base.closing import Closing
from nws.base.errors import ProbeError
from nws.base.threads import started_pool
from nws.client.endpoint import Endpoint
from nws.client.remote import ServiceClient
from nws.daemon.delivery import Addresses, DeliveryJob
from nws.daemon.identity import Identity, checked_host
from nws.daemon.interfaces import choose_address
from nws.daemon.jobs import Keeper, status
from nws.daemon.probewindows import ProbeWindows, prober
from nws.daemon.spool import Spool
from nws.links.cliques import Schedule
from nws.sensors.cgrouplimits import Cgroups
from nws.sensors.cpu import CpuSensor
from nws.sensors.echo import EchoServer
from nws.sensors.freememory import MemorySensor
from nws.timing.periodic import Counts, Tally, Timetable
from nws.timing.steadyclock import SteadyClock

#: Periods before the server has sent any, seconds.
CPU_S, MEMORY_S, DELIVER_S = 10.0, 10.0, 10.0
#: Seconds between two samples of the CPUs, which show `cpu` how the load varies.
SAMPLE_S = 1.0
#: The job that takes them; its runs are no measurements.
SAMPLES = "sample"
#: Silence of the server that is borne: one that has just started compiles its forecasters first, seconds.
TIMEOUT_S = 15.0
#: Time limit of the last delivery at the end, seconds.
FLUSH_S = 5.0
#: A probe that is silent for this time makes room for the next host, seconds.
_STALE_S = 1.0
#: Ports of the echo server: the first, or the next for a further sensor on the same address. Firewalls open them.
ECHO_PORTS = range(8091, 8107)


def host_facts(root: Path = Path("/proc")) -> dict[str, object]:
    """Return `cpus` that child processes can keep busy, `cpu_model`, `memory_bytes` installed, `version`.

    Unknown values are empty or 0.
    """
    return {
        "cpus": Cgroups().usable_cpus(),
        "cpu_model": _cpu_model(root / "cpuinfo")[:200],
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "version": _version(),
    }


def _cpu_model(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    model = re.search(r"^model name\s*:(.*)", text, re.MULTILINE)
    return model[1].strip() if model else ""


@cache
def _version() -> str:
    try:
        return metadata.version("apples-grid")
    except metadata.PackageNotFoundError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorSettings:
    """Settings of `nws sensor`.

    address : numeric address or interface to answer probes at; None: see `interfaces`
    echo_port : None takes the first free one of `ECHO_PORTS`, 0 any free one
    spool : None: in `state`.  spool_bytes : its size at most
    """

    server: str
    host: str
    state: Path
    site: str | None = None
    address: str | None = None
    echo_port: int | None = None
    token_file: Path | None = None
    ca: Path | None = None
    spool: Path | None = None
    spool_bytes: int = 64 << 20


class SensorDaemon(Closing):
    """One sensor; a context manager that holds the lock, the spool and, once `run`, the echo server.

    say : receives every line for the user.  wall : the host's clock, which may be wrong
    Raises `UsageError`, and `StoreError` when another sensor of this host runs or its files cannot be written.
    """

    def __init__(
        self, settings: SensorSettings, *, say: Callable[[str], None], wall: Callable[[], float] = time.time
    ) -> None:
        self._settings, self._say = settings, say
        if settings.site is not None:
            checked_host(settings.site)
        # report both now rather than at the first delivery
        self._endpoint()
        self._address = self._choose(settings.address) if settings.address is not None else None
        self.clock = SteadyClock(wall=wall)
        self._identity = Identity(settings.host, settings.state)
        self._echo: EchoServer | None = None
        try:
            self.spool = Spool(
                settings.spool or self._identity.spool, settings.host, most_bytes=settings.spool_bytes
            )
            key = self._identity.key()
        except BaseException:
            self._identity.close()
            raise
        self._table = Timetable(report=say)
        keeper = Keeper(self.spool, say)
        self.turns = ProbeWindows(
            settings.host,
            self.clock,
            probe=prober(settings.host, self.clock, lambda: self._address),
            keep=keeper.keep,
            say=say,
            stopping=lambda: self._table.stopping,
        )
        self._delivery = DeliveryJob(
            settings.host, self.spool, self.clock, self, key=key, say=say, period_s=DELIVER_S
        )
        self._cpu = CpuSensor(host=settings.host, clock=self.clock)
        memory = MemorySensor(host=settings.host, clock=self.clock)
        self._table.every("cpu", keeper.job(self._cpu), CPU_S)
        self._table.paced(SAMPLES, self._sample, first_s=SAMPLE_S)
        # apart from the CPU sensor, which would see it at work
        self._table.every("memory", keeper.job(memory), MEMORY_S, first_s=0.7)
        self._table.paced("network", self.turns.run)
        self._table.paced("deliver", self._delivery.run)

    def run(self, duration_s: float | None = None) -> Mapping[str, Tally]:
        """Measure and deliver for `duration_s` seconds, or until `stop`; then deliver waiting samples.

        Return the counts.
        """
        self._open_door()
        address = "not known yet" if self._echo is None else "{} port {}".format(*self._echo.address)
        self._say(
            f"sensor of {self._settings.host}: server {self._settings.server}, probes answered at {address}, "
            f"{len(self.spool)} samples wait in {self.spool.path}"
        )
        tallies = self._table.run(duration_s)
        self._delivery.flush(FLUSH_S)
        return tallies

    def stop(self) -> None:
        """End `run`; from any thread and from a signal handler."""
        self._table.stop()

    def reload(self) -> None:
        """Read the token file before the next request."""
        self._delivery.reload()

    def tallies(self) -> Mapping[str, Tally]:
        """Return the counts of finished, missed and failed runs of each job so far."""
        return self._table.tallies()

    def _sample(self, counts: Counts) -> float:
        try:
            self._cpu.sample()
            counts.done += 1
        except ProbeError:
            # the next measurement fails, too, and reports it
            counts.failed += 1
        return SAMPLE_S

    @property
    def lost(self) -> int:
        """Return samples that were dropped for want of room, or refused by the server."""
        return self.spool.dropped + self._delivery.samples.refused

    def close(self) -> None:
        """End the echo server, let go of spool and lock."""
        if self._echo is not None:
            self._echo.close()
        self.spool.close()
        self._identity.close()

    # what the job of delivery calls

    def connect(self, key: str) -> ServiceClient:
        """Return a client with the present token; raises `UsageError` when the token file is invalid."""
        at = self._endpoint()
        host = self._settings.host
        return ServiceClient(at.url, token=at.token, ca=at.ca, host=host, key=key, timeout_s=TIMEOUT_S)

    def registration(self) -> Mapping[str, object]:
        """Return the registration of this host; raises `ProbeError` while its address is not known."""
        self._open_door()
        if self._echo is None:
            # raises `UsageError`
            self._choose(self._settings.address)
            raise ProbeError("the echo server is not up yet")
        address, port = self._echo.address
        site = {} if self._settings.site is None else {"site": self._settings.site}
        return {"address": address, "port": port, **site, **host_facts()}

    def status(self) -> Mapping[str, object]:
        """Return counters to send."""
        runs = {name: tally for name, tally in self._table.tallies().items() if name != SAMPLES}
        return status(runs, len(self.spool), self.lost)

    def keep_key(self, key: str) -> None:
        """Write a new key down; raises `StoreError`."""
        self._identity.keep(key)

    def set_periods(self, cpu_s: float | None, memory_s: float | None) -> None:
        """Measure as often as the server wants."""
        for name, period_s in (("cpu", cpu_s), ("memory", memory_s)):
            if period_s is not None:
                self._table.set_period(name, period_s)

    def learn(self, schedule: Schedule, peers: Addresses) -> None:
        """Set the probe windows and the addresses of peers."""
        self.turns.learn(schedule, peers)
        self._table.hurry("network")

    def wants_news(self, version: int | None) -> tuple[bool, bool]:
        """Return whether a schedule of that version is new, and whether peers may have moved."""
        return version is not None and version != self.turns.version, self.turns.wants_news

    def _endpoint(self) -> Endpoint:
        s = self._settings
        return Endpoint.of(s.server, token_file=s.token_file, ca=s.ca)

    def _choose(self, stated: str | None) -> str:
        return choose_address(stated, self._settings.server)

    def _open_door(self) -> None:
        """Answer probes at the address this host has now; while it has none, at none."""
        try:
            address = self._choose(self._settings.address)
        except ProbeError:
            if self._echo is None:
                return
            raise
        if self._echo is not None and self._echo.address[0] == address:
            return
        if self._echo is not None:
            self._say(f"sensor: the address of this host has changed to {address}")
            self._echo.close()
            self._echo = None
        self._echo = _echo_server(address, self._settings.echo_port, self.turns.admits)
        self._address = address


def run_until_signal(
    daemon: SensorDaemon, duration_s: float | None
) -> tuple[Mapping[str, Tally], int | None]:
    """Return the counts of `daemon.run` and the signal that ended it; TERM and INT end it, HUP reloads the token.

    A second TERM or INT has its default action. For the main thread.
    """
    received: list[int] = []
    stopper = started_pool(1, "stop")

    def end(number: int, frame: FrameType | None) -> None:
        received.append(number)
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, signal.SIG_DFL)
        # waking the main thread takes a lock it may hold at this moment
        stopper.submit(daemon.stop)

    def reload(number: int, frame: FrameType | None) -> None:
        daemon.reload()

    handlers = {signal.SIGTERM: end, signal.SIGINT: end, signal.SIGHUP: reload}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        return daemon.run(duration_s), received[0] if received else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        stopper.shutdown()


def _echo_server(address: str, stated: int | None, admits: Callable[[str], bool]) -> EchoServer:
    """Return a server at the wanted port, or at the first free default one; raises `ProbeError`."""
    for port in ECHO_PORTS if stated is None else (stated,):
        try:
            return EchoServer(address, port, connections=1, stale_s=_STALE_S, admits=admits)
        except ProbeError as error:
            failure = error
    if stated is not None:
        raise failure
    raise ProbeError(
        f"{failure}; so are all ports from {ECHO_PORTS[0]}, those of sensors: find the programs that listen there "
        "(ss -tlnp), or choose a port with --echo-port, and open it in the firewall"
    )
