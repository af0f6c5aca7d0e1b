"""known.py PATTERN ITERATIONS MICROSECONDS, as known.c, through mpi4py."""

import gc
import sys
import time

import numpy as np


def work(start, seconds):
    """Compute for so long by the thread's own CPU clock, counted from `start`; says when it was over."""
    now = start
    while now < start + seconds:
        now = time.thread_time()
    return now


def main():
    import mpi4py

    # A collection between two calls of one event would be a computation of its own.
    gc.disable()
    # what Python does after MPI_Init would count as computation
    mpi4py.rc.initialize = False
    from mpi4py import MPI

    asked, iterations, seconds = sys.argv[1], int(sys.argv[2]), 1e-6 * float(sys.argv[3])
    comm = MPI.COMM_WORLD
    MPI.Init()
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    if asked == "uneven":
        seconds *= 1 + comm.rank % 2
    out, into, total = np.full(1, float(comm.rank)), np.empty(1), np.empty(1)
    cpu_s = comm_s = 0.0
    comm.Barrier()
    calls = 1
    patterns = ("ring", "halo", "reduce", "vectors", "barrier") if asked == "all" else (asked,)
    mark = time.thread_time()
    for i in range(iterations):
        pattern = patterns[i % len(patterns)]
        cpu_s += work(mark, seconds) - mark
        before = time.perf_counter()
        if pattern in ("ring", "uneven"):
            comm.Sendrecv(out, right, 1, into, left, 1)
            comm.Sendrecv(out, left, 2, into, right, 2)
            calls += 2
        elif pattern == "halo":
            requests = [comm.Irecv(into, left, 3), comm.Isend(out, right, 3)]
            MPI.Request.Waitall(requests)
            calls += 3
        elif pattern == "reduce":
            comm.Allreduce(out, total)
            calls += 1
        elif pattern == "vectors":
            counts = [1] * comm.size
            everyone = np.empty(comm.size)
            comm.Allgatherv(out, (everyone, counts))
            comm.Gatherv(out, (everyone, counts), root=0)
            comm.Scatterv((everyone, counts), into, root=0)
            assert into[0] == comm.rank
            calls += 3
        else:
            comm.Barrier()
            calls += 1
        comm_s += time.perf_counter() - before
        mark = time.thread_time()
    line = f"{comm.rank} {cpu_s:.9f} {comm_s:.9f} {iterations + 1} {calls}\n"
    # in one piece: the ranks share one pipe
    sys.stdout.write(line)
    sys.stdout.flush()
    MPI.Finalize()


main()
