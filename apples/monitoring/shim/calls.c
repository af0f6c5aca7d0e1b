/* Collectives and the calls that are only measured and passed on, in C. */
#include <limits.h>
#include <stdlib.h>

#include "tables.h"
#include "monitor.h"

/* Error class that every MPI gives the same number. */
#define ERR_COUNT 2

#define DECLARE(n, Name, lower, ...) static void *r_##Name;
#define DECLARE_COLLECTIVE(n, Name, lower) static void *r_##Name, *ri_##Name;
#define DECLARE_C(n, Name, ...) static void *rc_##Name;
#define DECLARE_COLLECTIVE_C(n, Name, lower) static void *rc_##Name, *rci_##Name;

COLLECTIVES(DECLARE_COLLECTIVE)
COUNTED_COLLECTIVES(DECLARE_COLLECTIVE_C)
MEETING(DECLARE)
WAITING(DECLARE)
RELEASING(DECLARE)
PREPARING(DECLARE)
PREPARING(DECLARE_C)
PASSING_SENDS(DECLARE)
PASSING_SENDS(DECLARE_C)
PASSING_RECEIVES(DECLARE)
PASSING_RECEIVES(DECLARE_C)
PASSING_STARTS(DECLARE)
PASSING_COLLECTIVES(DECLARE)
PASSING_COUNTED_COLLECTIVES(DECLARE)
PASSING_COUNTED_COLLECTIVES(DECLARE_C)
PASSING(DECLARE)
PASSING_ACCESS(DECLARE)
PASSING_ACCESS(DECLARE_C)
static void *r_Comm_rank, *r_Comm_size, *r_Comm_test_inter, *r_Comm_remote_size;

#define NAME(n, Name, lower, ...) {"PMPI_" #Name, &r_##Name},
#define NAME_COLLECTIVE(n, Name, lower) {"PMPI_" #Name, &r_##Name}, {"PMPI_I" #lower, &ri_##Name},
#define NAME_C(n, Name, ...) {"PMPI_" #Name "_c", &rc_##Name},
#define NAME_COLLECTIVE_C(n, Name, lower) {"PMPI_" #Name "_c", &rc_##Name}, {"PMPI_I" #lower "_c", &rci_##Name},

static const struct symbol symbols[] = {
    COLLECTIVES(NAME_COLLECTIVE) COUNTED_COLLECTIVES(NAME_COLLECTIVE_C) MEETING(NAME) WAITING(NAME)
    RELEASING(NAME) PREPARING(NAME) PREPARING(NAME_C) PASSING_SENDS(NAME)
    PASSING_SENDS(NAME_C) PASSING_RECEIVES(NAME) PASSING_RECEIVES(NAME_C) PASSING_STARTS(NAME) PASSING_COLLECTIVES(NAME)
    PASSING_COUNTED_COLLECTIVES(NAME) PASSING_COUNTED_COLLECTIVES(NAME_C) PASSING(NAME) PASSING_ACCESS(NAME)
    PASSING_ACCESS(NAME_C)
    {"PMPI_Comm_rank", &r_Comm_rank},
    {"PMPI_Comm_size", &r_Comm_size}, {"PMPI_Comm_test_inter", &r_Comm_test_inter},
    {"PMPI_Comm_remote_size", &r_Comm_remote_size},
};

__attribute__((constructor)) static void add_symbols(void) {
    monitor_add_symbols(symbols, sizeof symbols / sizeof *symbols);
}

#define CALL(f, n) ((int (*)(T##n))(f))(A##n)
#define REQUIRE(f, text)                                                                                              \
    if (UNLIKELY((f) == NULL)) {                                                                                      \
        monitor_resolve_c();                                                                                          \
        if ((f) == NULL)                                                                                              \
            monitor_missing(text);                                                                                    \
    }
#define MEASURED(f, n, kind, before)                                                                                  \
    int rc;                                                                                                           \
    if (!OURS)                                                                                                        \
        return CALL(f, n);                                                                                            \
    monitor_enter(kind);                                                                                              \
    before;                                                                                                           \
    rc = CALL(f, n);                                                                                                  \
    monitor_leave(kind);                                                                                              \
    return rc;

#define PASS(n, Name, kind, before)                                                                                   \
    EXPORT int MPI_##Name(P##n) {                                                                                     \
        REQUIRE(r_##Name, "PMPI_" #Name)                                                                              \
        MEASURED(r_##Name, n, kind, before)                                                                           \
    }
/* Programs that found MPI_…_c find ours, also over a library that has none: then the plain call has to do. */
#define PASS_C(n, Name, kind, scalars, before)                                                                        \
    EXPORT int MPI_##Name##_c(P##n) {                                                                                 \
        if (UNLIKELY(rc_##Name == NULL)) {                                                                            \
            slot all[] = {A##n};                                                                                      \
            REQUIRE(r_##Name, "PMPI_" #Name)                                                                          \
            if (rc_##Name == NULL)                                                                                    \
                return too_large(all, scalars) ? ERR_COUNT : MPI_##Name(A##n);                                        \
        }                                                                                                             \
        MEASURED(rc_##Name, n, kind, before)                                                                          \
    }

#define FORGET(request) monitor_forget_request(HANDLE(request, 0))
#define AT(i) (1u << (i))

static int too_large(const slot *all, unsigned scalars) {
    for (unsigned i = 0; scalars >> i; i++)
        if (scalars & AT(i) && (int64_t)all[i] > INT_MAX)
            return 1;
    return 0;
}

static void begin(int count, slot requests) {
    for (int i = 0; i < count; i++)
        monitor_begun(HANDLE(requests, i));
}

#define PREPARE_ONE(n, Name, f, count)                                                                                \
    int rc = CALL(f, n);                                                                                              \
    if (rc == 0 && OURS)                                                                                              \
        monitor_prepare(HANDLE(a7, 0), count, a3, (int)a4, a6);                                                       \
    return rc;
#define PREPARES(n, Name, lower)                                                                                      \
    EXPORT int MPI_##Name(P##n) {                                                                                     \
        REQUIRE(r_##Name, "PMPI_" #Name)                                                                              \
        PREPARE_ONE(n, Name, r_##Name, (int)a2)                                                                       \
    }
#define PREPARES_C(n, Name, lower)                                                                                    \
    EXPORT int MPI_##Name##_c(P##n) {                                                                                 \
        if (UNLIKELY(rc_##Name == NULL)) {                                                                            \
            REQUIRE(r_##Name, "PMPI_" #Name)                                                                          \
            if (rc_##Name == NULL)                                                                                    \
                return (int64_t)a2 > INT_MAX ? ERR_COUNT : MPI_##Name(A##n);                                          \
        }                                                                                                             \
        PREPARE_ONE(n, Name, rc_##Name, (int64_t)a2)                                                                  \
    }

#define MEETS(n, Name, lower, comm) PASS(n, Name, BLOCKING, monitor_meet(comm))
#define WAITS(n, Name, lower) PASS(n, Name, BLOCKING, )
#define RELEASES(n, Name, lower) PASS(n, Name, BLOCKING, monitor_forget_communicators())
#define SENDS_ON(n, Name, lower) PASS(n, Name, SENDS, monitor_sent((int)a2, a3, (int)a4, a6))
#define SENDS_ON_C(n, Name, lower) PASS_C(n, Name, SENDS, AT(1), monitor_sent((int64_t)a2, a3, (int)a4, a6))
#define RECEIVES_ON(n, Name, lower) PASS(n, Name, RECEIVES, )
#define RECEIVES_ON_C(n, Name, lower) PASS_C(n, Name, RECEIVES, AT(1), )
#define STARTS(n, Name, lower, count, requests) PASS(n, Name, COLLECTIVE, begin(count, requests))
#define COLLECTS(n, Name, lower) PASS(n, Name, COLLECTIVE, )
#define LIGHTLY(n, Name, lower) PASS(n, Name, LIGHT, )
#define TESTS(n, Name, lower, over, ...)                                                                              \
    EXPORT int MPI_##Name(P##n) {                                                                                     \
        int rc;                                                                                                       \
        REQUIRE(r_##Name, "PMPI_" #Name)                                                                              \
        if (!OURS)                                                                                                    \
            return CALL(r_##Name, n);                                                                                 \
        __VA_ARGS__;                                                                                                  \
        monitor_enter(COMPLETES);                                                                                     \
        rc = CALL(r_##Name, n);                                                                                       \
        monitor_leave(rc == 0 && (over) ? COMPLETES | OVER : COMPLETES);                                              \
        return rc;                                                                                                    \
    }

/* The ranks are there together after it, so that the library's own call is short. */
void monitor_meet(slot comm) {
    int status[32];
    slot request = 0;
    if (ri_Barrier != NULL && monitor_together(comm) && ((int (*)(T2))ri_Barrier)(comm, (slot)&request) == 0)
        monitor_complete(&request, (slot)status, comm);
}

MEETING(MEETS)
WAITING(WAITS)
RELEASING(RELEASES)
PREPARING(PREPARES)
PREPARING(PREPARES_C)
PASSING_SENDS(SENDS_ON)
PASSING_SENDS(SENDS_ON_C)
PASSING_RECEIVES(RECEIVES_ON)
PASSING_RECEIVES(RECEIVES_ON_C)
PASSING_STARTS(STARTS)
PASSING_COLLECTIVES(COLLECTS)
PASSING_COUNTED_COLLECTIVES(COLLECTS)
PASSING(TESTS)
PASSING_ACCESS(LIGHTLY)
PASS_C(6, Ibcast, COLLECTIVE, AT(1), )
PASS_C(9, Igather, COLLECTIVE, AT(1) | AT(4), )
PASS_C(9, Iscatter, COLLECTIVE, AT(1) | AT(4), )
PASS_C(8, Iallgather, COLLECTIVE, AT(1) | AT(4), )
PASS_C(8, Ialltoall, COLLECTIVE, AT(1) | AT(4), )
PASS_C(8, Ireduce, COLLECTIVE, AT(2), )
PASS_C(7, Iallreduce, COLLECTIVE, AT(2), )
PASS_C(7, Ireduce_scatter_block, COLLECTIVE, AT(2), )
PASS_C(7, Iscan, COLLECTIVE, AT(2), )
PASS_C(7, Iexscan, COLLECTIVE, AT(2), )
PASS_C(8, Ineighbor_allgather, COLLECTIVE, AT(1) | AT(4), )
PASS_C(8, Ineighbor_alltoall, COLLECTIVE, AT(1) | AT(4), )
PASS_C(8, Put, LIGHT, AT(1) | AT(5), )
PASS_C(8, Get, LIGHT, AT(1) | AT(5), )
PASS_C(9, Accumulate, LIGHT, AT(1) | AT(5), )

/* A collective: in its blocking form, or begun and waited for, which all ranks do alike. */
#define TOGETHER(f, fi, n)                                                                                            \
    int rc, status[32];                                                                                               \
    if (!OURS)                                                                                                        \
        return CALL(f, n);                                                                                            \
    monitor_enter(BLOCKING | COLLECTIVE);                                                                             \
    if ((fi) != NULL && monitor_together(CAT(a, n))) {                                                                \
        slot request = 0;                                                                                             \
        rc = ((int (*)(T##n, slot))(fi))(A##n, (slot)&request);                                                       \
        if (rc == 0)                                                                                                  \
            rc = monitor_complete(&request, (slot)status, CAT(a, n));                                                 \
    } else {                                                                                                          \
        rc = CALL(f, n);                                                                                              \
    }                                                                                                                 \
    monitor_leave(BLOCKING | COLLECTIVE);                                                                             \
    return rc;
#define WRAP_COLLECTIVE(n, Name, lower)                                                                               \
    EXPORT int MPI_##Name(P##n) {                                                                                     \
        REQUIRE(r_##Name, "PMPI_" #Name)                                                                              \
        TOGETHER(r_##Name, ri_##Name, n)                                                                              \
    }

COLLECTIVES(WRAP_COLLECTIVE)

/* Where the counts of a collective are. arrays: of MPI_Count or MPI_Aint, one entry for each rank of the communicator;
   root: the rank where they count, -1 for everywhere. */
struct counts {
    unsigned scalars, arrays;
    int comm, root;
};

static int entries(const struct counts *how, const slot *all) {
    slot comm = all[how->comm];
    int inter = 0, rank = 0, size = 0;
    ((int (*)(T2))r_Comm_test_inter)(comm, (slot)&inter);
    if (inter) {
        ((int (*)(T2))r_Comm_remote_size)(comm, (slot)&size);
        return size;
    }
    ((int (*)(T2))r_Comm_rank)(comm, (slot)&rank);
    ((int (*)(T2))r_Comm_size)(comm, (slot)&size);
    return how->root >= 0 && (int)all[how->root] != rank ? 0 : size;
}

/* Counts as ints, in memory that the caller frees; null when they do not fit. */
static int *narrow(const struct counts *how, slot *all) {
    int size = how->arrays ? entries(how, all) : 0;
    int *room = malloc((size_t)(4 * size + 1) * sizeof *room), *next = room;
    int good = room != NULL && !too_large(all, how->scalars);
    for (unsigned i = 0; good && size > 0 && how->arrays >> i; i++) {
        const int64_t *wide = (const int64_t *)all[i];
        if (!(how->arrays & AT(i)) || wide == NULL)
            continue;
        all[i] = (slot)next;
        for (int k = 0; k < size; k++) {
            good = good && wide[k] <= INT_MAX && wide[k] >= INT_MIN;
            *next++ = (int)wide[k];
        }
    }
    if (!good) {
        free(room);
        return NULL;
    }
    return room;
}

#define S1 all[0]
#define S5 S1, all[1], all[2], all[3], all[4]
#define S6 S5, all[5]
#define S7 S6, all[6]
#define S8 S7, all[7]
#define S9 S8, all[8]
#define WRAP_COLLECTIVE_C(n, Name, ...)                                                                               \
    EXPORT int MPI_##Name##_c(P##n) {                                                                                 \
        if (UNLIKELY(rc_##Name == NULL)) {                                                                            \
            REQUIRE(r_##Name, "PMPI_" #Name)                                                                          \
            if (rc_##Name == NULL) {                                                                                  \
                static const struct counts how = __VA_ARGS__;                                                         \
                slot all[] = {A##n};                                                                                  \
                int *room = narrow(&how, all);                                                                        \
                int rc = room == NULL ? ERR_COUNT : MPI_##Name(S##n);                                                 \
                free(room);                                                                                           \
                return rc;                                                                                            \
            }                                                                                                         \
        }                                                                                                             \
        TOGETHER(rc_##Name, rci_##Name, n)                                                                            \
    }

WRAP_COLLECTIVE_C(5, Bcast, {AT(1), 0, 4, -1})
WRAP_COLLECTIVE_C(8, Gather, {AT(1) | AT(4), 0, 7, -1})
WRAP_COLLECTIVE_C(9, Gatherv, {AT(1), AT(4) | AT(5), 8, 7})
WRAP_COLLECTIVE_C(8, Scatter, {AT(1) | AT(4), 0, 7, -1})
WRAP_COLLECTIVE_C(9, Scatterv, {AT(5), AT(1) | AT(2), 8, 7})
WRAP_COLLECTIVE_C(7, Allgather, {AT(1) | AT(4), 0, 6, -1})
WRAP_COLLECTIVE_C(8, Allgatherv, {AT(1), AT(4) | AT(5), 7, -1})
WRAP_COLLECTIVE_C(7, Alltoall, {AT(1) | AT(4), 0, 6, -1})
WRAP_COLLECTIVE_C(9, Alltoallv, {0, AT(1) | AT(2) | AT(5) | AT(6), 8, -1})
WRAP_COLLECTIVE_C(9, Alltoallw, {0, AT(1) | AT(2) | AT(5) | AT(6), 8, -1})
WRAP_COLLECTIVE_C(7, Reduce, {AT(2), 0, 6, -1})
WRAP_COLLECTIVE_C(6, Allreduce, {AT(2), 0, 5, -1})
WRAP_COLLECTIVE_C(6, Reduce_scatter, {0, AT(2), 5, -1})
WRAP_COLLECTIVE_C(6, Reduce_scatter_block, {AT(2), 0, 5, -1})
WRAP_COLLECTIVE_C(6, Scan, {AT(2), 0, 5, -1})
WRAP_COLLECTIVE_C(6, Exscan, {AT(2), 0, 5, -1})
WRAP_COLLECTIVE_C(7, Neighbor_allgather, {AT(1) | AT(4), 0, 6, -1})
WRAP_COLLECTIVE_C(7, Neighbor_alltoall, {AT(1) | AT(4), 0, 6, -1})
