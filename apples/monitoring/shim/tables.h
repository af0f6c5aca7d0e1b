/* The MPI functions that are wrapped, as tables: X(arity, Name, lower-case name). The arity is that of the C function;
   Fortran's has an error code more. */
#ifndef APPLES_TABLES_H
#define APPLES_TABLES_H

/* Collectives that exist in a non-blocking form MPI_I…, with the same arguments and a request. */
#define COLLECTIVES(X)                                                                                                \
    COUNTED_COLLECTIVES(X)                                                                                            \
    X(1, Barrier, barrier)                                                                                            \
    X(8, Neighbor_allgatherv, neighbor_allgatherv)                                                                    \
    X(9, Neighbor_alltoallv, neighbor_alltoallv)                                                                      \
    X(9, Neighbor_alltoallw, neighbor_alltoallw)
/* Those that are wrapped with large counts (MPI_…_c) as well. */
#define COUNTED_COLLECTIVES(X)                                                                                        \
    X(5, Bcast, bcast)                                                                                                \
    X(8, Gather, gather)                                                                                              \
    X(9, Gatherv, gatherv)                                                                                            \
    X(8, Scatter, scatter)                                                                                            \
    X(9, Scatterv, scatterv)                                                                                          \
    X(7, Allgather, allgather)                                                                                        \
    X(8, Allgatherv, allgatherv)                                                                                      \
    X(7, Alltoall, alltoall)                                                                                          \
    X(9, Alltoallv, alltoallv)                                                                                        \
    X(9, Alltoallw, alltoallw)                                                                                        \
    X(7, Reduce, reduce)                                                                                              \
    X(6, Allreduce, allreduce)                                                                                        \
    X(6, Reduce_scatter, reduce_scatter)                                                                              \
    X(6, Reduce_scatter_block, reduce_scatter_block)                                                                  \
    X(6, Scan, scan)                                                                                                  \
    X(6, Exscan, exscan)                                                                                              \
    X(7, Neighbor_allgather, neighbor_allgather)                                                                      \
    X(7, Neighbor_alltoall, neighbor_alltoall)

/* Calls of all ranks of a communicator that make something new of it, and have no form that does not wait: the ranks meet in a
   barrier first. The last entry is the argument with the communicator. */
#define MEETING(X)                                                                                                    \
    X(2, Comm_dup, comm_dup, a1)                                                                                      \
    X(3, Comm_create, comm_create, a1)                                                                                \
    X(4, Comm_split, comm_split, a1)                                                                                  \
    X(5, Comm_split_type, comm_split_type, a1)                                                                        \
    X(6, Cart_create, cart_create, a1)                                                                                \
    X(3, Cart_sub, cart_sub, a1)                                                                                      \
    X(6, Graph_create, graph_create, a1)                                                                              \
    X(9, Dist_graph_create, dist_graph_create, a1)                                                                    \
    X(10, Dist_graph_create_adjacent, dist_graph_create_adjacent, a1)                                                 \
    X(6, Win_create, win_create, a5)                                                                                  \
    X(6, Win_allocate, win_allocate, a4)                                                                              \
    X(6, Win_allocate_shared, win_allocate_shared, a4)                                                                \
    X(3, Win_create_dynamic, win_create_dynamic, a2)

/* Calls that wait as the MPI library does. */
#define WAITING(X)                                                                                                    \
    X(4, Comm_create_group, comm_create_group)                                                                        \
    X(6, Intercomm_create, intercomm_create)                                                                          \
    X(3, Intercomm_merge, intercomm_merge)                                                                            \
    X(1, Win_free, win_free)                                                                                          \
    X(2, Win_fence, win_fence)                                                                                        \
    X(3, Win_start, win_start)                                                                                        \
    X(1, Win_complete, win_complete)                                                                                  \
    X(1, Win_wait, win_wait)                                                                                          \
    X(4, Win_lock, win_lock)                                                                                          \
    X(2, Win_unlock, win_unlock)                                                                                      \
    X(2, Win_lock_all, win_lock_all)                                                                                  \
    X(1, Win_unlock_all, win_unlock_all)                                                                              \
    X(2, Win_flush, win_flush)                                                                                        \
    X(1, Win_flush_all, win_flush_all)                                                                                \
    X(1, File_close, file_close)

/* The same for calls after which the handle of a communicator may mean another. */
#define RELEASING(X)                                                                                                  \
    X(1, Comm_free, comm_free)                                                                                        \
    X(1, Comm_disconnect, comm_disconnect)

/* Calls that make a persistent request of a message. They are passed on without being measured. */
#define PREPARING(X)                                                                                                  \
    X(7, Send_init, send_init)                                                                                        \
    X(7, Ssend_init, ssend_init)                                                                                      \
    X(7, Rsend_init, rsend_init)                                                                                      \
    X(7, Bsend_init, bsend_init)

/* Calls that do not wait. Those of PASSING also have a condition for a completed operation. A partition that is ready may
   be what another rank waits for, so these ring as collectives do that begin. */
#define PASSING_SENDS(X)                                                                                              \
    X(7, Isend, isend)                                                                                                \
    X(7, Issend, issend)                                                                                              \
    X(7, Irsend, irsend)                                                                                              \
    X(7, Ibsend, ibsend)                                                                                              \
    X(6, Bsend, bsend)
#define PASSING_RECEIVES(X)                                                                                           \
    X(7, Irecv, irecv)                                                                                                \
    X(5, Imrecv, imrecv)
#define PASSING_STARTS(X)                                                                                             \
    X(1, Start, start, 1, a1)                                                                                         \
    X(2, Startall, startall, (int)a1, a2)
#define PASSING_COLLECTIVES(X)                                                                                        \
    X(2, Ibarrier, ibarrier)                                                                                          \
    X(10, Igatherv, igatherv)                                                                                         \
    X(10, Iscatterv, iscatterv)                                                                                       \
    X(9, Iallgatherv, iallgatherv)                                                                                    \
    X(10, Ialltoallv, ialltoallv)                                                                                     \
    X(10, Ialltoallw, ialltoallw)                                                                                     \
    X(7, Ireduce_scatter, ireduce_scatter)                                                                            \
    X(9, Ineighbor_allgatherv, ineighbor_allgatherv)                                                                  \
    X(10, Ineighbor_alltoallv, ineighbor_alltoallv)                                                                   \
    X(10, Ineighbor_alltoallw, ineighbor_alltoallw)                                                                   \
    X(3, Comm_idup, comm_idup)                                                                                        \
    X(2, Pready, pready)                                                                                              \
    X(3, Pready_range, pready_range)                                                                                  \
    X(3, Pready_list, pready_list)
#define PASSING_COUNTED_COLLECTIVES(X)                                                                                \
    X(6, Ibcast, ibcast)                                                                                              \
    X(9, Igather, igather)                                                                                            \
    X(9, Iscatter, iscatter)                                                                                          \
    X(8, Iallgather, iallgather)                                                                                      \
    X(8, Ialltoall, ialltoall)                                                                                        \
    X(8, Ireduce, ireduce)                                                                                            \
    X(7, Iallreduce, iallreduce)                                                                                      \
    X(7, Ireduce_scatter_block, ireduce_scatter_block)                                                                \
    X(7, Iscan, iscan)                                                                                                \
    X(7, Iexscan, iexscan)                                                                                            \
    X(8, Ineighbor_allgather, ineighbor_allgather)                                                                    \
    X(8, Ineighbor_alltoall, ineighbor_alltoall)
/* The result that an MPI function has stored at this address, in Fortran as in C. */
#define RESULT(at) *(const int *)(at)
#define PASSING(X)                                                                                                    \
    X(3, Test, test, RESULT(a2) != 0)                                                                                 \
    X(4, Testall, testall, RESULT(a3) != 0)                                                                           \
    X(5, Testany, testany, RESULT(a4) != 0)                                                                           \
    X(5, Testsome, testsome, RESULT(a3) > 0)                                                                          \
    X(5, Iprobe, iprobe, 0)                                                                                           \
    X(6, Improbe, improbe, 0)                                                                                         \
    X(3, Request_get_status, request_get_status, 0)                                                                   \
    X(3, Parrived, parrived, RESULT(a3) != 0)                                                                         \
    X(1, Cancel, cancel, 0)                                                                                           \
    X(1, Request_free, request_free, 0, FORGET(a1))
#define PASSING_ACCESS(X)                                                                                             \
    X(8, Put, put)                                                                                                    \
    X(8, Get, get)                                                                                                    \
    X(9, Accumulate, accumulate)

/* Argument lists. */
#define CAT(a, b) CAT_(a, b)
#define CAT_(a, b) a##b
#define P1 slot a1
#define P2 P1, slot a2
#define P3 P2, slot a3
#define P4 P3, slot a4
#define P5 P4, slot a5
#define P6 P5, slot a6
#define P7 P6, slot a7
#define P8 P7, slot a8
#define P9 P8, slot a9
#define P10 P9, slot a10
#define P11 P10, slot a11
#define P12 P11, slot a12
#define P13 P12, slot a13
#define A1 a1
#define A2 A1, a2
#define A3 A2, a3
#define A4 A3, a4
#define A5 A4, a5
#define A6 A5, a6
#define A7 A6, a7
#define A8 A7, a8
#define A9 A8, a9
#define A10 A9, a10
#define A11 A10, a11
#define A12 A11, a12
#define A13 A12, a13
#define T1 slot
#define T2 T1, slot
#define T3 T2, slot
#define T4 T3, slot
#define T5 T4, slot
#define T6 T5, slot
#define T7 T6, slot
#define T8 T7, slot
#define T9 T8, slot
#define T10 T9, slot
#define T11 T10, slot
#define T12 T11, slot
#define T13 T12, slot
#define MORE1 2
#define MORE2 3
#define MORE3 4
#define MORE4 5
#define MORE5 6
#define MORE6 7
#define MORE7 8
#define MORE8 9
#define MORE9 10
#define MORE10 11
#define MORE12 13

/* The handle at an address, or in an array of them, in C. */
#define HANDLE(at, i)                                                                                                 \
    (monitor_library.flavour == MPICH ? (slot)((const unsigned *)(at))[i] : ((const slot *)(at))[i])

/* True if the call is the program's own and is measured. */
#define OURS (monitor_on && monitor_thread.depth == 0)

#endif
