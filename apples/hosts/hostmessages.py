"""Every document between the launcher and the host agents, as the launcher writes and reads it: one record each.

Agents run on any Python and read with `apples.hosts.orders`. An answer with one invalid value is rejected whole.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from signal import Signals
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

Text = Annotated[str, Meta(max_length=4096)]
Texts = Annotated[tuple[Text, ...], Meta(max_length=4096)]
Seconds = Annotated[float, Meta(gt=0, lt=1e6)]
Bytes = Annotated[float, Meta(ge=0, le=2.0**65)]
Share = Annotated[float, Meta(ge=0, le=1)]
Processors = Annotated[int, Meta(ge=1, le=1 << 16)]
Port = Annotated[int, Meta(ge=1, lt=1 << 16)]


class HostCheckError(Exception):
    """A host does not answer as expected. The text is a sentence without its subject."""


def encoded(record: Struct) -> bytes:
    """Return the text of a record. Bytes of a path or variable that are not UTF-8 are surrogates in it."""
    # By json, not msgspec, which refuses texts with surrogates.
    return json.dumps(msgspec.to_builtins(record)).encode()


# ranks


class RunSetup(Struct, frozen=True, kw_only=True):
    """The setup of one host agent for a run.

    token : name of a file in the run directory, by which the agent sees whether the directory is shared
    directory : where the ranks start, if the host has it.  proxies : number of start orders that will follow
    watched : path of the page of rank 0 (empty without one) if this host's agent has to forward its progress
    look_s : seconds between its looks at the progress.  beat_s, silence_s : between heartbeats; without one it ends
    """

    run_dir: str
    token: str
    directory: str
    proxies: int
    watched: str | None
    look_s: float
    environment: Mapping[str, str]
    beat_s: float | None
    silence_s: float | None


class StartOrder(Struct, frozen=True, kw_only=True):
    """Start one command. id : the launcher's name for it.  helper : a command of the agent's own script

    environment : None for the agent's, with the variables of its setup
    """

    id: int
    command: list[str]
    helper: bool = False
    environment: Mapping[str, str] | None = None


class AgentReport(Struct, frozen=True, kw_only=True):
    """The first report of an agent.

    shared : it sees the launcher's run directory.  directory : the host has the setup's directory
    launcher : the launcher's address as ssh shows it there, None without ssh
    """

    shared: bool
    directory: bool
    launcher: str | None
    pid: int


class ProxyEnd(Struct, frozen=True, kw_only=True):
    """A command that an agent started has ended. code : negative for a signal"""

    id: int
    code: int


class RankRecord(Struct, frozen=True, kw_only=True):
    """One status file.

    pid, keeper : processes of the program and its supervisor.  started, ended : seconds since the epoch
    ended_by : "itself"; "request", after a signal or a closed lifeline; "parent", because its parents were killed
    error : an event instead of an exit or a signal, as in `cannot run …`, `aborted the run …`
    peak_bytes : largest resident memory of the program, None where it is unknown
    swept : processes that the program left, and that its supervisor killed
    """

    rank: int
    host: str
    pid: int | None
    keeper: int
    started: float
    ended: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    ended_by: Literal["itself", "request", "parent"] | None = None
    error: str | None = None
    peak_bytes: int | None = None
    swept: int = 0

    @property
    def failed(self) -> bool:
        """Return whether it ended with another exit code than 0, or before MPI_Finalize."""
        return self.ended is not None and (self.exit_code != 0 or self.error is not None)

    @property
    def shell_code(self) -> int:
        """Return the exit code as a shell shows it: 128 + signal for a killed rank, 1 for a failed one that gave 0."""
        # A rank that ends with 0 before MPI_Finalize has failed, and must not look well.
        return 128 + self.signal if self.signal is not None else self.exit_code or int(self.failed)

    def describe(self) -> str:
        """Return one line, as in `rank 3 on beta was killed by signal 9 (KILL)`."""
        rank = f"rank {self.rank} on {self.host}"
        if self.ended is None:
            return f"{rank} runs (pid {self.pid})"
        if self.error is not None:
            return f"{rank} {self.error}"
        if self.signal is not None:
            return f"{rank} was killed by signal {self.signal} ({signal_name(self.signal)})"
        return f"{rank} ended with exit code {self.exit_code}"


def signal_name(number: int) -> str:
    """Return `KILL` for 9. Real-time signals have no name and are called by number."""
    try:
        return Signals(number).name.removeprefix("SIG")
    except ValueError:
        return f"number {number}"


# checks


class Callback(Struct, frozen=True, kw_only=True):
    """Where a host is to connect to the launcher, and the answer it must get."""

    addresses: list[str]
    port: int
    token: str


class CheckRequest(Struct, frozen=True, kw_only=True):
    """The request of a check: files, and by path of a file to be written the token beside it, None without one.

    cpus : those that the readings are of, () for all
    """

    files: tuple[str, ...] = ()
    callback: Callback | None = None
    disks: Mapping[str, str | None] = {}
    cpus: tuple[int, ...] = ()


class Question(Struct, frozen=True, kw_only=True, tag_field="do", tag=str.lower):
    """A question after the check."""


class Survey(Struct, frozen=True, kw_only=True):
    """CPU and memory of a host from a few readings of its sensors; fields as in `nws.client.hostprobe.survey`."""

    availability: Share
    capacity: Annotated[float, Meta(ge=0, le=1 << 16)]
    quota: Annotated[float, Meta(ge=0)] | None
    cpus: Processors
    memory_bytes: Bytes
    load: Annotated[float, Meta(ge=0, lt=1e9)]


class SurveyedAnswer(Struct, frozen=True, kw_only=True):
    """The readings of the sensors, or why there are none."""

    survey: Survey | None
    survey_error: Text | None


class AskSurvey(Question, frozen=True, tag="survey"):
    """New readings of the sensors. Answer: `SurveyedAnswer`."""


class AskKernel(Question, frozen=True, tag="kernel"):
    """Run a benchmark, whose word OUTPUT is the path of its document. Answer: `KernelAnswer`."""

    command: list[str]


class AskServe(Question, frozen=True, tag="serve"):
    """Answer probes of peers at an address. Answer: `PortAnswer`."""

    address: str


class AskLink(Question, frozen=True, tag="link"):
    """Measure the link to a peer that serves. Answer: `LinkAnswer`."""

    peer: str
    address: str
    port: int
    within_s: float


class AskLoss(AskLink, frozen=True, tag="loss"):
    """Measure the losses on the link. Answer: `LossAnswer`."""


class DiskAnswer(Struct, frozen=True, kw_only=True):
    """As `apples.hosts.hostcheck.disk` returns it."""

    directory: Text
    exists: bool
    writable: bool
    free_bytes: Bytes
    shared: bool


class HostFacts(SurveyedAnswer, frozen=True, kw_only=True):
    """The facts that a host reports in its check, as `apples.hosts.hostcheck.facts` returns them.

    name : its own host name.  resolved : numeric addresses of that name, on the host
    reached_at, reached_from : its address and ours on the ssh connection, None without one (this machine)
    called_back : our addresses at which it reached us; None if it was not asked to
    interfaces : interface → numeric addresses
    survey : None if it failed, with the reason in `survey_error`
    node_manager : one listens there, or the socket of one that has ended remains
    untrusted : paths that are not used there, as other users may replace them
    clock_s : its clock.  skew_s : its clock minus ours when the answer arrived, which the host does not send
    """

    name: Text
    resolved: Texts
    reached_at: Text | None
    reached_from: Text | None
    interfaces: Mapping[Text, tuple[Text, ...]]
    versions: Annotated[Mapping[Text, Text], Meta(max_length=100)]
    missing: Texts
    called_back: Texts | None
    cpu_model: Text
    disks: Annotated[Mapping[Text, DiskAnswer], Meta(max_length=1000)]
    shared_memory_bytes: Bytes | None
    node_manager: bool
    untrusted: Texts
    clock_s: Annotated[float, Meta(gt=-1e12, lt=1e12)]
    skew_s: float = 0.0

    def __post_init__(self) -> None:
        for address in (*self.resolved, self.reached_at, self.reached_from, *(self.called_back or ())):
            check_address(address)

    @property
    def our_address(self) -> str | None:
        """Return our address as this host reaches us; None if that is not known."""
        return next(iter(self.called_back or ()), self.reached_from)

    @property
    def interface(self) -> str | None:
        """Return the interface through which it was reached; None if that is not known."""
        return next(
            (name for name, addresses in self.interfaces.items() if self.reached_at in addresses), None
        )


class LinkAnswer(Struct, frozen=True, kw_only=True):
    """A measured link, one way."""

    latency_s: Seconds
    bandwidth_Bps: Annotated[float, Meta(gt=0, lt=1e15)]


class LossAnswer(Struct, frozen=True, kw_only=True):
    """The share of messages that were lost."""

    lost: Share


class KernelAnswer(Struct, frozen=True, kw_only=True):
    """CPU seconds of the kernel for one cell and iteration."""

    seconds_per_cell: Seconds


class PortAnswer(Struct, frozen=True, kw_only=True):
    """The port at which a host answers probes."""

    port: Port


class _Problem(Struct, frozen=True):
    """The answer of a host to a question that it could not answer."""

    error: str = ""


Kind = TypeVar("Kind")


def check_address(address: str | None) -> None:
    """Raise `ValueError` unless an address is numeric, with or without a zone, or None."""
    if address is not None:
        # The zone of a link-local address, as in `fe80::1%eth0`, is no part of the number.
        ipaddress.ip_address(address.partition("%")[0])


def read(kind: type[Kind] | Any, payload: bytes) -> Kind:
    """Return an answer as its record; raises `HostCheckError` with the host's own `error`, or if it is invalid."""
    try:
        problem = msgspec.json.decode(payload, type=_Problem).error if payload.startswith(b"{") else ""
        if not problem:
            answer: Kind = msgspec.json.decode(payload, type=kind)
            return answer
    except (ValueError, RecursionError) as error:
        # msgspec puts the path of the value behind the reason; here it goes before.
        message, _, where = str(error).partition(" - at `$")
        part = where.strip("`.")
        reason = f"{part[:200]}: {message[:200]}" if part else message[:200]
        raise HostCheckError(f"gave an answer that cannot be understood ({reason})") from None
    raise HostCheckError(problem[:4096])
