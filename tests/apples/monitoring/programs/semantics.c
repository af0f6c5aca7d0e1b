/* Uses what MPI promises about statuses, errors and requests, and says "ok" when every promise was kept.
   Two ranks or more. Under the monitor, however it waits, nothing of this may change.
   With the argument "unchecked": over a library that does not check its arguments. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks, failures;
static MPI_Comm world;

#define CHECK(what)                                                                                                   \
    if (!(what)) {                                                                                                    \
        fprintf(stderr, "rank %d, line %d: not so: %s\n", rank, __LINE__, #what);                                     \
        failures++;                                                                                                   \
    }

static int handled;
static void handler(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    (void)code;
    handled++;
}

static void messages(void) {
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks, count, value = -1, other = rank;
    MPI_Status status;
    MPI_Request request;
    /* any source and tag: the status says who it was */
    if (rank == 0)
        for (int i = 1; i < ranks; i++) {
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &status);
            MPI_Get_count(&status, MPI_INT, &count);
            CHECK(status.MPI_SOURCE == value && status.MPI_TAG == 100 + value && count == 1)
        }
    else
        MPI_Ssend(&rank, 1, MPI_INT, 0, 100 + rank, world);
    MPI_Barrier(world);
    MPI_Sendrecv(&rank, 1, MPI_INT, right, 1, &value, 1, MPI_INT, left, 1, world, &status);
    CHECK(value == left && status.MPI_SOURCE == left && status.MPI_TAG == 1)
    MPI_Sendrecv_replace(&other, 1, MPI_INT, right, 2, left, 2, world, &status);
    CHECK(other == left && status.MPI_SOURCE == left)
    /* nobody: returns at once, with nothing received */
    MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 5, world, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && count == 0)
    MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 5, world);
    MPI_Sendrecv(&rank, 1, MPI_INT, MPI_PROC_NULL, 1, &value, 1, MPI_INT, MPI_PROC_NULL, 1, world, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL)
    MPI_Probe(MPI_PROC_NULL, 1, world, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL)
    /* probed first */
    MPI_Isend(&rank, 1, MPI_INT, right, 3, world, &request);
    MPI_Probe(left, MPI_ANY_TAG, world, &status);
    CHECK(status.MPI_TAG == 3)
    MPI_Recv(&value, 1, MPI_INT, left, 3, world, MPI_STATUS_IGNORE);
    CHECK(value == left)
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(request == MPI_REQUEST_NULL)
    MPI_Message message;
    MPI_Isend(&rank, 1, MPI_INT, right, 4, world, &request);
    MPI_Mprobe(left, 4, world, &message, &status);
    MPI_Mrecv(&value, 1, MPI_INT, &message, &status);
    CHECK(value == left && message == MPI_MESSAGE_NULL && status.MPI_SOURCE == left)
    MPI_Wait(&request, &status);
    /* too long for a buffered send */
    int long_count = 300000;
    int *out = malloc(sizeof(int) * (size_t)long_count), *in = malloc(sizeof(int) * (size_t)long_count);
    for (int i = 0; i < long_count; i++)
        out[i] = rank + i;
    MPI_Request both[2];
    MPI_Irecv(in, long_count, MPI_INT, left, 6, world, &both[0]);
    MPI_Send(out, long_count, MPI_INT, right, 6, world);
    MPI_Wait(&both[0], &status);
    CHECK(in[long_count - 1] == left + long_count - 1)
    free(out);
    free(in);
}

static void requests(void) {
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks, in[3] = {-1, -1, -1}, index, count, indices[4];
    MPI_Request r[4] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[4], status;
    /* nothing to wait for */
    MPI_Wait(&r[0], &status);
    MPI_Waitall(4, r, statuses);
    MPI_Waitany(4, r, &index, &status);
    CHECK(index == MPI_UNDEFINED)
    MPI_Waitsome(4, r, &count, indices, statuses);
    CHECK(count == MPI_UNDEFINED)
    MPI_Waitsome(0, r, &count, indices, statuses);
    MPI_Waitall(0, r, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 3; i++)
        MPI_Irecv(&in[i], 1, MPI_INT, left, 10 + i, world, &r[i]);
    for (int i = 0; i < 3; i++)
        MPI_Send(&i, 1, MPI_INT, right, 10 + i, world);
    MPI_Waitany(3, r, &index, &status);
    CHECK(index >= 0 && index < 3 && in[index] == index && r[index] == MPI_REQUEST_NULL && status.MPI_TAG == 10 + index)
    MPI_Waitsome(3, r, &count, indices, statuses);
    CHECK(count >= 1 && count <= 2)
    MPI_Waitall(3, r, statuses);
    CHECK(in[0] == 0 && in[1] == 1 && in[2] == 2)
    /* persistent: over, and there again */
    int out = rank, got = -1;
    MPI_Send_init(&out, 1, MPI_INT, right, 20, world, &r[0]);
    MPI_Recv_init(&got, 1, MPI_INT, left, 20, world, &r[1]);
    for (int turn = 0; turn < 3; turn++) {
        out = rank + 1000 * turn;
        MPI_Startall(2, r);
        MPI_Wait(&r[1], &status);
        CHECK(got == left + 1000 * turn && r[1] != MPI_REQUEST_NULL)
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        CHECK(r[0] != MPI_REQUEST_NULL)
    }
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
}

static void collectives(void) {
    int sum = 0, value = rank, all = ranks * (ranks - 1) / 2;
    int *list = calloc((size_t)ranks, sizeof(int)), *ones = calloc((size_t)ranks, sizeof(int)),
        *places = calloc((size_t)ranks, sizeof(int)), *more = calloc((size_t)ranks, sizeof(int));
    for (int i = 0; i < ranks; i++) {
        ones[i] = 1;
        places[i] = ranks - 1 - i;
    }
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, world);
    CHECK(sum == all)
    sum = rank;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, world);
    CHECK(sum == all)
    sum = rank;
    MPI_Reduce(rank == 0 ? MPI_IN_PLACE : &sum, rank == 0 ? &sum : NULL, 1, MPI_INT, MPI_SUM, 0, world);
    CHECK(rank != 0 || sum == all)
    value = rank == ranks - 1 ? 7 : 0;
    MPI_Bcast(&value, 1, MPI_INT, ranks - 1, world);
    CHECK(value == 7)
    MPI_Allgather(&rank, 1, MPI_INT, list, 1, MPI_INT, world);
    MPI_Allgatherv(&rank, 1, MPI_INT, more, ones, places, MPI_INT, world);
    for (int i = 0; i < ranks; i++)
        CHECK(list[i] == i && more[ranks - 1 - i] == i)
    MPI_Gather(&rank, 1, MPI_INT, list, 1, MPI_INT, 0, world);
    MPI_Gatherv(&rank, 1, MPI_INT, more, ones, places, MPI_INT, 0, world);
    MPI_Scatter(list, 1, MPI_INT, &value, 1, MPI_INT, 0, world);
    CHECK(value == rank)
    MPI_Scatterv(more, ones, places, MPI_INT, &value, 1, MPI_INT, 0, world);
    CHECK(value == rank)
    MPI_Alltoall(list, 1, MPI_INT, more, 1, MPI_INT, world);
    for (int i = 0; i < ranks; i++)
        list[i] = 100 * rank + i;
    for (int i = 0; i < ranks; i++)
        places[i] = i;
    MPI_Alltoallv(list, ones, places, MPI_INT, more, ones, places, MPI_INT, world);
    for (int i = 0; i < ranks; i++)
        CHECK(more[i] == 100 * i + rank)
    MPI_Reduce_scatter(more, &value, ones, MPI_INT, MPI_SUM, world);
    MPI_Reduce_scatter_block(more, &value, 1, MPI_INT, MPI_MAX, world);
    value = 1;
    MPI_Scan(&value, &sum, 1, MPI_INT, MPI_SUM, world);
    CHECK(sum == rank + 1)
    MPI_Exscan(&value, &sum, 1, MPI_INT, MPI_SUM, world);
    CHECK(rank == 0 || sum == rank)
    MPI_Comm ring;
    int periods = 1, both[2] = {-1, -1};
    MPI_Cart_create(world, 1, &ranks, &periods, 0, &ring);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, both, 1, MPI_INT, ring);
    CHECK(both[0] == (rank + ranks - 1) % ranks && both[1] == (rank + 1) % ranks)
    MPI_Comm_free(&ring);
    free(list);
    free(ones);
    free(places);
    free(more);
}

static void errors(void) {
    int value[2] = {rank, rank}, rc, class = 0;
    MPI_Errhandler own;
    MPI_Comm_create_errhandler(handler, &own);
    MPI_Comm_set_errhandler(world, own);
    rc = MPI_Recv(value, 1, MPI_INT, ranks + 5, 0, world, MPI_STATUS_IGNORE);
    MPI_Error_class(rc, &class);
    CHECK(class == MPI_ERR_RANK && handled == 1)
    rc = MPI_Bcast(value, 1, MPI_INT, ranks + 5, world);
    MPI_Error_class(rc, &class);
    CHECK(class == MPI_ERR_ROOT && handled == 2)
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    if (rank == 0) {
        rc = MPI_Recv(value, 1, MPI_INT, 1, 30, world, MPI_STATUS_IGNORE);
        MPI_Error_class(rc, &class);
        CHECK(class == MPI_ERR_TRUNCATE)
    } else if (rank == 1) {
        rc = MPI_Send(value, 2, MPI_INT, 0, 30, world);
        CHECK(rc == MPI_SUCCESS)
    }
    MPI_Errhandler_free(&own);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    for (int turn = 0; turn < 4; turn++) {
        messages();
        requests();
        collectives();
    }
    if (argc < 2)
        errors();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&world);
    if (!failures)
        printf("ok\n");
    MPI_Finalize();
    return failures != 0;
}
