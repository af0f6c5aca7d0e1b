/* Two threads exchange messages with themselves, each on a communicator of its own; says "ok" when the error handler of
   MPI_COMM_WORLD is still the program's afterwards, and "alone" over a library that allows one thread only. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

#define EXCHANGES 3000

static void *exchange(void *comm) {
    for (int i = 0, got; i < EXCHANGES; i++)
        MPI_Sendrecv(&i, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, *(MPI_Comm *)comm, MPI_STATUS_IGNORE);
    return NULL;
}

static void handler(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    (void)code;
}

int main(int argc, char **argv) {
    int level;
    pthread_t threads[2];
    MPI_Comm comms[2];
    MPI_Errhandler own, found;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (level < MPI_THREAD_MULTIPLE) {
        printf("alone\n");
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_create_errhandler(handler, &own);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, own);
    for (int i = 0; i < 2; i++) {
        MPI_Comm_dup(MPI_COMM_SELF, &comms[i]);
        pthread_create(&threads[i], NULL, exchange, &comms[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &found);
    printf(found == own ? "ok\n" : "another error handler\n");
    MPI_Errhandler_free(&found);
    MPI_Errhandler_free(&own);
    for (int i = 0; i < 2; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Finalize();
    return 0;
}
