/* Iterations of a program, counted from the sequence of its MPI calls: a loop repeats its calls, so their sequence has a
   period. Calls that repeat at once count as one (a root that receives from everybody is no loop). A loop is known after
   two periods; calls in between that belong to no iteration, such as output now and then, interrupt it, and it is counted
   on when it comes back. A loop around one that makes up most of its calls (output every tenth iteration) is not taken for
   another. Of several loops, that which covers most calls is the program's. The method is that of
   DynAIS and its predecessors (Freitag, Corbalan and Labarta 2001), with one level. */
#include "monitor.h"

#define WINDOW 4096u /* calls that are remembered; a power of 2 */
#define LONGEST 1024u /* calls of the longest iteration that is found */
#define TRIES 32u /* earlier calls alike that are tried as the begin of the period */
#define LOOPS 8u

struct loop {
    uint64_t key; /* the same wherever in its body the loop is found */
    uint32_t period;
    uint64_t iterations;
};

static uint32_t seen[WINDOW];
static uint32_t since[WINDOW]; /* distance to the call before that is alike, 0 for none */
static struct {
    uint32_t symbol;
    uint64_t after; /* number of calls up to and including the last one alike */
} last[WINDOW];
static struct loop loops[LOOPS];
static struct loop *loop, *interrupted; /* the loop that is running, and the one that was last */
static uint64_t count, credited; /* calls, and those up to the end of the last counted iteration */
static uint64_t counted;         /* calls in counted iterations */
static uint64_t counted_at[WINDOW];
static uint32_t before, repeats, longest;

static uint32_t call(uint64_t back) { return seen[(count - 1 - back) % WINDOW]; }

static int repeats_after(uint32_t distance) {
    for (uint32_t i = 0; i < distance; i++)
        if (call(i) != call(i + distance))
            return 0;
    return 1;
}

static uint64_t key_of(uint32_t period) {
    uint64_t key = period;
    for (uint32_t i = 0; i < period; i++) {
        uint64_t symbol = (call(i) ^ ((uint64_t)call(i + 1) << 32)) * 0x9e3779b97f4a7c15ull;
        key += symbol ^ symbol >> 29;
    }
    return key;
}

static uint64_t covered(const struct loop *l) { return l->iterations * l->period; }

static struct loop *loop_of(uint64_t key, uint32_t period) {
    struct loop *least = loops;
    for (struct loop *l = loops; l < loops + LOOPS; l++) {
        if (l->period == period && l->key == key)
            return l;
        if (covered(l) < covered(least))
            least = l;
    }
    *least = (struct loop){.key = key, .period = period};
    return least;
}

/* The last two periods are alike: this is a loop. After a short interruption its calls before and in it count too. */
static void begin_loop(uint32_t period) {
    uint64_t from = count - 2 * (uint64_t)period;
    loop = loop_of(key_of(period), period);
    if (from < credited || (loop == interrupted && from - credited <= period))
        from = credited;
    loop->iterations += (count - from) / period;
    counted += (count - from) / period * period;
    credited = count;
}

/* Are most of the last calls of this number iterations of a shorter loop? */
static int surrounds(uint64_t distance) {
    return interrupted != NULL && distance > interrupted->period &&
           2 * (counted - counted_at[(count - 1 - distance) % WINDOW]) >= distance;
}

static void look_for_loop(void) {
    uint64_t distance = 0;
    for (uint32_t i = 0; i < TRIES; i++) {
        uint32_t step = since[(count - 1 - distance) % WINDOW];
        distance += step;
        if (step == 0 || distance > LONGEST || 2 * distance > count)
            return;
        if (!surrounds(distance) && repeats_after((uint32_t)distance)) {
            begin_loop((uint32_t)distance);
            return;
        }
    }
}

/* The place of a symbol, or a free one. Symbols that have not been seen for long leave theirs. */
static uint32_t place_of(uint32_t symbol) {
    uint32_t at = (symbol ^ symbol >> 12) % WINDOW;
    while (last[at].after != 0 && last[at].symbol != symbol && count + 1 - last[at].after <= LONGEST)
        at = (at + 1) % WINDOW;
    return at;
}

static void remember(uint32_t symbol) {
    uint32_t at = place_of(symbol);
    int alike = last[at].after != 0 && last[at].symbol == symbol && count + 1 - last[at].after <= LONGEST;
    seen[count % WINDOW] = symbol;
    counted_at[count % WINDOW] = counted;
    since[count % WINDOW] = alike ? (uint32_t)(count + 1 - last[at].after) : 0;
    count++;
    last[at].symbol = symbol;
    last[at].after = count;
}

/* A call has been made. Returns the iterations until now. */
uint64_t monitor_pattern(uint32_t symbol, uint32_t *period) {
    if (count > 0 && symbol == before) {
        repeats++;
        longest = repeats > longest ? repeats : longest;
    } else {
        repeats = 0;
        before = symbol;
        remember(symbol);
        if (loop != NULL && call(loop->period) != symbol) {
            interrupted = loop;
            loop = NULL;
        }
        if (loop == NULL) {
            look_for_loop();
        } else if (count - credited >= loop->period) {
            loop->iterations++;
            counted += loop->period;
            credited += loop->period;
        }
    }
    const struct loop *most = loops;
    for (const struct loop *l = loops + 1; l < loops + LOOPS; l++)
        if (covered(l) > covered(most))
            most = l;
    /* A program that calls nothing but one collective has no period. */
    int single = longest >= covered(most) && longest > 0;
    *period = single ? 1 : most->period;
    return single ? (uint64_t)longest + 1 : most->iterations;
}
