"""Relays in a rank supervisor: labelled output, and the rank's conversation with hydra (PMI).

Each relay has `sources` to wait on and `pump(fd)`, which copies available data and returns whether `fd` may have more.
Imported by the rank wrapper, so it imports little.
"""

from __future__ import annotations

import os
import select
import time

from nws.base.scratch import add_shared

#: Number of the run, which Open MPI 4 gives its ranks, and name of the run of Open MPI 5.
_OPEN_MPI_JOB, _OPEN_MPI_5_JOB = "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"

#: A line longer than this is broken, so that a program that never ends one cannot fill the memory.
LONGEST_LINE = 1 << 20
CHUNK = 1 << 16

#: The last request in MPI_Finalize, and the message that ends the conversation. Little else ends with a barrier:
#: MPI_Init reads values after its own, or has one only.
BARRIER, FINALIZE = b"cmd=barrier_in\n", b"cmd=finalize\n"
BARRIER_OUT = b"cmd=barrier_out\n"
#: Seconds for which a rank of MPICH 4.0 or 4.1 waits in the barrier of MPI_Finalize.
FINALIZE_S = 0.25

#: MPICH 4.0 to 4.2: a rank states its address, and all meet in a barrier. The next barrier is that of MPI_Finalize.
ADDRESS = b" key=-allgather-shm-"
#: MPICH 4.2 and later ask for this in MPI_Init.
SINCE_4_2 = b" key=PMI_mpi_memory_alloc_kinds"


def write_all(fd: int, data: bytes) -> bool:
    """Write all data; return False if the reader has closed its end."""
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            # Another process with the same terminal or pipe made it non-blocking.
            poll = select.poll()
            poll.register(fd, select.POLLOUT)
            poll.poll()
        except OSError:
            return False
    return True


def whole_lines(lines: list[bytes]) -> list[bytes]:
    """Return the lines joined to pieces of at most PIPE_BUF bytes, which a pipe takes at once: ranks do not mix."""
    pieces = [b""]
    for line in lines:
        if len(pieces[-1]) + len(line) > select.PIPE_BUF:
            pieces.append(b"")
        pieces[-1] += line
    return pieces


class Labeller:
    """Copies one output of the program line by line, with `[rank] ` before each line."""

    def __init__(self, source: int, target: int, rank: int) -> None:
        self.sources = [source]
        self._target = target
        self._prefix = f"[{rank}] ".encode()
        self._partial = b""

    def pump(self, fd: int) -> bool:
        """Copy complete lines. Close the source at its end, or if the reader of the target has closed its end."""
        # One read for each turn, so that a program that prints without end does not delay signals.
        data = os.read(fd, CHUNK)
        *lines, self._partial = (self._partial + data).split(b"\n")
        # The last line of a program may lack its end.
        if self._partial and (not data or len(self._partial) > LONGEST_LINE):
            lines.append(self._partial)
            self._partial = b""
        pieces = whole_lines([self._prefix + line + b"\n" for line in lines])
        delivered = all(write_all(self._target, piece) for piece in pieces)
        if data and delivered:
            return True
        # A program that still writes gets SIGPIPE, as it would without the relay.
        os.close(fd)
        return False


class PmiRelay:
    """Relays PMI between the program and hydra, because hydra does not report which rank called MPI_Abort.

    hydra answers an abort by killing every rank, and MPI_Abort may even return before that. The relay therefore keeps
    an abort from hydra, and the supervisor ends the caller and records it like a rank that exits with that code.

    MPI_Finalize of MPICH 5 (UCX) makes a barrier over PMI, but an exit handler sends the finalize message. A program
    that ends by `_exit` or `quick_exit` skips the handler, and hydra then kills every other rank on the host.

    MPI_Finalize of MPICH 4.0 and 4.1 (UCX) closes its connections and then waits in such a barrier without reading
    from them. A rank that still closes its own may need an answer of that rank, and then waits for ever. Where ranks
    are on several hosts, the relays of all ranks therefore answer this barrier themselves
    (github.com/pmodels/mpich/pull/6596), after a time in which the others close theirs: a rank that ends before fails
    those that are closing their connection to it.

    aborted : exit code given to MPI_Abort, None if it was not called
    job : hydra's name of the run, None until the program asks for it
    """

    def __init__(self, program: int, hydra: int, run_dir: str) -> None:
        self._run_dir = run_dir
        self.sources = [program, hydra]
        self.aborted: int | None = None
        self._answer_at: float | None = None
        self.job: bytes | None = None
        self._other = {program: hydra, hydra: program}
        self._program, self._hydra = program, hydra
        self._request, self._barriers = b"", 0
        self._answered = self._finalized = False
        # the rank has stated its address, and has then met the others
        self._stated = self._exchanged = False
        # Hydra answers the barrier where all ranks are on one host, where not every rank states its address, and in
        # newer releases, which a later request shows.
        one_host = os.environ.get("MPI_LOCALNRANKS", "") == os.environ.get("PMI_SIZE")
        self._left_to_hydra = one_host or "MPIR_CVAR_CH4_ROOTS_ONLY_PMI" in os.environ
        # On several hosts, MPI_Init of MPICH 5 ends with the first barrier for ranks that state no address.
        self._barriers_of_init = 0 if one_host else 1

    def pump(self, fd: int) -> bool:
        """Copy a message; return False at the end of that direction."""
        try:
            data = os.read(fd, CHUNK)
        except OSError:
            data = b""
        if data:
            # A rank waits for the answer to one request before it makes the next, so a read holds one message.
            self._answered = fd == self._hydra
            if not self._answered:
                # The last request tells how far a program came, if it ends without another.
                self._request = data
                self._finalized |= b"cmd=finalize" in data
                self._barriers += data == BARRIER
                if self._in_finalize(data):
                    # Kept from hydra, which would answer only when all ranks have asked.
                    self._answer_at = time.monotonic() + FINALIZE_S
                    return True
        if fd != self._hydra and b"cmd=abort" in data:
            self.aborted = abort_code(data)
            return False
        if b"cmd=my_kvsname" in data and b" kvsname=" in data:
            # Names the shared-memory segments that a killed run leaves.
            self.job = data.partition(b" kvsname=")[2].split()[0]
            # the next command removes the segments if the supervisors are killed, too
            add_shared(self._run_dir, segment_prefix(self.job))
        if data and write_all(self._other[fd], data):
            return True
        if fd == self._hydra:
            # The program must see that hydra is gone.
            self._answer_at = None
            os.close(self._other[fd])
        return False

    def left_s(self) -> float | None:
        """Return the seconds until `answer` is due, None if it is not."""
        return None if self._answer_at is None else max(self._answer_at - time.monotonic(), 0.0)

    def answer(self) -> None:
        """Answer the barrier of MPI_Finalize."""
        self._answer_at, self._answered = None, write_all(self._program, BARRIER_OUT)

    def _in_finalize(self, request: bytes) -> bool:
        """Return whether a request is the barrier of MPI_Finalize of MPICH 4.0 or 4.1."""
        # MPICH 4.2 asks for it in MPI_Init, before any barrier of MPI_Finalize.
        self._left_to_hydra = self._left_to_hydra or SINCE_4_2 in request
        if request.startswith(b"cmd=put ") and ADDRESS in request:
            self._stated = True
        elif request == BARRIER and self._stated:
            self._stated, self._exchanged = False, True
        elif request == BARRIER:
            return self._exchanged and not self._left_to_hydra
        return False

    def finalize(self) -> int | None:
        """Send the finalize message that an ended program did not send after MPI_Finalize.

        Returns:
            The descriptor on which hydra answers. None if nothing was sent: the program sent the message itself, did
            not reach MPI_Finalize, or hydra has ended.
        """
        return self._hydra if self._skipped_exit and write_all(self._hydra, FINALIZE) else None

    @property
    def left_early(self) -> bool:
        """Whether a program that has ended did so before MPI_Finalize; with `ofi`, perhaps by `_exit` after it."""
        return bool(self._request) and not self._finalized and not self._skipped_exit

    @property
    def _skipped_exit(self) -> bool:
        """Whether the program was in MPI_Finalize, and has not sent the message of its exit handler."""
        return self._request == BARRIER and self._answered and self._barriers > self._barriers_of_init


def abort_code(message: bytes) -> int:
    """Return the exit code in PMI's `cmd=abort exitcode=5`, 1 if it has none."""
    _, _, after = message.partition(b"exitcode=")
    word = after.split(None, 1)[0] if after.split() else b""
    return int(word) if word.lstrip(b"-").isdigit() else 1


def note_open_mpi(run_dir: str) -> None:
    """Note the segments of a run of Open MPI on this host in a directory; do nothing for other libraries."""
    node, job = f"{os.uname().nodename}.{os.geteuid()}", os.environ.get(_OPEN_MPI_JOB, "")
    name, at, number = os.environ.get(_OPEN_MPI_5_JOB, "").rpartition("@")
    if job:
        add_shared(run_dir, f"vader_segment.{node}.{int(job):x}.")
    elif at and number.isdigit():
        add_shared(run_dir, f"sm_segment.{node}.{_hash_of_5(name):x}{int(number) & 0xFFFF:04x}.")


def _hash_of_5(name: str) -> int:
    """Return the 16 bits of a run's name by which Open MPI 5 calls its segments."""
    value = 0
    for byte in name.encode():
        value = (value + byte) * 0x401 & 0xFFFFFFFF
        value ^= value >> 6
    value = value * 9 & 0xFFFFFFFF
    value = (value ^ value >> 11) * 0x8001 & 0xFFFFFFFF
    return value >> 16 ^ value & 0xFFFF


def segment_prefix(job: bytes) -> str:
    """Return the prefix of the names of MPICH's shared-memory segments in /dev/shm for a run.

    MPICH 5.0 uses the 32-bit FNV-1a hash of the run's name, and leaves the segments if it is killed.
    """
    value = 0x811C9DC5
    for byte in job:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return f"mpich_shm_{value:x}_"
