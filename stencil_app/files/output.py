"""The result of a run for its user: one line on stdout, and the final field as a NumPy file.

The line is short and the same for every slab layout, so that two runs can be compared by it.
"""

import io
from pathlib import Path

import numpy as np

from stencil_app.files.whole import SharedFile
from stencil_app.mesh.slab import Slab
from stencil_app.running.runtime import State


def result_line(slab: Slab, state: State) -> str:
    """Return ``heat 64×256×256: iteration 500, residual 1.2e-05, checksum 0123456789abcdef``; collective."""
    problem = slab.problem
    mesh = problem.layout.mesh(problem.size)
    return (
        f"{problem.name} {'x'.join(map(str, mesh))}: iteration {state.iteration}, "
        f"residual {state.residual:.6e}, checksum {slab.checksum():016x}"
    )


def write_npy(slab: Slab, path: Path) -> None:
    """Write the mesh as .npy, float64[size, ny, nx], all ranks together; raises `OutputError` on all ranks."""
    layout, size = slab.problem.layout, slab.problem.size
    prefix = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        prefix, {"descr": "<f8", "fortran_order": False, "shape": (size, layout.ny, layout.nx)}
    )
    row_bytes = 8 * layout.cells_per_row
    with SharedFile(slab.comm, path) as file:
        if slab.comm.rank == 0:
            file.write(0, prefix.getvalue())
        for k, plane in enumerate(slab.interior):
            offset = len(prefix.getvalue()) + (slab.first_row + k) * row_bytes
            file.write(offset, np.ascontiguousarray(plane, dtype="<f8").data)
