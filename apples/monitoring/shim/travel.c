/* The status that travels with messages: whether the sender's job is the scheduled one where it runs.

   A status is sent only when it has changed: one byte to every other rank, on a communicator of our own, ahead of the
   next message of the program, or while the rank waits: a message may lie in the socket for long before somebody who has
   a hundredth of the processor receives it, and what came with it be old by then. Until a rank hears otherwise it takes
   the others as scheduled. Only a rank that is not scheduled itself reads what it was sent; it counts a request for every
   message it receives while somebody it communicates with is scheduled, and for the news that somebody now is. Yoo and
   Jette, section 2.

   Bytes are sent synchronously: at most one to a rank is under way, and at MPI_Finalize a rank knows when all of its
   own have been received, so that none is left behind. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "monitor.h"

#define TAG 0
#define AGAIN_NS 1000000u
#define NAP_NS 1000000

static slot communicator;
static int ranks, mine; /* of the communicator; 0 ranks: nobody is told anything */
static slot *pending;       /* by rank: the request of the byte under way, if `busy` */
static unsigned char *busy;
static unsigned char *told; /* by rank: the status it was sent last */
static unsigned char *heard;
static int scheduled_others;
int monitor_travelling;
static const unsigned char words[2] = {0, 1};

static int (*do_issend)(slot, slot, slot, slot, slot, slot, slot);
static int (*do_test)(slot, slot, slot);
static int (*do_iprobe)(slot, slot, slot, slot, slot);
static int (*do_recv)(slot, slot, slot, slot, slot, slot, slot);
static int (*do_ibarrier)(slot, slot);

/* Begin among the ranks of `communicator`, which take each other as scheduled. */
static void begin(void) {
    int (*rank)(slot, slot) = monitor_find("PMPI_Comm_rank"), (*size)(slot, slot) = monitor_find("PMPI_Comm_size");
    rank(communicator, (slot)&mine);
    size(communicator, (slot)&ranks);
    memset(told, 1, (size_t)ranks);
    memset(heard, 1, (size_t)ranks);
    scheduled_others = ranks - 1;
}

void monitor_travel_start(void) {
    int (*dup)(slot, slot) = monitor_find("PMPI_Comm_dup");
    do_issend = monitor_find("PMPI_Issend");
    do_test = monitor_find("PMPI_Test");
    do_iprobe = monitor_find("PMPI_Iprobe");
    do_recv = monitor_find("PMPI_Recv");
    do_ibarrier = monitor_find("PMPI_Ibarrier");
    size_t count = monitor_page->process.ranks;
    pending = calloc(count, sizeof *pending);
    busy = calloc(count, 1);
    told = malloc(count);
    heard = malloc(count);
    if (pending != NULL && busy != NULL && told != NULL && heard != NULL && count > 1 &&
        dup(monitor_library.world, (slot)&communicator) == 0)
        begin();
}

static int still_busy(int rank) {
    int status[32], over = 0;
    if (busy[rank]) {
        do_test((slot)&pending[rank], (slot)&over, (slot)status);
        busy[rank] = (unsigned char)!over;
    }
    return busy[rank];
}

/* Send the status to the others; returns the number of ranks that have not read the last one yet. */
static int tell(int now) {
    int behind = 0;
    for (int i = 1; i < ranks; i++) {
        int rank = (mine + i) % ranks;
        if (told[rank] == now)
            continue;
        if (still_busy(rank)) {
            behind++;
            continue;
        }
        if (do_issend((slot)&words[now], 1, monitor_library.byte, (slot)rank, TAG, communicator,
                      (slot)&pending[rank]) == 0) {
            busy[rank] = 1;
            told[rank] = (unsigned char)now;
        }
    }
    return behind;
}

/* Read the arrived statuses; returns the number of ranks that have become scheduled. MPICH's probe may say no and only then
   fetch what it was asked for, so that is not believed at once. */
static int listen(void) {
    int status[32], there = 0, news = 0, doubts = 2;
    unsigned char word = 1;
    while (do_iprobe((slot)monitor_library.any_source, TAG, communicator, (slot)&there, (slot)status) == 0) {
        if (!there) {
            if (--doubts == 0)
                break;
            continue;
        }
        int from = status[monitor_library.source_at];
        do_recv((slot)&word, 1, monitor_library.byte, (slot)from, TAG, communicator, (slot)status);
        news += word && !heard[from];
        scheduled_others += (word != 0) - (heard[from] != 0);
        heard[from] = word != 0;
    }
    return news;
}

/* One thread at a time; the others need not wait for it. */
static volatile char taken;

static int take(void) { return ranks > 0 && !__atomic_test_and_set(&taken, __ATOMIC_ACQUIRE); }

static void give(void) { __atomic_clear(&taken, __ATOMIC_RELEASE); }

/* Send a change of the status to the other ranks. Busy ranks are tried again, but not at every call: scheduled ranks
   read nothing, possibly for a long time. */
static void keep_told(int now) {
    static int last = 1, behind;
    static uint64_t again_at;
    if (now != last || (behind > 0 && monitor_wall() >= again_at)) {
        behind = tell(now);
        last = now;
        again_at = monitor_wall() + AGAIN_NS;
        monitor_travelling = behind > 0 || !now;
    }
}

/* Count messages from scheduled senders, and ask the node manager for the processor. */
void monitor_request(uint64_t count) {
    struct process_half *p = &monitor_page->process;
    monitor_begin_write(p);
    p->requests += count;
    p->last_request_ns = monitor_wall();
    monitor_end_write(p);
    monitor_schedule(p->last_request_ns);
}

/* While the process waits: send a change of its status. If it is not scheduled, read whether other ranks have become so. */
void monitor_travel_look(void) {
    int now = monitor_page->manager.scheduled != 0, news = 0;
    if ((now && !monitor_travelling) || !take())
        return;
    keep_told(now);
    if (!now)
        news = listen();
    give();
    if (news > 0)
        monitor_request((uint64_t)news);
}

/* A call of the program begins: send the status ahead of its messages. */
void monitor_travel_before(void) {
    if (!take())
        return;
    keep_told(monitor_page->manager.scheduled != 0);
    give();
}

/* A call has ended in which something was received. */
void monitor_travel_after(void) {
    if (monitor_page->manager.scheduled || !take())
        return;
    int news = listen(), scheduled = scheduled_others;
    give();
    if (scheduled > 0)
        monitor_request((uint64_t)(news > 0 ? news : 1));
}

/* One step towards the end; true if no status is in transit between any two ranks. */
static int settled(slot *barrier, int *entered) {
    int status[32], over = 0, under_way = 0;
    listen();
    if (*entered) {
        do_test((slot)barrier, (slot)&over, (slot)status);
        return over;
    }
    for (int rank = 0; rank < ranks; rank++)
        under_way += still_busy(rank);
    if (under_way == 0)
        *entered = do_ibarrier(communicator, (slot)barrier) == 0;
    return 0;
}

/* On all ranks, before MPI_Finalize or when some leave: when all that a rank has sent is received it enters a barrier, and
   when everybody has, nothing is under way any more (Hoefler, Siebert and Lumsdaine 2010). The last rank may compute for
   long yet, so after T_spin there are pauses, however the process waits otherwise. */
void monitor_travel_end(void) {
    static const struct timespec nap = {0, NAP_NS};
    uint64_t nap_from = monitor_wall() + __atomic_load_n(&monitor_page->manager.spin_ns, __ATOMIC_RELAXED);
    slot barrier = 0;
    int entered = 0;
    if (ranks == 0)
        return;
    while (!settled(&barrier, &entered))
        if (monitor_wall() >= nap_from)
            nanosleep(&nap, NULL);
    ranks = 0;
}

/* Ranks leave: on all ranks that are still there. Those that stay go on among themselves. The communicator of before is
   not freed, because that may be collective. */
void monitor_travel_part(int leaves) {
    int (*split)(slot, slot, slot, slot) = monitor_find("PMPI_Comm_split");
    slot before = communicator;
    if (ranks == 0)
        return;
    monitor_travel_end();
    if (split(before, (slot)leaves, (slot)mine, (slot)&communicator) == 0 && !leaves)
        begin();
}
