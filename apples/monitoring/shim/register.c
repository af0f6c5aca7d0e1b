/* Tells the node manager of this host that the process is there, and keeps the connection open while it lives. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "monitor.h"

/* Milliseconds a node manager may take to answer. */
#define PATIENCE_MS 2000
/* Requests for the processor closer together than this count as one, to spare the node manager. */
#define AGAIN_NS 5000000u

static int manager = -1;
static struct stat manager_is;

static void say(const char *socket_path, const char *why) {
    fprintf(stderr, MONITOR_NAME ": node manager at %s: %s; the program runs without it\n", socket_path, why);
}

static int quote(char *to, size_t room, const char *text) {
    size_t n = 0;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        int plain = c >= ' ' && c != '"' && c != '\\';
        if (n + 7 >= room)
            return 0;
        n += (size_t)snprintf(to + n, room - n, plain ? "%c" : "\\u%04x", c);
    }
    to[n] = '\0';
    return 1;
}

static int send_all(int fd, const char *text, size_t length) {
    while (length > 0) {
        ssize_t sent = send(fd, text, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return 0;
        text += sent;
        length -= (size_t)sent;
    }
    return 1;
}

/* One line of the answer; 0 when none came in time. The time is looked at last: a process that was held stopped
   meanwhile has its answer waiting. */
static int read_line(int fd, char *line, size_t room) {
    uint64_t until = monitor_wall() + PATIENCE_MS * 1000000ull;
    size_t n = 0;
    while (n < room - 1) {
        struct pollfd ready = {fd, POLLIN, 0};
        uint64_t now = monitor_wall();
        int wait_ms = now < until ? (int)((until - now) / 1000000u) + 1 : 0;
        int some = poll(&ready, 1, wait_ms);
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0)
            return 0;
        ssize_t got = recv(fd, line + n, room - 1 - n, 0);
        if (got <= 0)
            return 0;
        n += (size_t)got;
        line[n] = '\0';
        if (memchr(line, '\n', n) != NULL) {
            *strchr(line, '\n') = '\0';
            return 1;
        }
    }
    return 0;
}

void monitor_register(const char *job, const char *page) {
    const char *path = getenv("APPLES_NODE_SOCKET");
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    const struct process_half *p = &monitor_page->process;
    char quoted[4200], line[8192];
    if (path == NULL || !*path)
        return;
    if (strlen(path) >= sizeof where.sun_path) {
        say(path, "the path of a socket has at most 107 characters");
        return;
    }
    strcpy(where.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&where, sizeof where) != 0) {
        say(path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return;
    }
    int known = *page && quote(quoted, sizeof quoted, page);
    int length = snprintf(line, sizeof line, "{\"register\": {\"job\": \"%s\", \"rank\": %u, \"ranks\": %u, \"pid\": %u, \"page\": %s%s%s}}\n",
                          job, p->rank, p->ranks, p->pid, known ? "\"" : "", known ? quoted : "null", known ? "\"" : "");
    if (!send_all(fd, line, (size_t)length) || !read_line(fd, line, sizeof line)) {
        say(path, "no answer within 2 s");
        close(fd);
        return;
    }
    if (strstr(line, "\"registered\"") == NULL) {
        say(path, line);
        close(fd);
        return;
    }
    /* Left open: the end of this connection shows the node manager the end of the process. */
    if (fstat(fd, &manager_is) == 0)
        manager = fd;
}

/* CMDSCH: the request is on the page. If this line gets lost, the node manager finds it there later. A program may have closed the
   connection and have something else there now, that is none of our business. */
void monitor_schedule(uint64_t now) {
    static const char line[] = "{\"schedule\": null}\n";
    static uint64_t again_at;
    struct stat is;
    if (manager < 0 || now < again_at)
        return;
    again_at = now + AGAIN_NS;
    if (fstat(manager, &is) != 0 || is.st_dev != manager_is.st_dev || is.st_ino != manager_is.st_ino)
        manager = -1;
    else
        send(manager, line, sizeof line - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}
