"""Problems of magnetohydrodynamics, one file each; the file's name is the problem's name.

A module has `OPTIONS`, a table of its own options, and `make`, which turns option values into a case
(`stencil_app.mhd.case`). The first line of its docstring is its text in `--help`; the rest names the paper. If an exact
answer is known, `exact` returns it, and `apples_experiments.mhd_validation` compares it with the code.
"""
