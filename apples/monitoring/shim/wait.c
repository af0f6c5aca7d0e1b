/* How a process waits: it tests MPI again and again, and in the mode spin-block sleeps in between.

   Polling asks without end. Spin-block asks for T_spin, then sleeps on a bell that all processes of the job on this
   node share, a futex word in shared memory, for a millisecond at most: a message from another node rings no bell.
   Whoever leaves an MPI call rings while somebody sleeps. Whoever is about to sleep rings first, because asking also
   moves messages on, and others may be waiting for these; but only a few times in one wait, or two sleepers would
   wake each other for ever. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "monitor.h"

#define NAP_NS 1000000

/* Shared by the processes of a job on a node. `sleepers` of a process that was killed in its sleep stays counted;
   ringing for nobody is the whole harm. */
struct bell {
    uint32_t rung;
    uint32_t sleepers;
};

static struct bell own_bell;
static struct bell *bell = &own_bell;
static int collective_rings = 1;

static inline void breathe(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

int monitor_mode(void) { return (int)__atomic_load_n(&monitor_page->manager.wait, __ATOMIC_RELAXED); }

/* A collective goes through about log2(ranks) rounds, and in each a rank may have to be woken. */
int monitor_collective_rings(void) {
    if (collective_rings == 1)
        for (uint32_t reached = 1; reached < monitor_page->process.ranks; reached *= 2)
            collective_rings++;
    return collective_rings;
}

void monitor_open_bell(const char *directory, const char *job) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.bell", directory, job);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int error = fd < 0 ? errno : posix_fallocate(fd, 0, sizeof(struct bell));
    if (error == 0) {
        void *at = mmap(NULL, sizeof(struct bell), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at != MAP_FAILED)
            bell = at;
        else
            error = errno;
    }
    if (error != 0)
        fprintf(stderr, "apples monitor: bell %s: %s; who sleeps wakes every millisecond\n", path, strerror(error));
    if (fd >= 0)
        close(fd);
}

void monitor_ring(void) {
    if (__atomic_load_n(&bell->sleepers, __ATOMIC_SEQ_CST) == 0)
        return;
    __atomic_add_fetch(&bell->rung, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &bell->rung, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* MPI functions have at most seven arguments here; a function ignores those it has not. */
static inline int ask(const struct question *q) {
    int (*test)(slot, slot, slot, slot, slot, slot, slot) = (int (*)(slot, slot, slot, slot, slot, slot, slot))q->test;
    const slot *s = q->slots;
    int rc = test(s[0], s[1], s[2], s[3], s[4], s[5], s[6]);
    return q->error != NULL ? *q->error : rc;
}

/* Sleep until the bell is rung or a millisecond has passed, unless the wait is over before. True if it is over. */
static int sleep_until_rung(const struct question *q, int *rc) {
    const struct timespec nap = {0, NAP_NS};
    __atomic_add_fetch(&bell->sleepers, 1, __ATOMIC_SEQ_CST);
    uint32_t heard = __atomic_load_n(&bell->rung, __ATOMIC_SEQ_CST);
    /* What was sent before we counted as a sleeper rang no bell: ask once more. */
    *rc = ask(q);
    int over = *rc != 0 || *q->done != 0;
    if (!over) {
        syscall(SYS_futex, &bell->rung, FUTEX_WAIT, heard, &nap, NULL, 0);
        monitor_slept();
    }
    __atomic_sub_fetch(&bell->sleepers, 1, __ATOMIC_SEQ_CST);
    return over;
}

int monitor_wait(const struct question *q) {
    uint64_t spin_until = 0;
    int rings = q->rings, rc;
    for (unsigned asked = 1;; asked++) {
        rc = ask(q);
        if (rc != 0 || *q->done != 0)
            return rc;
        if (UNLIKELY(monitor_page->manager.scheduled != 1 || monitor_travelling) && asked % 64 == 0)
            monitor_travel_look();
        if (monitor_mode() != WAIT_SPIN_BLOCK) {
            spin_until = 0;
            breathe();
            continue;
        }
        uint64_t now = monitor_wall();
        if (spin_until == 0)
            spin_until = now + __atomic_load_n(&monitor_page->manager.spin_ns, __ATOMIC_RELAXED);
        if (now < spin_until)
            continue;
        if (rings > 0) {
            monitor_ring();
            rings--;
        }
        if (sleep_until_rung(q, &rc))
            return rc;
    }
}
