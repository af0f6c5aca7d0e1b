/* Declarations that the parts of the monitor share. The monitor is built without any mpi.h: an argument of an MPI
   function is an integer or a pointer and fills one 64-bit slot (x86-64 System V, AArch64), so it can be passed on
   without knowing its type. */
#ifndef APPLES_MONITOR_H
#define APPLES_MONITOR_H

#include "page.h"

#if !defined(__LP64__)
#error "the monitor passes arguments as 64-bit slots; this machine has others"
#endif

/* Begin of messages; the build of `mpi_wait` sets its own. */
#ifndef MONITOR_NAME
#define MONITOR_NAME "apples monitor"
#endif

#define EXPORT __attribute__((visibility("default")))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

typedef uintptr_t slot;

/* Kinds of calls, for the counts. LIGHT calls do not wait: their time counts neither as computation nor as
   communication. SENDS and RECEIVES: the call begins one; COLLECTIVE: it may do both; COMPLETES: an operation may be
   complete after it; OVER: one is complete, though the call does not wait. */
enum { LIGHT = 0, BLOCKING = 1, SENDS = 2, RECEIVES = 4, COLLECTIVE = 8, COMPLETES = 16, OVER = 32 };

/* One thread that calls MPI. `depth` is not 0 inside an MPI call: calls that MPI makes itself are not the program's.
   anchor_*: the CPU clock of the thread at an instant of the wall clock, valid while the thread is not switched.
   left_cpu: that clock at the end of the last call; overdrawn: computation counted in excess, because the clock was
   followed too far; gap: computation before this call; since_event: computation since the last call that was counted
   as a communication; left_wall, left_stopped: the instant at which the last call ended, and how long the process had been
   held stopped until then; off: time without a processor before this call; wanted: the part
   of it in the run queue; first: the thread that called MPI_Init, of which alone that is known; queued: time spent in the run queue, as
   read last; symbol: this call, for the pattern. */
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
    uint64_t entered_cpu;
    uint64_t left_wall, left_stopped;
    uint64_t off, wanted;
    uint64_t queued;
    uint32_t symbol;
    uint64_t own_bytes; /* sent to this rank itself, less those for which a wait has had the time to copy them */
    int own_waited;     /* whether there was a wait since the last of these messages */
    int first;
    uint64_t progress; /* calls that may communicate */
    uint32_t tested;   /* the function that is tested again and again, and since when; 0 for none */
    uint64_t tested_since;
    int rang; /* whether it has woken others since */
};

/* The MPI library, as far as it matters here. */
enum flavour { MPICH, OPEN_MPI, STANDARD_ABI };

struct library {
    enum flavour flavour;
    slot world;           /* MPI_COMM_WORLD */
    slot none;            /* MPI_COMM_NULL */
    slot byte;            /* MPI_BYTE */
    int any_source;       /* MPI_ANY_SOURCE */
    int proc_null;        /* MPI_PROC_NULL */
    slot errors_return;   /* MPI_ERRORS_RETURN, if it is needed */
    int multiple;         /* MPI_THREAD_MULTIPLE */
    int source_at;        /* index of MPI_SOURCE in an MPI_Status, in ints */
};

extern struct library monitor_library;
extern struct page *monitor_page;
extern int monitor_on;           /* between MPI_Init and MPI_Finalize */
extern int monitor_nonblocking;  /* collectives may be called in their non-blocking form, by all ranks alike */
extern int monitor_several_threads; /* MPI_THREAD_MULTIPLE: several threads may call MPI at once */
extern volatile char monitor_page_lock;
extern __thread struct thread monitor_thread;
extern struct page monitor_no_page; /* the page of a process that is not measured */

/* monitor.c: shared state */
uint64_t monitor_wall(void);
void monitor_slept(void);
void monitor_before_init(void);
void monitor_after_init(void);

/* Between these two calls readers see an odd sequence number, and read again. The lock is only needed if several
   threads may call MPI at once. */
static inline void monitor_begin_write(struct process_half *p) {
    if (monitor_several_threads)
        while (__atomic_test_and_set(&monitor_page_lock, __ATOMIC_ACQUIRE))
            ;
    __atomic_store_n(&p->sequence, p->sequence + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void monitor_end_write(struct process_half *p) {
    __atomic_store_n(&p->sequence, p->sequence + 1, __ATOMIC_RELEASE);
    if (monitor_several_threads)
        __atomic_clear(&monitor_page_lock, __ATOMIC_RELEASE);
}

/* measure.c: measurement */
void monitor_enter(int kind);
void monitor_leave(int kind);
void monitor_start(void);
const char *monitor_job(void);
int monitor_waits(void);
void monitor_end(void);

/* world.c: whether all ranks have the monitor */
void monitor_announce(void);
int monitor_everywhere(uint32_t ranks);
void monitor_forget_announcement(void);

/* resolve.c: the functions of the MPI library */
struct symbol {
    const char *name;
    void **at;
};
void *monitor_find(const char *name);
void monitor_resolve(const struct symbol *symbols, size_t count, size_t stride);
void monitor_add_symbols(const struct symbol *symbols, size_t count);
void monitor_resolve_c(void);
void monitor_resolve_fortran(void);
void monitor_identify(void);
_Noreturn void monitor_missing(const char *name);

/* wait.c: call a test function until it succeeds.
   slots: its arguments; done: where it stores its result, not 0 at the end; error: where it stores its error code,
   null if it returns it; rings: how often other processes may be woken during this wait */
struct question {
    void *test;
    slot slots[7];
    const int *done;
    const int *error;
    int rings;
};
int monitor_wait(const struct question *question);
int monitor_mode(void);
/* points.c: complete a request of the monitor, with its error handler. `request` holds the handle in its first bytes. */
int monitor_complete(slot *request, slot status, slot comm);
int monitor_collective_rings(void);
/* calls.c: wait until all ranks of a communicator are in such a call */
void monitor_meet(slot comm);
/* An operation was not over yet: the program may test it again and again. */
void monitor_tested(struct thread *t);
/* How adaptive waits begin, null for the usual way, and whether spin-block is what the user wants. */
void monitor_first_way(const char *word, int blocks);
void monitor_choose(uint64_t wall, uint64_t iterations, uint64_t calls);
void monitor_chosen(struct process_half *p);
void monitor_open_bell(const char *directory, const char *job);
void monitor_ring(void);

/* traffic.c: messages by destination */
void monitor_traffic_start(void);
void monitor_sent(int64_t count, slot type, int peer, slot comm);
void monitor_prepare(slot request, int64_t count, slot type, int peer, slot comm);
void monitor_begun(slot request);
void monitor_forget_request(slot request);
void monitor_forget_communicators(void);
int monitor_together(slot comm);

/* pattern.c: iterations */
uint64_t monitor_pattern(uint32_t symbol, uint32_t *period);

/* usage.c: what the kernel knows of the process and of its first thread */
uint64_t monitor_queued(uint64_t *running);
void monitor_usage_start(struct process_half *p);
void monitor_usage_end(struct process_half *p);

/* register.c: the node manager */
void monitor_register(const char *job, const char *page);
void monitor_schedule(uint64_t now);

/* travel.c: the status that travels with messages */
extern int monitor_travelling; /* this process is not scheduled, or others have not read yet that it is */
void monitor_request(uint64_t count);
void monitor_travel_start(void);
void monitor_travel_before(void);
void monitor_travel_after(void);
void monitor_travel_look(void);
void monitor_travel_end(void);
void monitor_travel_part(int leaves);

#endif
