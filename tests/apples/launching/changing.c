/* Adds 1 to each of 12 rows in each step; 20 more steps after so many moves. Goes on from the step in the file. Spawns two
   ranks if told to, and meets them. Rank 0 prints steps, sum of the rows, ranks left, and ranks that have met. */
#include <apples.h>
#include <stdio.h>
#include <unistd.h>
static int meet(MPI_Comm other, int high) {
    int one = 1, count;
    MPI_Comm all;
    MPI_Barrier(other);
    MPI_Intercomm_merge(other, high, &all);
    MPI_Allreduce(&one, &count, 1, MPI_INT, MPI_SUM, all);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&other);
    return count;
}
int main(int argc, char **argv) {
    int moves = atoi(argv[1]), spawns = atoi(argv[2]), left = 20, met = 0, at = 0, ranks;
    double sum = 0, all;
    MPI_Comm other;
    apples_run run;
    FILE *file = fopen(argv[3], "r");
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&other);
    if (other != MPI_COMM_NULL) {
        meet(other, 1);
        return MPI_Finalize();
    }
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (spawns) {
        MPI_Comm_spawn(argv[0], argv + 1, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
        met = meet(other, 0);
    }
    if (file && fscanf(file, "%d", &at)) fclose(file);
    apples_begin(&run, MPI_COMM_WORLD, 12 / ranks);
    run.leave = 1;
    double *rows = malloc(run.rows * sizeof *rows);
    for (long k = 0; k < run.rows; k++) rows[k] = run.first + k + at;
    while (left) {
        MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, run.comm);
        for (long k = 0; k < run.rows; k++) rows[k]++;
        usleep(2000);
        at++;
        if (run.moves >= moves) left--;
        if (run.rank == 0 && (file = fopen(argv[3], "w"))) fprintf(file, "%d\n", at), fclose(file);
        if (apples_step(&run, at, left)) {
            rows = apples_move(&run, rows, sizeof *rows, 0);
            apples_moved(&run);
        }
    }
    sum = 0;
    for (long k = 0; k < run.rows; k++) sum += rows[k];
    MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, run.comm);
    if (!run.rank) printf("%d %.0f %d %d\n", at, all, run.ranks, met), fflush(stdout);
    apples_end(&run);
    return MPI_Finalize();
}
