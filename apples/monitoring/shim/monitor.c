/* State that all parts of the monitor share: the page of this process and its lock. */
#include <signal.h>
#include <time.h>

#include "monitor.h"

struct page monitor_no_page;
struct page *monitor_page = &monitor_no_page;
int monitor_on;
int monitor_nonblocking;
int monitor_several_threads;
volatile char monitor_page_lock;
__thread struct thread monitor_thread;

uint64_t monitor_wall(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

void monitor_slept(void) {
    struct process_half *p = &monitor_page->process;
    monitor_begin_write(p);
    p->sleeps++;
    monitor_end_write(p);
}

/* UCX takes SIGHUP in MPI_Init, and MPICH SIGUSR1, so that they no longer end the process. */
static const int taken[] = {SIGHUP, SIGUSR1};
static struct sigaction actions[sizeof taken / sizeof *taken];

/* MPI_Init begins: of nested calls only the first counts, as MPI_Init of C below that of Fortran. */
void monitor_before_init(void) {
    if (monitor_thread.depth++ != 0)
        return;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        sigaction(taken[i], NULL, &actions[i]);
    monitor_announce();
}

/* MPI_Init has returned: give the signals back to the program. */
void monitor_after_init(void) {
    if (monitor_thread.depth == 1)
        for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
            sigaction(taken[i], &actions[i], NULL);
}
