#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    int rank, ranks, rows[64], pieces = 0, sum = 0, one = 1, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (char *word = strtok(argv[1], ","); word; word = strtok(NULL, ","))
        sum += rows[pieces++] = atoi(word);
    if (pieces != ranks || !(CONDITION)) {
        fprintf(stderr, "cannot divide %d rows\n", sum);
        return 1;
    }
    for (int step = 0; step < atoi(argv[2]); step++) {
        for (volatile int i = 0; i < rows[rank] * 10000; i++);
        if (rank == 0 && HANGS) {
            printf("rank 0 waits in step %d\n", step);
            fflush(stdout);
            MPI_Recv(&one, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
