"""AppLeS agent: from a problem size to a finished, explained MPI run on shared hosts."""
