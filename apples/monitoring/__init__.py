"""What unmodified MPI programs do with their time, measured from inside; and how they wait, switched while they run.

`shim` is the C library that is preloaded into a program, `build` makes it, `environment` says how a program gets it,
`page` is what it tells and is told, `efficiencies` what that means for people.
"""
