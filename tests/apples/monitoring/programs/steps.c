/* A program with a known number of iterations: messages along a line of ranks, a reduction, output every tenth time.
   steps ITERATIONS plain | persistent | reversed | reduce: what the messages go by; reduce: there are none. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static double field[500];
static MPI_Request requests[4];

int main(int argc, char **argv) {
    int rank, ranks, iterations = atoi(argv[1]);
    double sum = 0;
    MPI_Init(&argc, &argv);
    int persistent = !strcmp(argv[2], "persistent"), reduce = !strcmp(argv[2], "reduce");
    MPI_Comm comm;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, 0, strcmp(argv[2], "reversed") ? rank : -rank, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    int up = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL, down = rank ? rank - 1 : MPI_PROC_NULL;
    MPI_Bcast(field, 10, MPI_DOUBLE, 0, comm);
    if (persistent) {
        MPI_Recv_init(field, 100, MPI_DOUBLE, up, 0, comm, requests);
        MPI_Recv_init(field + 100, 100, MPI_DOUBLE, down, 0, comm, requests + 1);
        MPI_Send_init(field + 200, 100, MPI_DOUBLE, up, 0, comm, requests + 2);
        MPI_Send_init(field + 300, 100, MPI_DOUBLE, down, 0, comm, requests + 3);
    }
    for (int i = 0; i < iterations; i++) {
        if (persistent) {
            MPI_Startall(4, requests);
        } else if (!reduce) {
            MPI_Irecv(field, 100, MPI_DOUBLE, up, 0, comm, requests);
            MPI_Irecv(field + 100, 100, MPI_DOUBLE, down, 0, comm, requests + 1);
            MPI_Isend(field + 200, 100, MPI_DOUBLE, up, 0, comm, requests + 2);
            MPI_Isend(field + 300, 100, MPI_DOUBLE, down, 0, comm, requests + 3);
        }
        if (!reduce)
            MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
        if (!reduce && i % 10 == 9)
            MPI_Gather(field, 1, MPI_DOUBLE, field + 400, 1, MPI_DOUBLE, 0, comm);
    }
    for (int i = 0; persistent && i < 4; i++)
        MPI_Request_free(requests + i);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
