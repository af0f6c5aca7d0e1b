"""The queue that serves: jobs come in, are kept on disk, and start when `apples.queueing` says so.

`core` joins queue and store, one transaction an instant; `server` speaks to people and processes; every job runs under
a `supervisor` of its own, which outlives the manager. Who is next is decided in `apples.queueing`, nowhere here.
"""
