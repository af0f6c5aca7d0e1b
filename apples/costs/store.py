"""History: every run leaves a record, one file each, and the next prediction is made from them.

A record is `apples.model.plan.Record` as a versioned JSON document. File names start with the run's id, so that they
sort by time, and carry a digest of the calibration key, so that the newest runs of one key are found without opening
the others. Writing is atomic: Ctrl-C at any moment leaves the history readable.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
import secrets
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apples.errors import HistoryError, UnknownRun
from apples.model import jsonstore
from apples.model.jsonstore import BadDocument, Format
from apples.model.plan import Record

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FORMAT = Format(name="apples-run-record", version=1, lost="the record of one run is lost")

_NAME = re.compile(r"(?P<id>\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{6})\.(?P<key>[0-9a-f]{8})\.json")


def new_id(made_at: float) -> str:
    """Return the id of a run made then (seconds since the epoch, of this machine): unique, and ids sort by time."""
    moment = datetime.fromtimestamp(made_at, UTC)
    return f"{moment:%Y%m%dT%H%M%S.%f}Z-{secrets.token_hex(3)}"


class History:
    """The records of one directory, without a cache: other processes may append at any time."""

    def __init__(self, directory: Path) -> None:
        """directory : created with the first record."""
        self.directory = directory

    def append(self, record: Record) -> Path:
        """Store a record and return its file. Raises `HistoryError` when it cannot be written."""
        path = self.directory / f"{record.id}.{_digest(record.key)}.json"
        if not _NAME.fullmatch(path.name):
            raise HistoryError(
                f"{record.id!r} is no id of a run; ids come from apples.learning.history.new_id"
            )
        jsonstore.write(path, FORMAT, {"record": _finite(dataclasses.asdict(record))})
        return path

    def records(self, key: str | None = None, newest: int | None = None) -> list[Record]:
        """Return records by time, oldest first; of one calibration key, and only the `newest` of them, if given.

        Raises `HistoryError` naming every file among them that cannot be used, and every file that is no record.
        """
        named = [(path, _NAME.fullmatch(path.name)) for path in jsonstore.files(self.directory)]
        foreign = [path for path, match in named if match is None]
        wanted = [p for p, match in named if match and (key is None or match["key"] == _digest(key))]
        if newest is not None:
            wanted = wanted[max(0, len(wanted) - newest) :]
        # A renamed record is accepted if it is readable, and two keys may share a digest.
        found = sorted(jsonstore.read_all([*foreign, *wanted], FORMAT, _decode), key=lambda r: r.id)
        found = [record for record in found if key is None or record.key == key]
        return found if newest is None else found[max(0, len(found) - newest) :]

    def get(self, run_id: str) -> Record:
        """Return the record of one run; raises `HistoryError` when there is none."""
        paths = [p for p in jsonstore.files(self.directory) if p.name.startswith(f"{run_id}.")]
        found = jsonstore.read_all(paths, FORMAT, _decode)
        if not found:
            raise UnknownRun(f"{self.directory}: no run {run_id!r}; `apples history` lists the runs")
        return found[0]


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:8]


@cache
def _adapter() -> TypeAdapter[Record]:
    from pydantic import TypeAdapter

    return TypeAdapter(Record)


def _decode(document: dict[str, Any]) -> Record:
    from pydantic import ValidationError

    try:
        record = _adapter().validate_python(document.get("record"))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "record"
        more = f" and {error.error_count() - 1} more" if error.error_count() > 1 else ""
        said = first["msg"][:1].lower() + first["msg"][1:]
        raise BadDocument(
            f"is not a whole record: {place}: {said}{more}; move it away or remove it ({FORMAT.lost})"
        ) from None
    odd = _odd_input(record)
    if odd:
        raise BadDocument(f"is not a whole record: {odd}; move it away or remove it ({FORMAT.lost})")
    return record


def _odd_input(record: Record) -> str | None:
    """Return why the snapshot or the workload, which are free documents, are unfit for learning.

    None if they are fit.
    """
    hosts = record.snapshot.get("hosts", [])
    if not isinstance(hosts, list):
        return "record.snapshot.hosts: should be a list"
    for index, entry in enumerate(hosts):
        known = entry if isinstance(entry, dict) else {}
        for name in ("host", "cpu_type"):
            if not isinstance(known.get(name), str):
                return f"record.snapshot.hosts.{index}.{name}: should be text"
    iterations = record.workload.get("iterations", 1)
    if not isinstance(iterations, int | float) or not 0 <= iterations < math.inf:
        return "record.workload.iterations: should be a number, 0 or more"
    return None


def _finite(value: Any) -> Any:
    """Return the value with infinities as text, which is read back as the number; JSON has no infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value
