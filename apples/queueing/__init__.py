"""Queueing decisions: priorities, backfilling and run time estimates.

The package is pure: jobs, ends and times are arguments, and the jobs to start are returned. It uses no clock, no random
numbers and no I/O. The live queue and the replay of traces call the same compiled pass (`apples.queueing.kernel`).
"""
