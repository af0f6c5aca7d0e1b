"""The interpreter that a program of this installation starts another one with."""

import sys

#: `-P`: nothing is imported from the working directory, where the user may have modules of the same names, or a
#: checkout of this project whose kernels have not been compiled yet.
OWN_PYTHON = (sys.executable, "-P")
