/* Waits chosen over given times of iterations, without MPI or a clock:
   choices WAY TRIALS FIXED LOOP, then for each phase SECONDS and the milliseconds of an iteration by way.
   Beside others an iteration takes now more, now less than its mean. Prints the iterations, the best way, and the ratios. */
#include "choose.c"

#include <stdio.h>
#include <stdlib.h>

static const double turns[] = {0.7, 1.5, 0.8, 0.9, 1.2, 0.6, 1.4, 0.9};

int main(int argc, char **argv) {
    struct chooser chooser;
    int way = atoi(argv[1]), loop = atoi(argv[4]);
    uint64_t now = 1000000000, end = now, done = 0;
    chooser_start(&chooser, now, way, (unsigned)atoi(argv[2]), atoi(argv[3]));
    for (char **phase = argv + 5; phase + WAYS < argv + argc; phase += 1 + WAYS)
        for (end += (uint64_t)(1e9 * atof(phase[0])); now < end; done++) {
            now += (uint64_t)(1e6 * atof(phase[1 + way]) * turns[done % 8]);
            way = chooser_step(&chooser, now, loop ? done + 1 : 0, 8 * (done + 1));
        }
    printf("%llu %d", (unsigned long long)done, chooser.best);
    for (int i = 0; i < WAYS; i++)
        printf(" %f", chooser_ratio(&chooser, i));
    printf("\n");
    return 0;
}
