/* What the monitor adds to a call: cost CALLS. Prints nanoseconds of one MPI_X and one PMPI_X call, for a call that
   does not wait and for one that could; the fastest of several rounds each. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

#define ROUNDS 30
#define FASTEST(result, call)                                                                                         \
    for (int round = 0; round < ROUNDS; round++) {                                                                    \
        double before = now_ns();                                                                                     \
        for (int i = 0; i < calls; i++)                                                                               \
            call;                                                                                                     \
        double each = (now_ns() - before) / calls;                                                                    \
        result = round == 0 || each < result ? each : result;                                                         \
    }

int main(int argc, char **argv) {
    int flag, calls = argc > 1 ? atoi(argv[1]) : 20000;
    double test = 0, test_bare = 0, wait = 0, wait_bare = 0;
    MPI_Init(&argc, &argv);
    MPI_Request none = MPI_REQUEST_NULL;
    FASTEST(test, MPI_Test(&none, &flag, MPI_STATUS_IGNORE))
    FASTEST(test_bare, PMPI_Test(&none, &flag, MPI_STATUS_IGNORE))
    FASTEST(wait, MPI_Wait(&none, MPI_STATUS_IGNORE))
    FASTEST(wait_bare, PMPI_Wait(&none, MPI_STATUS_IGNORE))
    printf("%.2f %.2f %.2f %.2f\n", test, test_bare, wait, wait_bare);
    MPI_Finalize();
    return 0;
}
