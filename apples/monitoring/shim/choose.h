/* The choice among ways to wait, by what each costs this job on this host. A decision over numbers: no clock, no MPI. */
#ifndef APPLES_CHOOSE_H
#define APPLES_CHOOSE_H

#include <stdint.h>

/* Ways to wait. WAY_MPI: the library's own waiting call. WAY_YIELD: test, and give the processor up in between.
   WAY_PATIENT: test for a time slice of the kernel, then sleep. WAY_SLEEP: test for T_spin, then sleep.
   `apples/monitoring/names.py` has the same order. */
enum { WAY_MPI = 0, WAY_YIELD = 1, WAY_PATIENT = 2, WAY_SLEEP = 3, WAYS = 4 };

/* One way, compared with the best one. The comparisons are logarithms of the ratio of both times per iteration; older
   ones and those of short trials count less. weight: of the comparisons; scatter: sum of its squares; mean, squares: of
   the comparisons; due: instant of its next trial; length: of that trial; spent: time for which the job has waited this
   way. */
struct way {
    double weight, scatter, mean, squares;
    uint64_t due, length, spent;
};

/* units: what a window counts, iterations or calls. base_*: time and units of the last windows of the best way;
   one_sided: windows in a row that differ from the base in one direction. */
struct chooser {
    struct way ways[WAYS];
    int best, current;
    unsigned trials;           /* ways that may be tried, as bits */
    int fixed;                 /* the best way stays what the user asked for */
    uint64_t begun, changed;   /* instants: of the choice, and of the last change of the way */
    uint64_t end_by;           /* instant at which a trial is given up, 0 without one */
    uint64_t window_begun;     /* 0: the window has not begun */
    uint64_t window_iterations, window_calls;
    uint64_t iterations;       /* at the last step */
    uint64_t boundary, longest; /* instant of the last end of an iteration, and the longest time between two */
    int units;
    double base_ns, base_units;
    int base_windows, one_sided;
    double lost, may_lose; /* by all trials until now, and what the present one may lose */
};

/* Begin with this way. trials: bits of the ways that may be tried; fixed: they are only measured. */
void chooser_start(struct chooser *c, uint64_t now, int way, unsigned trials, int fixed);
/* A call has ended: return the way to wait from now on. `now` must not count time for which the job was held stopped. */
int chooser_step(struct chooser *c, uint64_t now, uint64_t iterations, uint64_t calls);
/* A rank waits: give up a trial that lasts too long. Returns the way to wait. */
int chooser_look(struct chooser *c, uint64_t now);
/* Forget the current window and trial, because the time since the last step says nothing. */
void chooser_interrupt(struct chooser *c, uint64_t now);
/* Time per iteration of a way as a multiple of that of the best one; 0 if it has not been measured. */
double chooser_ratio(const struct chooser *c, int way);

#endif
