/* Two ranks; rank 0 computes for 20 ms, and rank 1 waits for it, in each call that waits. Prints for each call the CPU time of
   rank 1 as a share of the time that it waited. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <time.h>

#define TIMES 4

static double clock_s(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int rank, value;
static MPI_Request request;
static MPI_Status status;

static void post(void) { MPI_Irecv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request); }
static void send(void) { MPI_Send(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD); }
static void get(void) { MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &status); }

#define CALL(name, first, theirs, ...)                                                                                \
    for (int i = 0; i < TIMES; i++) {                                                                                 \
        MPI_Barrier(MPI_COMM_WORLD);                                                                                  \
        if (rank == 0) {                                                                                              \
            double end = clock_s(CLOCK_MONOTONIC) + 20e-3;                                                             \
            while (clock_s(CLOCK_MONOTONIC) < end)                                                                    \
                ;                                                                                                     \
            theirs;                                                                                                   \
        } else {                                                                                                      \
            first;                                                                                                    \
            double wall = clock_s(CLOCK_MONOTONIC), cpu = clock_s(CLOCK_THREAD_CPUTIME_ID);                           \
            __VA_ARGS__;                                                                                              \
            used += clock_s(CLOCK_THREAD_CPUTIME_ID) - cpu;                                                           \
            waited += clock_s(CLOCK_MONOTONIC) - wall;                                                                \
        }                                                                                                             \
    }                                                                                                                 \
    if (rank == 1)                                                                                                    \
        printf("%s %.3f\n", name, used / waited);                                                                     \
    used = waited = 0

int main(int argc, char **argv) {
    double used = 0, waited = 0;
    int done, index, sum;
    MPI_Message message;
    MPI_Comm comm;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CALL("Recv", , send(), get());
    CALL("Wait", post(), send(), MPI_Wait(&request, &status));
    CALL("Waitall", post(), send(), MPI_Waitall(1, &request, &status));
    CALL("Waitany", post(), send(), MPI_Waitany(1, &request, &index, &status));
    CALL("Waitsome", post(), send(), MPI_Waitsome(1, &request, &done, &index, &status));
    CALL("Test", post(), send(), do MPI_Test(&request, &done, &status); while (!done));
    CALL("Testall", post(), send(), do MPI_Testall(1, &request, &done, &status); while (!done));
    CALL("Iprobe", , send(), do MPI_Iprobe(0, 1, MPI_COMM_WORLD, &done, &status); while (!done); get());
    CALL("Probe", , send(), MPI_Probe(0, 1, MPI_COMM_WORLD, &status); get());
    CALL("Mprobe", , send(), MPI_Mprobe(0, 1, MPI_COMM_WORLD, &message, &status);
         MPI_Mrecv(&value, 1, MPI_INT, &message, &status));
    CALL("Ssend", , MPI_Recv(&value, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, &status),
         MPI_Ssend(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD));
    CALL("Barrier", , MPI_Barrier(MPI_COMM_WORLD), MPI_Barrier(MPI_COMM_WORLD));
    CALL("Allreduce", , MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD),
         MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CALL("Ibcast", , MPI_Ibcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD, &request); MPI_Wait(&request, &status),
         MPI_Ibcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD, &request); MPI_Wait(&request, &status));
    CALL("Comm_dup", , MPI_Comm_dup(MPI_COMM_WORLD, &comm); MPI_Comm_free(&comm),
         MPI_Comm_dup(MPI_COMM_WORLD, &comm); MPI_Comm_free(&comm));
    CALL("Comm_split", , MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &comm); MPI_Comm_free(&comm),
         MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &comm); MPI_Comm_free(&comm));
#if MPI_VERSION >= 4
    if (rank == 0)
        MPI_Psend_init(&value, 1, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    else
        MPI_Precv_init(&value, 1, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    CALL("Parrived", MPI_Start(&request), MPI_Start(&request); MPI_Pready(0, request); MPI_Wait(&request, &status),
         do MPI_Parrived(request, 0, &done); while (!done); MPI_Wait(&request, &status));
    MPI_Request_free(&request);
#endif
    MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    CALL("Win_fence", , MPI_Win_fence(0, win), MPI_Win_fence(0, win));
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
