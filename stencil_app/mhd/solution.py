"""The solution for users: primitive variables at the centres of cells, whole box, arrays [z, y, x].

The field at a centre is the mean over the two faces. Rank 0 receives one quantity at a time, so that no rank ever holds
more of a large box than the quantity being written.

Files of a solution: .npz for NumPy, .h5 with an .xdmf beside it for ParaView and yt, .png of a slice.

The suffix of the name selects the format. Files are written atomically by rank 0. The .h5 holds one data set
[z, y, x] for each quantity; ParaView opens the .xdmf, and yt the .h5 with `yt.load_hdf5_file(name)`.

Pictures of a solution: maps of the slice across z in the middle of the box, or profiles along a tube.

Four quantities are shown: density, gas pressure, speed and magnetic pressure. matplotlib draws, without a screen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from nws.base.files import Replacement, write_whole
from nws.base.oserrors import REASON, os_errors_as
from stencil_app.errors import OutputError
from stencil_app.mesh.layout import Array
from stencil_app.mesh.slab import Slab
from stencil_app.mhd.equations import MhdProblem
from stencil_app.mhd.mesh import B1, B2, B3, LATERAL_GHOSTS, M1, M2, M3, RHO, E
from stencil_app.running.mpi import agreed
from stencil_app.running.runtime import State

#: Quantities in the order in which they are given and written.
QUANTITIES = ("rho", "p", "vx", "vy", "vz", "Bx", "By", "Bz")
_I0 = LATERAL_GHOSTS


def mhd_problem(slab: Slab) -> MhdProblem:
    """Return the problem of a slab that is known to be one of magnetohydrodynamics."""
    assert isinstance(slab.problem, MhdProblem)
    return slab.problem


def centred(slab: Slab) -> dict[str, Array]:
    """Return this slab's quantities by name, and total energy as `e`, float64[rows, nj, ni]."""
    problem = mhd_problem(slab)
    layout, field = problem.layout, slab.field
    rows = slice(layout.ghost_rows, layout.ghost_rows + slab.rows)
    above = slice(rows.start + 1, rows.stop + 1)
    lines, entries = layout.lines, layout.entries
    b = (
        0.5 * (field[rows, B1, lines, entries] + field[rows, B1, lines, _I0 + 1 : _I0 + 1 + layout.nx]),
        0.5 * (field[rows, B2, lines, entries] + field[rows, B2, lines.start + 1 : lines.stop + 1, entries]),
        0.5 * (field[rows, B3, lines, entries] + field[above, B3, lines, entries]),
    )
    rho, energy = field[rows, RHO, lines, entries], field[rows, E, lines, entries]
    v = [field[rows, m, lines, entries] / rho for m in (M1, M2, M3)]
    kinetic = 0.5 * rho * (v[0] ** 2 + v[1] ** 2 + v[2] ** 2)
    magnetic = 0.5 * (b[0] ** 2 + b[1] ** 2 + b[2] ** 2)
    quantities = {"rho": rho.copy(), "p": (problem.case.gamma - 1.0) * (energy - kinetic - magnetic)}
    order = problem.frame.order
    quantities |= {f"v{axis}": v[order.index(number)] for number, axis in enumerate("xyz")}
    quantities |= {f"B{axis}": b[order.index(number)] for number, axis in enumerate("xyz")}
    return {**quantities, "e": energy.copy()}


def gathered(slab: Slab, names: tuple[str, ...] = QUANTITIES) -> Iterator[tuple[str, Array | None]]:
    """Name and float64[nz, ny, nx] on rank 0, None elsewhere, one quantity after the other; collective."""
    frame, comm = mhd_problem(slab).frame, slab.comm
    ni, nj, nk = frame.cells
    counts = [rows * nj * ni for rows in slab.decomposition.heights]
    values = centred(slab)
    axes = tuple(2 - frame.order.index(axis) for axis in (2, 1, 0))
    for name in names:
        whole = np.empty((nk, nj, ni)) if comm.rank == 0 else None
        receive = None if whole is None else [whole, counts]
        comm.Gatherv(np.ascontiguousarray(values[name]), receive)
        yield name, None if whole is None else np.ascontiguousarray(np.transpose(whole, axes))


def whole(slab: Slab) -> dict[str, Array]:
    """Return all quantities on rank 0, nothing elsewhere; collective."""
    return {name: values for name, values in gathered(slab) if values is not None}


def axes(slab: Slab) -> dict[str, Array]:
    """Return centres of cells along x, y, z."""
    frame = mhd_problem(slab).frame
    return {axis: frame.points(number, nodes=False) for number, axis in enumerate("xyz")}


def write_solution(slab: Slab, state: State, path: Path) -> None:
    """Write the solution in the format of the suffix; collective. Raises `OutputError` on all ranks."""
    writer: Callable[[Slab, State, Path], None] = {".npz": _npz, ".h5": _hdf5, ".png": _picture}[path.suffix]
    unwritten = f"{path}: could not be written ({REASON}); what was there before is unchanged"
    with agreed(slab.comm, OutputError), os_errors_as(OutputError, unwritten):
        writer(slab, state, path)


def _npz(slab: Slab, state: State, path: Path) -> None:
    arrays = {name: values for name, values in gathered(slab) if values is not None}
    if slab.comm.rank == 0:
        with Replacement(path) as temporary, open(temporary, "wb") as file:
            members: dict[str, Any] = {**axes(slab), **arrays, "time": state.time, "cycles": state.iteration}
            np.savez(file, **members)


def _hdf5(slab: Slab, state: State, path: Path) -> None:
    if slab.comm.rank > 0:
        for _ in gathered(slab):
            pass
        return
    pieces = gathered(slab)
    try:
        h5py = import_module("h5py")
        with Replacement(path) as temporary, h5py.File(temporary, "w") as file:
            file.attrs.update(
                {"time": state.time, "cycles": state.iteration, "gamma": mhd_problem(slab).case.gamma}
            )
            for axis, points in axes(slab).items():
                file[axis] = points
            for name, values in pieces:
                file[name] = values
        write_whole(path.with_suffix(".xdmf"), _xdmf(slab, state, path))
    finally:
        # the others are waiting to give theirs
        for _ in pieces:
            pass


def _xdmf(slab: Slab, state: State, path: Path) -> str:
    case = mhd_problem(slab).case
    cells = case.cells[::-1]
    widths = [(case.upper[a] - case.lower[a]) / case.cells[a] for a in (2, 1, 0)]
    nodes = " ".join(str(n + 1) for n in cells)
    fields = "\n".join(
        f'   <Attribute Name="{name}" Center="Cell"><DataItem Dimensions="{" ".join(map(str, cells))}" '
        f'NumberType="Float" Precision="8" Format="HDF">{path.name}:/{name}</DataItem></Attribute>'
        for name in QUANTITIES
    )
    origin, spacing = (" ".join(map(repr, values)) for values in (case.lower[::-1], widths))
    return f"""<?xml version="1.0"?>
<Xdmf Version="3.0"><Domain>
  <Grid Name="{path.stem}">
   <Time Value="{state.time!r}"/>
   <Topology TopologyType="3DCoRectMesh" Dimensions="{nodes}"/>
   <Geometry GeometryType="ORIGIN_DXDYDZ">
    <DataItem Dimensions="3" Format="XML">{origin}</DataItem>
    <DataItem Dimensions="3" Format="XML">{spacing}</DataItem>
   </Geometry>
{fields}
  </Grid>
</Domain></Xdmf>
"""


def _picture(slab: Slab, state: State, path: Path) -> None:
    """Draw density, pressure, speed and magnetic pressure: the middle slice across z, or lines for a tube."""
    quantities = {name: values for name, values in gathered(slab) if values is not None}
    if slab.comm.rank > 0:
        return
    with Replacement(path) as temporary:
        draw(quantities, axes(slab), f"time {state.time:.4g}, {state.iteration} cycles", Path(temporary))


def _shown(quantities: dict[str, Array]) -> dict[str, Array]:
    return {
        "density": quantities["rho"],
        "pressure": quantities["p"],
        "speed": np.sqrt(quantities["vx"] ** 2 + quantities["vy"] ** 2 + quantities["vz"] ** 2),
        "magnetic pressure": 0.5 * (quantities["Bx"] ** 2 + quantities["By"] ** 2 + quantities["Bz"] ** 2),
    }


def draw(quantities: dict[str, Array], axes: dict[str, Array], title: str, path: Path) -> None:
    """Write a PNG. quantities : float64[z, y, x].  axes : centres of cells along x, y, z."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 8.0), layout="constrained")
    FigureCanvasAgg(figure)
    long = [axis for axis in "xyz" if axes[axis].size > 1]
    longest = max("xyz", key=lambda axis: axes[axis].size)
    is_tube = len(long) < 2 or all(
        8 * axes[axis].size <= axes[longest].size for axis in long if axis != longest
    )
    for plot, (name, values) in zip(figure.subplots(2, 2).flat, _shown(quantities).items(), strict=True):
        plot.set_title(name)
        if is_tube:
            line = np.moveaxis(values, "zyx".index(longest), 0)
            plot.plot(axes[longest], line[:, line.shape[1] // 2, line.shape[2] // 2])
            plot.set_xlabel(longest)
            continue
        # the axis of fewest cells is the one that is cut
        cut = min("zyx", key=lambda axis: axes[axis].size)
        across, up = (axis for axis in "xyz" if axis != cut)
        plane = np.take(values, axes[cut].size // 2, axis="zyx".index(cut))
        half = [0.5 * (axes[axis][1] - axes[axis][0]) for axis in (across, up)]
        extent = (
            axes[across][0] - half[0],
            axes[across][-1] + half[0],
            axes[up][0] - half[1],
            axes[up][-1] + half[1],
        )
        image = plot.imshow(plane, origin="lower", extent=extent, cmap="viridis", interpolation="nearest")
        figure.colorbar(image, ax=plot, shrink=0.8)
        plot.set_xlabel(across)
        plot.set_ylabel(up)
    figure.suptitle(title)
    figure.savefig(path, format="png", dpi=100)
