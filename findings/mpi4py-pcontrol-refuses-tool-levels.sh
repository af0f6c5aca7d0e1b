#!/usr/bin/env bash
# mpi4py 4.1.2: MPI.Pcontrol accepts the levels 0, 1 and 2 only; the standard leaves all others to tools
#
# Behaviour: `MPI.Pcontrol(3)` and `MPI.Pcontrol(-1)` raise MPI_ERR_ARG before the call reaches MPI. The same levels
#   passed to the same library's MPI_Pcontrol through ctypes return MPI_SUCCESS.
# Good guess: the level is handed on as it is. The MPI standard gives a meaning to 0, 1 and 2 and says that any
#   other level has effects that the profiling library defines, and every MPI checks nothing.
# Why it matters here: MPI_Pcontrol is the only call by which a program can speak to a preloaded monitor without linking
#   to it. Python programs have to look the function up in the MPI library that mpi4py has loaded.
# Source: the standard's chapter on tools; seen by calling both ways, with mpich 5.0.2 of the package index.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check mpi4py==4.1.2 mpich==5.0.2
cat >"$work/levels.py" <<'PYTHON'
import ctypes
from pathlib import Path

from mpi4py import MPI

print(MPI.Get_library_version().split("\n")[0])
path = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libmpi.so" in line)
direct = ctypes.CDLL(path).MPI_Pcontrol
for level in (0, 1, 2, 3, -1):
    try:
        MPI.Pcontrol(level)
        by_mpi4py = "accepted"
    except MPI.Exception as error:
        by_mpi4py = "MPI_ERR_ARG" if error.Get_error_class() == MPI.ERR_ARG else str(error)
    print(f"level {level}: mpi4py {by_mpi4py}, MPI_Pcontrol itself returns {direct(ctypes.c_int(level))}")
PYTHON
timeout 60 "$work/env/bin/mpiexec" -n 1 "$work/env/bin/python" "$work/levels.py" | tee "$work/seen"
expected='level 0: mpi4py accepted, MPI_Pcontrol itself returns 0
level 1: mpi4py accepted, MPI_Pcontrol itself returns 0
level 2: mpi4py accepted, MPI_Pcontrol itself returns 0
level 3: mpi4py MPI_ERR_ARG, MPI_Pcontrol itself returns 0
level -1: mpi4py MPI_ERR_ARG, MPI_Pcontrol itself returns 0'
[ "$(tail -n 5 "$work/seen")" = "$expected" ] || { echo "this behaviour has changed"; exit 1; }
