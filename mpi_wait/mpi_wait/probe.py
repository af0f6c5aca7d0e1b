"""One rank of the test of `mpi-wait --check`, without mpi4py: `probe.py LIBRARY`.

The second rank comes late to a barrier. The first prints the number of ranks, the CPU time that it used while it
waited as a share of that time, and the version of the MPI library.
"""

import ctypes
import sys
import time

LATE_S = 0.4


def main(library: str) -> None:
    """Run the rank."""
    ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
    # The program's own scope, in which a preloaded library is before the MPI library.
    mpi = ctypes.CDLL(None)
    mpi.MPI_Init(None, None)
    try:
        world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world")))
    except ValueError:
        world = ctypes.c_int(0x44000000)  # type: ignore[assignment]  # MPICH's
    rank, ranks, length = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    version = ctypes.create_string_buffer(8192)
    mpi.MPI_Comm_rank(world, ctypes.byref(rank))
    mpi.MPI_Comm_size(world, ctypes.byref(ranks))
    mpi.MPI_Get_library_version(version, ctypes.byref(length))
    mpi.MPI_Barrier(world)
    if rank.value == 1:
        time.sleep(LATE_S)
    begun, used = time.monotonic(), time.process_time()
    mpi.MPI_Barrier(world)
    share = (time.process_time() - used) / max(time.monotonic() - begun, LATE_S / 2)
    if rank.value == 0:
        name = version.value.decode("utf-8", "replace").splitlines()[0].split(",")[0]
        print(ranks.value, f"{share:.3f}", " ".join(name.split()), flush=True)
    mpi.MPI_Finalize()


if __name__ == "__main__":
    main(sys.argv[1])
