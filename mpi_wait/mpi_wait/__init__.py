"""Change how the ranks of an MPI program wait, without changing the program."""

__version__ = "0.1.0"
