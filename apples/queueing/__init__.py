"""Who of the waiting jobs starts now: priorities, backfilling, and run time estimates that can be trusted.

Pure: jobs, ends and times come in, jobs to start go out. No clock, no chance, no I/O; the object that serves a live
queue and the loop that replays a trace of years call the same compiled pass (`apples.queueing.kernel`).
"""
