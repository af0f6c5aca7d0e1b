"""Simulated hosts and clusters. Time and random numbers are arguments.

The mock grid simulates a run sweep by sweep. Schedulers see it only through sensors, dedicated benchmarks and finished
runs. Its entry point is `apples.platforms.mock.open_mock`. Modules: `scenario` (constants, from a file), `timeline`
(piecewise-constant values), `load` (other processes), `traffic` (other bytes on links), `mock_grid` (all of them, with
a clock), `startup` and `execution` (a run), `mock_sensors`, `mock_benchmark`, `mock_launcher`.
"""
