"""Whether a run should go on as it was planned: pure decisions from what its ranks tell.

Nothing here knows a clock, a process or a file. `progress` is what ranks tell and what they may be told, `cuts` how
slabs would be balanced now, `policy` when that is worth a move, and `hosts` when other hosts are worth a restart.
"""
