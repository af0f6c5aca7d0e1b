"""Measurement of unmodified MPI programs from inside, and control of how they wait.

`shim` is the C library that is preloaded into a program, `build` compiles it, `environment` returns the variables that
load it, `page` reads and writes its shared page, and `efficiencies` derives efficiencies from the values.
"""
