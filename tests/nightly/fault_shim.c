/* Makes calls of the C library fail, for fault injection by LD_PRELOAD.
 *
 * The file named by FAULT_PLAN holds one line, read again whenever its time of change is another one:
 *
 *     CALLS ERRNO EVERY FROM [PATH]
 *
 * CALLS: comma-separated names, or "all". ERRNO: a number. EVERY: each EVERY-th call fails, counted in each process.
 * FROM: calls before this one succeed. PATH: only calls about paths and descriptors of files that contain this text.
 * An empty or absent file makes no call fail. Each failure adds a byte to FAULT_PLAN.count, if that file exists.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static char calls[256], wanted_path[256];
static int number, every, from;
static struct timespec changed;
static __thread int inside;
static unsigned long seen;

static void load_plan(void)
{
    const char *plan = getenv("FAULT_PLAN");
    struct stat about;
    char text[600];
    long fd, got;

    if (!plan || syscall(SYS_newfstatat, AT_FDCWD, plan, &about, 0) != 0) {
        every = 0;
        return;
    }
    if (about.st_mtim.tv_sec == changed.tv_sec && about.st_mtim.tv_nsec == changed.tv_nsec)
        return;
    changed = about.st_mtim;
    every = 0;
    seen = 0;
    fd = syscall(SYS_openat, AT_FDCWD, plan, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    got = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    text[got > 0 ? got : 0] = 0;
    wanted_path[0] = 0;
    if (sscanf(text, "%255s %d %d %d %255s", calls, &number, &every, &from, wanted_path) < 4)
        every = 0;
}

static int about_path(const char *path, int fd)
{
    char link[64], target[PATH_MAX];
    long got;

    if (!wanted_path[0])
        return 1;
    if (path)
        return strstr(path, wanted_path) != NULL;
    if (fd < 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    got = syscall(SYS_readlinkat, AT_FDCWD, link, target, sizeof target - 1);
    target[got > 0 ? got : 0] = 0;
    return strstr(target, wanted_path) != NULL;
}

/* Return whether this call is to fail, with errno set. */
static int fails(const char *name, const char *path, int fd)
{
    const char *at;
    char count[PATH_MAX];
    long counter;
    size_t length = strlen(name);
    int result = 0;

    if (inside)
        return 0;
    inside = 1;
    load_plan();
    if (every > 0 && about_path(path, fd)) {
        int named = strcmp(calls, "all") == 0;
        for (at = calls; !named && (at = strstr(at, name)); at += length)
            named = (at == calls || at[-1] == ',') && (at[length] == ',' || !at[length]);
        if (named) {
            unsigned long nth = __sync_add_and_fetch(&seen, 1);
            result = nth >= (unsigned long)from && (nth - from) % every == 0;
        }
    }
    if (result) {
        snprintf(count, sizeof count, "%s.count", getenv("FAULT_PLAN"));
        counter = syscall(SYS_openat, AT_FDCWD, count, O_WRONLY | O_APPEND | O_CLOEXEC);
        if (counter >= 0) {
            syscall(SYS_write, counter, name, 1);
            syscall(SYS_close, counter);
        }
    }
    inside = 0;
    if (result)
        errno = number;
    return result;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) \
        real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#define OPEN(function) \
    int function(const char *path, int flags, ...) \
    { \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { \
            va_list more; \
            va_start(more, flags); \
            mode = va_arg(more, mode_t); \
            va_end(more); \
        } \
        REAL(int, #function, const char *, int, ...); \
        return fails("open", path, -1) ? -1 : real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

ssize_t write(int fd, const void *data, size_t size)
{
    REAL(ssize_t, "write", int, const void *, size_t);
    return fails("write", NULL, fd) ? -1 : real(fd, data, size);
}

#define PWRITE(function, offset_type) \
    ssize_t function(int fd, const void *data, size_t size, offset_type at) \
    { \
        REAL(ssize_t, #function, int, const void *, size_t, offset_type); \
        return fails("write", NULL, fd) ? -1 : real(fd, data, size, at); \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define ON_FD(function, name) \
    int function(int fd) \
    { \
        REAL(int, #function, int); \
        return fails(name, NULL, fd) ? -1 : real(fd); \
    }
ON_FD(fsync, "fsync")
ON_FD(fdatasync, "fsync")

#define TRUNCATE(function, offset_type) \
    int function(int fd, offset_type size) \
    { \
        REAL(int, #function, int, offset_type); \
        return fails("write", NULL, fd) ? -1 : real(fd, size); \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

int rename(const char *old, const char *new)
{
    REAL(int, "rename", const char *, const char *);
    return fails("rename", new, -1) ? -1 : real(old, new);
}

int renameat(int from_fd, const char *old, int to_fd, const char *new)
{
    REAL(int, "renameat", int, const char *, int, const char *);
    return fails("rename", new, -1) ? -1 : real(from_fd, old, to_fd, new);
}

#define MMAP(function, offset_type) \
    void *function(void *at, size_t size, int protection, int flags, int fd, offset_type offset) \
    { \
        REAL(void *, #function, void *, size_t, int, int, int, offset_type); \
        return fails("mmap", NULL, fd) ? MAP_FAILED : real(at, size, protection, flags, fd, offset); \
    }
MMAP(mmap, off_t)
MMAP(mmap64, off64_t)

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    REAL(int, "accept4", int, struct sockaddr *, socklen_t *, int);
    return fails("accept", NULL, fd) ? -1 : real(fd, address, length, flags);
}

int accept(int fd, struct sockaddr *address, socklen_t *length)
{
    REAL(int, "accept", int, struct sockaddr *, socklen_t *);
    return fails("accept", NULL, fd) ? -1 : real(fd, address, length);
}

int socket(int domain, int kind, int protocol)
{
    REAL(int, "socket", int, int, int);
    return fails("socket", NULL, -1) ? -1 : real(domain, kind, protocol);
}

int socketpair(int domain, int kind, int protocol, int fds[2])
{
    REAL(int, "socketpair", int, int, int, int[2]);
    return fails("socket", NULL, -1) ? -1 : real(domain, kind, protocol, fds);
}

int pipe2(int fds[2], int flags)
{
    REAL(int, "pipe2", int[2], int);
    return fails("pipe", NULL, -1) ? -1 : real(fds, flags);
}

pid_t fork(void)
{
    REAL(pid_t, "fork", void);
    return fails("fork", NULL, -1) ? -1 : real();
}

pid_t vfork(void)
{
    /* A vfork through a wrapper would return twice into a frame that is gone. */
    return fork();
}

/* Large blocks only: what a request or a batch needs, not the interpreter's own. */
void *malloc(size_t size)
{
    REAL(void *, "malloc", size_t);
    return size >= 65536 && fails("malloc", NULL, -1) ? NULL : real(size);
}

void *realloc(void *block, size_t size)
{
    REAL(void *, "realloc", void *, size_t);
    return size >= 65536 && fails("malloc", NULL, -1) ? NULL : real(block, size);
}
