/* Makes calls fail in the process that loads it (LD_PRELOAD), for files whose names cannot be
 * known beforehand, which strace cannot do. Calls of FAIL_CALL ("write" or "fsync") on files whose
 * path holds FAIL_AT (or ends with it, if it ends with a dollar sign) fail with the error number
 * FAIL_ERRNO: number FAIL_HIT of the process, and all that follow if FAIL_ON is set. A write that
 * fails has written half of its bytes, as on a disk that fills up. The path of each file that was
 * struck is added to FAIL_TRACE as a line.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int calls;

static ssize_t real_write(int fd, const void *bytes, size_t length) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    return real(fd, bytes, length);
}

static int fits(const char *path, const char *at) {
    size_t length = strlen(at), whole = strlen(path);
    if (length == 0 || at[length - 1] != '$') return strstr(path, at) != NULL;
    length--;
    return whole >= length && strncmp(path + whole - length, at, length) == 0;
}

/* Whether this call is to fail; if so, says where. */
static int strikes(const char *call, int fd) {
    const char *wanted = getenv("FAIL_CALL"), *at = getenv("FAIL_AT");
    char link[64], path[4096];
    if (!wanted || !at || strcmp(wanted, call) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 2);
    if (length < 0) return 0;
    path[length] = 0;
    if (!fits(path, at)) return 0;
    int hit = atomic_fetch_add(&calls, 1) + 1, first = atoi(getenv("FAIL_HIT"));
    if (hit != first && !(hit > first && getenv("FAIL_ON"))) return 0;
    int trace = open(getenv("FAIL_TRACE"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    strcat(path, "\n");
    real_write(trace, path, length + 1);
    close(trace);
    return 1;
}

ssize_t write(int fd, const void *bytes, size_t length) {
    if (length == 0 || !strikes("write", fd)) return real_write(fd, bytes, length);
    real_write(fd, bytes, length / 2);
    errno = atoi(getenv("FAIL_ERRNO"));
    return -1;
}

int fsync(int fd) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fsync");
    if (!strikes("fsync", fd)) return real(fd);
    errno = atoi(getenv("FAIL_ERRNO"));
    return -1;
}
