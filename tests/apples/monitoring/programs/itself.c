/* Each of two ranks sends so many bytes to itself so many times: alone, or (with a third argument) beside a short
   message of the other rank. Prints whether all arrived. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    int rank, theirs = -1, bytes = argc > 1 ? atoi(argv[1]) : 1, times = argc > 2 ? atoi(argv[2]) : 1, right = 1;
    int beside = argc > 3;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char *from = malloc(bytes), *to = malloc(bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; !beside && i < times; i++) {
        MPI_Request requests[2];
        memset(from, 'a' + i % 26, bytes);
        MPI_Irecv(to, bytes, MPI_BYTE, rank, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(from, bytes, MPI_BYTE, rank, 0, MPI_COMM_WORLD, &requests[1]);
        if (i % 2) MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        else MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        right &= !memcmp(from, to, bytes);
        memset(to, 0, bytes);
        MPI_Sendrecv(from, bytes, MPI_BYTE, rank, 1, to, bytes, MPI_BYTE, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        right &= !memcmp(from, to, bytes);
        memset(to, 0, bytes);
    }
    for (int i = 0; beside && i < times; i++) {
        MPI_Request mixed[4];
        memset(from, 'a' + i % 26, bytes);
        MPI_Irecv(&theirs, 1, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD, &mixed[0]);
        MPI_Irecv(to, bytes, MPI_BYTE, rank, 2, MPI_COMM_WORLD, &mixed[1]);
        MPI_Isend(from, bytes, MPI_BYTE, rank, 2, MPI_COMM_WORLD, &mixed[2]);
        MPI_Isend(&i, 1, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD, &mixed[3]);
        MPI_Waitall(4, mixed, MPI_STATUSES_IGNORE);
        right &= !memcmp(from, to, bytes) && theirs == i;
        memset(to, 0, bytes);
    }
    printf("%d %s\n", rank, right ? "right" : "wrong");
    MPI_Finalize();
}
