"""The numbers of a plan, for users who start their jobs themselves: rows, cuts, weights, hosts and ranks.

Each format is the text that one code reads. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, groupby

from apples.model.plan import Plan

#: Digits of a fraction: enough for planes of any mesh.
_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """The pieces of a plan in rank order.

    hosts : host of each rank.  rows : of each rank.  predicted_s : run time
    """

    size: int
    hosts: tuple[str, ...]
    rows: tuple[int, ...]
    predicted_s: float

    @property
    def first_rows(self) -> tuple[int, ...]:
        """Return the first row of each rank, from 0."""
        return tuple([0, *accumulate(self.rows)][:-1])

    @property
    def cuts(self) -> tuple[float, ...]:
        """Return the positions between the ranks as fractions of the size."""
        return tuple(round(first / self.size, _DIGITS) for first in self.first_rows[1:])

    @property
    def weights(self) -> tuple[float, ...]:
        """Return each rank's share of the rows."""
        return tuple(round(rows / self.size, _DIGITS) for rows in self.rows)

    @property
    def hostfile(self) -> str:
        """Return consecutive ranks by host, as MPICH and Intel MPI read them: `name:ranks` a line."""
        return "".join(f"{host}:{len(list(ranks))}\n" for host, ranks in groupby(self.hosts))

    @property
    def rankfile(self) -> str:
        """Return the host and slot of each rank, as Open MPI reads them: `rank 0=name slot=0` a line."""
        lines, slots = [], dict.fromkeys(self.hosts, 0)
        for rank, host in enumerate(self.hosts):
            lines.append(f"rank {rank}={host} slot={slots[host]}\n")
            slots[host] += 1
        return "".join(lines)


def pieces_of(plan: Plan) -> Pieces:
    """Return the numbers of a plan."""
    ranks = sorted(plan.assignments, key=lambda a: a.rank)
    return Pieces(
        size=plan.size,
        hosts=tuple(a.host for a in ranks),
        rows=tuple(a.rows for a in ranks),
        predicted_s=plan.predicted_s,
    )


def _as_json(pieces: Pieces) -> str:
    document = {
        "version": 1,
        "size": pieces.size,
        "ranks": len(pieces.rows),
        "hosts": pieces.hosts,
        "rows": pieces.rows,
        "first_rows": pieces.first_rows,
        "cuts": pieces.cuts,
        "weights": pieces.weights,
        "hostfile": pieces.hostfile,
        "rankfile": pieces.rankfile,
        "predicted_s": pieces.predicted_s,
    }
    return json.dumps(document, indent=1) + "\n"


def _as_text(pieces: Pieces) -> str:
    lines = [
        f"rows        {' '.join(map(str, pieces.rows))}",
        f"first rows  {' '.join(map(str, pieces.first_rows))}",
        f"cuts        {' '.join(map(str, pieces.cuts)) or '-'}",
        f"weights     {' '.join(map(str, pieces.weights))}",
        f"hosts       {' '.join(pieces.hosts)}",
    ]
    return "\n".join(lines) + "\n"


def _as_lammps(pieces: Pieces) -> str:
    """Return commands to include after the box is made: slabs along z."""
    cuts = f"balance 1.0 z {' '.join(map(str, pieces.cuts))}\n" if pieces.cuts else ""
    return f"processors 1 1 {len(pieces.rows)}\n{cuts}"


def _as_petsc(pieces: Pieces) -> str:
    """Return options for planes of a DMDA along z.

    PETSc itself reads the first. The program passes `-lz` (PetscOptionsGetIntArray) to DMDASetOwnershipRanges.
    """
    rows = ",".join(map(str, pieces.rows))
    return f"-da_processors_z {len(pieces.rows)} -lz {rows}\n"


def _as_openfoam(pieces: Pieces) -> str:
    """Return entries of system/decomposeParDict: weights of the processors for Scotch."""
    weights = " ".join(map(str, pieces.weights))
    return (
        f"numberOfSubdomains {len(pieces.rows)};\nmethod scotch;\n"
        f"scotchCoeffs\n{{\n    processorWeights ({weights});\n}}\n"
    )


def _as_meep(pieces: Pieces) -> str:
    """Return a `chunk_layout` for a cell of height `sz` that is centred at 0: planes along z, in Python."""
    layout = f"mp.BinaryPartition(proc_id={len(pieces.rows) - 1})"
    for rank, cut in reversed(list(enumerate(pieces.cuts))):
        layout = (
            f"mp.BinaryPartition(split_dir=mp.Z, split_pos=({cut} - 0.5) * sz, "
            f"left=mp.BinaryPartition(proc_id={rank}), right={layout})"
        )
    return f"chunk_layout = {layout}\n"


#: Format → function that returns its text.
FORMATS: dict[str, Callable[[Pieces], str]] = {
    "text": _as_text,
    "json": _as_json,
    "lammps": _as_lammps,
    "petsc": _as_petsc,
    "openfoam": _as_openfoam,
    "meep": _as_meep,
}
