"""The numbers of a plan, for users who start their jobs themselves: rows, cuts, weights, hosts and ranks.

Each format is the text that one code reads. Pure.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, groupby

from apples.errors import ConfigError
from apples.model.cut import Box, band_heights, column_counts, column_widths
from apples.model.plan import Plan
from nws.base.records import document_of

#: Digits of a fraction: enough for planes of any mesh.
_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """The pieces of a plan in rank order.

    hosts : host of each rank.  rows : of each rank.  predicted_s : run time
    kind : "slabs", or the cut on two axes.  boxes : of a program that takes two axes, also for slabs; none for others
    why : reason for the cut, empty for a program that takes one axis only
    """

    size: int
    hosts: tuple[str, ...]
    rows: tuple[int, ...]
    predicted_s: float
    kind: str = "slabs"
    boxes: tuple[Box, ...] = ()
    why: str = ""

    @property
    def first_rows(self) -> tuple[int, ...]:
        """Return the first row of each rank, from 0."""
        if self.boxes:
            return tuple(box.y for box in self.boxes)
        return tuple([0, *accumulate(self.rows)][:-1])

    @property
    def cuts(self) -> tuple[float, ...]:
        """Return the positions between slabs as fractions of the size; none for a cut on two axes."""
        if self.kind != "slabs":
            return ()
        return tuple(round(first / self.size, _DIGITS) for first in self.first_rows[1:])

    @property
    def weights(self) -> tuple[float, ...]:
        """Return each rank's share of the rows, or of all cells."""
        cells = tuple(box.width * box.height for box in self.boxes) or self.rows
        return tuple(round(each / sum(cells), _DIGITS) for each in cells)

    @property
    def axes(self) -> dict[str, list[int]]:
        """Return the widths of the columns of ranks and, for a rectilinear cut, the heights of its bands.

        For columns, the number of ranks in each. Empty for a program that takes one axis only.
        """
        if not self.boxes:
            return {}
        heights = {"lx": list(column_widths(self.boxes))}
        if self.kind != "columns":
            return heights | {"ly": list(band_heights(self.boxes))}
        return heights | {"columns": list(column_counts(self.boxes))}

    @property
    def hostfile(self) -> str:
        """Return consecutive ranks by host, as MPICH and Intel MPI read them: `name:ranks` a line."""
        return "".join(f"{host}:{len(list(ranks))}\n" for host, ranks in groupby(self.hosts))

    @property
    def rankfile(self) -> str:
        """Return the host of each rank, one a line, for Open MPI: `--hostfile FILE --map-by seq --bind-to none`.

        A rank file of Open MPI would name cores, and so bind the ranks of two plans to the same ones.
        """
        return "".join(f"{host}\n" for host in self.hosts)


def pieces_of(plan: Plan) -> Pieces:
    """Return the numbers of a plan."""
    ranks = sorted(plan.assignments, key=lambda a: a.rank)
    return Pieces(
        size=plan.size,
        hosts=tuple(a.host for a in ranks),
        rows=tuple(a.rows for a in ranks),
        predicted_s=plan.predicted_s,
        kind="slabs" if plan.cut is None else plan.cut.kind,
        boxes=plan.boxes,
        why="" if plan.cut is None else plan.cut.why,
    )


def formatted(pieces: Pieces, form: str) -> str:
    """Return the text of a format; raise `ConfigError` if it cannot have these pieces."""
    if pieces.kind not in ("slabs", *TWO_AXES.get(form, ())):
        raise ConfigError(
            f"--format {form} has no {pieces.kind} cut; use --format json or text, or --cut slabs for slabs"
        )
    if form == "pism" and not pieces.boxes:
        raise ConfigError("--format pism needs a second axis; name it under `axes` in the application file")
    return FORMATS[form](pieces)


def _as_json(pieces: Pieces) -> str:
    document: dict[str, object] = {
        "version": 1,
        "size": pieces.size,
        "ranks": len(pieces.rows),
        **document_of(pieces, "hosts", "rows", "first_rows", "cuts", "weights"),
        **document_of(pieces, "hostfile", "rankfile", "predicted_s"),
    }
    if pieces.boxes:
        boxes = [document_of(box, "x", "y", "width", "height") for box in pieces.boxes]
        document |= {"cut": pieces.kind, "why": pieces.why, **pieces.axes, "boxes": boxes}
    return json.dumps(document, indent=1) + "\n"


def _as_text(pieces: Pieces) -> str:
    lines = [
        f"rows        {' '.join(map(str, pieces.rows))}",
        f"first rows  {' '.join(map(str, pieces.first_rows))}",
        f"cuts        {' '.join(map(str, pieces.cuts)) or '-'}",
        f"weights     {' '.join(map(str, pieces.weights))}",
        f"hosts       {' '.join(pieces.hosts)}",
    ]
    if pieces.boxes:
        lines += [f"{name:11} {' '.join(map(str, numbers))}" for name, numbers in pieces.axes.items()]
        lines += [f"cut         {pieces.kind}: {pieces.why}"]
    return "\n".join(lines) + "\n"


def _as_lammps(pieces: Pieces) -> str:
    """Return commands to include after the box is made: slabs along z."""
    cuts = f"balance 1.0 z {' '.join(map(str, pieces.cuts))}\n" if pieces.cuts else ""
    return f"processors 1 1 {len(pieces.rows)}\n{cuts}"


def _as_petsc(pieces: Pieces) -> str:
    """Return options for planes of a DMDA along z, or for boxes along x and y.

    PETSc itself reads the processors. The program passes `-lz`, or `-lx` and `-ly` (PetscOptionsGetIntArray), to
    DMDASetOwnershipRanges.
    """
    if pieces.boxes:
        counts = [f"-da_processors_{name[1]} {len(numbers)}" for name, numbers in pieces.axes.items()]
        return " ".join([*counts, *_ranges(pieces, "-lx", "-ly")]) + "\n"
    rows = ",".join(map(str, pieces.rows))
    return f"-da_processors_z {len(pieces.rows)} -lz {rows}\n"


def _as_pism(pieces: Pieces) -> str:
    """Return options of PISM, which stores x along the slower axis: rows are counted along its x."""
    ranges = _ranges(pieces, "-procs_y", "-procs_x")
    return f"-Nx {len(pieces.axes['ly'])} -Ny {len(pieces.axes['lx'])} {' '.join(reversed(ranges))}\n"


def _ranges(pieces: Pieces, *options: str) -> list[str]:
    """Return an option for the widths of columns and one for the heights of bands."""
    parts = (pieces.axes["lx"], pieces.axes["ly"])
    return [f"{option} {','.join(map(str, part))}" for option, part in zip(options, parts, strict=True)]


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
    "pism": _as_pism,
    "openfoam": _as_openfoam,
    "meep": _as_meep,
}

#: Format → cuts on two axes that it can have.
TWO_AXES = {
    "text": ("rectilinear", "columns"),
    "json": ("rectilinear", "columns"),
    "petsc": ("rectilinear",),
    "pism": ("rectilinear",),
    "openfoam": ("rectilinear", "columns"),
}
