"""The command, as `python -m mpi_wait`."""

from mpi_wait.command import main

main()
