/* The functions that the Fortran module `apples` calls; compile it with mpicc and link it. */
#include "apples.h"

apples_run *apples_f_begin(MPI_Fint comm, long rows) {
    apples_run *run = (apples_run *)malloc(sizeof *run);
    apples_begin(run, MPI_Comm_f2c(comm), rows);
    return run;
}
void apples_f_exchange(apples_run *run) { apples_exchange(run); }
void apples_f_compute(apples_run *run) { apples_compute(run); }
int apples_f_step(apples_run *run, long iteration, long left, int leave) {
    run->leave = leave;
    return apples_step(run, iteration, left);
}
long apples_f_next(apples_run *run) { return run->next[run->rank]; }
void apples_f_move(apples_run *run, const void *planes, void *made, size_t plane_bytes, int ghosts) {
    apples_move_into(run, planes, made, plane_bytes, ghosts);
}
void apples_f_moved(apples_run *run) { apples_moved(run); }
void apples_f_state(const apples_run *run, long pieces[2], MPI_Fint ranks[3]) {
    pieces[0] = run->rows;
    pieces[1] = run->first;
    ranks[0] = MPI_Comm_c2f(run->comm);
    ranks[1] = run->rank;
    ranks[2] = run->ranks;
}
void apples_f_end(apples_run *run) {
    apples_end(run);
    free(run);
}
