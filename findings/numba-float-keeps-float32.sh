#!/usr/bin/env bash
# numba 0.62.1 (numpy 2.3.3): float() does not make a 64-bit number of a float32
#
# Behaviour: in a compiled function `float(x)` of a float32 stays a float32. `math.sqrt(float(x))` is then the root in
#   single precision, 7 digits, while the same lines without the compiler give 16. Multiplied by a literal such as 1.0
#   the number becomes a float64, and the results agree.
# Good guess: `float` in Python has 64 bits, so `float(x)` is the way to leave single precision, with and without the
#   compiler.
# Why it matters here: states of forecasters keep errors as float32. A kernel that was moved from numpy, or is checked
#   against plain Python, differs from the eighth digit on, although each line says `float`.
# Source: numba's request for comments 8700 states that its built-in functions only come near Python's; its page of
#   supported features lists `float` without this.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check numba==0.62.1 numpy==2.3.3
"$work/env/bin/python" - <<'PYTHON'
import math

import numba
import numpy as np


def root(values):
    return math.sqrt(float(values[0]))


def root_of_product(values):
    return math.sqrt(1.0 * values[0])


def number(values):
    return float(values[0])


two = np.array([2.0], np.float32)
compiled = numba.njit(root)(two)
widened = numba.njit(root_of_product)(two)
typed = numba.njit(number)
typed(two)
kind = typed.nopython_signatures[0].return_type
print(f"numba {numba.__version__}, numpy {np.__version__}")
print(f"math.sqrt(float(x)) of 2 as float32: plain Python {root(two)!r}, compiled {compiled!r}")
print(f"math.sqrt(1.0 * x), compiled: {widened!r};  type of float(x), compiled: {kind}")
seen = kind == numba.float32 and compiled != root(two) and abs(compiled - root(two)) < 1e-6 and widened == root(two)
raise SystemExit(0 if seen else "this behaviour has changed")
PYTHON
