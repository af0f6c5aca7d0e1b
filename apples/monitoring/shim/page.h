/* The page of one process: a file of 4096 bytes in shared memory, first half ours, second half the node manager's.
   `apples/monitoring/page.py` has the same layout; a test holds the two together. Times are nanoseconds,
   instants on CLOCK_MONOTONIC. */
#ifndef APPLES_PAGE_H
#define APPLES_PAGE_H

#include <stddef.h>
#include <stdint.h>

#define PAGE_MAGIC 0x504d53454c505041ull /* "APPLESMP" */
#define PAGE_VERSION 3
#define PAGE_BYTES 4096
#define PAGE_MANAGED 2048
#define PAGE_NEIGHBOURS 64

enum { STATE_STARTING = 0, STATE_RUNNING = 1, STATE_FINALIZED = 2 };
enum { PHASE_UNKNOWN = 0, PHASE_COMPUTING = 1, PHASE_WAITING = 2 };
enum { WAIT_AS_MPI = 0, WAIT_POLL = 1, WAIT_SPIN_BLOCK = 2, WAIT_ADAPTIVE = 3 };

/* Messages that the process has sent to one rank of MPI_COMM_WORLD. */
struct neighbour {
    uint32_t rank;
    uint32_t unused;
    uint64_t messages;
    uint64_t bytes;
};

/* Written by the process. While `sequence` is odd it is being written. `phase_*` say since when the process has been
   in its phase: on the wall, by the thread's CPU clock, and how long it had been held stopped before. A reader
   adds what came since, so that nobody has to write while a program computes or waits for long.
   off_ns: time outside MPI in which a thread had no processor; queued_ns: the part of it in which it wanted one
   (run queue); phase_queued_ns: the kernel's count of that at the last reading. begun_ns: start of the process;
   init_cpu_ns, cpu_ns: CPU time of the whole process after MPI_Init and before MPI_Finalize. iterations, period:
   of the program's loop, and the calls of one (pattern.c). other_*: messages to ranks that are not in the table.
   best_way: of the ways to wait in choose.h, the number of the best one more by 1, 0 if this process did not choose;
   way_permille: time per iteration of each in thousandths of that of the best one, 0 if it was not measured. */
struct process_half {
    uint64_t magic;
    uint32_t version;
    uint32_t sequence;
    uint32_t state;
    uint32_t pid;
    uint32_t tid;
    uint32_t rank;
    uint32_t ranks;
    uint32_t threads;
    uint32_t phase;
    uint32_t flags;
    uint64_t started_ns;
    uint64_t ended_ns;
    uint64_t updated_ns;
    uint64_t t_cpu_ns;
    uint64_t t_comm_ns;
    uint64_t c_comm;
    uint64_t calls;
    uint64_t sent;
    uint64_t received;
    uint64_t requests;
    uint64_t last_request_ns;
    uint64_t phase_wall_ns;
    uint64_t phase_cpu_ns;
    uint64_t phase_stopped_ns;
    uint64_t sleeps;
    char mpi[64];
    char host[64];
    uint64_t off_ns;
    uint64_t queued_ns;
    uint64_t phase_queued_ns;
    uint64_t begun_ns;
    uint64_t init_cpu_ns;
    uint64_t cpu_ns;
    uint64_t peak_bytes;
    uint64_t iterations;
    uint32_t period;
    uint32_t neighbours;
    uint64_t other_messages;
    uint64_t other_bytes;
    uint32_t way_permille[4];
    uint32_t best_way;
    uint32_t spare;
    struct neighbour neighbour[PAGE_NEIGHBOURS];
};

/* Written by the node manager. `scheduled` is the status that travels with messages. */
struct manager_half {
    uint32_t wait;
    uint32_t scheduled;
    uint64_t spin_ns;
    uint64_t stopped_ns;
};

struct page {
    struct process_half process;
    char unused[PAGE_MANAGED - sizeof(struct process_half)];
    struct manager_half manager;
    char rest[PAGE_BYTES - PAGE_MANAGED - sizeof(struct manager_half)];
};

_Static_assert(sizeof(struct page) == PAGE_BYTES, "a page has 4096 bytes");
_Static_assert(offsetof(struct page, manager) == PAGE_MANAGED, "the manager's half begins in the middle");

#endif
