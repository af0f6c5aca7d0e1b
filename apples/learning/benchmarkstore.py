"""Benchmarks on disk: results of short dedicated runs of an application on each kind of machine.

One file for each (application with its options, kind of machine), so that two processes that calibrate different
machines never overwrite each other. Benchmarks hold for the machine and the versions they were measured with, so both
belong in the caller's keys. How runs correct benchmarks is decided in `apples.learning.corrections`. Source: Wolski
et al. 2000, §3.1 (BM_i).
"""

import dataclasses
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apples.learning.overhead import startup_overhead
from apples.model import jsonstore
from apples.model.jsonstore import BadDocument, Format
from apples.model.template import Benchmark, Costs

FORMAT = Format(name="apples-benchmarks", version=1, lost="it will be measured again by apples calibrate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Benchmarks of one application on one kind of machine, by ascending ranks.

    key : application with its options.  machine : kind of machine.  measured_at : seconds since the epoch
    """

    key: str
    machine: str
    measured_at: float
    benchmarks: tuple[Benchmark, ...]

    @property
    def seconds_per_row(self) -> dict[int, float]:
        """Return ranks on the host → seconds for one row and one iteration."""
        return {b.ranks: b.seconds_per_row for b in self.benchmarks}


class CalibrationStore:
    """The benchmarks of one directory, without a cache."""

    def __init__(self, directory: Path) -> None:
        """directory : created with the first benchmark."""
        self.directory = directory

    def put(self, key: str, machine: str, benchmarks: Sequence[Benchmark], measured_at: float) -> Calibration:
        """Store benchmarks; rank counts measured before stay unless measured again. Raises `HistoryError`."""
        before = self.get(key, machine)
        by_ranks = {b.ranks: b for b in (*(before.benchmarks if before else ()), *benchmarks)}
        calibration = Calibration(
            key=key,
            machine=machine,
            measured_at=measured_at,
            benchmarks=tuple(by_ranks[ranks] for ranks in sorted(by_ranks)),
        )
        jsonstore.write(self._path(key, machine), FORMAT, dataclasses.asdict(calibration))
        return calibration

    def get(self, key: str, machine: str) -> Calibration | None:
        """Return the benchmarks of an application on one kind of machine.

        Raises `HistoryError` if they are unreadable.
        """
        found = jsonstore.read_all([self._path(key, machine)], FORMAT, _decode)
        return found[0] if found else None

    def entries(self, key: str | None = None) -> list[Calibration]:
        """Return all benchmarks, or those of one application; raises `HistoryError` naming every unreadable file."""
        start = "" if key is None else _digest(key)
        paths = [p for p in jsonstore.files(self.directory) if p.name.startswith(start)]
        found = jsonstore.read_all(paths, FORMAT, _decode)
        wanted = [c for c in found if key is None or c.key == key]
        return sorted(wanted, key=lambda c: (c.key, c.machine))

    def costs(self, key: str, cpu_types: Mapping[str, str] | None = None) -> Costs | None:
        """Return the costs of an application from its benchmarks, overhead from their start-up; None if there are none.

        cpu_types : CPU type → kind of machine, for the table of the costs; default: the kinds themselves
        """
        known = {c.machine: c for c in self.entries(key)}
        names = {machine: machine for machine in known} if cpu_types is None else cpu_types
        taken = {name: known[machine] for name, machine in names.items() if machine in known}
        if not taken:
            return None
        overhead = startup_overhead([b for c in taken.values() for b in c.benchmarks])
        handled = [
            b.message_cpu_s for c in taken.values() for b in c.benchmarks if b.message_cpu_s is not None
        ]
        return Costs(
            seconds_per_row={n: c.seconds_per_row for n, c in taken.items()},
            overhead=overhead,
            message_cpu_s=max(handled, default=0.0),
        )

    def _path(self, key: str, machine: str) -> Path:
        return self.directory / f"{_digest(key)}.{_digest(machine)}.json"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _decode(document: dict[str, Any]) -> Calibration:
    from pydantic import TypeAdapter, ValidationError

    try:
        calibration = TypeAdapter(Calibration).validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        said = first["msg"][:1].lower() + first["msg"][1:]
        raise BadDocument(f"is not whole: {place}: {said}; remove it ({FORMAT.lost})") from None
    times = [b.seconds_per_row for b in calibration.benchmarks]
    if not times or not all(math.isfinite(t) and t > 0 for t in times):
        raise BadDocument(f"has no usable times per row (got {times}); remove it ({FORMAT.lost})")
    return calibration
