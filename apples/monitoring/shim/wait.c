/* How a process waits: it tests MPI again and again, and gives its processor to others in between, or sleeps.

   Polling asks without end. Spin-block asks for T_spin, then sleeps until something arrives on a socket of the process, or
   a bell rings that all processes of the job on this node share, a pipe; for a millisecond at most, because some networks
   have no sockets. Whoever leaves an MPI call rings while somebody sleeps. Whoever is about to sleep rings first, because
   asking also moves messages on, and others may be waiting for these; but only a few times in one wait, or two sleepers
   would wake each other for ever. Adaptive waits are those that one rank of the job on this node chooses (choose.c). */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "choose.h"
#include "clock.h"
#include "monitor.h"

#define NAP_MS 1
/* Time between two looks for sockets that MPI has opened since, while sleeps end without an event. */
#define SOCKETS_NS 100000000ull
/* A time slice of the kernel: after it a partner that wants a processor has had one. */
#define SLICE_NS 4000000ull
/* Computation between two tests of a loop that only waits. */
#define LOOP_NS 2000u
/* Time between two attempts to become the rank that chooses. */
#define LEAD_NS 100000000ull
/* A rank that has made no call for so long chooses no more. */
#define ABSENT_NS 10000000000ull
/* Longest CPU time in which MPI copies a byte of a message to the rank itself (assumed; slow memory: between 1 and 2). */
#define COPY_NS_PER_BYTE 4u

/* A rank waits in different company while its job has its turn under a policy and while others have theirs. */
enum { ADAPTIVE = 0, ADAPTIVE_UNSCHEDULED = 1, BLOCKING_TURN = 2, COMPANIES = 3 };

/* Shared by the processes of a job on a node. `sleepers` of a process that was killed in its sleep stays counted;
   ringing for nobody is the whole harm. leader: the process that chooses, 0 for none; chose_at: instant of its last call;
   best, trial: ways to wait, more by 1; the latter holds until an instant, for the leader may be elsewhere then. */
struct bell {
    uint64_t sleepers;
    char apart[56]; /* what is read at each call is in another cache line */
    uint64_t chose_at;
    uint32_t leader;
    struct {
        uint32_t best, trial;
        uint64_t until;
    } ways[COMPANIES];
};

static struct bell own_bell;
static struct bell *bell = &own_bell;
static int collective_rings = 1;
/* What ends a sleep, and the pipe that is the bell; -1 without one. */
static int wakers = -1, rope = -1;

static inline void breathe(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Ways to wait that are modes too; those of the page have the first numbers. */
enum { WAIT_YIELD = WAIT_ADAPTIVE + 1, WAIT_PATIENT };

/* Of an adaptive wait. Sleeping loses where iterations are short, which shows after a few of them, that is at once;
   polling loses where they are long. */
static int first_way = WAY_SLEEP;
static int blocks_by_choice;        /* spin-block is what the user wants: other ways are measured only */
static struct chooser choosers[COMPANIES];
static int company = -1; /* in which this process was when it chose last; -1 if it does not choose */

static int company_of(uint32_t wait, int scheduled) {
    if (wait == WAIT_ADAPTIVE)
        return scheduled ? ADAPTIVE : ADAPTIVE_UNSCHEDULED;
    return wait == WAIT_SPIN_BLOCK && blocks_by_choice ? BLOCKING_TURN : -1;
}

static int company_now(void) {
    return company_of(__atomic_load_n(&monitor_page->manager.wait, __ATOMIC_RELAXED), monitor_page->manager.scheduled == 1);
}

int monitor_mode(void) {
    static const int modes[WAYS] = {WAIT_AS_MPI, WAIT_YIELD, WAIT_PATIENT, WAIT_SPIN_BLOCK};
    int mode = (int)__atomic_load_n(&monitor_page->manager.wait, __ATOMIC_RELAXED), now_in = company_now();
    if (now_in < 0)
        return mode;
    uint64_t until = __atomic_load_n(&bell->ways[now_in].until, __ATOMIC_RELAXED);
    uint32_t way = until != 0 && monitor_wall() < until ? __atomic_load_n(&bell->ways[now_in].trial, __ATOMIC_RELAXED)
                                                        : __atomic_load_n(&bell->ways[now_in].best, __ATOMIC_RELAXED);
    mode = modes[way == 0 || way > WAYS ? first_way : (int)way - 1];
    /* Who is in a call of the library cannot look for statuses of others. */
    return mode == WAIT_AS_MPI && (monitor_page->manager.scheduled != 1 || monitor_travelling) ? WAIT_POLL : mode;
}

void monitor_first_way(const char *word, int blocks) {
    /* `apples/monitoring/names.py` has the same. */
    static const char *const words[WAYS] = {"mpi", "yield", "patient", "block"};
    for (int i = 0; word != NULL && !blocks && i < WAYS; i++)
        if (!strcmp(word, words[i]))
            first_way = i;
    blocks_by_choice = blocks;
}

/* Become the rank of this node that chooses, if there is none. */
static int lead(uint64_t now) {
    static uint64_t again_at;
    uint32_t mine = monitor_page->process.pid, leader = __atomic_load_n(&bell->leader, __ATOMIC_RELAXED);
    if (leader == mine)
        return 1;
    if (now < again_at)
        return 0;
    again_at = now + LEAD_NS;
    if (leader != 0 && now < __atomic_load_n(&bell->chose_at, __ATOMIC_RELAXED) + ABSENT_NS &&
        (kill((pid_t)leader, 0) == 0 || errno == EPERM))
        return 0;
    return __atomic_compare_exchange_n(&bell->leader, &leader, mine, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static uint64_t stopped_ns(void) { return __atomic_load_n(&monitor_page->manager.stopped_ns, __ATOMIC_RELAXED); }

static void say_way(uint64_t wall) {
    const struct chooser *c = &choosers[company];
    uint32_t best = (uint32_t)c->best + 1, trial = (uint32_t)c->current + 1;
    uint64_t until = c->end_by == 0 ? 0 : c->end_by + stopped_ns();
    if (wall - bell->chose_at > LEAD_NS)
        __atomic_store_n(&bell->chose_at, wall, __ATOMIC_RELAXED);
    if (bell->ways[company].best != best)
        __atomic_store_n(&bell->ways[company].best, best, __ATOMIC_RELAXED);
    if (bell->ways[company].trial != trial)
        __atomic_store_n(&bell->ways[company].trial, trial, __ATOMIC_RELAXED);
    if (bell->ways[company].until != until)
        __atomic_store_n(&bell->ways[company].until, until, __ATOMIC_RELAXED);
}

/* The first thread has ended a call. */
void monitor_choose(uint64_t wall, uint64_t iterations, uint64_t calls) {
    int now_in = company_now();
    if (now_in < 0 || !lead(wall)) {
        company = -1;
        return;
    }
    uint64_t now = wall - stopped_ns();
    struct chooser *c = &choosers[now_in];
    int fixed = now_in == BLOCKING_TURN;
    uint32_t best = bell->ways[now_in].best; /* of the rank that chose before */
    if (c->begun == 0)
        chooser_start(c, now, best == 0 || best > WAYS ? first_way : (int)best - 1,
                      fixed ? 1u << WAY_MPI : (1u << WAYS) - 1, fixed);
    else if (now_in != company)
        chooser_interrupt(c, now);
    company = now_in;
    chooser_step(c, now, iterations, calls);
    say_way(wall);
}

/* The first thread waits: it looks whether a trial takes too long. */
static void look_at_trial(uint64_t wall) {
    if (company < 0 || company != company_now() || choosers[company].end_by == 0)
        return;
    chooser_look(&choosers[company], wall - stopped_ns());
    say_way(wall);
}

/* MPI_Finalize: another rank may choose. The page gets what was measured. */
void monitor_chosen(struct process_half *p) {
    uint32_t mine = p->pid;
    for (int i = 0; i < COMPANIES; i++) {
        const struct chooser *c = &choosers[i];
        if (c->begun == 0 || p->best_way != 0)
            continue;
        p->best_way = (uint32_t)c->best + 1;
        for (int way = 0; way < WAYS; way++)
            p->way_permille[way] = (uint32_t)(1000 * fmin(chooser_ratio(c, way), 1e6));
    }
    __atomic_compare_exchange_n(&bell->leader, &mine, 0, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* A collective goes through about log2(ranks) rounds, and in each a rank may have to be woken. */
int monitor_collective_rings(void) {
    if (collective_rings == 1)
        for (uint32_t reached = 1; reached < monitor_page->process.ranks; reached *= 2)
            collective_rings++;
    return collective_rings;
}

/* An edge wakes once, so that what MPI leaves unread in a socket wakes nobody again. */
static void wake_by(int fd, uint32_t when) {
    struct epoll_event event = {.events = when | EPOLLET};
    epoll_ctl(wakers, EPOLL_CTL_ADD, fd, &event);
}

/* Add the sockets that are new; the kernel drops closed ones and refuses known ones. */
static void add_sockets(void) {
    DIR *open_files = opendir("/proc/self/fd");
    if (open_files == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(open_files)) != NULL;) {
        int fd = atoi(entry->d_name), family = 0;
        socklen_t size = sizeof family;
        if (entry->d_name[0] != '.' && getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 &&
            (family == AF_INET || family == AF_INET6))
            wake_by(fd, EPOLLIN | EPOLLOUT);
    }
    closedir(open_files);
}

static int open_shared(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int error = fd < 0 ? errno : posix_fallocate(fd, 0, sizeof(struct bell));
    if (error == 0) {
        void *at = mmap(NULL, sizeof(struct bell), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at != MAP_FAILED)
            bell = at;
        else
            error = errno;
    }
    if (fd >= 0)
        close(fd);
    return error;
}

void monitor_open_bell(const char *directory, const char *job) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.bell", directory, job);
    int error = open_shared(path);
    if ((wakers = epoll_create1(EPOLL_CLOEXEC)) < 0 && error == 0)
        error = errno;
    snprintf(path, sizeof path, "%s/%s.rope", directory, job);
    if (error == 0 && mkfifo(path, 0600) != 0 && errno != EEXIST)
        error = errno;
    if (error == 0 && (rope = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW)) < 0)
        error = errno;
    if (rope >= 0)
        wake_by(rope, EPOLLIN);
    if (error != 0)
        fprintf(stderr, MONITOR_NAME ": bell %s: %s; who sleeps wakes every millisecond\n", path, strerror(error));
}

void monitor_ring(void) {
    char taken[4096];
    if (__atomic_load_n(&bell->sleepers, __ATOMIC_SEQ_CST) == 0)
        return;
    /* Each write is an edge for all sleepers, also if bytes are there; nobody needs the bytes. */
    while (write(rope, "", 1) < 0 && errno == EAGAIN && read(rope, taken, sizeof taken) > 0)
        ;
}

/* MPI functions have at most seven arguments here; a function ignores those it has not. */
static inline int ask(const struct question *q) {
    int (*test)(slot, slot, slot, slot, slot, slot, slot) = (int (*)(slot, slot, slot, slot, slot, slot, slot))q->test;
    const slot *s = q->slots;
    int rc = test(s[0], s[1], s[2], s[3], s[4], s[5], s[6]);
    return q->error != NULL ? *q->error : rc;
}

/* Sleep until something wakes us or a millisecond has passed, unless the wait is over before. True if it is over. */
static int sleep_until_woken(const struct question *q, uint64_t now, int *rc) {
    static uint64_t sockets_at;
    struct epoll_event events[64];
    __atomic_add_fetch(&bell->sleepers, 1, __ATOMIC_SEQ_CST);
    /* Forget what has happened, our own ring for one. What was sent before we counted as a sleeper rang no bell, so
       ask once more. */
    epoll_wait(wakers, events, 64, 0);
    *rc = ask(q);
    int over = *rc != 0 || *q->done != 0;
    if (!over) {
        int woken = wakers < 0 ? poll(NULL, 0, NAP_MS) : epoll_wait(wakers, events, 64, NAP_MS);
        monitor_slept();
        if (woken == 0 && monitor_thread.first && now >= sockets_at) {
            add_sockets();
            sockets_at = now + SOCKETS_NS;
        }
    }
    __atomic_sub_fetch(&bell->sleepers, 1, __ATOMIC_SEQ_CST);
    return over;
}

/* Ask until the answer is yes. Where it may sleep between questions, it does so only after its CPU clock has reached
   `copy_until` (0: no such limit). */
static int ask_until_done(const struct question *q, uint64_t copy_until) {
    uint64_t spin_from = 0;
    int rings = q->rings, rc;
    for (unsigned asked = 1;; asked++) {
        rc = ask(q);
        if (rc != 0 || *q->done != 0)
            return rc;
        if (UNLIKELY(monitor_page->manager.scheduled != 1 || monitor_travelling) && asked % 64 == 0)
            monitor_travel_look();
        int mode = monitor_mode();
        uint64_t now = mode == WAIT_POLL ? 0 : monitor_wall();
        if (company >= 0 && monitor_thread.first)
            look_at_trial(now);
        if (mode != WAIT_SPIN_BLOCK && mode != WAIT_PATIENT) {
            spin_from = 0;
            if (mode == WAIT_YIELD)
                sched_yield();
            else
                breathe();
            continue;
        }
        if (spin_from == 0)
            spin_from = now;
        uint64_t spin = __atomic_load_n(&monitor_page->manager.spin_ns, __ATOMIC_RELAXED);
        if (mode == WAIT_PATIENT && spin < SLICE_NS)
            spin = SLICE_NS;
        if (now - spin_from < spin || (copy_until != 0 && nanoseconds(CLOCK_THREAD_CPUTIME_ID) < copy_until))
            continue;
        copy_until = 0;
        if (rings > 0) {
            monitor_ring();
            rings--;
        }
        if (sleep_until_woken(q, now, &rc))
            return rc;
    }
}

/* A program that waits in a loop of its own calls one function again and again, with nothing between that takes time. What
   arrives after the last test and before the sleep wakes nobody, so the sleep may last until its end. */
void monitor_tested(struct thread *t) {
    struct epoll_event events[64];
    if (t->tested != t->symbol || t->gap > LOOP_NS) {
        t->tested = t->symbol;
        t->tested_since = t->entered_wall;
        t->rang = 0;
        return;
    }
    int mode = monitor_mode();
    uint64_t spin = __atomic_load_n(&monitor_page->manager.spin_ns, __ATOMIC_RELAXED);
    spin = mode == WAIT_PATIENT && spin < SLICE_NS ? SLICE_NS : spin;
    if (mode == WAIT_YIELD)
        sched_yield();
    if ((mode != WAIT_SPIN_BLOCK && mode != WAIT_PATIENT) || t->entered_wall - t->tested_since < spin)
        return;
    if (!t->rang)
        monitor_ring();
    t->rang = 1;
    __atomic_add_fetch(&bell->sleepers, 1, __ATOMIC_SEQ_CST);
    if (wakers < 0)
        poll(NULL, 0, NAP_MS);
    else
        epoll_wait(wakers, events, 64, NAP_MS);
    monitor_slept();
    __atomic_sub_fetch(&bell->sleepers, 1, __ATOMIC_SEQ_CST);
    if (company >= 0 && t->first)
        look_at_trial(monitor_wall());
}

int monitor_wait(const struct question *q) {
    struct thread *t = &monitor_thread;
    if (t->own_bytes == 0)
        return ask_until_done(q, 0);
    t->own_waited = 1;
    /* Only this rank moves messages to itself on, a piece each time it asks: it must not sleep after each. */
    uint64_t before = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    int rc = ask_until_done(q, before + COPY_NS_PER_BYTE * t->own_bytes);
    uint64_t copied = (nanoseconds(CLOCK_THREAD_CPUTIME_ID) - before) / COPY_NS_PER_BYTE;
    t->own_bytes -= copied < t->own_bytes ? copied : t->own_bytes;
    return rc;
}
