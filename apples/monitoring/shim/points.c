/* MPI_Init and MPI_Finalize, point-to-point communication and waiting for requests, in C. In the modes where the monitor
   waits itself a blocking call is begun in its non-blocking form and asked for until it is over. Single completions keep
   their meaning: MPI_Test writes the same status as MPI_Wait and calls the same error handler. */
#include <limits.h>

#include "calls.h"
#include "monitor.h"

#define ERR_COUNT 2

/* X(arity, Name, non-blocking form): the arguments of both are the same but for the request. */
#define SENDERS(X)                                                                                                    \
    X(Send, Isend)                                                                                                    \
    X(Ssend, Issend)                                                                                                  \
    X(Rsend, Irsend)
#define PAIRED(X)                                                                                                     \
    SENDERS(X)                                                                                                        \
    X(Recv, Irecv)                                                                                                    \
    X(Mrecv, Imrecv)                                                                                                  \
    X(Sendrecv, Sendrecv)                                                                                             \
    X(Sendrecv_replace, Isendrecv_replace)
#define ASKED(X)                                                                                                      \
    X(Wait, Test)                                                                                                     \
    X(Waitall, Testall)                                                                                               \
    X(Waitany, Testany)                                                                                               \
    X(Waitsome, Testsome)                                                                                             \
    X(Probe, Iprobe)                                                                                                  \
    X(Mprobe, Improbe)

#define DECLARE(Name, Form) static void *r_##Name, *n_##Name;
#define DECLARE_C(Name, Form) static void *rc_##Name, *nc_##Name;
#define NAMES(Name, Form) {"PMPI_" #Name, &r_##Name}, {"PMPI_" #Form, &n_##Name},
#define NAMES_C(Name, Form) {"PMPI_" #Name "_c", &rc_##Name}, {"PMPI_" #Form "_c", &nc_##Name},

PAIRED(DECLARE)
PAIRED(DECLARE_C)
ASKED(DECLARE)
static void *r_Init, *r_Init_thread, *r_Finalize, *r_Cancel, *r_Request_free;

static const struct symbol symbols[] = {
    {"PMPI_Init", &r_Init}, {"PMPI_Init_thread", &r_Init_thread}, {"PMPI_Finalize", &r_Finalize},
    {"PMPI_Cancel", &r_Cancel}, {"PMPI_Request_free", &r_Request_free},
    PAIRED(NAMES) PAIRED(NAMES_C) ASKED(NAMES)
};

void monitor_resolve_points(void) { monitor_resolve(symbols, sizeof symbols / sizeof *symbols); }

#define REQUIRE(Name)                                                                                                 \
    if (UNLIKELY(r_##Name == NULL)) {                                                                                 \
        monitor_resolve_points();                                                                                     \
        if (r_##Name == NULL)                                                                                         \
            monitor_missing("PMPI_" #Name);                                                                           \
    }
#define PLAINLY(f, n) ((int (*)(T##n))(f))(A##n)

/* --- start and end -------------------------------------------------------------------------------- */

static int started(int rc) {
    if (monitor_thread.depth == 1 && rc == 0) {
        monitor_identify();
        monitor_resolve_c();
        monitor_start();
    }
    monitor_thread.depth--;
    return rc;
}

EXPORT int MPI_Init(P2) {
    REQUIRE(Init)
    monitor_thread.depth++;
    return started(PLAINLY(r_Init, 2));
}

EXPORT int MPI_Init_thread(P4) {
    REQUIRE(Init_thread)
    monitor_thread.depth++;
    return started(PLAINLY(r_Init_thread, 4));
}

EXPORT int MPI_Finalize(void) {
    REQUIRE(Finalize)
    if (OURS)
        monitor_end();
    return ((int (*)(void))r_Finalize)();
}

/* --- requests ------------------------------------------------------------------------------------- */

static int ask(void *test, const slot slots[7], const int *done) {
    struct question q = {.test = test, .done = done, .rings = monitor_collective_rings()};
    for (int i = 0; i < 7; i++)
        q.slots[i] = slots[i];
    return monitor_wait(&q);
}

static int complete(slot *request, slot status) {
    int done = 0;
    return ask(n_Wait, (slot[7]){(slot)request, (slot)&done, status}, &done);
}

#define BY_ASKING(n, Name, kind, before, ...)                                                                         \
    EXPORT int MPI_##Name(P##n) {                                                                                     \
        int rc, done = 0;                                                                                             \
        REQUIRE(Name)                                                                                                 \
        if (!OURS)                                                                                                    \
            return PLAINLY(r_##Name, n);                                                                              \
        monitor_enter(BLOCKING | (kind));                                                                             \
        if (monitor_mode() == WAIT_AS_MPI || (before))                                                                \
            rc = PLAINLY(r_##Name, n);                                                                                \
        else                                                                                                          \
            rc = ask(n_##Name, (slot[7]){__VA_ARGS__}, &done);                                                        \
        monitor_leave(BLOCKING | (kind));                                                                             \
        return rc;                                                                                                    \
    }

BY_ASKING(2, Wait, COMPLETES, 0, a1, (slot)&done, a2)
BY_ASKING(3, Waitall, COMPLETES, 0, a1, a2, (slot)&done, a3)
BY_ASKING(4, Waitany, COMPLETES, 0, a1, a2, a3, (slot)&done, a4)
BY_ASKING(4, Probe, LIGHT, 0, a1, a2, a3, (slot)&done, a4)
BY_ASKING(5, Mprobe, LIGHT, 0, a1, a2, a3, (slot)&done, a4, a5)

/* MPI_Testsome says how many are over: 0 means to ask again, and with nothing to wait for it would say so for ever. */
EXPORT int MPI_Waitsome(P5) {
    int rc;
    REQUIRE(Waitsome)
    if (!OURS)
        return PLAINLY(r_Waitsome, 5);
    monitor_enter(BLOCKING | COMPLETES);
    if (monitor_mode() == WAIT_AS_MPI || (int)a1 <= 0)
        rc = PLAINLY(r_Waitsome, 5);
    else
        rc = ask(n_Waitsome, (slot[7]){a1, a2, a3, a4, a5}, (const int *)a3);
    monitor_leave(BLOCKING | COMPLETES);
    return rc;
}

/* --- messages ------------------------------------------------------------------------------------- */

static int own_wait(const void *form) { return monitor_mode() != WAIT_AS_MPI && form != NULL; }

#define SENDING(f, form)                                                                                              \
    int status[32], rc;                                                                                               \
    slot request = 0;                                                                                                 \
    if (!OURS)                                                                                                        \
        return PLAINLY(f, 6);                                                                                         \
    monitor_enter(BLOCKING | SENDS);                                                                                  \
    if (own_wait(form)) {                                                                                             \
        rc = ((int (*)(T7))form)(A6, (slot)&request);                                                                 \
        if (rc == 0)                                                                                                  \
            rc = complete(&request, (slot)status);                                                                    \
    } else {                                                                                                          \
        rc = PLAINLY(f, 6);                                                                                           \
    }                                                                                                                 \
    monitor_leave(BLOCKING | SENDS);                                                                                  \
    return rc;
#define WRAP_SEND(Name, Form)                                                                                         \
    EXPORT int MPI_##Name(P6) {                                                                                       \
        REQUIRE(Name)                                                                                                 \
        SENDING(r_##Name, n_##Name)                                                                                   \
    }                                                                                                                 \
    EXPORT int MPI_##Name##_c(P6) {                                                                                   \
        if (UNLIKELY(rc_##Name == NULL)) {                                                                            \
            REQUIRE(Name)                                                                                             \
            if (rc_##Name == NULL)                                                                                    \
                return (int64_t)a2 > INT_MAX ? ERR_COUNT : MPI_##Name(A6);                                            \
        }                                                                                                             \
        SENDING(rc_##Name, nc_##Name)                                                                                 \
    }

SENDERS(WRAP_SEND)

/* `begin`: the arguments without the status, which is the last. */
#define RECEIVING(f, form, n, begin_types, ...)                                                                       \
    int rc;                                                                                                           \
    slot request = 0;                                                                                                 \
    if (!OURS)                                                                                                        \
        return PLAINLY(f, n);                                                                                         \
    monitor_enter(BLOCKING | RECEIVES);                                                                               \
    if (own_wait(form)) {                                                                                             \
        rc = ((int (*)(begin_types, slot))form)(__VA_ARGS__, (slot)&request);                                         \
        if (rc == 0)                                                                                                  \
            rc = complete(&request, a##n);                                                                            \
    } else {                                                                                                          \
        rc = PLAINLY(f, n);                                                                                           \
    }                                                                                                                 \
    monitor_leave(BLOCKING | RECEIVES);                                                                               \
    return rc;
#define TYPES(...) __VA_ARGS__
#define WRAP_RECEIVE(Name, n, types, ...)                                                                             \
    EXPORT int MPI_##Name(P##n) {                                                                                     \
        REQUIRE(Name)                                                                                                 \
        RECEIVING(r_##Name, n_##Name, n, TYPES types, __VA_ARGS__)                                                    \
    }                                                                                                                 \
    EXPORT int MPI_##Name##_c(P##n) {                                                                                 \
        if (UNLIKELY(rc_##Name == NULL)) {                                                                            \
            REQUIRE(Name)                                                                                             \
            if (rc_##Name == NULL)                                                                                    \
                return (int64_t)a2 > INT_MAX ? ERR_COUNT : MPI_##Name(A##n);                                          \
        }                                                                                                             \
        RECEIVING(rc_##Name, nc_##Name, n, TYPES types, __VA_ARGS__)                                                  \
    }

WRAP_RECEIVE(Recv, 7, (T6), A6)
WRAP_RECEIVE(Mrecv, 5, (T4), A4)

/* The receive first, as in MPI itself. When the send cannot be begun, the receive must not write any more. */
#define EXCHANGING(f, irecv, isend)                                                                                   \
    int status[32], rc;                                                                                               \
    slot in = 0, out = 0;                                                                                             \
    if (!OURS)                                                                                                        \
        return PLAINLY(f, 12);                                                                                        \
    monitor_enter(BLOCKING | SENDS | RECEIVES);                                                                       \
    if (own_wait(isend)) {                                                                                            \
        rc = ((int (*)(T7))irecv)(a6, a7, a8, a9, a10, a11, (slot)&in);                                               \
        if (rc == 0) {                                                                                                \
            rc = ((int (*)(T7))isend)(a1, a2, a3, a4, a5, a11, (slot)&out);                                           \
            if (rc != 0) {                                                                                            \
                ((int (*)(T1))r_Cancel)((slot)&in);                                                                   \
                ((int (*)(T1))r_Request_free)((slot)&in);                                                             \
            } else {                                                                                                  \
                int sent = complete(&out, (slot)status);                                                              \
                rc = complete(&in, a12);                                                                              \
                rc = rc != 0 ? rc : sent;                                                                             \
            }                                                                                                         \
        }                                                                                                             \
    } else {                                                                                                          \
        rc = PLAINLY(f, 12);                                                                                          \
    }                                                                                                                 \
    monitor_leave(BLOCKING | SENDS | RECEIVES);                                                                       \
    return rc;

EXPORT int MPI_Sendrecv(P12) {
    REQUIRE(Sendrecv)
    EXCHANGING(r_Sendrecv, n_Recv, n_Send)
}

EXPORT int MPI_Sendrecv_c(P12) {
    if (UNLIKELY(rc_Sendrecv == NULL)) {
        REQUIRE(Sendrecv)
        if (rc_Sendrecv == NULL)
            return (int64_t)a2 > INT_MAX || (int64_t)a7 > INT_MAX ? ERR_COUNT : MPI_Sendrecv(A12);
    }
    EXCHANGING(rc_Sendrecv, nc_Recv, nc_Send)
}

/* Only MPI 4 has a form of it that does not wait; elsewhere it waits as the library does. */
#define REPLACING(f, form)                                                                                            \
    int rc;                                                                                                           \
    slot request = 0;                                                                                                 \
    if (!OURS)                                                                                                        \
        return PLAINLY(f, 9);                                                                                         \
    monitor_enter(BLOCKING | SENDS | RECEIVES);                                                                       \
    if (own_wait(form)) {                                                                                             \
        rc = ((int (*)(T9))form)(A8, (slot)&request);                                                                 \
        if (rc == 0)                                                                                                  \
            rc = complete(&request, a9);                                                                              \
    } else {                                                                                                          \
        rc = PLAINLY(f, 9);                                                                                           \
    }                                                                                                                 \
    monitor_leave(BLOCKING | SENDS | RECEIVES);                                                                       \
    return rc;

EXPORT int MPI_Sendrecv_replace(P9) {
    REQUIRE(Sendrecv_replace)
    REPLACING(r_Sendrecv_replace, n_Sendrecv_replace)
}

EXPORT int MPI_Sendrecv_replace_c(P9) {
    if (UNLIKELY(rc_Sendrecv_replace == NULL)) {
        REQUIRE(Sendrecv_replace)
        if (rc_Sendrecv_replace == NULL)
            return (int64_t)a2 > INT_MAX ? ERR_COUNT : MPI_Sendrecv_replace(A9);
    }
    REPLACING(rc_Sendrecv_replace, nc_Sendrecv_replace)
}
