/* The CPU clock of a thread for the price of the wall clock.

   Reading the thread's CPU clock is a system call of about a microsecond. While a thread is not switched, its CPU
   clock and the wall run alike; so it is read once and then followed on the wall. Whether the thread was switched
   is told by the kernel: it clears `rseq_cs` of the thread's restartable-sequence area whenever the
   thread comes back from having been switched (or from a signal). What a hypervisor steals shows nowhere else than in
   the CPU clock, so it is not followed for long. Where there is no such area (glibc before 2.35, or disabled)
   the CPU clock is read every time, which is as exact and slower. */
#ifndef APPLES_CLOCK_H
#define APPLES_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "monitor.h"

/* How long the CPU clock is followed on the wall before a call, and in one. What is stolen while the program computes is
   put right with the next reading before a call; what is stolen while it waits must not look like computation. */
#define FOLLOW_NS 1000000ull
#define FOLLOW_WAIT_NS 500000ull

#if defined(__x86_64__)
#define RSEQ_SIGNATURE 0x53053053u
#elif defined(__aarch64__)
#define RSEQ_SIGNATURE 0xd428bc00u
#endif

/* linux/rseq.h, as the kernel has it since 4.18. */
struct sequence {
    uint32_t version, flags;
    uint64_t start_ip, post_commit_offset, abort_ip;
} __attribute__((aligned(32)));

struct rseq_area {
    uint32_t cpu_id_start, cpu_id;
    uint64_t rseq_cs;
};

/* Where glibc has registered the area of each thread. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

extern struct sequence monitor_sequence;
extern int monitor_has_rseq;

static inline volatile uint64_t *switch_flag(void) {
    char *area = (char *)__builtin_thread_pointer() + __rseq_offset;
    return &((struct rseq_area *)area)->rseq_cs;
}

static inline uint64_t nanoseconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static inline int not_switched(void) {
    return monitor_has_rseq && *switch_flag() == (uintptr_t)&monitor_sequence;
}

/* An instant on both clocks, seen from its two sides: reading takes time, which belongs to the communication. */
struct instant {
    uint64_t wall_before, wall_after;
    uint64_t cpu_before, cpu_after;
};

/* Read the CPU clock, unless the thread is switched in the middle of it each time. The system call takes twice as long
   when it has not been made for a while, all of it before the clock is read; so it is made once for nothing. */
static __attribute__((noinline)) void read_anchor(struct thread *t, struct instant *now) {
    uint64_t first, before, after;
    for (int attempt = 0; attempt < 4; attempt++) {
        if (monitor_has_rseq)
            *switch_flag() = (uintptr_t)&monitor_sequence;
        first = nanoseconds(CLOCK_MONOTONIC);
        (void)nanoseconds(CLOCK_THREAD_CPUTIME_ID);
        before = nanoseconds(CLOCK_MONOTONIC);
        t->anchor_cpu = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
        after = nanoseconds(CLOCK_MONOTONIC);
        if (not_switched())
            break;
    }
    if (not_switched()) {
        uint64_t half = (after - before) / 2;
        t->anchor_wall = before + half;
        now->cpu_before = t->anchor_cpu - half - (before - first);
        now->cpu_after = t->anchor_cpu + (after - t->anchor_wall);
    } else {
        t->anchor_wall = 0;
        now->cpu_before = now->cpu_after = t->anchor_cpu;
    }
    now->wall_after = after;
}

/* This instant. A switch shows after the wall was read, so it is looked for then. */
static inline void read_clocks(struct thread *t, struct instant *now, uint64_t follow_ns) {
    uint64_t wall = nanoseconds(CLOCK_MONOTONIC);
    now->wall_before = now->wall_after = wall;
    if (__builtin_expect(not_switched() && wall - t->anchor_wall <= follow_ns, 1))
        now->cpu_before = now->cpu_after = t->anchor_cpu + (wall - t->anchor_wall);
    else
        read_anchor(t, now);
}

#endif
