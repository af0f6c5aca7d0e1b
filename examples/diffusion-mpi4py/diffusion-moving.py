"""diffusion.py with rows that move between the ranks while it runs."""

import argparse
from pathlib import Path

import numpy as np
from mpi4py import MPI

from apples.client import Run

parser = argparse.ArgumentParser()
parser.add_argument("--nx", type=int, default=1000)
parser.add_argument("--ny", type=int, default=64)
parser.add_argument("--steps", type=int, default=100)
given = parser.parse_args()

comm = MPI.COMM_WORLD
file = Path("rows.txt")
if file.exists():
    rows = [int(line) for line in file.read_text().split()]
else:
    rows = [given.ny // comm.size + (rank < given.ny % comm.size) for rank in range(comm.size)]
mine, first = rows[comm.rank], sum(rows[: comm.rank])

now = np.zeros((mine + 2, given.nx + 2))
lines = np.arange(first, first + mine)[:, None]
now[1:-1, 1:-1] = 1.0 / (1 + lines % 17 + np.arange(given.nx) % 13)
run = Run(comm, mine, leave=True)
for step in range(1, given.steps + 1):
    run.exchange()
    comm = run.comm
    up = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    down = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
    comm.Sendrecv(now[1], up, recvbuf=now[-1], source=down)
    comm.Sendrecv(now[-2], down, recvbuf=now[0], source=up)
    run.compute()
    near = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]
    now[1:-1, 1:-1] = 0.6 * now[1:-1, 1:-1] + 0.1 * near
    if run.step(step, given.steps - step):
        now = run.move(now, ghosts=1)
        run.moved()
highest = run.comm.reduce(now.max(), MPI.MAX)
if run.comm.rank == 0:
    print(f"diffusion: {given.steps} steps, highest {highest:.15e}")
run.end()
