"""Strict models of the answers of hosts to checks and orders. An answer with one invalid value is rejected."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from nws.base.hostconnection import HostCheckError


def _numeric(address: str) -> str:
    ipaddress.ip_address(address.partition("%")[0])
    return address


Text = Annotated[str, Field(max_length=4096)]
Texts = Annotated[list[Text], Field(max_length=4096)]
Address = Annotated[Text, AfterValidator(_numeric)]
Addresses = Annotated[list[Address], Field(max_length=4096)]
Seconds = Annotated[float, Field(gt=0, lt=1e6)]
Bytes = Annotated[float, Field(ge=0, le=2**65)]
Share = Annotated[float, Field(ge=0, le=1)]
Processors = Annotated[int, Field(ge=1, le=1 << 16)]


class HostAnswer(BaseModel):
    """One answer of a host; numbers are finite."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class SurveyAnswer(HostAnswer):
    """As `nws.client.hostprobe.survey` returns it."""

    availability: Share
    capacity: Annotated[float, Field(ge=0, le=1 << 16)]
    quota: Annotated[float, Field(ge=0)] | None
    cpus: Processors
    memory_bytes: Bytes
    load: Annotated[float, Field(ge=0, lt=1e9)]


class NetworkAnswer(HostAnswer):
    """As `apples.hosts.hostcheck.network` returns it."""

    name: Text
    resolved: Addresses
    reached_at: Address | None
    reached_from: Address | None
    interfaces: dict[Text, list[Text]]


class DiskAnswer(HostAnswer):
    """As `apples.hosts.hostcheck.disk` returns it."""

    directory: Text
    exists: bool
    writable: bool
    free_bytes: Bytes
    shared: bool


class SurveyedAnswer(HostAnswer):
    """The readings of the sensors, or why there are none."""

    survey: SurveyAnswer | None
    survey_error: Text | None


class FactsAnswer(SurveyedAnswer):
    """As `apples.hosts.hostcheck.facts` returns it."""

    versions: Annotated[dict[Text, Text], Field(max_length=100)]
    missing: Texts
    network: NetworkAnswer
    called_back: Addresses | None
    cpu_model: Text
    disks: Annotated[dict[Text, DiskAnswer], Field(max_length=1000)]
    shared_memory_bytes: Bytes | None
    node_manager: bool
    clock_s: Annotated[float, Field(gt=-1e12, lt=1e12)]


class LinkAnswer(HostAnswer):
    """A measured link, one way."""

    latency_s: Seconds
    bandwidth_Bps: Annotated[float, Field(gt=0, lt=1e15)]


class LossAnswer(HostAnswer):
    """The share of messages that were lost."""

    lost: Share


class KernelAnswer(HostAnswer):
    """CPU seconds of the kernel for one cell and iteration."""

    seconds_per_cell: Seconds


class PortAnswer(HostAnswer):
    """The port at which a host answers probes."""

    port: Annotated[int, Field(ge=1, lt=1 << 16)]


class NodeManagerAnswer(HostAnswer):
    """A node manager, as `apples.daemons.hostsharing` describes it."""

    node: Text
    policy: Text
    slots: Annotated[int, Field(ge=0, le=1 << 20)]
    manager: Text | None
    connected: bool
    pid: Annotated[int, Field(ge=1)]
    socket: Text
    key: Text | None
    started: bool = False


class SharedHostAnswer(HostAnswer):
    """A host's launcher address and node manager, None without one."""

    launcher: Address
    node: NodeManagerAnswer | None


class LookAnswer(HostAnswer):
    """To `look` of `apples.daemons.hostsharing.serve`; the next four to its other requests."""

    look: SharedHostAnswer


class JoinAnswer(HostAnswer):
    """The node manager that was joined."""

    join: NodeManagerAnswer


class HoldsAnswer(HostAnswer):
    """Whether the node manager that was joined still runs."""

    holds: bool


class LeaveAnswer(HostAnswer):
    """Nothing."""

    leave: None


class RanksAnswer(HostAnswer):
    """The ranks of a job as the node manager reports them."""

    ranks: Annotated[list[dict[str, Any]], Field(max_length=1 << 16)]


Kind = TypeVar("Kind", bound=HostAnswer)


def read(kind: type[Kind], document: Mapping[str, Any]) -> Kind:
    """Return an answer as its model; raises `HostCheckError` with the host's own `error`, or if it is invalid."""
    if "error" in document:
        raise HostCheckError(str(document["error"])[:4096])
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise HostCheckError(
            f"gave an answer that cannot be understood ({place[:200]}: {first['msg'][:200]})"
        ) from None
