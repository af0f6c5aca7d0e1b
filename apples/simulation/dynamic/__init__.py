"""Dynamic workloads: jobs that arrive over time, a queue that backfills, and a machine that they share under a policy.

It joins two worlds: generated workloads of `apples.simulation.batch` become jobs of the machine of
`apples.simulation.cluster`, and `apples.queueing` decides who starts in which row of the matrix.
"""
