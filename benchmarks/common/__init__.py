"""What several benchmarks share: processes, hosts of a testbed, MPI libraries, turns and tables."""
