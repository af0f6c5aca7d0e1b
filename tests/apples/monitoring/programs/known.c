/* A program that knows what it does: known ring|uneven|halo|reduce|barrier|all ITERATIONS MICROSECONDS
   `uneven` is `ring` where odd ranks compute twice as long.
   Computes and communicates in turn, times both itself, and prints for each rank one line:
   rank, CPU seconds, seconds in blocking calls, blocking communications (those in a row are one), all MPI calls. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double clock_s(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Compute for so long by the thread's own CPU clock, counted from `from`; says when it was over. */
static double work(double from, double seconds) {
    double now = from;
    while (now < from + seconds)
        now = clock_s(CLOCK_THREAD_CPUTIME_ID);
    return now;
}

int main(int argc, char **argv) {
    int rank, ranks, calls = 0, events = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *patterns[] = {"ring", "halo", "reduce", "barrier"}, *asked = argc > 1 ? argv[1] : "all";
    int iterations = argc > 2 ? atoi(argv[2]) : 100;
    double us = argc > 3 ? atof(argv[3]) : 1000.0;
    if (!strcmp(asked, "uneven"))
        us *= 1 + rank % 2;
    double cpu_s = 0.0, comm_s = 0.0, out = rank, in = -1.0, sum = 0.0, from_left = -1.0;
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    MPI_Request requests[2];
    MPI_Barrier(MPI_COMM_WORLD);
    calls++;
    events++;
    double mark = clock_s(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < iterations; i++) {
        const char *pattern = strcmp(asked, "all") ? asked : patterns[i % 4];
        cpu_s += work(mark, 1e-6 * us) - mark;
        double before = clock_s(CLOCK_MONOTONIC);
        if (!strcmp(pattern, "ring") || !strcmp(pattern, "uneven")) {
            MPI_Sendrecv(&out, 1, MPI_DOUBLE, right, 1, &in, 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Sendrecv(&out, 1, MPI_DOUBLE, left, 2, &from_left, 1, MPI_DOUBLE, right, 2, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            calls += 2;
        } else if (!strcmp(pattern, "halo")) {
            MPI_Irecv(&in, 1, MPI_DOUBLE, left, 3, MPI_COMM_WORLD, &requests[0]);
            MPI_Isend(&out, 1, MPI_DOUBLE, right, 3, MPI_COMM_WORLD, &requests[1]);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            calls += 3;
        } else if (!strcmp(pattern, "reduce")) {
            MPI_Allreduce(&out, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            calls++;
        } else {
            MPI_Barrier(MPI_COMM_WORLD);
            calls++;
        }
        comm_s += clock_s(CLOCK_MONOTONIC) - before;
        mark = clock_s(CLOCK_THREAD_CPUTIME_ID);
        events++;
    }
    printf("%d %.9f %.9f %d %d\n", rank, cpu_s, comm_s, events, calls);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
