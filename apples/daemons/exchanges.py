"""The requests to a node manager, and those of a launcher to another host, with the types of argument and answer.

Answers may have further fields: client and node manager of a host may be of different releases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from apples.daemons.ipc.requests import Exchange, matching
from apples.daemons.nodemessages import Count, LinePart, MachineView, NodeStatus, ProcessReport, check_rank
from apples.daemons.paths import ManagerAccess
from apples.monitoring.names import LEGAL, LONGEST

#: Longest path of Linux with its NUL, and ranks of one job; more is a mistake. No pid of Linux is larger either.
_PATH, _MOST_RANKS = 4096, 1 << 22

Text = Annotated[str, Meta(max_length=4096)]


class RegisterRequest(LinePart, frozen=True):
    """The argument of `register`. pid : without it, the process that is connected.  page : of its monitor"""

    # Names of jobs become names of files.
    job: Annotated[str, matching(r"\A(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,64}\Z", f"expected {LEGAL}")]
    rank: Annotated[int, Meta(ge=0)]
    ranks: Annotated[int, Meta(ge=1, le=_MOST_RANKS)]
    pid: Annotated[int, Meta(ge=1, le=_MOST_RANKS)] | None = None
    page: (
        Annotated[str, matching(r"\A[^\x00]*\Z", "a path without NUL is legal", max_length=_PATH)] | None
    ) = None

    def __post_init__(self) -> None:
        check_rank(self.rank, self.ranks)


class RegisteredProcess(Struct, frozen=True):
    """The answer to `register`."""

    job: str
    rank: int


class Held(Struct, frozen=True):
    """The answer to `hold`."""


#: Requests to a node manager. `schedule` has no answer.
NODE_REQUESTS: Mapping[str, Exchange[Any]] = {
    "register": Exchange(RegisterRequest, RegisteredProcess),
    "status": Exchange(None, NodeStatus),
    "view": Exchange(None, MachineView | None),  # type: ignore[arg-type]
    "job": Exchange(Annotated[str, Meta(max_length=LONGEST)], list[ProcessReport]),
    "hold": Exchange(None, Held),
    "schedule": Exchange(None, Held),
}


# questions of a launcher to another host


class NodeManager(Struct, frozen=True, kw_only=True):
    """The node manager of a host. key : of its machine manager, if runs may have other hosts join that one

    started : it was started for this run
    """

    node: Text
    policy: Text
    slots: Count
    manager: Text | None
    connected: bool
    pid: Annotated[int, Meta(ge=1)]
    socket: Text
    key: Text | None
    started: bool = False


class SharedHost(Struct, frozen=True, kw_only=True):
    """A host's launcher address and node manager, None without one."""

    launcher: Text
    node: NodeManager | None


#: The policy; the machine manager to join, None to start one; where to listen, None for where the launcher reached.
JoinRequest = tuple[Text, ManagerAccess | None, Text | None]

#: Requests of `apples.daemons.hostsharing.serve`; `lasting` is the first.
HOST_REQUESTS: Mapping[str, Exchange[Any]] = {
    "look": Exchange(None, SharedHost),
    "join": Exchange(JoinRequest, NodeManager),
    "holds": Exchange(None, bool),
    "ranks": Exchange(Text, Annotated[list[ProcessReport], Meta(max_length=1 << 16)]),  # type: ignore[arg-type]
    "leave": Exchange(None, None),  # type: ignore[arg-type]
}
LASTING: Mapping[str, Exchange[Any]] = {"lasting": Exchange(bool, None)}  # type: ignore[arg-type]
