/* Measurement: the values that every MPI call adds to the page, and the creation of the page. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"

/* A thread whose area would hold this outside a restartable sequence: it begins and ends where nothing is executed,
   and the kernel wants its signature before the place to go to. */
#ifdef RSEQ_SIGNATURE
static const uint32_t nowhere_to_go[2] = {RSEQ_SIGNATURE, 0};
#endif
struct sequence monitor_sequence;
int monitor_has_rseq;

/* A thread that had no processor for less than this is not looked at more closely. */
#define OFF_NS 20000

static uint64_t coalesce_ns = 100000;
static uint32_t first_tid; /* the thread whose run queue is read, and whose calls have a pattern */

static inline uint64_t stopped_ns(void) {
    return __atomic_load_n(&monitor_page->manager.stopped_ns, __ATOMIC_RELAXED);
}

static void know_thread(struct thread *t) {
    struct process_half *p = &monitor_page->process;
    struct instant now;
    read_anchor(t, &now);
    t->left_cpu = now.cpu_after;
    t->left_wall = now.wall_after;
    t->left_stopped = stopped_ns();
    t->first = (uint32_t)syscall(SYS_gettid) == first_tid;
    t->known = 1;
    monitor_begin_write(p);
    p->threads++;
    monitor_end_write(p);
}

static inline void count_gap(struct process_half *p, struct thread *t) {
    p->t_cpu_ns += t->gap;
    p->off_ns += t->off;
    p->queued_ns += t->wanted;
}

/* Time between two calls in which the thread had no processor, and the part of it that it spent in the run queue. */
static __attribute__((noinline)) void look_at_gap(struct thread *t, uint64_t off) {
    uint64_t before = t->queued;
    t->off = off;
    if (!t->first || (t->queued = monitor_queued(NULL)) < before)
        return;
    t->wanted = t->queued - before < off ? t->queued - before : off;
}

static inline void begin_waiting(struct thread *t, uint64_t wall) {
    struct process_half *p = &monitor_page->process;
    t->entered_stopped = stopped_ns();
    monitor_begin_write(p);
    count_gap(p, t);
    if (t->since_event >= coalesce_ns || !t->communicated) {
        p->c_comm++;
        t->communicated = 1;
        t->since_event = 0;
    }
    p->updated_ns = wall;
    p->phase = p->threads == 1 ? PHASE_WAITING : PHASE_UNKNOWN;
    p->phase_wall_ns = wall;
    p->phase_stopped_ns = t->entered_stopped;
    monitor_end_write(p);
}

/* Since the last call: computation, and time without a processor. */
static inline void measure_gap(struct thread *t, struct instant *now) {
    t->depth = 1;
    if (UNLIKELY(!t->known))
        know_thread(t);
    read_clocks(t, now, FOLLOW_NS);
    /* The clock may have been followed too far before: the excess is subtracted from later values. */
    int64_t computed = (int64_t)(now->cpu_before - t->left_cpu) - t->overdrawn;
    int64_t passed = (int64_t)(now->wall_before - t->left_wall) - (int64_t)(stopped_ns() - t->left_stopped);
    t->gap = computed > 0 ? (uint64_t)computed : 0;
    t->overdrawn = computed > 0 ? 0 : -computed;
    t->since_event += t->gap;
    t->entered_wall = now->wall_before;
    t->entered_cpu = now->cpu_before;
    t->off = t->wanted = 0;
    if (UNLIKELY(passed - computed > OFF_NS))
        look_at_gap(t, (uint64_t)(passed - computed));
}

void monitor_enter(int kind) {
    struct thread *t = &monitor_thread;
    struct instant now;
    /* Every wrapper calls this from a place of its own. */
    t->symbol = (uint32_t)(uintptr_t)__builtin_return_address(0);
    measure_gap(t, &now);
    if (kind & BLOCKING)
        begin_waiting(t, now.wall_before);
    if (kind & (SENDS | COLLECTIVE | COMPLETES) && UNLIKELY(monitor_page->manager.scheduled != 1 || monitor_travelling))
        monitor_travel_before();
}

/* This process is not scheduled: look for messages and new statuses. For a call that only began an operation, look at its
   completion. */
static __attribute__((noinline)) void look_after(int kind) {
    if (kind & OVER || (kind & BLOCKING && kind & (RECEIVES | COLLECTIVE | COMPLETES)))
        monitor_travel_after();
    else if (kind & COMPLETES)
        monitor_travel_look();
}

void monitor_leave(int kind) {
    struct thread *t = &monitor_thread;
    struct process_half *p = &monitor_page->process;
    struct instant now;
    if (kind) {
        if (UNLIKELY(monitor_page->manager.scheduled != 1))
            look_after(kind);
        monitor_ring();
        if (kind == COMPLETES)
            monitor_tested(t);
        else
            t->tested = 0;
    }
    read_clocks(t, &now, kind & BLOCKING ? t->entered_wall - t->anchor_wall + FOLLOW_WAIT_NS : FOLLOW_NS + FOLLOW_WAIT_NS);
    /* What it waited for a processor inside MPI is not to count after it. */
    if (UNLIKELY(t->first && now.wall_after - t->entered_wall > now.cpu_after - t->entered_cpu + OFF_NS))
        t->queued = monitor_queued(NULL);
    monitor_begin_write(p);
    if (t->first)
        p->phase_queued_ns = t->queued;
    if (kind & BLOCKING) {
        uint64_t held = stopped_ns() - t->entered_stopped, inside = now.wall_after - t->entered_wall;
        p->t_comm_ns += inside > held ? inside - held : 0;
    } else {
        count_gap(p, t);
    }
    if (kind & (BLOCKING | SENDS | RECEIVES | COLLECTIVE) && t->first)
        p->iterations = monitor_pattern(t->symbol, &p->period);
    p->calls++;
    if (kind & SENDS)
        p->sent++;
    if (kind & RECEIVES)
        p->received++;
    p->updated_ns = now.wall_after;
    p->phase = p->threads == 1 ? PHASE_COMPUTING : PHASE_UNKNOWN;
    p->phase_wall_ns = now.wall_after;
    p->phase_cpu_ns = now.cpu_after;
    monitor_end_write(p);
    if (kind & (BLOCKING | SENDS | RECEIVES | COLLECTIVE) && t->first)
        monitor_choose(now.wall_after, p->iterations, ++t->progress);
    t->left_cpu = now.cpu_after;
    t->left_wall = now.wall_after;
    t->left_stopped = stopped_ns();
    t->depth = 0;
}

/* --- start and end -------------------------------------------------------------------------------- */

static void complain(const char *what, const char *about, const char *why) {
    fprintf(stderr, MONITOR_NAME ": %s %s: %s; this process is not measured\n", what, about, why);
}

static int legal_job(const char *job) {
    size_t length = strlen(job);
    return length > 0 && length <= 64 && strcmp(job, ".") && strcmp(job, "..") &&
           strspn(job, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

/* True if another living process has the page, because two programs were given the same job name. */
static int taken(int fd) {
    struct process_half old;
    if (pread(fd, &old, sizeof old, 0) != sizeof old || old.magic != PAGE_MAGIC || old.state == STATE_FINALIZED)
        return 0;
    return old.pid != (uint32_t)getpid() && (kill((pid_t)old.pid, 0) == 0 || errno == EPERM);
}

static struct page *open_page(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int error = fd < 0 ? errno : 0;
    struct page *page = NULL;
    if (fd >= 0 && taken(fd)) {
        complain("page", path, "a process that is still running has it; give every job a name of its own");
        close(fd);
        return NULL;
    }
    if (fd >= 0) {
        /* Reserve the space: with a full tmpfs the first write would otherwise end the program with SIGBUS. The file is
           never shortened: another process of this name may have mapped it a moment ago. */
        error = posix_fallocate(fd, 0, PAGE_BYTES);
        if (error == 0) {
            void *at = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            page = at == MAP_FAILED ? NULL : at;
            error = page == NULL ? errno : 0;
            if (page != NULL)
                memset(page, 0, PAGE_BYTES);
        }
        close(fd);
    }
    if (page == NULL)
        complain("page", path, strerror(error));
    return page;
}

/* The name of the job; null if it is not legal. */
const char *monitor_job(void) {
    const char *job = getenv("APPLES_JOB");
    if (job == NULL || !*job)
        job = "job";
    return legal_job(job) ? job : NULL;
}

static uint32_t wait_of(const char *word) {
    static const char *const words[] = {[WAIT_POLL] = "poll", [WAIT_SPIN_BLOCK] = "block", [WAIT_ADAPTIVE] = "adaptive"};
    for (uint32_t wait = WAIT_POLL; word != NULL && wait <= WAIT_ADAPTIVE; wait++)
        if (!strcmp(word, words[wait]))
            return wait;
    return WAIT_AS_MPI;
}

/* Whether the monitor waits in place of the MPI library, or may be told to. */
int monitor_waits(void) { return wait_of(getenv("APPLES_WAIT")) != WAIT_AS_MPI || getenv("APPLES_NODE_SOCKET") != NULL; }

static void read_settings(struct manager_half *m) {
    const char *wait = getenv("APPLES_WAIT"), *spin = getenv("APPLES_SPIN_US"), *gap = getenv("APPLES_COALESCE_US");
    char *end;
    m->wait = wait_of(wait);
    m->scheduled = 1;
    m->spin_ns = 120000;
    monitor_first_way(getenv("APPLES_WAIT_FIRST"), m->wait == WAIT_SPIN_BLOCK && getenv("APPLES_NODE_SOCKET") == NULL);
    m->stopped_ns = 0;
    if (wait != NULL && *wait && m->wait == WAIT_AS_MPI && strcmp(wait, "mpi"))
        fprintf(stderr, MONITOR_NAME ": APPLES_WAIT is '%s', legal are block, adaptive, poll and mpi; taken as mpi\n", wait);
    if (spin != NULL && *spin) {
        double us = strtod(spin, &end);
        if (*end == '\0' && us >= 0 && us < 1e9)
            m->spin_ns = (uint64_t)(us * 1e3);
        else
            fprintf(stderr, MONITOR_NAME ": APPLES_SPIN_US is '%s', legal are microseconds from 0; taken as 120\n",
                    spin);
    }
    if (gap != NULL && *gap) {
        double us = strtod(gap, &end);
        if (*end == '\0' && us >= 0 && us < 1e9)
            coalesce_ns = (uint64_t)(us * 1e3);
        else
            fprintf(stderr, MONITOR_NAME ": APPLES_COALESCE_US is '%s', legal are microseconds from 0; taken as 100\n",
                    gap);
    }
}

static void describe(struct process_half *p) {
    char version[8192] = "";
    int length = 0;
    int (*get_version)(char *, int *) = monitor_find("PMPI_Get_library_version");
    int (*rank)(slot, int *) = monitor_find("PMPI_Comm_rank"), (*size)(slot, int *) = monitor_find("PMPI_Comm_size");
    int mine = 0, all = 1;
    if (get_version != NULL)
        get_version(version, &length);
    size_t n = 0;
    for (const char *c = version; *c && *c != '\n' && *c != ',' && n < sizeof p->mpi - 1; c++) {
        if (*c == '\t' || *c == ' ') {
            if (n > 0 && p->mpi[n - 1] != ' ')
                p->mpi[n++] = ' ';
        } else {
            p->mpi[n++] = *c;
        }
    }
    gethostname(p->host, sizeof p->host - 1);
    rank(monitor_library.world, &mine);
    size(monitor_library.world, &all);
    p->version = PAGE_VERSION;
    p->pid = (uint32_t)getpid();
    p->tid = (uint32_t)syscall(SYS_gettid);
    p->rank = (uint32_t)mine;
    p->ranks = (uint32_t)all;
}

/* Whether MPI_Comm_spawn has started this process. It has a world of its own, in which its rank is that of a process of the
   run: it is neither measured nor registered. */
static int is_spawned(void) {
    int (*get_parent)(slot *) = monitor_find("PMPI_Comm_get_parent");
    slot parent = 0;
    if (get_parent == NULL || get_parent(&parent) != 0)
        return 0;
    return (monitor_library.flavour == MPICH ? (slot)(unsigned)parent : parent) != monitor_library.none;
}

/* A forked child must not write into the page of its parent. */
static void forget_in_child(void) {
    monitor_on = 0;
    monitor_page = &monitor_no_page;
}

static void prepare_clock(void) {
#ifdef RSEQ_SIGNATURE
    monitor_sequence.start_ip = (uintptr_t)nowhere_to_go;
    monitor_sequence.post_commit_offset = 1;
    monitor_sequence.abort_ip = (uintptr_t)&nowhere_to_go[1];
    monitor_has_rseq = &__rseq_size != NULL && __rseq_size != 0;
#endif
}

/* MPI_Init has returned. */
void monitor_start(void) {
    const char *directory = getenv("APPLES_MONITOR"), *job = monitor_job();
    int (*query)(int *) = monitor_find("PMPI_Query_thread");
    char path[4096] = "";
    int level = 0, spawned = is_spawned();
    if (directory == NULL && getenv("APPLES_WAIT") == NULL)
        return;
    if (job == NULL) {
        complain("job", getenv("APPLES_JOB"), "legal are 1 to 64 letters, digits, '.', '_' and '-'");
        return;
    }
    struct process_half fresh = {0};
    describe(&fresh);
    struct page *page = &monitor_no_page;
    if (directory != NULL && *directory && !spawned) {
        snprintf(path, sizeof path, "%s/%s.%u", directory, job, fresh.rank);
        page = open_page(path);
        if (page == NULL) {
            page = &monitor_no_page;
            path[0] = '\0';
        }
        monitor_open_bell(directory, job);
    }
    read_settings(&page->manager);
    if (query != NULL)
        query(&level);
    monitor_several_threads = level == monitor_library.multiple;
    prepare_clock();
    pthread_atfork(NULL, NULL, forget_in_child);
    monitor_page = page;
    first_tid = fresh.tid;
    monitor_usage_start(&fresh);
    know_thread(&monitor_thread);
    monitor_thread.queued = fresh.phase_queued_ns;
    fresh.threads = 1;
    fresh.state = STATE_RUNNING;
    fresh.started_ns = fresh.updated_ns = fresh.phase_wall_ns = monitor_wall();
    fresh.phase = PHASE_COMPUTING;
    fresh.phase_cpu_ns = monitor_thread.left_cpu;
    page->process = fresh;
    /* The magic number is written last, so that a reader that sees it sees a complete page. */
    __atomic_store_n(&page->process.magic, PAGE_MAGIC, __ATOMIC_RELEASE);
    /* Blocking and non-blocking collectives do not match each other, so this cannot change later, and has to be the
       same on all ranks. Those that were spawned may have been so with others that lack the monitor. */
    monitor_nonblocking = monitor_waits() && !spawned && monitor_everywhere(fresh.ranks);
    monitor_forget_announcement();
    if (getenv("APPLES_NODE_SOCKET") != NULL && !spawned) {
        if (monitor_nonblocking)
            monitor_travel_start();
        monitor_register(job, path);
    }
    monitor_traffic_start();
    monitor_on = 1;
}

/* MPI_Finalize begins: count the computation until now, and nothing after it. */
void monitor_end(void) {
    struct process_half *p = &monitor_page->process;
    struct instant now;
    measure_gap(&monitor_thread, &now);
    monitor_travel_end();
    struct process_half used = {0};
    monitor_usage_end(&used);
    monitor_begin_write(p);
    if (monitor_thread.known)
        count_gap(p, &monitor_thread);
    p->cpu_ns = used.cpu_ns;
    p->peak_bytes = used.peak_bytes;
    monitor_chosen(p);
    p->state = STATE_FINALIZED;
    p->ended_ns = p->updated_ns = now.wall_before;
    p->phase = PHASE_UNKNOWN;
    p->phase_stopped_ns = stopped_ns();
    monitor_end_write(p);
    monitor_on = 0;
    monitor_ring();
}
