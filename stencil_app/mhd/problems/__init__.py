"""Problems of magnetohydrodynamics, one file each; the file's name is the problem's name.

A module has `OPTIONS`, a table of its own options, and `make`, which turns option values into a `stencil_app.mhd.case.Case`.
The first line of its docstring is what `--help` says of it; the rest names the paper. Where an exact answer is known it
is here too (`exact`), and `stencil_app.mhd.validation` holds it against the code.
"""
