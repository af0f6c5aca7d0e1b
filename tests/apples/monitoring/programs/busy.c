/* One second of computation on the wall, on processor 0, beside a child that computes there too; MPI is never called. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    MPI_Init(&argc, &argv);
    sched_setaffinity(0, sizeof first, &first);
    pid_t other = fork();
    if (other == 0)
        for (;;)
            ;
    double until = MPI_Wtime() + 1;
    while (MPI_Wtime() < until)
        ;
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    if (argc > 1)
        usleep(500000);
    MPI_Finalize();
    return 0;
}
