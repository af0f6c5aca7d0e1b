"""Dynamic workloads: jobs that arrive over time, a queue with backfilling, and a machine shared under a policy.

Generated workloads of `apples.simulation.batch` become jobs of the machine of `apples_experiments.cluster`.
`apples.queueing` decides which job starts in which row of the matrix.
"""
