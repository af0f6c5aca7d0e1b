"""Problems of magnetohydrodynamics, one file each; the file's name is the problem's name.

A module has `OPTIONS`, a table of its own options, and `make`, which turns option values into a case
(`stencil_app.mhd.case`). The first line of its docstring is what `--help` says of it; the rest names the paper. Where
an exact answer is known, `exact` gives it, and `stencil_app.mhd.validation` holds it against the code.
"""
