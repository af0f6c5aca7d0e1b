"""Batch jobs: traces of real and generated workloads, and a machine that replays them.

`apples.queueing` is the policy. It receives submissions and ends, never a run time before the end.
"""
