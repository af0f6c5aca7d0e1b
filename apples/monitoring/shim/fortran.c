/* The same for Fortran, whose bindings in Open MPI reach the library without passing the C functions. Every argument
   is an address, also constants such as MPI_STATUS_IGNORE and MPI_IN_PLACE, so that nothing has to be translated:
   a blocking call becomes Fortran's own non-blocking one. Where Fortran's bindings do call the C functions
   (MPICH, most of them), it is left to those. Names: mpi_x_ (mpif.h, use mpi) and mpi_x_f08_
   (use mpi_f08, where the error code is optional: a null address). */
#include "tables.h"
#include "monitor.h"

#define SENDERS(X)                                                                                                    \
    X(send, isend)                                                                                                    \
    X(ssend, issend)                                                                                                  \
    X(rsend, irsend)

#define D(n, Name, lower, ...) static void *f_##lower[2];
#define DI(n, Name, lower) static void *f_##lower[2], *fi_##lower[2];
#define DP(Name, form) static void *f_##Name[2], *fn_##Name[2];
#define ALL_PASSING(X)                                                                                                \
    PASSING_SENDS(X)                                                                                                  \
    PASSING_RECEIVES(X)                                                                                               \
    PASSING_STARTS(X)                                                                                                 \
    PASSING_COLLECTIVES(X)                                                                                            \
    PASSING_COUNTED_COLLECTIVES(X)                                                                                    \
    PASSING(X)                                                                                                        \
    PASSING_ACCESS(X)
#define PAIRED(X)                                                                                                     \
    SENDERS(X)                                                                                                        \
    X(recv, irecv)                                                                                                    \
    X(mrecv, imrecv)                                                                                                  \
    X(sendrecv, isendrecv)                                                                                            \
    X(sendrecv_replace, isendrecv_replace)                                                                            \
    X(wait, test)                                                                                                     \
    X(waitall, testall)                                                                                               \
    X(waitany, testany)                                                                                               \
    X(waitsome, testsome)                                                                                             \
    X(probe, iprobe)                                                                                                  \
    X(mprobe, improbe)

COLLECTIVES(DI)
MEETING(D)
WAITING(D)
RELEASING(D)
ALL_PASSING(D)
PAIRED(DP)
static slot (*f_type_f2c)(int), (*f_comm_f2c)(int);
static void *f_init[2], *f_init_thread[2], *f_finalize[2];

#define N(n, Name, lower, ...) {"mpi_" #lower "_", &f_##lower[0]}, {"mpi_" #lower "_f08_", &f_##lower[1]},
#define NI(n, Name, lower) N(n, Name, lower) {"mpi_i" #lower "_", &fi_##lower[0]}, {"mpi_i" #lower "_f08_", &fi_##lower[1]},
#define NP(name, form)                                                                                                \
    {"mpi_" #name "_", &f_##name[0]}, {"mpi_" #name "_f08_", &f_##name[1]}, {"mpi_" #form "_", &fn_##name[0]},        \
        {"mpi_" #form "_f08_", &fn_##name[1]},

static const struct symbol symbols[] = {
    N(1, Init, init) N(4, Init_thread, init_thread) N(0, Finalize, finalize)
    COLLECTIVES(NI) MEETING(N) WAITING(N) RELEASING(N) ALL_PASSING(N) PAIRED(NP)
};

/* The two kinds of names are in two libraries. */
void monitor_resolve_fortran(void) {
    size_t count = sizeof symbols / sizeof *symbols;
    monitor_resolve(symbols, count, 2);
    monitor_resolve(symbols + 1, count - 1, 2);
    /* Handles of C are numbers where those of Fortran are the same ones. */
    if (monitor_library.flavour != MPICH) {
        f_type_f2c = monitor_find("PMPI_Type_f2c");
        f_comm_f2c = monitor_find("PMPI_Comm_f2c");
    }
}

#define NEXT(f, i, name)                                                                                              \
    if (UNLIKELY((f)[i] == NULL)) {                                                                                   \
        monitor_resolve_fortran();                                                                                    \
        if ((f)[i] == NULL)                                                                                           \
            monitor_missing(name);                                                                                    \
    }
/* Fortran's subroutines return nothing. `m` is the arity with the error code. */
#define ON(f, m) ((void (*)(T##m))(f))(A##m)
#define ERROR(m) (int *)a##m

static void report(int *error, int rc) {
    if (error != NULL)
        *error = rc;
}

static void ask(void *test, const slot slots[7], const int *done, const int *error) {
    struct question q = {.test = test, .done = done, .error = error, .rings = monitor_collective_rings()};
    for (int i = 0; i < 7; i++)
        q.slots[i] = slots[i];
    monitor_wait(&q);
}

static slot in_c(slot (*f2c)(int), slot handle) {
    int number = *(const int *)handle;
    return f2c != NULL ? f2c(number) : (slot)(unsigned)number;
}

static void count_sent(slot count, slot type, slot peer, slot comm) {
    monitor_sent(*(const int *)count, in_c(f_type_f2c, type), *(const int *)peer, in_c(f_comm_f2c, comm));
}

/* Handles of Fortran are integers. As in points.c, the library's own call is the last one. */
static void await(int i, const int *request) {
    int done = 0, error = 0, status[32];
    ask(f_request_get_status[i], (slot[7]){(slot)request, (slot)&done, (slot)status, (slot)&error}, &done, &error);
}

static void await_all(int i, slot count, slot requests) {
    for (int k = 0; k < *(const int *)count; k++)
        await(i, (const int *)requests + k);
}

static void await_probe(int i, slot source, slot tag, slot comm) {
    int done = 0, error = 0, status[32];
    ask(fn_probe[i], (slot[7]){source, tag, comm, (slot)&done, (slot)status, (slot)&error}, &done, &error);
}

static int complete(int i, int *request, slot status) {
    int error = 0;
    await(i, request);
    ((void (*)(T3))f_wait[i])((slot)request, status, (slot)&error);
    return error;
}

static int own_wait(const void *form) { return monitor_mode() != WAIT_AS_MPI && form != NULL; }

/* Is this call the program's own, and will no function of C see it? In MPICH those do that come by mpif.h or use mpi,
   and with use mpi_f08 those that have a buffer, which have names of their own there. */
#define THEIRS(i) (OURS && ((i) == 1 || monitor_library.flavour != MPICH))

#define BOTH(X, ...)                                                                                                  \
    X(0, , __VA_ARGS__)                                                                                               \
    X(1, f08_, __VA_ARGS__)

/* --- measured and passed on ----------------------------------------------------------------------- */

#define PASS_ONE(i, suffix, m, name, kind, after, before)                                                             \
    EXPORT void mpi_##name##_##suffix(CAT(P, m)) {                                                                    \
        NEXT(f_##name, i, "mpi_" #name "_" #suffix)                                                                   \
        if (!THEIRS(i)) {                                                                                             \
            PASS_ON(f_##name[i], m);                                                                                  \
            return;                                                                                                   \
        }                                                                                                             \
        monitor_enter(kind);                                                                                          \
        before;                                                                                                       \
        PASS_ON(f_##name[i], m);                                                                                      \
        monitor_leave((kind) | (after));                                                                              \
    }
#define PASS_ON(f, m) ((void (*)(CAT(T, m)))(f))(CAT(A, m))
#define MEETS(n, Name, lower, comm)                                                                                   \
    BOTH(PASS_ONE, CAT(MORE, n), lower, BLOCKING, 0, monitor_meet(in_c(f_comm_f2c, comm)))
#define WAITS(n, Name, lower) BOTH(PASS_ONE, CAT(MORE, n), lower, BLOCKING, 0, )
#define RELEASES(n, Name, lower) BOTH(PASS_ONE, CAT(MORE, n), lower, BLOCKING, 0, monitor_forget_communicators())
#define SENDS_ON(n, Name, lower) BOTH(PASS_ONE, CAT(MORE, n), lower, SENDS, 0, count_sent(a2, a3, a4, a6))
#define RECEIVES_ON(n, Name, lower) BOTH(PASS_ONE, CAT(MORE, n), lower, RECEIVES, 0, )
#define STARTS(n, Name, lower, ...) BOTH(PASS_ONE, CAT(MORE, n), lower, COLLECTIVE, 0, )
#define TESTS(n, Name, lower, over, ...) BOTH(PASS_ONE, CAT(MORE, n), lower, COMPLETES, (over) ? OVER : 0, )
#define LIGHTLY(n, Name, lower) BOTH(PASS_ONE, CAT(MORE, n), lower, LIGHT, 0, )

MEETING(MEETS)
WAITING(WAITS)
RELEASING(RELEASES)
PASSING_SENDS(SENDS_ON)
PASSING_RECEIVES(RECEIVES_ON)
PASSING_STARTS(STARTS)
PASSING_COLLECTIVES(STARTS)
PASSING_COUNTED_COLLECTIVES(STARTS)
PASSING(TESTS)
PASSING_ACCESS(LIGHTLY)

/* --- collectives ---------------------------------------------------------------------------------- */

/* The error code follows the request. */
#define TOGETHER_ONE(i, suffix, n, m, name)                                                                           \
    EXPORT void mpi_##name##_##suffix(CAT(P, m)) {                                                                    \
        NEXT(f_##name, i, "mpi_" #name "_" #suffix)                                                                   \
        int mine = THEIRS(i), request = 0, rc = 0, status[32];                                                        \
        if (mine)                                                                                                     \
            monitor_enter(BLOCKING | COLLECTIVE);                                                                     \
        if (mine && fi_##name[i] != NULL && f_wait[i] != NULL && monitor_together(in_c(f_comm_f2c, CAT(a, n)))) {     \
            ((void (*)(T##n, slot, slot))fi_##name[i])(A##n, (slot)&request, (slot)&rc);                              \
            if (rc == 0 && monitor_mode() != WAIT_AS_MPI)                                                             \
                await(i, &request);                                                                                   \
            if (rc == 0)                                                                                              \
                ((void (*)(T3))f_wait[i])((slot)&request, (slot)status, (slot)&rc);                                   \
            report((int *)CAT(a, m), rc);                                                                             \
        } else {                                                                                                      \
            PASS_ON(f_##name[i], m);                                                                                  \
        }                                                                                                             \
        if (mine)                                                                                                     \
            monitor_leave(BLOCKING | COLLECTIVE);                                                                     \
    }
#define WRAP_COLLECTIVE(n, Name, lower) BOTH(TOGETHER_ONE, n, CAT(MORE, n), lower)
COLLECTIVES(WRAP_COLLECTIVE)

/* --- requests ------------------------------------------------------------------------------------- */

/* `m` with the error code; the question's arguments end with our own error code. */
#define ASKING_ONE(i, suffix, m, name, kind, first, answer, ...)                                                      \
    EXPORT void mpi_##name##_##suffix(P##m) {                                                                         \
        int done = 0, error = 0;                                                                                      \
        NEXT(f_##name, i, "mpi_" #name "_" #suffix)                                                                   \
        if (!THEIRS(i)) {                                                                                             \
            ON(f_##name[i], m);                                                                                       \
            return;                                                                                                   \
        }                                                                                                             \
        monitor_enter(BLOCKING | (kind));                                                                             \
        if (!own_wait(fn_##name[i]) || (first)) {                                                                     \
            ON(f_##name[i], m);                                                                                       \
        } else {                                                                                                      \
            (void)done;                                                                                               \
            ask(fn_##name[i], (slot[7]){__VA_ARGS__, (slot)&error}, answer, &error);                                  \
            report(ERROR(m), error);                                                                                  \
        }                                                                                                             \
        monitor_leave(BLOCKING | (kind));                                                                             \
    }

BOTH(ASKING_ONE, 5, waitany, COMPLETES, 0, &done, a1, a2, a3, (slot)&done, a4)
BOTH(ASKING_ONE, 6, waitsome, COMPLETES, *(int *)a1 <= 0, (const int *)a3, a1, a2, a3, a4, a5)

#define AWAITING_ONE(i, suffix, m, name, kind, first)                                                                 \
    EXPORT void mpi_##name##_##suffix(P##m) {                                                                         \
        NEXT(f_##name, i, "mpi_" #name "_" #suffix)                                                                   \
        if (!THEIRS(i)) {                                                                                             \
            ON(f_##name[i], m);                                                                                       \
            return;                                                                                                   \
        }                                                                                                             \
        monitor_enter(BLOCKING | (kind));                                                                             \
        if (own_wait(fn_##name[i]))                                                                                   \
            first;                                                                                                    \
        ON(f_##name[i], m);                                                                                           \
        monitor_leave(BLOCKING | (kind));                                                                             \
    }
#define AWAIT_WAIT(i, suffix, m) AWAITING_ONE(i, suffix, m, wait, COMPLETES, await(i, (const int *)a1))
#define AWAIT_ALL(i, suffix, m) AWAITING_ONE(i, suffix, m, waitall, COMPLETES, await_all(i, a1, a2))
#define AWAIT_PROBE(i, suffix, m) AWAITING_ONE(i, suffix, m, probe, LIGHT, await_probe(i, a1, a2, a3))
#define AWAIT_MPROBE(i, suffix, m) AWAITING_ONE(i, suffix, m, mprobe, LIGHT, await_probe(i, a1, a2, a3))
BOTH(AWAIT_WAIT, 3)
BOTH(AWAIT_ALL, 4)
BOTH(AWAIT_PROBE, 5)
BOTH(AWAIT_MPROBE, 6)

/* --- messages ------------------------------------------------------------------------------------- */

static int is_nobody(slot rank) { return *(const int *)rank == monitor_library.proc_null; }

/* The last arguments: those that the non-blocking form shares; `status`: where it is written; `nothing`: see points.c. */
#define MESSAGE_ONE(i, suffix, m, name, kind, before, status, nothing, begin_types, ...)                              \
    EXPORT void mpi_##name##_##suffix(P##m) {                                                                         \
        int request = 0, rc = 0, scratch[32];                                                                         \
        (void)scratch;                                                                                                \
        NEXT(f_##name, i, "mpi_" #name "_" #suffix)                                                                   \
        if (!THEIRS(i)) {                                                                                             \
            ON(f_##name[i], m);                                                                                       \
            return;                                                                                                   \
        }                                                                                                             \
        monitor_enter(BLOCKING | (kind));                                                                             \
        before;                                                                                                       \
        if (own_wait(fn_##name[i]) && !(nothing)) {                                                                   \
            ((void (*)(TYPES begin_types, slot, slot))fn_##name[i])(__VA_ARGS__, (slot)&request, (slot)&rc);          \
            if (rc == 0)                                                                                              \
                rc = complete(i, &request, status);                                                                   \
            report(ERROR(m), rc);                                                                                     \
        } else {                                                                                                      \
            ON(f_##name[i], m);                                                                                       \
        }                                                                                                             \
        monitor_leave(BLOCKING | (kind));                                                                             \
    }
#define TYPES(...) __VA_ARGS__
#define WRAP_SEND(name, form) BOTH(MESSAGE_ONE, 7, name, SENDS, count_sent(a2, a3, a4, a6), (slot)scratch, 0, (T6), A6)

SENDERS(WRAP_SEND)
BOTH(MESSAGE_ONE, 8, recv, RECEIVES, , a7, is_nobody(a4), (T6), A6)
BOTH(MESSAGE_ONE, 6, mrecv, RECEIVES, , a5, 0, (T4), A4)
BOTH(MESSAGE_ONE, 10, sendrecv_replace, SENDS | RECEIVES, count_sent(a2, a3, a4, a8), a9, is_nobody(a6), (T8), A8)

#define EXCHANGE_ONE(i, suffix, ...)                                                                                  \
    EXPORT void mpi_sendrecv_##suffix(P13) {                                                                          \
        int in = 0, out = 0, rc = 0, sent = 0, scratch[32];                                                           \
        NEXT(f_sendrecv, i, "mpi_sendrecv_" #suffix)                                                                  \
        if (!THEIRS(i)) {                                                                                             \
            ON(f_sendrecv[i], 13);                                                                                    \
            return;                                                                                                   \
        }                                                                                                             \
        monitor_enter(BLOCKING | SENDS | RECEIVES);                                                                   \
        count_sent(a2, a3, a4, a11);                                                                                  \
        if (own_wait(fn_send[i]) && fn_recv[i] != NULL && !is_nobody(a9)) {                                           \
            ((void (*)(T8))fn_recv[i])(a6, a7, a8, a9, a10, a11, (slot)&in, (slot)&rc);                               \
            if (rc == 0)                                                                                              \
                ((void (*)(T8))fn_send[i])(a1, a2, a3, a4, a5, a11, (slot)&out, (slot)&sent);                         \
            if (rc == 0 && sent != 0) {                                                                               \
                ((void (*)(T2))f_cancel[i])((slot)&in, (slot)&rc);                                                    \
                ((void (*)(T2))f_request_free[i])((slot)&in, (slot)&rc);                                              \
                rc = sent;                                                                                            \
            } else if (rc == 0) {                                                                                     \
                sent = complete(i, &out, (slot)scratch);                                                              \
                rc = complete(i, &in, a12);                                                                           \
                rc = rc != 0 ? rc : sent;                                                                             \
            }                                                                                                         \
            report(ERROR(13), rc);                                                                                    \
        } else {                                                                                                      \
            ON(f_sendrecv[i], 13);                                                                                    \
        }                                                                                                             \
        monitor_leave(BLOCKING | SENDS | RECEIVES);                                                                   \
    }
EXCHANGE_ONE(0, )
EXCHANGE_ONE(1, f08_)

/* --- start and end -------------------------------------------------------------------------------- */

static void started(const int *error) {
    monitor_after_init();
    if (monitor_thread.depth == 1 && (error == NULL || *error == 0)) {
        monitor_identify();
        monitor_resolve_c();
        monitor_resolve_fortran();
        monitor_start();
    }
    monitor_thread.depth--;
}

#define INIT_ONE(i, suffix, ...)                                                                                      \
    EXPORT void mpi_init_##suffix(P1) {                                                                               \
        NEXT(f_init, i, "mpi_init_" #suffix)                                                                          \
        monitor_before_init();                                                                                        \
        ON(f_init[i], 1);                                                                                             \
        started((int *)a1);                                                                                           \
    }                                                                                                                 \
    EXPORT void mpi_init_thread_##suffix(P3) {                                                                        \
        NEXT(f_init_thread, i, "mpi_init_thread_" #suffix)                                                            \
        monitor_before_init();                                                                                        \
        ON(f_init_thread[i], 3);                                                                                      \
        started((int *)a3);                                                                                           \
    }                                                                                                                 \
    EXPORT void mpi_finalize_##suffix(P1) {                                                                           \
        NEXT(f_finalize, i, "mpi_finalize_" #suffix)                                                                  \
        if (THEIRS(i))                                                                                                \
            monitor_end();                                                                                            \
        ON(f_finalize[i], 1);                                                                                         \
    }
INIT_ONE(0, )
INIT_ONE(1, f08_)
