/* What a run of `known` truly was, seen from between the program and whatever else is preloaded: LD_PRELOAD it first.
   One line at MPI_Finalize: "edges", rank, CPU seconds outside MPI, seconds in MPI, calls. The thread's CPU clock is
   read at every edge, outside of what follows. That costs about 1 us, half of it before the moment that is read: to who
   follows, an interval outside MPI is longer than the difference of two readings by one reading, which is added. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef uintptr_t slot;
static double left_s, reading_s, outside_s, in_calls_s;
static int depth, calls;

static double clock_s(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        fprintf(stderr, "edges: there is no %s\n", name);
        abort();
    }
    return found;
}

static double cpu_s(void) { return clock_s(CLOCK_THREAD_CPUTIME_ID); }

static int longer(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What one reading takes, the median of many. */
static void calibrate(void) {
    static double took[20001];
    int many = sizeof took / sizeof *took;
    double last = cpu_s();
    for (int i = 0; i < many; i++) {
        double now = cpu_s();
        took[i] = now - last;
        last = now;
    }
    qsort(took, (size_t)many, sizeof *took, longer);
    reading_s = took[many / 2];
}

static void leave(void) { left_s = cpu_s(); }
static void enter(void) { outside_s += cpu_s() - left_s + reading_s; }

static void say(void) {
    const char *rank = getenv("PMI_RANK");
    char line[128];
    if (rank == NULL)
        rank = getenv("OMPI_COMM_WORLD_RANK");
    int length = snprintf(line, sizeof line, "edges %s %.9f %.9f %d\n", rank ? rank : "0", outside_s, in_calls_s, calls);
    if (write(1, line, (size_t)length) != length)
        abort();
}

#define PARAMETERS                                                                                                    \
    slot a, slot b, slot c, slot d, slot e, slot f, slot g, slot h, slot i, slot j, slot k, slot l, slot m
#define ARGUMENTS a, b, c, d, e, f, g, h, i, j, k, l, m
#define ON(name) static int (*on)(PARAMETERS); if (on == NULL) *(void **)&on = next(#name);

/* Fortran's names may lead to those of C: the outermost counts. */
#define STARTS(name)                                                                                                  \
    int name(PARAMETERS) {                                                                                            \
        ON(name)                                                                                                      \
        if (depth++ == 0)                                                                                             \
            calibrate();                                                                                              \
        int rc = on(ARGUMENTS);                                                                                       \
        if (--depth == 0) {                                                                                           \
            leave();                                                                                                  \
        }                                                                                                             \
        return rc;                                                                                                    \
    }
#define ENDS(name)                                                                                                    \
    int name(PARAMETERS) {                                                                                            \
        ON(name)                                                                                                      \
        if (depth++ == 0) {                                                                                           \
            enter();                                                                                                  \
            say();                                                                                                    \
        }                                                                                                             \
        return on(ARGUMENTS);                                                                                         \
    }
#define CALLS(name)                                                                                                   \
    int name(PARAMETERS) {                                                                                            \
        ON(name)                                                                                                      \
        if (depth++ > 0) {                                                                                            \
            int inner = on(ARGUMENTS);                                                                                \
            depth--;                                                                                                  \
            return inner;                                                                                             \
        }                                                                                                             \
        enter();                                                                                                      \
        double before_s = clock_s(CLOCK_MONOTONIC);                                                                   \
        int rc = on(ARGUMENTS);                                                                                       \
        in_calls_s += clock_s(CLOCK_MONOTONIC) - before_s;                                                            \
        calls++;                                                                                                      \
        depth--;                                                                                                      \
        leave();                                                                                                      \
        return rc;                                                                                                    \
    }

STARTS(MPI_Init)
STARTS(MPI_Init_thread)
STARTS(mpi_init_)
STARTS(mpi_init_f08_)
ENDS(MPI_Finalize)
ENDS(mpi_finalize_)
ENDS(mpi_finalize_f08_)
CALLS(MPI_Barrier)
CALLS(mpi_barrier_)
CALLS(mpi_barrier_f08_)
CALLS(MPI_Sendrecv)
CALLS(MPI_Sendrecv_c)
CALLS(mpi_sendrecv_)
CALLS(mpi_sendrecv_f08_)
