/* Messages and bytes by destination, as ranks of MPI_COMM_WORLD. Only the sender counts: what a rank has received from
   another is what that one has sent to it, which also holds for receives from MPI_ANY_SOURCE. */
#include <stdlib.h>
#include <string.h>

#include "monitor.h"

/* Communicators whose ranks have been translated; forgotten when any communicator is freed, as handles are reused. */
#define COMMUNICATORS 32
/* Persistent requests that are known at once; a power of 2. */
#define PREPARED 1024

static struct communicator {
    slot comm;
    int size;
    int in_world; /* it has ranks of MPI_COMM_WORLD only, and one group of them */
    int *ranks;   /* null where the place is free */
} known[COMMUNICATORS];
static unsigned next_known;

/* What a persistent request sends each time it is started; `peer` is -1 where the place is free. */
static struct prepared {
    slot request;
    int used;
    int peer;
    uint64_t bytes;
} prepared[PREPARED];

static int (*do_type_size)(slot, slot);
static int (*do_group)(slot, slot), (*do_remote_group)(slot, slot), (*do_test_inter)(slot, slot);
static int (*do_group_size)(slot, slot), (*do_group_free)(slot);
static int (*do_translate)(slot, slot, slot, slot, slot);
static volatile char taken;

void monitor_traffic_start(void) {
    do_type_size = monitor_find("PMPI_Type_size");
    do_group = monitor_find("PMPI_Comm_group");
    do_remote_group = monitor_find("PMPI_Comm_remote_group");
    do_test_inter = monitor_find("PMPI_Comm_test_inter");
    do_group_size = monitor_find("PMPI_Group_size");
    do_group_free = monitor_find("PMPI_Group_free");
    do_translate = monitor_find("PMPI_Group_translate_ranks");
}

static void take(void) {
    if (monitor_several_threads)
        while (__atomic_test_and_set(&taken, __ATOMIC_ACQUIRE))
            ;
}

static void give(void) {
    if (monitor_several_threads)
        __atomic_clear(&taken, __ATOMIC_RELEASE);
}

/* The ranks in MPI_COMM_WORLD of those that a message on this communicator may go to; null without memory. */
static int *ranks_of(struct communicator *c) {
    slot group = 0, world = 0;
    int inter = 0, *numbers = NULL;
    if (do_test_inter(c->comm, (slot)&inter) != 0)
        return NULL;
    (inter ? do_remote_group : do_group)(c->comm, (slot)&group);
    do_group(monitor_library.world, (slot)&world);
    do_group_size(group, (slot)&c->size);
    numbers = malloc(2 * (size_t)c->size * sizeof *numbers);
    for (int i = 0; numbers != NULL && i < c->size; i++)
        numbers[c->size + i] = i;
    if (numbers != NULL)
        do_translate(group, (slot)c->size, (slot)(numbers + c->size), world, (slot)numbers);
    c->in_world = numbers != NULL && !inter;
    for (int i = 0; c->in_world && i < c->size; i++)
        c->in_world = numbers[i] >= 0;
    do_group_free((slot)&group);
    do_group_free((slot)&world);
    return numbers;
}

static struct communicator *known_communicator(slot comm) {
    unsigned i = 0;
    while (i < COMMUNICATORS && (known[i].ranks == NULL || known[i].comm != comm))
        i++;
    if (i == COMMUNICATORS) {
        i = next_known++ % COMMUNICATORS;
        free(known[i].ranks);
        known[i].comm = comm;
        known[i].ranks = ranks_of(&known[i]);
    }
    return &known[i];
}

/* A destination as a rank of MPI_COMM_WORLD; -1 for one that is not there. */
static int in_world(int peer, slot comm) {
    if (comm == monitor_library.world)
        return peer;
    const struct communicator *c = known_communicator(comm);
    return c->ranks != NULL && peer < c->size ? c->ranks[peer] : -1;
}

/* Whether all ranks of a communicator have the monitor, so that they call collectives in the non-blocking form: ranks of
   MPI_COMM_WORLD have it all or not, others may lack it. All ranks answer alike. */
int monitor_together(slot comm) {
    if (!monitor_nonblocking || comm == monitor_library.world)
        return monitor_nonblocking;
    if (comm == monitor_library.none)
        return 0;
    take();
    const struct communicator *c = known_communicator(comm);
    int together = c->ranks != NULL && c->in_world;
    give();
    return together;
}

void monitor_forget_communicators(void) {
    take();
    for (unsigned i = 0; i < COMMUNICATORS; i++) {
        free(known[i].ranks);
        known[i].ranks = NULL;
    }
    give();
}

/* Add one message; those to more ranks than the page has room for are added up. */
static void add(int rank, uint64_t bytes) {
    struct process_half *p = &monitor_page->process;
    uint32_t i = 0;
    while (i < p->neighbours && (int)p->neighbour[i].rank != rank)
        i++;
    monitor_thread.symbol = (monitor_thread.symbol ^ (uint32_t)rank) * 2654435761u + (uint32_t)bytes;
    if (rank == (int)p->rank && monitor_mode() != WAIT_AS_MPI) {
        monitor_thread.own_bytes = bytes + (monitor_thread.own_waited ? 0 : monitor_thread.own_bytes);
        monitor_thread.own_waited = 0;
    }
    monitor_begin_write(p);
    if (i == p->neighbours && i < PAGE_NEIGHBOURS && rank >= 0) {
        p->neighbour[i] = (struct neighbour){.rank = (uint32_t)rank};
        p->neighbours++;
    }
    if (i < p->neighbours) {
        p->neighbour[i].messages++;
        p->neighbour[i].bytes += bytes;
    } else {
        p->other_messages++;
        p->other_bytes += bytes;
    }
    monitor_end_write(p);
}

static uint64_t bytes_of(int64_t count, slot type) {
    int size = 0;
    return do_type_size(type, (slot)&size) == 0 && size > 0 && count > 0 ? (uint64_t)count * (uint64_t)size : 0;
}

void monitor_sent(int64_t count, slot type, int peer, slot comm) {
    if (peer < 0)
        return;
    take();
    add(in_world(peer, comm), bytes_of(count, type));
    give();
}

static struct prepared *place_of(slot request) {
    for (size_t k = 0; k < PREPARED; k++) {
        struct prepared *at = &prepared[((request >> 3) * 2654435761u + k) % PREPARED];
        if (!at->used || at->request == request)
            return at;
    }
    return NULL;
}

/* A persistent request has been made that will send this. */
void monitor_prepare(slot request, int64_t count, slot type, int peer, slot comm) {
    take();
    struct prepared *at = place_of(request);
    if (at != NULL)
        *at = (struct prepared){request, 1, peer < 0 ? -1 : in_world(peer, comm), bytes_of(count, type)};
    give();
}

/* The program frees a request: another may get its handle. The place stays used, so that others behind it are found. */
void monitor_forget_request(slot request) {
    take();
    struct prepared *at = place_of(request);
    if (at != NULL && at->used)
        at->peer = -1;
    give();
}

void monitor_begun(slot request) {
    take();
    struct prepared *at = place_of(request);
    if (at != NULL && at->used && at->peer >= 0)
        add(at->peer, at->bytes);
    give();
}
