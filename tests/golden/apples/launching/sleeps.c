#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, ranks, line, flag;
    char text[80];
    MPI_Comm children, parents;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    /* MPI_Comm_spawn of MPICH 5 fails on a rank that connects after the end of the spawned one */
    MPI_Comm_get_parent(&parents);
    if (parents != MPI_COMM_NULL) MPI_Barrier(parents);
    line = sprintf(text, "%d of %d %s\n", rank, ranks, getenv("GIVEN") ? getenv("GIVEN") : "");
    if (getenv("GIVEN") && !strcmp(getenv("GIVEN"), "cpu")) {
        cpu_set_t cpus;
        sched_getaffinity(0, sizeof cpus, &cpus);
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &cpus)) line = sprintf(text, "%d of %d cpu %d\n", rank, ranks, cpu);
    }
    if (write(1, text, line) != line) return 1;
    if (argc > 4) {
        MPI_Comm_spawn(argv[0], argv + 4, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
        MPI_Barrier(children);
        if (atoi(argv[2]) == 0) argc = 2;
        else argc = 3;
    }
    if (argc > 3 && rank == 1) MPI_Abort(MPI_COMM_WORLD, atoi(argv[2]));
    if (argc > 2 && rank == 1) _exit(atoi(argv[2]));
    /* the others may need its progress to connect */
    for (int n = argc > 1 ? 5 * atoi(argv[1]) : 0; n > 0; n--, usleep(200000))
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
