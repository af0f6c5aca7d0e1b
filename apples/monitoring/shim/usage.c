/* What the kernel knows of this process: its start, its CPU time and memory, and how long its first thread has waited for
   a processor. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "monitor.h"

static int schedule = -1;

static uint64_t now_of(clockid_t clock) {
    struct timespec t = {0};
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* Nanoseconds that the first thread has spent in the run queue; 0 where the kernel does not tell. `running`: if not
   null, those for which it ran. The program may have closed the file, and another have its number: then there are not
   three numbers in it. */
uint64_t monitor_queued(uint64_t *running) {
    char text[80];
    unsigned long long ran, queued, slices;
    if (running != NULL)
        *running = 0;
    ssize_t length = schedule < 0 ? -1 : pread(schedule, text, sizeof text - 1, 0);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    char *end = text;
    ran = strtoull(end, &end, 10);
    queued = strtoull(end, &end, 10);
    slices = strtoull(end, &end, 10);
    if (*end != '\n' || slices == 0)
        return 0;
    if (running != NULL)
        *running = ran;
    return queued;
}

/* Start of the process on CLOCK_MONOTONIC, to a tick of the kernel's clock (10 ms); 0 if it is not known. */
static uint64_t begun(void) {
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    size_t length = file == NULL ? 0 : fread(text, 1, sizeof text - 1, file);
    if (file != NULL)
        fclose(file);
    text[length] = '\0';
    /* The name is in brackets and may contain any characters. The start is the 20th value after it. */
    char *at = strrchr(text, ')');
    for (int i = 0; at != NULL && i < 20; i++)
        at = strchr(at + 1, ' ');
    long ticks = sysconf(_SC_CLK_TCK);
    if (at == NULL || ticks <= 0)
        return 0;
    uint64_t up = (uint64_t)(strtod(at, NULL) / (double)ticks * 1e9), boot = now_of(CLOCK_BOOTTIME);
    uint64_t age = boot > up ? boot - up : 0, now = now_of(CLOCK_MONOTONIC);
    return now > age ? now - age : 0;
}

/* Largest resident memory, 0 if it is not known. getrusage would include the program that started this one. */
static uint64_t peak(void) {
    char line[256];
    unsigned long long kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmHWM: %llu kB", &kilobytes) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kilobytes * 1024u;
}

void monitor_usage_start(struct process_half *p) {
    schedule = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    p->begun_ns = begun();
    p->cpu_ns = p->init_cpu_ns = now_of(CLOCK_PROCESS_CPUTIME_ID);
    p->peak_bytes = peak();
    p->phase_queued_ns = monitor_queued(NULL);
}

void monitor_usage_end(struct process_half *p) {
    p->cpu_ns = now_of(CLOCK_PROCESS_CPUTIME_ID);
    p->peak_bytes = peak();
}
