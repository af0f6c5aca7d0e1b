"""Adaptation of a running job: pure decisions from the progress of its ranks.

No module here uses a clock, a process or a file. `progress` holds the reports and the orders, `repartitioning`
balances slabs by the current speeds, `policy` decides when a move is worth its cost, and `hosts` when to restart on
other hosts.
"""
