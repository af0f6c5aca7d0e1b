/* Rank 1 calls exit(0), or what the arguments say: an MPI_Abort or a signal, and its number. Then all print a line. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1 && argv[1][0] == 'e') exit(0);
    if (rank == 1 && argv[1][0] == 'a') MPI_Abort(MPI_COMM_WORLD, atoi(argv[2]));
    if (rank == 1 && argv[1][0] == 's') kill(getpid(), atoi(argv[2]));
    MPI_Barrier(MPI_COMM_WORLD);
    if (write(1, "done\n", 5) != 5) return 1;
    MPI_Finalize();
    return 0;
}
