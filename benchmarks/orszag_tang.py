"""The Orszag-Tang vortex at several resolutions and Courant numbers: cells floored, and its point symmetry at the end.

    python benchmarks/orszag_tang.py [--n 256] [--n 512] [--courant 0.2] [--courant 0.3] [--courant 0.4]

One line for each run. Asymmetry is the largest |q(x, y) - q(1-x, 1-y)| of density and pressure. A floored cell is one
whose pressure or density the scheme predicted as negative. Exit code 1 if a cell was floored, or the asymmetry exceeds
1e-11.
"""

from __future__ import annotations

import argparse
import sys
from time import perf_counter

import numpy as np

from stencil_app.mhd.solution import mhd_problem, whole
from stencil_app.mhd.validation import solved

_ASYMMETRY = 1e-11


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, action="append")
    parser.add_argument("--courant", type=float, action="append")
    options = parser.parse_args()
    failed = 0
    for n in options.n or [256]:
        for courant in options.courant or [0.2, 0.3, 0.4]:
            begun = perf_counter()
            slab, state = solved("orszag-tang", n=n, courant=courant)
            took_s = perf_counter() - begun
            floored, found = mhd_problem(slab).floored, whole(slab)
            asymmetry = max(float(np.abs(q - q[:, ::-1, ::-1]).max()) for q in (found["rho"], found["p"]))
            failed += floored > 0 or not asymmetry <= _ASYMMETRY
            print(
                f"N = {n}, Courant number {courant:g}: cycle {state.iteration}, floored {floored}, "
                f"asymmetry {asymmetry:.1e}, {took_s:.0f} s",
                flush=True,
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
