"""Simulated hosts and clusters. Time and random numbers are arguments.

The mock grid simulates a run sweep by sweep. Schedulers see it only through sensors, dedicated benchmarks and finished
runs. Its entry point is `apples.platforms.mock.open_mock`. Modules: `scenario` (constants, from a file), `load`
(piecewise-constant values, other processes), `mock_grid` (all of them, with a clock), `execution` (start-up and run),
`mock_sensors` (and benchmarks), `mock_launcher`.
"""
