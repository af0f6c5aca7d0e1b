"""The application's use of MPI: the world, agreement on errors, and the end of a run that cannot agree.

MPI is installed from wheels (mpi4py over mpich) and imported only when a run starts. A single process started without
`mpiexec` is a world of one rank; there is no other difference.

Checks that the hosts of a run have enough memory for its ranks. Collective.
"""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import sleep
from typing import TYPE_CHECKING

from stencil_app.errors import OutputError, StencilError, UsageError

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

#: Launchers forward a rank's last output within this time; an abort loses later output.
_FORWARDED_S = 0.25


def world() -> Intracomm:
    """Return all ranks of this run; starts MPI on first use."""
    import mpi4py

    # One thread per rank: MPI then skips its locks, a cost of every short message.
    mpi4py.rc.threads = False
    from mpi4py import MPI

    return MPI.COMM_WORLD


def agree(comm: Intracomm, problems: Iterable[str], kind: type[StencilError] = UsageError) -> None:
    """Raise one `kind` on every rank when any rank has problems, with all problems, each once.

    Collective: every rank must call it at the same point.
    """
    everyone = comm.allgather(tuple(problems))
    merged = tuple(dict.fromkeys(problem for one in everyone for problem in one))
    if merged:
        raise kind(merged)


@contextmanager
def agreed(comm: Intracomm, kind: type[StencilError]) -> Iterator[None]:
    """Raise the errors of one `kind` of the block, of any ranks, as one on all ranks; collective."""
    problems: tuple[str, ...] = ()
    try:
        yield
    except kind as error:
        problems = error.problems
    agree(comm, problems, kind)


def say(comm: Intracomm, text: str, what: str = "result") -> None:
    """Print the result (`what`) on stdout, by rank 0; collective. Raises `OutputError` on all ranks."""
    problems = []
    if comm.rank == 0:
        try:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
        except OSError as error:
            problems.append(f"stdout: the {what} could not be written: {error.strerror}")
            # buffered output must not raise a second error at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    agree(comm, problems, OutputError)


@contextmanager
def aborting(comm: Intracomm) -> Iterator[None]:
    """End all ranks after an exception of the block, unless it is a `StencilError`, which all ranks raise alike."""
    try:
        yield
    except StencilError:
        raise
    except Exception as error:
        abort(comm, error)
        raise


def abort(comm: Intracomm, error: BaseException) -> None:
    """End all ranks after an error that only this rank knows of; never returns."""
    traceback.print_exception(error)
    sys.stderr.write(f"rank {comm.rank} of {comm.size} failed ({type(error).__name__}); ending all ranks\n")
    sys.stderr.flush()
    if comm.size == 1:
        os._exit(1)
    sleep(_FORWARDED_S)
    comm.Abort(1)


def shortage(comm: Intracomm, needed_bytes: int) -> str | None:
    """Return the memory this rank's host lacks for `needed_bytes` more on each of its ranks, or None; collective.

    As `alpha: 3 rank(s) need 5.10 GiB, 4.20 GiB are free`.
    """
    import psutil

    host, available = socket.gethostname(), psutil.virtual_memory().available
    together = [
        (need, free) for other, need, free in comm.allgather((host, needed_bytes, available)) if other == host
    ]
    needs = [need for need, _ in together if need > 0]
    # Free memory changes while ranks read it; all ranks of a host use the smallest value read.
    free = min(free for _, free in together)
    if sum(needs) <= free:
        return None
    return f"{host}: {len(needs)} rank(s) need {sum(needs) / 2**30:.2f} GiB, {free / 2**30:.2f} GiB are free"
