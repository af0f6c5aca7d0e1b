/* Whether all ranks of MPI_COMM_WORLD have the monitor. Others can't be asked: a statically linked program, one with file
   capabilities, or one behind a wrapper that clears the environment.

   A rank announces itself in a file of its job before MPI_Init. MPI_Init returns when all ranks have entered it, so
   afterwards those in the file are all that have the monitor. The first rank that comes to look counts and writes the
   answer for all of them: ranks that announce themselves later cannot change it, so it is the same on every rank, also of an MPI
   library whose MPI_Init returns earlier. Where the ranks are on several hosts that do not share the file, the host agents
   of the run send it to the launcher, which answers. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "monitor.h"

/* `apples.hosts.rundirectory` has these names, that of the file, and the size of its entries. */
#define ASK "%s/.ask"
#define ANSWER "%s/.answer"
#define ANSWER_NS 1000000

/* ASKED: the launcher has the answer. */
enum { UNDECIDED = 0, ALL = 1, SOME = 2, ASKED = 3 };

struct member {
    uint64_t host; /* hash of its name */
    uint32_t pid;
    uint32_t answer;
};

static int fd = -1;
static off_t mine; /* offset of this process's entry */

static uint64_t this_host(void) {
    char name[256] = "";
    uint64_t hash = 0xcbf29ce484222325ull;
    gethostname(name, sizeof name - 1);
    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3ull;
    return hash;
}

/* Processes of other hosts are taken to be alive; the file is a new one for each run over several hosts. */
static int lives(const struct member *m, uint64_t host) {
    return m->host != host || kill((pid_t)m->pid, 0) == 0 || errno == EPERM;
}

/* The number of living ranks that have no answer yet, after giving them this one. */
static uint32_t give(uint32_t answer) {
    struct member m;
    uint64_t host = this_host();
    uint32_t count = 0;
    for (off_t at = 0; pread(fd, &m, sizeof m, at) == sizeof m; at += (off_t)sizeof m) {
        if (m.answer != UNDECIDED || !lives(&m, host))
            continue;
        m.answer = answer;
        count += pwrite(fd, &m, sizeof m, at) == sizeof m;
    }
    return count;
}

/* MPI_Init begins. The file of a job that was killed has no living process. */
void monitor_announce(void) {
    const char *directory = getenv("APPLES_MONITOR"), *job = monitor_job();
    struct member m = {this_host(), (uint32_t)getpid(), UNDECIDED};
    char path[4096];
    if (directory == NULL || !*directory || job == NULL || !monitor_waits())
        return;
    snprintf(path, sizeof path, "%s/.%s.world", directory, job);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) != 0)
        return;
    struct member other;
    int living = 0;
    for (mine = 0; pread(fd, &other, sizeof other, mine) == sizeof other; mine += (off_t)sizeof other)
        living += lives(&other, m.host);
    if (living == 0 && ftruncate(fd, 0) == 0)
        mine = 0;
    if (pwrite(fd, &m, sizeof m, mine) != sizeof m)
        mine = -1;
    flock(fd, LOCK_UN);
}

/* Ask the launcher, through the agent of this host. Without an agent that listens, other hosts have unknown ranks. */
static int ask_launcher(void) {
    static const struct timespec nap = {0, ANSWER_NS};
    const char *directory = getenv("APPLES_MONITOR");
    char ask_path[4096], path[4096], answer = 0;
    snprintf(ask_path, sizeof ask_path, ASK, directory);
    snprintf(path, sizeof path, ANSWER, directory);
    for (int sent = 0;; nanosleep(&nap, NULL)) {
        int ask = open(ask_path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
        if (ask >= 0) {
            sent = sent || write(ask, "", 1) == 1 || errno == EAGAIN;
            close(ask);
        }
        int at = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (at >= 0 && read(at, &answer, 1) != 1)
            answer = 0;
        if (at >= 0)
            close(at);
        if (answer != 0)
            return answer == '1';
        /* Nobody reads any more, and what was answered until then has just been looked for. */
        if (ask < 0 || !sent)
            return 0;
    }
}

/* MPI_Init has returned in a world of so many ranks: do all of them have the monitor? The same answer on all that have it. */
int monitor_everywhere(uint32_t ranks) {
    struct member m = {0};
    if (fd >= 0 && mine >= 0 && flock(fd, LOCK_EX) == 0) {
        if (pread(fd, &m, sizeof m, mine) == sizeof m && m.answer == UNDECIDED) {
            uint32_t there = give(UNDECIDED);
            m.answer = there == ranks ? ALL : there < ranks ? ASKED : SOME;
            give(m.answer);
        }
        flock(fd, LOCK_UN);
    }
    monitor_forget_announcement();
    return ranks == 1 || m.answer == ALL || (m.answer == ASKED && ask_launcher());
}

void monitor_forget_announcement(void) {
    if (fd >= 0)
        close(fd);
    fd = -1;
}
