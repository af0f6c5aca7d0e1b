/* Ranks that print where they are, and how many a sum counts; with an argument, the last aborts the run. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, sum, one = 1;
    char host[64];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    gethostname(host, sizeof host);
    printf("%d on %s of %d\n", rank, host, sum);
    fflush(stdout);
    if (argc > 1)
        rank == sum - 1 ? MPI_Abort(MPI_COMM_WORLD, 5) : pause();
    return MPI_Finalize();
}
