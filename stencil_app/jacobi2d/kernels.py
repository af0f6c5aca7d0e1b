"""The 5-point sweep of a strip: every point becomes the mean of its four neighbours.

Three lines of the old field fit any second-level cache, so one pass in memory order suffices.
"""

import numpy as np
from numpy.typing import NDArray

from stencil_app.jit import kernel

Array = NDArray[np.float64]


@kernel("void(float64[:,:,::1], float64[:,:,::1], int64)")
def sweep(u: Array, out: Array, nx: int) -> None:
    """Compute one Jacobi iteration of every inner line of `u` into `out`; ghost cells are left alone.

    u, out : float64[rows + 2, 1, stride], one ghost line, stride >= nx + 2 (the rest is padding)
    """
    for k in range(1, u.shape[0] - 1):
        mid, below, above, new = u[k, 0], u[k - 1, 0], u[k + 1, 0], out[k, 0]
        for i in range(1, nx + 1):
            new[i] = 0.25 * ((mid[i - 1] + mid[i + 1]) + (below[i] + above[i]))
