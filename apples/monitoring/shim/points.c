/* MPI_Init and MPI_Finalize, point-to-point communication and waiting for requests, in C. In the modes in which the
   monitor waits itself, a blocking call is begun in its non-blocking form and tested until it is over; then the library's
   own MPI_Wait completes it. */
#include <limits.h>
#include <pthread.h>

#include "tables.h"
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
static void *r_Init, *r_Init_thread, *r_Finalize, *r_Pcontrol, *r_Cancel, *r_Request_free, *r_Request_get_status,
    *r_Comm_get_errhandler, *r_Comm_set_errhandler, *r_Errhandler_free, *r_Comm_call_errhandler;

static const struct symbol symbols[] = {
    {"PMPI_Init", &r_Init}, {"PMPI_Init_thread", &r_Init_thread}, {"PMPI_Finalize", &r_Finalize},
    {"PMPI_Pcontrol", &r_Pcontrol},
    {"PMPI_Cancel", &r_Cancel}, {"PMPI_Request_free", &r_Request_free},
    {"PMPI_Request_get_status", &r_Request_get_status}, {"PMPI_Comm_get_errhandler", &r_Comm_get_errhandler},
    {"PMPI_Comm_set_errhandler", &r_Comm_set_errhandler}, {"PMPI_Errhandler_free", &r_Errhandler_free},
    {"PMPI_Comm_call_errhandler", &r_Comm_call_errhandler},
    PAIRED(NAMES) PAIRED(NAMES_C) ASKED(NAMES)
};

__attribute__((constructor)) static void add_symbols(void) {
    monitor_add_symbols(symbols, sizeof symbols / sizeof *symbols);
}

#define REQUIRE(Name)                                                                                                 \
    if (UNLIKELY(r_##Name == NULL)) {                                                                                 \
        monitor_resolve_c();                                                                                          \
        if (r_##Name == NULL)                                                                                         \
            monitor_missing("PMPI_" #Name);                                                                           \
    }
#define PLAINLY(f, n) ((int (*)(T##n))(f))(A##n)

/* --- start and end -------------------------------------------------------------------------------- */

static int started(int rc) {
    monitor_after_init();
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
    monitor_before_init();
    return started(PLAINLY(r_Init, 2));
}

EXPORT int MPI_Init_thread(P4) {
    REQUIRE(Init_thread)
    monitor_before_init();
    return started(PLAINLY(r_Init_thread, 4));
}

EXPORT int MPI_Finalize(void) {
    REQUIRE(Finalize)
    if (OURS)
        monitor_end();
    return ((int (*)(void))r_Finalize)();
}

/* Levels by which `apples.client` says, on all ranks of the run, that ranks leave: this one stays, or leaves; and this one
   ends without MPI_Finalize. `apples.h` and `apples/client/__init__.py` have the same. */
enum { STAYS = 74301, LEAVES, ENDS };

/* MPI has this function for tools and does nothing in it, so the client needs not know whether the monitor is there. */
EXPORT int MPI_Pcontrol(const int level, ...) {
    REQUIRE(Pcontrol)
    if (OURS && (level == STAYS || level == LEAVES))
        monitor_travel_part(level == LEAVES);
    if (OURS && level == ENDS)
        monitor_end();
    return ((int (*)(int, ...))r_Pcontrol)(level);
}

/* --- requests ------------------------------------------------------------------------------------- */

static int ask(void *test, const slot slots[7], const int *done) {
    struct question q = {.test = test, .done = done, .rings = monitor_collective_rings()};
    for (int i = 0; i < 7; i++)
        q.slots[i] = slots[i];
    return monitor_wait(&q);
}

/* Wait until a request is over, and leave it as it is: the library's own waiting call then returns at once, with the
   status, the state of the request and the error handler that the program expects of it. */
static void await(slot request) {
    int done = 0, status[32];
    ask(r_Request_get_status, (slot[7]){request, (slot)&done, (slot)status}, &done);
}

/* MPICH reports the errors of requests to the error handler of MPI_COMM_WORLD and nowhere else, which would abort
   programs that handle the errors of their own communicators. While anybody waits for a request of ours that handler returns;
   then the error goes where it would have gone from the blocking call. Of several threads that wait, the first
   keeps the program's handler and the last puts it back. */
static pthread_mutex_t handler_lock = PTHREAD_MUTEX_INITIALIZER;
static int handler_users;
static slot handler_before;

static void set_world_handler(slot handler) {
    ((int (*)(T2))r_Comm_set_errhandler)(monitor_library.world, handler);
}

static void let_errors_return(void) {
    pthread_mutex_lock(&handler_lock);
    if (handler_users++ == 0) {
        ((int (*)(T2))r_Comm_get_errhandler)(monitor_library.world, (slot)&handler_before);
        set_world_handler(monitor_library.errors_return);
    }
    pthread_mutex_unlock(&handler_lock);
}

/* The error may be one of MPI_COMM_WORLD: its handler is set while the error is reported. */
static void tell_errors(int rc, slot comm) {
    pthread_mutex_lock(&handler_lock);
    int last = --handler_users == 0;
    if (last || rc != 0)
        set_world_handler(handler_before);
    if (last)
        ((int (*)(T1))r_Errhandler_free)((slot)&handler_before);
    pthread_mutex_unlock(&handler_lock);
    if (rc == 0)
        return;
    ((int (*)(T2))r_Comm_call_errhandler)(comm, (slot)(unsigned)rc);
    pthread_mutex_lock(&handler_lock);
    if (handler_users > 0)
        set_world_handler(monitor_library.errors_return);
    pthread_mutex_unlock(&handler_lock);
}

int monitor_complete(slot *request, slot status, slot comm) {
    int rc, mpich = monitor_library.flavour == MPICH;
    if (mpich)
        let_errors_return();
    if (monitor_mode() != WAIT_AS_MPI)
        await(*request);
    rc = ((int (*)(T2))r_Wait)((slot)request, status);
    if (mpich)
        tell_errors(rc, comm);
    return rc;
}

#define BY_ASKING(n, Name, kind, first)                                                                               \
    EXPORT int MPI_##Name(P##n) {                                                                                     \
        int rc;                                                                                                       \
        REQUIRE(Name)                                                                                                 \
        if (!OURS)                                                                                                    \
            return PLAINLY(r_##Name, n);                                                                              \
        monitor_enter(BLOCKING | (kind));                                                                             \
        if (monitor_mode() != WAIT_AS_MPI)                                                                            \
            first;                                                                                                    \
        rc = PLAINLY(r_##Name, n);                                                                                    \
        monitor_leave(BLOCKING | (kind));                                                                             \
        return rc;                                                                                                    \
    }

static void await_all(int count, slot requests) {
    for (int i = 0; i < count; i++)
        await(HANDLE(requests, i));
}

static void await_probe(slot source, slot tag, slot comm) {
    int done = 0, status[32];
    ask(n_Probe, (slot[7]){source, tag, comm, (slot)&done, (slot)status}, &done);
}

BY_ASKING(2, Wait, COMPLETES, await(HANDLE(a1, 0)))
BY_ASKING(3, Waitall, COMPLETES, await_all((int)a1, a2))
BY_ASKING(4, Probe, LIGHT, await_probe(a1, a2, a3))
BY_ASKING(5, Mprobe, LIGHT, await_probe(a1, a2, a3))

#define INSTEAD(n, Name, few, answer, ...)                                                                            \
    EXPORT int MPI_##Name(P##n) {                                                                                     \
        int rc, done = 0;                                                                                             \
        REQUIRE(Name)                                                                                                 \
        if (!OURS)                                                                                                    \
            return PLAINLY(r_##Name, n);                                                                              \
        monitor_enter(BLOCKING | COMPLETES);                                                                          \
        (void)done;                                                                                                   \
        if (monitor_mode() == WAIT_AS_MPI || (few))                                                                   \
            rc = PLAINLY(r_##Name, n);                                                                                \
        else                                                                                                          \
            rc = ask(n_##Name, (slot[7]){__VA_ARGS__}, answer);                                                       \
        monitor_leave(BLOCKING | COMPLETES);                                                                          \
        return rc;                                                                                                    \
    }

/* Only their own test reports which of several is over. MPI_Testsome says how many: 0 means to ask again, and with nothing
   to wait for it would say so for ever. */
INSTEAD(4, Waitany, 0, &done, a1, a2, a3, (slot)&done, a4)
INSTEAD(5, Waitsome, (int)a1 <= 0, (const int *)a3, a1, a2, a3, a4, a5)

/* --- messages ------------------------------------------------------------------------------------- */

static int own_wait(const void *form) { return monitor_mode() != WAIT_AS_MPI && form != NULL; }

#define SENDING(f, form, count)                                                                                       \
    int status[32], rc;                                                                                               \
    slot request = 0;                                                                                                 \
    if (!OURS)                                                                                                        \
        return PLAINLY(f, 6);                                                                                         \
    monitor_enter(BLOCKING | SENDS);                                                                                  \
    monitor_sent(count, a3, (int)a4, a6);                                                                             \
    if (own_wait(form)) {                                                                                             \
        rc = ((int (*)(T7))form)(A6, (slot)&request);                                                                 \
        if (rc == 0)                                                                                                  \
            rc = monitor_complete(&request, (slot)status, a6);                                                        \
    } else {                                                                                                          \
        rc = PLAINLY(f, 6);                                                                                           \
    }                                                                                                                 \
    monitor_leave(BLOCKING | SENDS);                                                                                  \
    return rc;
#define WRAP_SEND(Name, Form)                                                                                         \
    EXPORT int MPI_##Name(P6) {                                                                                       \
        REQUIRE(Name)                                                                                                 \
        SENDING(r_##Name, n_##Name, (int)a2)                                                                          \
    }                                                                                                                 \
    EXPORT int MPI_##Name##_c(P6) {                                                                                   \
        if (UNLIKELY(rc_##Name == NULL)) {                                                                            \
            REQUIRE(Name)                                                                                             \
            if (rc_##Name == NULL)                                                                                    \
                return (int64_t)a2 > INT_MAX ? ERR_COUNT : MPI_##Name(A6);                                            \
        }                                                                                                             \
        SENDING(rc_##Name, nc_##Name, (int64_t)a2)                                                                    \
    }

SENDERS(WRAP_SEND)

static int is_nobody(slot rank) { return (int)rank == monitor_library.proc_null; }

/* `begin`: the arguments without the status, which is the last. No message arrives from MPI_PROC_NULL, and the status that
   says so is not given by every library's MPI_Test: `nothing` leaves it to the blocking call, which does not wait. */
#define RECEIVING(f, form, n, comm, nothing, begin_types, ...)                                                        \
    int rc;                                                                                                           \
    slot request = 0;                                                                                                 \
    if (!OURS)                                                                                                        \
        return PLAINLY(f, n);                                                                                         \
    monitor_enter(BLOCKING | RECEIVES);                                                                               \
    if (own_wait(form) && !(nothing)) {                                                                               \
        rc = ((int (*)(begin_types, slot))form)(__VA_ARGS__, (slot)&request);                                         \
        if (rc == 0)                                                                                                  \
            rc = monitor_complete(&request, a##n, comm);                                                              \
    } else {                                                                                                          \
        rc = PLAINLY(f, n);                                                                                           \
    }                                                                                                                 \
    monitor_leave(BLOCKING | RECEIVES);                                                                               \
    return rc;
#define TYPES(...) __VA_ARGS__
#define WRAP_RECEIVE(Name, n, comm, nothing, types, ...)                                                              \
    EXPORT int MPI_##Name(P##n) {                                                                                     \
        REQUIRE(Name)                                                                                                 \
        RECEIVING(r_##Name, n_##Name, n, comm, nothing, TYPES types, __VA_ARGS__)                                     \
    }                                                                                                                 \
    EXPORT int MPI_##Name##_c(P##n) {                                                                                 \
        if (UNLIKELY(rc_##Name == NULL)) {                                                                            \
            REQUIRE(Name)                                                                                             \
            if (rc_##Name == NULL)                                                                                    \
                return (int64_t)a2 > INT_MAX ? ERR_COUNT : MPI_##Name(A##n);                                          \
        }                                                                                                             \
        RECEIVING(rc_##Name, nc_##Name, n, comm, nothing, TYPES types, __VA_ARGS__)                                   \
    }

WRAP_RECEIVE(Recv, 7, a6, is_nobody(a4), (T6), A6)
WRAP_RECEIVE(Mrecv, 5, monitor_library.world, 0, (T4), A4)

/* The receive first, as in MPI itself. When the send cannot be begun, the receive must not write any more. */
#define EXCHANGING(f, recv, irecv, isend, count)                                                                      \
    int status[32], rc = 0, nobody = is_nobody(a9);                                                                   \
    slot in = 0, out = 0;                                                                                             \
    if (!OURS)                                                                                                        \
        return PLAINLY(f, 12);                                                                                        \
    monitor_enter(BLOCKING | SENDS | RECEIVES);                                                                       \
    monitor_sent(count, a3, (int)a4, a11);                                                                            \
    if (own_wait(isend)) {                                                                                            \
        if (!nobody)                                                                                                  \
            rc = ((int (*)(T7))irecv)(a6, a7, a8, a9, a10, a11, (slot)&in);                                           \
        if (rc == 0) {                                                                                                \
            rc = ((int (*)(T7))isend)(a1, a2, a3, a4, a5, a11, (slot)&out);                                           \
            if (rc != 0 && !nobody) {                                                                                 \
                ((int (*)(T1))r_Cancel)((slot)&in);                                                                   \
                ((int (*)(T1))r_Request_free)((slot)&in);                                                             \
            } else if (rc == 0) {                                                                                     \
                int sent = monitor_complete(&out, (slot)status, a11);                                                 \
                rc = nobody ? ((int (*)(T7))recv)(a6, a7, a8, a9, a10, a11, a12) : monitor_complete(&in, a12, a11);   \
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
    EXCHANGING(r_Sendrecv, r_Recv, n_Recv, n_Send, (int)a2)
}

EXPORT int MPI_Sendrecv_c(P12) {
    if (UNLIKELY(rc_Sendrecv == NULL)) {
        REQUIRE(Sendrecv)
        if (rc_Sendrecv == NULL)
            return (int64_t)a2 > INT_MAX || (int64_t)a7 > INT_MAX ? ERR_COUNT : MPI_Sendrecv(A12);
    }
    EXCHANGING(rc_Sendrecv, rc_Recv, nc_Recv, nc_Send, (int64_t)a2)
}

/* Only MPI 4 has a form of it that does not wait; elsewhere it waits as the library does. */
#define REPLACING(f, form, count)                                                                                     \
    int rc;                                                                                                           \
    slot request = 0;                                                                                                 \
    if (!OURS)                                                                                                        \
        return PLAINLY(f, 9);                                                                                         \
    monitor_enter(BLOCKING | SENDS | RECEIVES);                                                                       \
    monitor_sent(count, a3, (int)a4, a8);                                                                             \
    if (own_wait(form) && !is_nobody(a6)) {                                                                           \
        rc = ((int (*)(T9))form)(A8, (slot)&request);                                                                 \
        if (rc == 0)                                                                                                  \
            rc = monitor_complete(&request, a9, a8);                                                                  \
    } else {                                                                                                          \
        rc = PLAINLY(f, 9);                                                                                           \
    }                                                                                                                 \
    monitor_leave(BLOCKING | SENDS | RECEIVES);                                                                       \
    return rc;

EXPORT int MPI_Sendrecv_replace(P9) {
    REQUIRE(Sendrecv_replace)
    REPLACING(r_Sendrecv_replace, n_Sendrecv_replace, (int)a2)
}

EXPORT int MPI_Sendrecv_replace_c(P9) {
    if (UNLIKELY(rc_Sendrecv_replace == NULL)) {
        REQUIRE(Sendrecv_replace)
        if (rc_Sendrecv_replace == NULL)
            return (int64_t)a2 > INT_MAX ? ERR_COUNT : MPI_Sendrecv_replace(A9);
    }
    REPLACING(rc_Sendrecv_replace, nc_Sendrecv_replace, (int64_t)a2)
}
