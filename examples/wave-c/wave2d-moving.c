/* wave2d.c with rows that move between the ranks while it runs. */
#include <apples.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    int rank, ranks, nx = 1000, ny = 64, steps = 100, mine = 0, first = 0;
    char *rows = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--nx")) nx = atoi(argv[i + 1]);
        if (!strcmp(argv[i], "--ny")) ny = atoi(argv[i + 1]);
        if (!strcmp(argv[i], "--steps")) steps = atoi(argv[i + 1]);
        if (!strcmp(argv[i], "--rows")) rows = argv[i + 1];
    }
    for (int r = 0; r <= rank; r++) {
        first += mine;
        mine = rows ? (int)strtol(rows, &rows, 10) : ny / ranks + (r < ny % ranks);
        if (rows && *rows == ',') rows++;
    }
    int w = nx + 2, up, down;
    double *old = calloc((size_t)(mine + 2) * w, 8), *now = calloc((size_t)(mine + 2) * w, 8), sum = 0, all;
    for (int i = 1; i <= mine; i++)
        for (int j = 1; j <= nx; j++)
            old[i * w + j] = now[i * w + j] = 1.0 / (1 + (first + i) % 17 + j % 13);
    apples_run run;
    apples_begin(&run, MPI_COMM_WORLD, mine);
    run.leave = 1;
    for (int s = 0; s < steps; s++) {
        apples_exchange(&run);
        up = run.rank ? run.rank - 1 : MPI_PROC_NULL, down = run.rank + 1 < run.ranks ? run.rank + 1 : MPI_PROC_NULL;
        MPI_Sendrecv(now + w, w, MPI_DOUBLE, up, 0, now + (mine + 1) * w, w, MPI_DOUBLE, down, 0, run.comm, MPI_STATUS_IGNORE);
        MPI_Sendrecv(now + mine * w, w, MPI_DOUBLE, down, 1, now, w, MPI_DOUBLE, up, 1, run.comm, MPI_STATUS_IGNORE);
        apples_compute(&run);
        for (int i = 1; i <= mine; i++)
            for (double *c = now + i * w + 1, *o = old + i * w + 1, *end = c + nx; c < end; c++, o++)
                *o = 2 * *c - *o + 0.2 * (c[-1] + c[1] + c[-w] + c[w] - 4 * *c);
        double *swap = old; old = now; now = swap;
        if (apples_step(&run, s + 1, steps - s - 1)) {
            old = apples_move(&run, old, w * sizeof *old, 1);
            now = apples_move(&run, now, w * sizeof *now, 1);
            apples_moved(&run);
            mine = (int)run.rows;
        }
    }
    for (int i = 1; i <= mine; i++)
        for (int j = 1; j <= nx; j++) sum += (double)(long long)(now[i * w + j] * 1e9);
    MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, run.comm);
    if (!run.rank) printf("wave2d: %d steps, checksum %.0f\n", steps, all);
    apples_end(&run);
    MPI_Finalize();
}
