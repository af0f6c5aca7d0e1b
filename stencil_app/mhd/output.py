"""Files of a solution: .npz for NumPy, .h5 with an .xdmf beside it for ParaView and yt, .png of a slice.

The suffix of the name selects the format. Files are written atomically by rank 0. The .h5 holds one data set
[z, y, x] for each quantity; ParaView opens the .xdmf, and yt the .h5 with `yt.load_hdf5_file(name)`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nws.base.files import Replacement, write_whole
from stencil_app.errors import OutputError
from stencil_app.mesh.layout import Array
from stencil_app.mhd.solution import QUANTITIES, gathered, mhd_problem
from stencil_app.running.mpi import agree

if TYPE_CHECKING:
    from stencil_app.mesh.slab import Slab
    from stencil_app.running.runtime import State


def axes(slab: Slab) -> dict[str, Array]:
    """Return centres of cells along x, y, z."""
    frame = mhd_problem(slab).frame
    return {axis: frame.points(number, nodes=False) for number, axis in enumerate("xyz")}


def write(slab: Slab, state: State, path: Path) -> None:
    """Write the solution in the format of the suffix; collective. Raises `OutputError` on all ranks."""
    writer: Callable[[Slab, State, Path], None] = {".npz": _npz, ".h5": _hdf5, ".png": _picture}[path.suffix]
    problems = []
    try:
        writer(slab, state, path)
    except OSError as error:
        problems.append(
            f"{path}: could not be written ({error.strerror or error}); what was there before is unchanged"
        )
    agree(slab.comm, problems, OutputError)


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
    found = {name: values for name, values in gathered(slab) if values is not None}
    if slab.comm.rank > 0:
        return
    from stencil_app.mhd.picture import draw

    with Replacement(path) as temporary:
        draw(found, axes(slab), f"time {state.time:.4g}, {state.iteration} cycles", Path(temporary))
