"""Simulated worlds: what happens to a plan when nobody has the machines, with time and chance passed in.

The mock grid is a truth that executes a run sweep by sweep; schedulers see it only through sensors, dedicated
benchmarks and finished runs. `apples.platforms.mock.open_mock` is the way in. Modules: `scenario` (the truth's
constants, from a file), `timeline` (piecewise-constant quantities), `load` (other people's processes), `traffic` (other
people's bytes), `mock_grid` (all of it, with a clock), `startup` and `execution` (a run), `mock_sensors`,
`mock_benchmark`, `mock_launcher`.
"""
