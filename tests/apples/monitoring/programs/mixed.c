/* Collectives and messages among all ranks, after a barrier to which rank 0 is a tenth of a second late. Rank 0 prints a sum
   of ranks. With an argument they spawn two more by `sh`, with these words before the program. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static int all_together(MPI_Comm comm) {
    int rank, ranks, from, sum;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    for (int i = 0; i < 5; i++) {
        MPI_Barrier(comm);
        MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, &from, 1, MPI_INT, (rank + ranks - 1) % ranks, 0, comm,
                     MPI_STATUS_IGNORE);
        MPI_Allreduce(&from, &sum, 1, MPI_INT, MPI_SUM, comm);
    }
    return sum;
}

static int meet(MPI_Comm others, int high) {
    MPI_Comm all, again;
    MPI_Barrier(others);
    MPI_Intercomm_merge(others, high, &all);
    MPI_Comm_dup(all, &again);
    int sum = all_together(again);
    MPI_Comm_free(&again);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&others);
    return sum;
}

int main(int argc, char **argv) {
    char command[4096];
    char *arguments[] = {"-c", command, NULL};
    int rank, sum;
    MPI_Comm others, halves;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&others);
    if (others != MPI_COMM_NULL) {
        meet(others, 1);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        usleep(100000);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &halves);
    MPI_Intercomm_create(halves, 0, MPI_COMM_WORLD, rank == 0, 7, &others);
    sum = all_together(MPI_COMM_WORLD) + all_together(halves) + meet(others, rank != 0);
    if (argc > 1) {
        snprintf(command, sizeof command, "exec %s %s", argv[1], argv[0]);
        MPI_Comm_spawn("sh", arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others, MPI_ERRCODES_IGNORE);
        sum += meet(others, 0);
    }
    if (rank == 0)
        printf("%d\n", sum);
    MPI_Finalize();
    return 0;
}
