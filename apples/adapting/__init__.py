"""Whether a run should go on as it was planned: pure decisions from what its ranks tell.

No module here uses a clock, a process or a file. `progress` holds the reports and the orders, `repartitioning` balances
slabs by the current speeds, `policy` decides when that is worth a move, and `hosts` when to restart on other hosts.
"""
