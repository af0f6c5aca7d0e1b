/* apples.h: let AppLeS follow an MPI program and move rows between its ranks while it runs (C99, C++).
 *
 *     apples_run run;
 *     apples_begin(&run, MPI_COMM_WORLD, rows);              rows of this rank
 *     for (long i = 0; i < n; i++) {
 *         apples_exchange(&run); ... messages ...            time from here waits for others
 *         apples_compute(&run);  ... the rank's own work ...
 *         if (apples_step(&run, i + 1, n - i - 1)) {         all ranks: rows move now
 *             u = apples_move(&run, u, plane_bytes, ghosts); each array, allocated by malloc
 *             apples_moved(&run);
 *             rows = run.rows; first = run.first;
 *         }
 *     }
 *     apples_end(&run);
 *
 * Outside `apples-run --adapt slabs` every call returns at once. Ghost planes are refilled by the program's next exchange.
 * The protocol (files named by environment variables) is in docs/moving-rows.md.
 */
#ifndef APPLES_H
#define APPLES_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __cplusplus
#define APPLES_INLINE static inline
#else
#define APPLES_INLINE static inline __attribute__((unused))
#endif

#define APPLES_VERSION 1
/* Seconds between two looks at the file of new rows, and between two agreements of all ranks; most iterations between. */
#define APPLES_LOOK_S 0.2
#define APPLES_AGREE_S 0.05
#define APPLES_MOST 1000
#define APPLES_TEXT 65536
/* what the monitor is told: ranks leave and this one stays, or leaves; this one ends without MPI_Finalize */
enum { APPLES_STAYS = 74301, APPLES_LEAVES, APPLES_ENDS };

enum { APPLES_REPORT = 1, APPLES_ROWS = 2 };

/* rows, first: of this rank.  least: the fewest rows a rank may have, 1 unless the program sets it after apples_begin.
   leave: set to 1 after apples_begin if ranks may leave the run while it goes on. All messages of the program must then
   be on comm, with rank and ranks, which apples_moved changes.
   The other members are private. */
typedef struct {
    MPI_Comm comm;
    int rank, ranks, active, leave, released;
    long rows, first, least;
    long *all, *next;
    const char *progress, *slabs;
    double every_s, began, reported, looked, agreed, marked;
    double phase_s[2], moved_s;
    int phase, moves;
    long steps, reported_steps, period, since;
    int wish[2], pending;
    MPI_Request request;
    MPI_Comm *staying;
    char *offer, *seen;
    char refused[256];
} apples_run;

APPLES_INLINE double apples_mark_(apples_run *run, int phase) {
    double now = MPI_Wtime();
    run->phase_s[run->phase] += now - run->marked;
    run->marked = now;
    run->phase = phase;
    return now;
}

/* The rank waits for messages from here on. */
APPLES_INLINE void apples_exchange(apples_run *run) { if (run->active) apples_mark_(run, 1); }

/* The rank works for itself from here on, as it does after apples_begin and apples_step. */
APPLES_INLINE void apples_compute(apples_run *run) { if (run->active) apples_mark_(run, 0); }

APPLES_INLINE long apples_first_(const long *rows, int rank) {
    long first = 0;
    for (int r = 0; r < rank; r++) first += rows[r];
    return first;
}

/* Start; collective. rows: of this rank, in the order of the ranks. */
APPLES_INLINE void apples_begin(apples_run *run, MPI_Comm comm, long rows) {
    memset(run, 0, sizeof *run);
    MPI_Comm_dup(comm, &run->comm);
    MPI_Comm_rank(run->comm, &run->rank);
    MPI_Comm_size(run->comm, &run->ranks);
    run->rows = rows;
    run->least = run->period = 1;
    run->all = (long *)malloc(2 * sizeof(long) * (size_t)run->ranks);
    run->next = run->all + run->ranks;
    MPI_Allgather(&rows, 1, MPI_LONG, run->all, 1, MPI_LONG, run->comm);
    run->first = apples_first_(run->all, run->rank);
    run->offer = (char *)calloc(2, APPLES_TEXT);
    run->seen = run->offer + APPLES_TEXT;
    if (run->rank == 0) {
        const char *every = getenv("STENCIL_APP_REPORT_EVERY");
        run->progress = getenv("STENCIL_APP_PROGRESS");
        run->slabs = getenv("STENCIL_APP_SLABS");
        run->every_s = every ? atof(every) : 1.0;
        run->active = run->progress || run->slabs;
    }
    MPI_Bcast(&run->active, 1, MPI_INT, 0, run->comm);
    /* only hydra, which speaks PMI 1, lets a rank go before the others */
    run->released = getenv("PMI_FD") != NULL && getenv("SLURM_STEP_ID") == NULL;
    run->began = run->reported = run->agreed = run->marked = MPI_Wtime();
    run->looked = -1e9;
}

APPLES_INLINE void apples_numbers_(FILE *file, const char *name, const double *values, int count, int stride) {
    fprintf(file, ", \"%s\": [", name);
    for (int i = 0; i < count; i++) fprintf(file, "%s%.9g", i ? ", " : "", values[i * stride]);
    fprintf(file, "]");
}

/* Append a line with the work of every rank since the last one; collective. */
APPLES_INLINE void apples_report_(apples_run *run, long iteration, long left) {
    double mine[3] = {run->phase_s[0], run->phase_s[1], run->moved_s}, *all = NULL, now = MPI_Wtime(), moved = 0;
    long count = run->steps - run->reported_steps;
    FILE *file = NULL;
    if (run->rank == 0) all = (double *)malloc(3 * sizeof(double) * (size_t)run->ranks);
    MPI_Gather(mine, 3, MPI_DOUBLE, all, 3, MPI_DOUBLE, 0, run->comm);
    run->phase_s[0] = run->phase_s[1] = run->moved_s = 0;
    run->reported_steps = run->steps;
    if (run->rank == 0 && count > 0) {
        if ((file = fopen(run->progress, "a")) != NULL) {
            fprintf(file, "{\"version\": %d, \"iteration\": %ld, \"left\": ", APPLES_VERSION, iteration);
            if (left < 0) fprintf(file, "null"); else fprintf(file, "%ld", left);
            fprintf(file, ", \"iterations\": %ld, \"seconds\": %.9g, \"rows\": [", count, now - run->reported);
            for (int r = 0; r < run->ranks; r++) {
                fprintf(file, "%s%ld", r ? ", " : "", run->all[r]);
                if (all[3 * r + 2] > moved) moved = all[3 * r + 2];
            }
            fprintf(file, "]");
            apples_numbers_(file, "compute_s", all, run->ranks, 3);
            apples_numbers_(file, "exchange_s", all + 1, run->ranks, 3);
            fprintf(file, ", \"reduce_s\": [");
            for (int r = 0; r < run->ranks; r++) fprintf(file, "%s0.0", r ? ", " : "");
            fprintf(file, "], \"moves\": %d, \"moved_s\": ", run->moves);
            if (moved > 0) fprintf(file, "%.9g", moved); else fprintf(file, "null");
            if (run->refused[0]) fprintf(file, ", \"refused\": \"%s\"}\n", run->refused);
            else fprintf(file, ", \"refused\": null}\n");
            fclose(file);
        } else {
            fprintf(stderr, "%s: progress cannot be written and is reported no more\n", run->progress);
            run->progress = NULL;
        }
        run->refused[0] = 0;
    }
    run->reported = now;
    free(all);
}

/* Read the file of new rows on rank 0; return whether it has an offer that was not seen before. */
APPLES_INLINE int apples_look_(apples_run *run) {
    FILE *file = fopen(run->slabs, "r");
    size_t length;
    if (file == NULL) return 0;
    length = fread(run->offer, 1, APPLES_TEXT - 1, file);
    fclose(file);
    while (length && strchr(" \r\n\t", run->offer[length - 1])) length--;
    run->offer[length] = 0;
    if (!length || !strcmp(run->offer, run->seen)) return 0;
    strcpy(run->seen, run->offer);
    return 1;
}

/* Return whether the offer of rank 0 can be taken, with its rows in `next`; collective. */
APPLES_INLINE int apples_offered_(apples_run *run) {
    long total = apples_first_(run->all, run->ranks), sum = 0;
    const char *problem = NULL;
    char *at = run->offer, *end;
    int changed = 0;
    MPI_Bcast(run->offer, APPLES_TEXT, MPI_CHAR, 0, run->comm);
    strcpy(run->seen, run->offer);
    for (int r = 0; r < run->ranks && !problem; r++, at = end) {
        run->next[r] = strtol(at, &end, 10);
        if (end == at || (r + 1 < run->ranks ? *end++ != ',' : *end != 0)) problem = "not one number of rows per rank";
        else if (!run->next[r] && run->leave && !run->released) problem = "ranks can leave under MPICH's mpiexec only";
        else if (run->next[r] < run->least && (run->next[r] || !run->leave)) problem = "a rank with fewer rows than it can have";
        /* subtracted, as a sum of large numbers would overflow */
        else if (run->next[r] > total - sum) problem = "not as many rows as the run has";
        else sum += run->next[r];
        changed |= run->next[r] != run->all[r];
    }
    if (!problem && sum != total) problem = "not as many rows as the run has";
    if (problem && run->rank == 0) {
        snprintf(run->refused, sizeof run->refused, "%s", problem);
        fprintf(stderr, "%s: %s; the rows stay as they are\n", run->slabs, problem);
    }
    return !problem && changed;
}

/* End an iteration; every rank calls it. Return 1 if rows move now: give each array to apples_move, then apples_moved.
   iteration: iterations done.  left: about how many are left, -1 if unknown. */
APPLES_INLINE int apples_step(apples_run *run, long iteration, long left) {
    int agreed = 0;
    double now, each_s;
    if (!run->active) return 0;
    run->steps++;
    if (++run->since < run->period) return 0;
    now = apples_mark_(run, 1);
    if (run->pending) {
        MPI_Wait(&run->request, MPI_STATUS_IGNORE);
        agreed = run->wish[0];
        run->period = run->wish[1];
        run->pending = 0;
    }
    if (agreed & APPLES_REPORT) apples_report_(run, iteration, left);
    agreed = agreed & APPLES_ROWS ? apples_offered_(run) : 0;
    if (run->rank == 0) {
        each_s = (now - run->agreed) / (double)run->since;
        run->wish[0] = run->progress && now - run->reported >= run->every_s ? APPLES_REPORT : 0;
        if (run->slabs && now - run->looked >= APPLES_LOOK_S) {
            run->looked = now;
            if (apples_look_(run)) run->wish[0] |= APPLES_ROWS;
        }
        /* at most twice as many iterations as last time: the first ones tell little */
        run->wish[1] = run->period * 2 < APPLES_MOST ? (int)run->period * 2 : APPLES_MOST;
        if (each_s * run->wish[1] > APPLES_AGREE_S) run->wish[1] = each_s < APPLES_AGREE_S ? (int)(APPLES_AGREE_S / each_s) : 1;
    }
    run->since = 0;
    run->agreed = now;
    /* rank 0's wish arrives while the ranks compute */
    MPI_Ibcast(run->wish, 2, MPI_INT, 0, run->comm, &run->request);
    run->pending = 1;
    apples_mark_(run, 0);
    return agreed;
}

/* Move the planes of an array to the ranks that get them and return the new array; collective; the old one is freed.
   planes: `rows` planes of `plane_bytes` bytes, with `ghosts` further planes before and after them. */
APPLES_INLINE void *apples_move_into(apples_run *run, const void *planes, void *made, size_t plane_bytes, int ghosts) {
    const char *from = (const char *)planes;
    char *to = (char *)made, *kept[2] = {NULL, NULL};
    size_t kept_bytes = 0;
    long first = apples_first_(run->next, run->rank), rows = run->next[run->rank], theirs[2] = {0, 0};
    MPI_Request *requests = (MPI_Request *)malloc(2 * sizeof(MPI_Request) * (size_t)(run->ranks + 2));
    MPI_Datatype plane;
    int count = 0;
    MPI_Type_contiguous((int)plane_bytes, MPI_BYTE, &plane);
    MPI_Type_commit(&plane);
    memcpy(to, from, plane_bytes * (size_t)ghosts);
    memcpy(to + plane_bytes * (size_t)(rows + ghosts), from + plane_bytes * (size_t)(run->rows + ghosts),
           plane_bytes * (size_t)ghosts);
    /* the planes outside the mesh belong to the first and the last rank: if these leave, to those that are so now */
    for (int last = 0; last < 2; last++) {
        int before = last ? run->ranks - 1 : 0, after = before;
        while (!run->next[after]) after += last ? -1 : 1;
        if (after == before) continue;
        if (run->rank == before)
            MPI_Isend(from + (last ? plane_bytes * (size_t)(run->rows + ghosts) : 0), ghosts, plane, after, 1 + last,
                      run->comm, &requests[count++]);
        if (run->rank == after)
            MPI_Irecv(to + (last ? plane_bytes * (size_t)(rows + ghosts) : 0), ghosts, plane, before, 1 + last,
                      run->comm, &requests[count++]);
    }
    for (int r = 0; r < run->ranks; r++) {
        /* planes that this rank gets from r, and gives to r */
        for (int gives = 0; gives < 2; gives++) {
            const long *other = gives ? run->next : run->all;
            long mine = gives ? run->first : first, ours = gives ? run->rows : rows;
            long low = mine > theirs[gives] ? mine : theirs[gives];
            long high = mine + ours < theirs[gives] + other[r] ? mine + ours : theirs[gives] + other[r];
            char *at = (gives ? (char *)(size_t)from : to) + plane_bytes * (size_t)(low - mine + ghosts);
            theirs[gives] += other[r];
            if (high <= low) continue;
            if (r == run->rank) kept[gives] = at, kept_bytes = plane_bytes * (size_t)(high - low);
            else if (gives) MPI_Isend(at, (int)(high - low), plane, r, 0, run->comm, &requests[count++]);
            else MPI_Irecv(at, (int)(high - low), plane, r, 0, run->comm, &requests[count++]);
        }
    }
    /* MPI would copy these piece by piece, and a rank that sleeps while it waits would sleep after each piece */
    if (kept_bytes) memcpy(kept[0], kept[1], kept_bytes);
    while (count > 0) MPI_Wait(&requests[--count], MPI_STATUS_IGNORE);
    MPI_Type_free(&plane);
    free(requests);
    return made;
}

APPLES_INLINE void *apples_move(apples_run *run, void *planes, size_t plane_bytes, int ghosts) {
    void *made = calloc((size_t)(run->next[run->rank] + 2 * ghosts + 1), plane_bytes);
    if (made == NULL) {
        fprintf(stderr, "apples: no memory for %ld rows of %zu bytes\n", run->next[run->rank], plane_bytes);
        MPI_Abort(run->comm, 1);
    }
    apples_move_into(run, planes, made, plane_bytes, ghosts);
    free(planes);
    return made;
}

/* End this process as MPI_Finalize and a return from main would, but without the ranks that have left or stay. */
APPLES_INLINE void apples_release_(void) {
    const char *fd = getenv("PMI_FD"), request[] = "cmd=finalize\n";
    char answer[256];
    fflush(NULL);
    MPI_Pcontrol(APPLES_ENDS);
    if (fd == NULL || write(atoi(fd), request, sizeof request - 1) < 0 || read(atoi(fd), answer, sizeof answer) <= 0) _exit(125);
    exit(0);
}

/* MPI_Finalize deletes the attributes of MPI_COMM_SELF first. It would wait for the ranks that have left. */
APPLES_INLINE int apples_finalize_(MPI_Comm self, int key, void *comm, void *unused) {
    (void)self, (void)key, (void)unused;
    MPI_Barrier(*(MPI_Comm *)comm);
    apples_release_();
    return MPI_SUCCESS;
}

/* Go on without the ranks that have no rows; collective. Does not return on those. */
APPLES_INLINE void apples_leave_(apples_run *run) {
    MPI_Comm before = run->comm;
    int stays = 0, key, count = 0, rank = run->rank;
    if (run->pending) {
        /* what rank 0 wished is for the ranks of before; only the period holds */
        MPI_Wait(&run->request, MPI_STATUS_IGNORE);
        run->period = run->wish[1];
        run->pending = 0;
    }
    while (!run->all[stays]) stays++;
    MPI_Pcontrol(run->all[rank] ? APPLES_STAYS : APPLES_LEAVES);
    MPI_Comm_split(before, !run->all[rank], rank, &run->comm);
    MPI_Barrier(before);
    if (!run->all[rank]) {
        /* all others have received all that this rank has sent */
        MPI_Recv(NULL, 0, MPI_BYTE, stays, 3, before, MPI_STATUS_IGNORE);
        apples_release_();
    }
    MPI_Barrier(run->comm);
    for (int r = 0; r < run->ranks; r++) {
        if (run->all[r]) run->all[count++] = run->all[r];
        else if (rank == stays) MPI_Send(NULL, 0, MPI_BYTE, r, 3, before);
    }
    MPI_Comm_rank(run->comm, &run->rank);
    run->ranks = count;
    if (run->rank == 0) {
        run->progress = getenv("STENCIL_APP_PROGRESS");
        run->slabs = getenv("STENCIL_APP_SLABS");
        run->every_s = getenv("STENCIL_APP_REPORT_EVERY") ? atof(getenv("STENCIL_APP_REPORT_EVERY")) : 1.0;
    }
    if (run->staying == NULL) {
        run->staying = (MPI_Comm *)malloc(sizeof *run->staying);
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, apples_finalize_, &key, NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, run->staying);
    }
    MPI_Comm_dup(run->comm, run->staying);
}

/* Take the new rows after all arrays have moved. Does not return on ranks that leave. */
APPLES_INLINE void apples_moved(apples_run *run) {
    int leaves = 0;
    for (int r = 0; r < run->ranks; r++) leaves |= !(run->all[r] = run->next[r]);
    if (leaves) apples_leave_(run);
    run->rows = run->all[run->rank];
    run->first = apples_first_(run->all, run->rank);
    run->moves++;
    run->moved_s += MPI_Wtime() - run->marked;
    run->marked = MPI_Wtime();
}

/* End; collective. */
APPLES_INLINE void apples_end(apples_run *run) {
    if (run->pending) MPI_Wait(&run->request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&run->comm);
    free(run->all);
    free(run->offer);
    memset(run, 0, sizeof *run);
}

#endif
