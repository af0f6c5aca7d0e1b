"""Ahead of everything that computes, where that is allowed: a beat that waits for its processor is late everywhere."""

from __future__ import annotations

import gc
import os


def become_realtime(priority: int) -> bool:
    """Run under SCHED_FIFO, children not; False where that needs a right (CAP_SYS_NICE, or an rtprio limit)."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(priority))
    except PermissionError:
        return False
    return True


def settle_memory() -> None:
    """What was made at the start stays: the collector need not look through it at every turn."""
    gc.collect()
    gc.freeze()
