/* What the parts of the monitor share. The monitor is built without any mpi.h: an argument of an MPI function is
   an integer or a pointer and fills one 64-bit slot (x86-64 System V, AArch64), so that it can be passed on unseen. */
#ifndef APPLES_MONITOR_H
#define APPLES_MONITOR_H

#include "page.h"

#if !defined(__LP64__)
#error "the monitor passes arguments as 64-bit slots; this machine has others"
#endif

#define EXPORT __attribute__((visibility("default")))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

typedef uintptr_t slot;

/* What a call is, for the figures. LIGHT calls do not wait: their time counts neither as computation nor as
   communication. SENDS and RECEIVES: it begins so; COLLECTIVE: it may do both;
   COMPLETES: what was begun may be over after it; OVER: and it is, though the call does not wait. */
enum { LIGHT = 0, BLOCKING = 1, SENDS = 2, RECEIVES = 4, COLLECTIVE = 8, COMPLETES = 16, OVER = 32 };

/* One thread that calls MPI. `depth` is not 0 inside an MPI call: what MPI calls of itself is no call of the program.
   anchor_*: the CPU clock of the thread at an instant on the wall, valid while the thread is not switched. left_cpu: that clock when
   the last call ended; overdrawn: computation counted too much, because the clock was followed too far; gap: what was computed before this one; since_event: before all calls since the last
   that was counted as a communication. */
struct thread {
    int depth;
    int known;
    int communicated;
    uint64_t anchor_wall, anchor_cpu;
    uint64_t left_cpu;
    int64_t overdrawn;
    uint64_t gap;
    uint64_t since_event;
    uint64_t entered_wall;
    uint64_t entered_stopped;
};

/* Which MPI this is, as far as it matters here. */
enum flavour { MPICH, OPEN_MPI, STANDARD_ABI };

struct library {
    enum flavour flavour;
    slot world;           /* MPI_COMM_WORLD */
    slot byte;            /* MPI_BYTE */
    int any_source;       /* MPI_ANY_SOURCE */
    int proc_null;        /* MPI_PROC_NULL */
    slot errors_return;   /* MPI_ERRORS_RETURN, where it is needed */
    int multiple;         /* MPI_THREAD_MULTIPLE */
    int source_at;        /* index of MPI_SOURCE in an MPI_Status, in ints */
};

extern struct library monitor_library;
extern struct page *monitor_page;
extern int monitor_on;           /* between MPI_Init and MPI_Finalize */
extern int monitor_nonblocking;  /* collectives are taken in their non-blocking form, by all ranks alike */
extern __thread struct thread monitor_thread;

/* monitor.c: figures */
uint64_t monitor_wall(void);
void monitor_enter(int kind);
void monitor_leave(int kind);
void monitor_start(void);
void monitor_end(void);
void monitor_request(uint64_t count);
void monitor_slept(void);

/* resolve.c: the functions of the MPI library */
struct symbol {
    const char *name;
    void **at;
};
void *monitor_find(const char *name);
void monitor_resolve(const struct symbol *symbols, size_t count, size_t stride);
void monitor_resolve_c(void);
void monitor_resolve_points(void);
void monitor_resolve_fortran(void);
void monitor_identify(void);
_Noreturn void monitor_missing(const char *name);

/* wait.c: asking a test function again and again until it says yes.
   slots: its arguments; done: where it puts its answer, not 0 when it is over; error: where it puts its error code,
   null when it returns it; rings: how often others may be woken while this wait goes on */
struct question {
    void *test;
    slot slots[7];
    const int *done;
    const int *error;
    int rings;
};
int monitor_wait(const struct question *question);
int monitor_mode(void);
/* points.c: a request of ours, from its waiting to its error handler. `request` holds the handle in its first bytes. */
int monitor_complete(slot *request, slot status, slot comm);
int monitor_collective_rings(void);
void monitor_open_bell(const char *directory, const char *job);
void monitor_ring(void);

/* register.c: the node manager */
void monitor_register(const char *job, const char *page);
void monitor_schedule(uint64_t now);

/* travel.c: the status that travels with messages */
extern int monitor_travelling; /* we are not scheduled, or others have not read yet that we are */
void monitor_travel_start(void);
void monitor_travel_before(void);
void monitor_travel_after(void);
void monitor_travel_look(void);
void monitor_travel_end(void);

#endif
