"""Real ranks: command lines of the MPI families, pre-flight checks, termination, verdicts."""
