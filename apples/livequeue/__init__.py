"""The live queue: jobs on disk that start when `apples.queueing` decides it.

`core` connects queue and store with one transaction an instant. `server` is the manager's process. Each job runs under
its own `supervisor`, which survives the manager.
"""
