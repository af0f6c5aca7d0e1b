"""Layout of a monitor page, as `shim/page.h` has it: fields of both halves, and structs that read some of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence, Set
from typing import NamedTuple

MAGIC = int.from_bytes(b"APPLESMP", "little")
VERSION = 3
PAGE_BYTES = 4096
MANAGED = 2048
#: Ranks of which the messages sent to them are counted singly.
NEIGHBOURS = 64

#: Fields of the first half in order, with their `struct` codes; `page.h` has the same.
PROCESS_FIELDS = (
    ("magic", "Q"),
    ("version", "I"),
    ("sequence", "I"),
    ("state", "I"),
    ("pid", "I"),
    ("tid", "I"),
    ("rank", "I"),
    ("ranks", "I"),
    ("threads", "I"),
    ("phase", "I"),
    ("flags", "I"),
    ("started_ns", "Q"),
    ("ended_ns", "Q"),
    ("updated_ns", "Q"),
    ("t_cpu_ns", "Q"),
    ("t_comm_ns", "Q"),
    ("c_comm", "Q"),
    ("calls", "Q"),
    ("sent", "Q"),
    ("received", "Q"),
    ("requests", "Q"),
    ("last_request_ns", "Q"),
    ("phase_wall_ns", "Q"),
    ("phase_cpu_ns", "Q"),
    ("phase_stopped_ns", "Q"),
    ("sleeps", "Q"),
    ("mpi", "64s"),
    ("host", "64s"),
    ("off_ns", "Q"),
    ("queued_ns", "Q"),
    ("phase_queued_ns", "Q"),
    ("begun_ns", "Q"),
    ("init_cpu_ns", "Q"),
    ("cpu_ns", "Q"),
    ("peak_bytes", "Q"),
    ("iterations", "Q"),
    ("period", "I"),
    ("neighbours", "I"),
    ("other_messages", "Q"),
    ("other_bytes", "Q"),
    ("way_permille", "16s"),
    ("best_way", "I"),
    ("spare", "I"),
    ("neighbour", f"{NEIGHBOURS * 24}s"),
)
#: One rank in the table: rank, messages, bytes.
NEIGHBOUR = struct.Struct("=I4xQQ")
#: Time per iteration of each way to wait, in thousandths of that of the best one.
WAY_COSTS = struct.Struct("=4I")
#: Fields of the second half, from byte 2048.
MANAGER_FIELDS = (("wait", "I"), ("scheduled", "I"), ("spin_ns", "Q"), ("stopped_ns", "Q"))


class PageLayout(NamedTuple):
    """Some fields of the first half in order, and the struct that reads them from its begin."""

    names: tuple[str, ...]
    form: struct.Struct


def page_layout(expected: Set[str]) -> PageLayout:
    """Return the layout of these fields, which skips the others and ends with the last one."""
    codes = [code if name in expected else f"{struct.calcsize('=' + code)}x" for name, code in PROCESS_FIELDS]
    names = tuple(name for name, _ in PROCESS_FIELDS if name in expected)
    last = [name for name, _ in PROCESS_FIELDS].index(names[-1])
    return PageLayout(names, struct.Struct("=" + "".join(codes[: last + 1])))


def offset(fields: Sequence[tuple[str, str]], name: str) -> int:
    """Return the offset of a field from the begin of its half, bytes; raises `KeyError`."""
    before: list[str] = []
    for field, code in fields:
        if field == name:
            return struct.calcsize("=" + "".join(before))
        before.append(code)
    raise KeyError(name)


ALL = page_layout({name for name, _ in PROCESS_FIELDS})
#: The fields from which `PageTimes` follow.
TIMES = page_layout(
    {"magic", "version", "sequence", "state", "pid", "tid", "threads", "phase", "started_ns", "ended_ns"}
    | {"updated_ns", "t_cpu_ns", "t_comm_ns", "c_comm", "phase_wall_ns", "phase_cpu_ns", "phase_stopped_ns"}
    | {"off_ns", "queued_ns", "phase_queued_ns"}
)
MANAGER_CODES = dict(MANAGER_FIELDS)
SEQUENCE_AT = offset(PROCESS_FIELDS, "sequence")
#: Offsets of the manager's fields in the page.
MANAGER_AT = {name: MANAGED + offset(MANAGER_FIELDS, name) for name, _ in MANAGER_FIELDS}
