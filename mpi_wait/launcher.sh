#!/bin/sh
# Stands in PATH before an MPI launcher (`mpi-wait --env`): runs the next launcher of this name with mpi-wait.
here=$(cd "$(dirname "$0")" && pwd)
exec "${MPI_WAIT_PYTHON:-python3}" -c 'import sys
sys.path.append(sys.argv[1])
from mpi_wait.command import stand_in
stand_in(sys.argv[2], sys.argv[3:])' "$here/../.." "${0##*/}" "$@"
