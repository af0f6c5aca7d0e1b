/* State that all parts of the monitor share: the page of this process and its lock. */
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
