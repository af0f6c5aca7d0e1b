"""The world of batch jobs: traces of real and generated workloads, and a machine on which their jobs really end.

The policy is `apples.queueing`'s; it is told submissions and ends, never a run time before it is over.
"""
