"""Sharing hosts between MPI jobs: which process runs when, and how it waits. Decisions only.

Everything here is pure: events in, instructions out; no clock, no signals, no processes. The simulator of
`apples.simulation` and the daemons of `apples.daemons` drive the very same objects.
"""
