/* A rank's wait is chosen by what it costs. One rank of the job on each node chooses for all of them: it compares the
   time per iteration under the best way so far with that under another one, which it tries for a short time.

   What trials lose is bounded: HEAD_START and 1/PRICE of the elapsed time (the latter alone where the way is fixed), and
   one is given up when an iteration takes HOPELESS times as long as it did. A way that lost is tried again when its expected loss has become a small part of the time since;
   one that is nearly as good, in trials that get longer, because only these tell small differences. A trial counts
   against a sceptical prior, as one more comparison without any difference, so that a large difference is believed at once
   and a small one after some trials. When the time per iteration changes under the same way, other processes have come or
   gone, or the program does something else: then older comparisons count little and the other ways are due.

   All ranks of a node wait the same way. One rank's choice changes the time of all others, so ranks that tried
   by themselves would measure each other's trials. */
#include "choose.h"

#include <math.h>
#include <string.h>

#define MS 1000000ull
#define SHORTEST (10 * MS)
#define LONGEST (640 * MS)
#define HEAD_START (50e6)
#define PRICE 100.0
/* Part of the elapsed time that trials of one way are to lose: three of them make 1/PRICE. */
#define PRICE_OF_ONE 0.003
/* Loss that is expected of a way that has not been tried. */
#define UNKNOWN_LOSS 0.5
#define LEAST_LOSS 0.02
/* A trial in which an iteration takes so many times as long as it did is given up. */
#define HOPELESS 3
/* Comparisons: what an older one counts less, scatter of the prior, least gain for which the way changes, and weight of a
   long one as a multiple of that of a short one. */
#define MEMORY 0.75
#define PRIOR_SCATTER 0.15
#define LEAST_GAIN 0.01
#define HEAVIEST 8.0
/* The base is the mean of about the last eight windows. Three in a row that differ by this much, up or down, are a change. */
#define BASE_MEMORY 0.875
#define CHANGE 0.22
#define CHANGED_WINDOWS 3
/* Windows of the best way before the first trial. */
#define FIRST_WINDOWS 2
/* Iterations of a window, and of one that is longer than 100 ms; calls of a window without iterations. */
#define FEW 4u
#define FEWEST 2u
#define FEW_CALLS 16u
/* Without an iteration for this long and four times the longest one, calls are counted. */
#define NO_LOOP (1000 * MS)

enum { ITERATIONS = 1, CALLS = 2 };

static void open_later(struct chooser *c) { c->window_begun = 0; }

static void open_window(struct chooser *c, uint64_t now, uint64_t calls) {
    c->window_begun = now;
    c->window_iterations = c->iterations;
    c->window_calls = calls;
}

static void change_to(struct chooser *c, int way, uint64_t now) {
    if (way == c->current)
        return;
    c->ways[c->current].spent += now - c->changed;
    c->changed = now;
    c->current = way;
    c->end_by = 0;
    open_later(c);
}

void chooser_start(struct chooser *c, uint64_t now, int way, unsigned trials, int fixed) {
    memset(c, 0, sizeof *c);
    c->best = c->current = way;
    c->trials = trials;
    c->fixed = fixed;
    c->begun = c->changed = c->boundary = now;
    for (int i = 0; i < WAYS; i++)
        c->ways[i].length = SHORTEST;
}

/* The mean of the comparisons with that of the prior, and how far off it may be. */
static double believed(const struct way *w, double *error) {
    double all = w->weight + 1, mean = w->weight * w->mean / all;
    double squares = w->squares + w->weight / all * w->mean * w->mean + PRIOR_SCATTER * PRIOR_SCATTER;
    *error = sqrt(squares / all * (w->scatter + 1)) / all;
    return mean;
}

double chooser_ratio(const struct chooser *c, int way) {
    return way == c->best ? 1.0 : c->ways[way].weight == 0 ? 0.0 : exp(c->ways[way].mean);
}

/* Times of short trials scatter more, with the turns that the kernel gives. */
static void compare(struct way *w, double difference, double ns) {
    double before = w->mean, weight = sqrt(ns / SHORTEST);
    weight = weight < 1 ? 1 : weight > HEAVIEST ? HEAVIEST : weight;
    w->weight = MEMORY * w->weight + weight;
    w->scatter = MEMORY * MEMORY * w->scatter + weight * weight;
    w->mean += (difference - before) * weight / w->weight;
    w->squares = MEMORY * w->squares + weight * (difference - before) * (difference - w->mean);
}

static double unit_ns(const struct chooser *c) { return c->base_units > 0 ? c->base_ns / c->base_units : 0; }

/* Has this way lost its comparisons, beyond doubt? */
static int has_lost(const struct way *w) {
    double error, mean = believed(w, &error);
    return mean - error > LEAST_LOSS;
}

/* Part of a trial's time that is expected to be lost. */
static double expected_loss(const struct way *w) {
    return w->weight == 0 ? UNKNOWN_LOSS : has_lost(w) ? 1 - exp(-w->mean) : LEAST_LOSS;
}

/* A trial lasts for some iterations at least. */
static uint64_t trial_ns(const struct chooser *c, const struct way *w) {
    double few = unit_ns(c) * (c->units == CALLS ? FEW_CALLS : FEW);
    if (c->units == ITERATIONS && few > 100e6)
        few = unit_ns(c) * FEWEST;
    return few > (double)w->length ? (uint64_t)few : w->length;
}

static double allowed(const struct chooser *c, uint64_t now) {
    return (c->fixed ? 0 : HEAD_START) + (double)(now - c->begun) / PRICE - c->lost;
}

/* What a trial is expected to lose. */
static double price_ns(const struct chooser *c, const struct way *w) {
    return expected_loss(w) * (double)trial_ns(c, w);
}

/* Set the instant at which the next iteration of a trial is late. */
static void end_if_slow(struct chooser *c) {
    uint64_t few = (uint64_t)(HOPELESS * unit_ns(c) * (c->units == CALLS ? FEW_CALLS : 1));
    uint64_t last = c->boundary > c->changed ? c->boundary : c->changed;
    c->end_by = last + (few > SHORTEST ? few : SHORTEST);
}

/* Begin the trial that has been due for longest, if it is not too expensive. */
static void try_another(struct chooser *c, uint64_t now) {
    int next = -1;
    for (int i = 0; i < WAYS; i++)
        if (i != c->best && c->trials >> i & 1 && c->ways[i].due <= now &&
            (next < 0 || c->ways[i].due < c->ways[next].due) &&
            price_ns(c, &c->ways[i]) <= allowed(c, now))
            next = i;
    if (next < 0)
        return;
    c->may_lose = 2 * price_ns(c, &c->ways[next]);
    c->may_lose = c->may_lose > SHORTEST ? c->may_lose : SHORTEST;
    change_to(c, next, now);
    end_if_slow(c);
}

/* When, and for how long, a way is to be tried again. */
static void plan_trial(struct chooser *c, struct way *w, uint64_t now) {
    w->length = has_lost(w) ? SHORTEST : w->length < LONGEST / 2 ? 2 * w->length : LONGEST;
    double price = price_ns(c, w) / PRICE_OF_ONE;
    uint64_t least = 4 * trial_ns(c, w);
    w->due = now + (price > (double)least ? (uint64_t)price : least);
}

/* This way is the best one from now on: the others are compared with it. */
static void adopt(struct chooser *c, int way, uint64_t now) {
    double better = c->ways[way].mean;
    for (int i = 0; i < WAYS; i++)
        c->ways[i].mean -= better;
    c->ways[c->best].weight = c->ways[way].weight;
    c->ways[c->best].scatter = c->ways[way].scatter;
    c->ways[c->best].squares = c->ways[way].squares;
    c->ways[c->best].length = SHORTEST;
    plan_trial(c, &c->ways[c->best], now);
    c->best = way;
    c->base_ns = c->base_units = 0;
    c->base_windows = c->one_sided = 0;
    c->end_by = 0;
}

static void end_trial(struct chooser *c, uint64_t now, double ns_of_unit, int known) {
    struct way *w = &c->ways[c->current];
    double error, base = unit_ns(c), trial = (double)(now - c->changed);
    if (ns_of_unit > base)
        c->lost += trial * (1 - base / ns_of_unit);
    if (known)
        compare(w, log(ns_of_unit / base), trial);
    if (!c->fixed && known && believed(w, &error) + error < -LEAST_GAIN) {
        adopt(c, c->current, now);
        open_later(c);
        return;
    }
    plan_trial(c, w, now);
    change_to(c, c->best, now);
}

/* The job does not take the time that it took: what was measured before says little. */
static void forget(struct chooser *c, uint64_t now) {
    for (int i = 0; i < WAYS; i++) {
        c->ways[i].weight *= 0.25;
        c->ways[i].scatter *= 0.0625;
        c->ways[i].squares *= 0.25;
        c->ways[i].due = now;
        c->ways[i].length = 2 * SHORTEST;
    }
    c->base_ns = c->base_units = 0;
    c->base_windows = c->one_sided = 0;
}

static void add_to_base(struct chooser *c, uint64_t now, double ns, double units) {
    if (c->base_windows > 0) {
        double difference = log(ns / units / unit_ns(c));
        int side = difference > CHANGE ? 1 : difference < -CHANGE ? -1 : 0;
        c->one_sided = side == 0 ? 0 : side * c->one_sided > 0 ? c->one_sided + side : side;
        if (c->one_sided >= CHANGED_WINDOWS || c->one_sided <= -CHANGED_WINDOWS)
            forget(c, now);
    }
    c->base_ns = BASE_MEMORY * c->base_ns + ns;
    c->base_units = BASE_MEMORY * c->base_units + units;
    c->base_windows++;
}

/* The window of the best way is as long as a quarter of the next trial, and at least twice the shortest one. */
static uint64_t window_ns(const struct chooser *c) {
    uint64_t length = 2 * SHORTEST;
    if (c->current != c->best)
        return c->ways[c->current].length;
    for (int i = 0; i < WAYS; i++)
        if (c->trials >> i & 1 && c->ways[i].length / 4 > length)
            length = c->ways[i].length / 4;
    return c->base_windows < FIRST_WINDOWS ? SHORTEST : length;
}

static void end_window(struct chooser *c, uint64_t now, uint64_t count, uint64_t calls, int units) {
    double ns = (double)(now - c->window_begun);
    if (c->units != units) {
        c->base_ns = c->base_units = 0;
        c->base_windows = c->one_sided = 0;
    }
    c->units = units;
    if (c->current != c->best && c->base_windows > 0) {
        end_trial(c, now, ns / (double)count, 1);
        return;
    }
    change_to(c, c->best, now);
    add_to_base(c, now, ns, (double)count);
    open_window(c, now, calls);
    if (c->base_windows >= FIRST_WINDOWS)
        try_another(c, now);
}

/* Ends of iterations are where windows begin and end, so that a window has whole ones. */
static int at_boundary(struct chooser *c, uint64_t now, uint64_t iterations) {
    uint64_t step = iterations - c->iterations;
    if (step == 0)
        return 0;
    c->iterations = iterations;
    /* Another loop has become the program's, or iterations of an earlier one were counted late. */
    if (step > 2)
        open_later(c);
    else if (now - c->boundary > c->longest)
        c->longest = now - c->boundary;
    c->boundary = now;
    return 1;
}

int chooser_step(struct chooser *c, uint64_t now, uint64_t iterations, uint64_t calls) {
    int boundary = at_boundary(c, now, iterations);
    if (boundary && c->end_by != 0)
        end_if_slow(c);
    int no_loop = now - c->boundary > NO_LOOP + 4 * c->longest;
    if (!boundary && !no_loop)
        return chooser_look(c, now);
    if (c->window_begun == 0) {
        open_window(c, now, calls);
        return c->current;
    }
    uint64_t elapsed = now - c->window_begun, ended = c->iterations - c->window_iterations;
    int lost = c->end_by != 0 && (double)elapsed - (double)ended * unit_ns(c) > c->may_lose;
    if (elapsed < window_ns(c) && !lost)
        return chooser_look(c, now);
    if (boundary && c->units == ITERATIONS && lost)
        end_trial(c, now, (double)elapsed / (double)ended, 1);
    else if (boundary && ended >= (elapsed > 100 * MS ? FEWEST : FEW))
        end_window(c, now, ended, calls, ITERATIONS);
    else if (no_loop && elapsed >= 10 * SHORTEST && calls - c->window_calls >= FEW_CALLS)
        end_window(c, now, calls - c->window_calls, calls, CALLS);
    return c->current;
}

/* What a trial takes at least: the iteration that it is in has not ended. */
int chooser_look(struct chooser *c, uint64_t now) {
    if (c->end_by != 0 && now >= c->end_by) {
        uint64_t begun = c->window_begun != 0 ? c->window_begun : c->changed;
        double ended = c->window_begun != 0 ? (double)(c->iterations - c->window_iterations) : 0;
        double least = (double)(now - begun) / (ended + 1);
        end_trial(c, now, least, c->units == ITERATIONS && least > unit_ns(c));
    }
    return c->current;
}

void chooser_interrupt(struct chooser *c, uint64_t now) {
    change_to(c, c->best, now);
    open_later(c);
    c->boundary = now;
}
