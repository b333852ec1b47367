/*
 * Faults under a vault: a library to be loaded before the C library (LD_PRELOAD).
 *
 * In go the calls that a program makes on its files. Those on the vault, its journal, its anchor and their
 * folders are numbered from 1 and written down; all others pass. Out comes what the system would have said,
 * but for the one call that is told to fail, or to be the last one that the process makes.
 *
 *   SHIM_VAULT=/a/study.db   the vault; /a/study.db-journal and the folder /a follow from it
 *   SHIM_ANCHOR=/b/anchor    the anchor, if there is one; /b/anchor* and the folder /b follow from it
 *   SHIM_LOG=/c/log          a line per call: its number, name, file, detail and, for a write, its bytes
 *   SHIM_AT=17               which call is hit
 *   SHIM_FAULT=eio           how: eio, enospc, eintr (that call); eio-on, enospc-on (it and every later one);
 *                            short (half of a write, and no space for the rest);
 *                            kill, kill-half, kill-after (before, within and after the call)
 *   SHIM_ENTROPY=fail        requests for 32 random bytes fail
 *   SHIM_FULL=/d/full        while this file exists, no write finds space
 *   SHIM_UNSYNCED=/d/lost    while this file exists, no sync succeeds
 *   SHIM_CLOCK=-86400        the time of the day in seconds since 1970, which stands still
 *   SHIM_ORDERS=/c/orders    a file that is read before each call and that the process itself may write: a line with
 *                            the number of the order, a call and its file, which of these calls is hit, how, the time
 *                            of the day, and a seed. From then on:
 *       7 sync d 2 eio 1800000000 42      the second sync of the vault from now on fails
 *       8 - - 0 - 1800000000 42           nothing fails
 *   In orders, die, die-half and die-after end the machine and not the process: no later call on the files has an
 *   effect, nor is there entropy, until the next order. full is enospc-on for writes; pause waits for the next order.
 *   The seed decides all random bytes. In the log `!` precedes a call that was not made.
 *
 * Files: d the vault, j its journal, w its -wal, f its folder, a the anchor, g the anchor's folder.
 * The order of the numbers is the order of the calls, which are made one at a time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define FILES 4096
#define REAL(name) ((__typeof__(&name))real(#name))

enum act { PASS, FAIL, HALF, DIE_HALF, DIE_AFTER };

/* The present order, and what has come of it. */
static int orders = -1;
static struct { long number, which, clock; unsigned long long seed; char call[16], file, how[16]; } order;
static long hits = 0;
static unsigned long long keys = 0, nonces = 0;
static int is_dead = 0, is_filled = 0;

static char vault[4096], folder[4096], anchor[4096], anchor_folder[4096];
static const char *fault = "";
static long at = 0, count = 0;
static int log_file = -1, entropy_fails = 0;
static char kinds[FILES];
static char full[FILES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

static void parent(char *into, const char *path) {
    strcpy(into, path);
    char *slash = strrchr(into, '/');
    if (slash) *slash = 0;
}

static void copy(char *into, const char *variable) {
    const char *value = getenv(variable);
    if (value && strlen(value) < 4096) strcpy(into, value);
}

static void start(void) {
    copy(vault, "SHIM_VAULT");
    copy(anchor, "SHIM_ANCHOR");
    parent(folder, vault);
    parent(anchor_folder, anchor);
    if (getenv("SHIM_FAULT")) fault = getenv("SHIM_FAULT");
    if (getenv("SHIM_AT")) at = atol(getenv("SHIM_AT"));
    entropy_fails = getenv("SHIM_ENTROPY") != NULL;
    if (getenv("SHIM_ORDERS")) orders = REAL(open)(getenv("SHIM_ORDERS"), O_RDONLY | O_CLOEXEC);
    if (getenv("SHIM_LOG"))
        log_file = REAL(open)(getenv("SHIM_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void note(const char *line, size_t length) {
    if (log_file >= 0 && REAL(write)(log_file, line, length) < 0) abort();
}

static char kind_of_path(const char *path) {
    pthread_once(&once, start);
    size_t length = strlen(vault);
    if (!path || path[0] != '/') return 0;
    if (length && strncmp(path, vault, length) == 0) {
        if (!path[length]) return 'd';
        if (strcmp(path + length, "-journal") == 0) return 'j';
        if (strcmp(path + length, "-wal") == 0) return 'w';
    }
    if (anchor[0] && strncmp(path, anchor, strlen(anchor)) == 0) return 'a';
    if (folder[0] && strcmp(path, folder) == 0) return 'f';
    if (anchor_folder[0] && strcmp(path, anchor_folder) == 0) return 'g';
    return 0;
}

static char kind_of(int fd) { return fd >= 0 && fd < FILES ? kinds[fd] : 0; }

static void is(int fd, char kind) {
    if (fd >= 0 && fd < FILES) kinds[fd] = kind, full[fd] = 0;
}

static void log_call(long number, const char *name, char kind, long detail, const unsigned char *bytes, size_t length) {
    static const char digits[] = "0123456789abcdef";
    if (log_file < 0) return;
    char *line = malloc(200 + 2 * length);
    if (!line) abort();
    int end = sprintf(line, "%ld %s %c %ld ", number, name, kind, detail);
    for (size_t i = 0; i < length; i++) {
        line[end++] = digits[bytes[i] >> 4];
        line[end++] = digits[bytes[i] & 15];
    }
    line[end++] = '\n';
    note(line, end);
    free(line);
}

/* Reads the order. A new seed begins its random bytes anew. */
static void obey(void) {
    char line[256];
    ssize_t length = REAL(pread)(orders, line, sizeof line - 1, 0);
    if (length <= 0) return;
    line[length] = 0;
    unsigned long long seed = order.seed;
    long number = order.number;
    if (atol(line) == number) return;
    sscanf(line, "%ld %15s %c %ld %15s %ld %llu", &order.number, order.call, &order.file, &order.which, order.how,
           &order.clock, &order.seed);
    hits = is_dead = is_filled = 0;
    if (order.seed != seed) keys = nonces = 0;
}

/* What the order says of a call, by the error that it ends with; the lock is held. */
static enum act ordered(const char *name, char kind) {
    if (is_dead) return errno = EIO, FAIL;
    if (is_filled && strcmp(name, "write") == 0) return errno = ENOSPC, FAIL;
    if (order.file != kind || strcmp(order.call, name) != 0 || ++hits != order.which) return PASS;
    if (strcmp(order.how, "eio") == 0) return errno = EIO, FAIL;
    if (strcmp(order.how, "enospc") == 0) return errno = ENOSPC, FAIL;
    if (strcmp(order.how, "full") == 0) return is_filled = 1, errno = ENOSPC, FAIL;
    if (strcmp(order.how, "short") == 0) return HALF;
    if (strcmp(order.how, "die") == 0) return is_dead = 1, errno = EIO, FAIL;
    if (strcmp(order.how, "die-half") == 0) return is_dead = 1, HALF;
    if (strcmp(order.how, "die-after") == 0) return is_dead = 1, PASS;
    return PASS;
}

/* Waits for the next order where this call is told to; the lock is held before and after. */
static void pause_before(const char *name, char kind) {
    if (strcmp(order.how, "pause") != 0 || hits != order.which || order.file != kind || strcmp(order.call, name) != 0)
        return;
    long number = order.number;
    log_call(0, "paused", '-', 0, NULL, 0);
    order.which = 0;
    while (order.number == number) {
        pthread_mutex_unlock(&lock);
        REAL(usleep)(200);
        pthread_mutex_lock(&lock);
        obey();
    }
}

/* Numbers a call under orders, and says what is to become of it. */
static enum act gate_ordered(const char *name, char kind, long detail, const void *bytes, size_t length) {
    char failed[32] = "!";
    pthread_mutex_lock(&lock);
    obey();
    enum act act = ordered(name, kind);
    pause_before(name, kind);
    int reason = errno;
    int is_made = act != FAIL;
    if (act == HALF) length /= 2;
    log_call(++count, is_made ? name : strncat(failed, name, 30), kind, detail, bytes, length);
    pthread_mutex_unlock(&lock);
    errno = reason;
    return act;
}

/* Numbers a call, and says what is to become of it. */
static enum act gate(const char *name, char kind, long detail, const void *bytes, size_t length) {
    if (!kind) return PASS;
    if (orders >= 0) return gate_ordered(name, kind, detail, bytes, length);
    pthread_mutex_lock(&lock);
    long number = ++count;
    log_call(number, name, kind, detail, bytes, length);
    pthread_mutex_unlock(&lock);
    int from_then_on = strstr(fault, "-on") != NULL;
    if (!at || (from_then_on ? number < at : number != at)) return PASS;
    if (strncmp(fault, "eio", 3) == 0) return errno = EIO, FAIL;
    if (strncmp(fault, "enospc", 6) == 0) return errno = ENOSPC, FAIL;
    if (strcmp(fault, "eintr") == 0) return errno = EINTR, FAIL;
    if (strcmp(fault, "short") == 0) return HALF;
    if (strcmp(fault, "kill") == 0) _exit(9);
    if (strcmp(fault, "kill-half") == 0) return DIE_HALF;
    if (strcmp(fault, "kill-after") == 0) return DIE_AFTER;
    return PASS;
}

/* Ends the call; errno stays as the call left it. */
static long end(enum act act, long result) {
    if (act == DIE_AFTER || act == DIE_HALF) _exit(9);
    return result;
}

static int opened(const char *name, int directory, const char *path, int flags, mode_t mode) {
    char kind = kind_of_path(path);
    enum act act = gate(name, kind, flags & (O_CREAT | O_TRUNC | O_EXCL), NULL, 0);
    if (act == FAIL) return -1;
    int fd = REAL(openat)(directory, path, flags, mode);
    is(fd, kind);
    return end(act, fd);
}

#define MODE(flags)                                                    \
    mode_t mode = 0;                                                   \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                           \
        va_list more;                                                  \
        va_start(more, flags);                                         \
        mode = va_arg(more, mode_t);                                   \
        va_end(more);                                                  \
    }

int open(const char *path, int flags, ...) {
    MODE(flags)
    return opened("open", AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    MODE(flags)
    return opened("open", AT_FDCWD, path, flags, mode);
}
int openat(int directory, const char *path, int flags, ...) {
    MODE(flags)
    return opened("open", directory, path, flags, mode);
}
int openat64(int directory, const char *path, int flags, ...) {
    MODE(flags)
    return opened("open", directory, path, flags, mode);
}

int close(int fd) {
    enum act act = gate("close", kind_of(fd), 0, NULL, 0);
    int reason = errno;
    is(fd, 0);
    /* A close that fails has closed all the same. */
    int result = REAL(close)(fd);
    if (act == FAIL) return errno = reason, -1;
    return end(act, result);
}

#define READING(symbol, name, signature, arguments)                    \
    ssize_t symbol signature {                                         \
        enum act act = gate(name, kind_of(fd), 0, NULL, 0);            \
        return act == FAIL ? -1 : end(act, REAL(symbol) arguments);    \
    }
READING(read, "read", (int fd, void *into, size_t length), (fd, into, length))
READING(pread, "read", (int fd, void *into, size_t length, off_t from), (fd, into, length, from))
READING(pread64, "read", (int fd, void *into, size_t length, off64_t from), (fd, into, length, from))

static int is_full(void) {
    const char *sign = getenv("SHIM_FULL");
    return sign && access(sign, F_OK) == 0;
}

static enum act syncing(int fd) {
    char kind = kind_of(fd);
    enum act act = gate("sync", kind, 0, NULL, 0);
    const char *sign = getenv("SHIM_UNSYNCED");
    if (kind && act == PASS && sign && access(sign, F_OK) == 0) return errno = EIO, FAIL;
    return act;
}

#define SYNCING(symbol)                                                \
    int symbol(int fd) {                                               \
        enum act act = syncing(fd);                                    \
        return act == FAIL ? -1 : end(act, REAL(symbol)(fd));          \
    }
SYNCING(fsync)
SYNCING(fdatasync)

static enum act writing(int fd, const void *from, size_t length, off_t to) {
    char kind = kind_of(fd);
    if (!kind) return PASS;
    enum act act = gate("write", kind, to, from, length);
    if (act == PASS && (full[fd] || is_full())) return errno = ENOSPC, FAIL;
    if (act == HALF) full[fd] = 1;
    return act;
}

ssize_t write(int fd, const void *from, size_t length) {
    off_t to = kind_of(fd) ? lseek(fd, 0, SEEK_CUR) : 0;
    enum act act = writing(fd, from, length, to);
    if (act == FAIL) return -1;
    if (act == HALF || act == DIE_HALF) length /= 2;
    return end(act, REAL(write)(fd, from, length));
}

static ssize_t written_at(int fd, const void *from, size_t length, off_t to) {
    enum act act = writing(fd, from, length, to);
    if (act == FAIL) return -1;
    if (act == HALF || act == DIE_HALF) length /= 2;
    return end(act, REAL(pwrite)(fd, from, length, to));
}
ssize_t pwrite(int fd, const void *from, size_t length, off_t to) {
    return written_at(fd, from, length, to);
}
ssize_t pwrite64(int fd, const void *from, size_t length, off64_t to) {
    return written_at(fd, from, length, to);
}

#define ON_FILE(symbol, name, detail, signature, arguments)            \
    int symbol signature {                                             \
        enum act act = gate(name, kind_of(fd), detail, NULL, 0);       \
        return act == FAIL ? -1 : end(act, REAL(symbol) arguments);    \
    }
ON_FILE(ftruncate, "truncate", length, (int fd, off_t length), (fd, length))
ON_FILE(ftruncate64, "truncate", length, (int fd, off64_t length), (fd, length))
ON_FILE(fstat, "stat", 0, (int fd, struct stat *into), (fd, into))
ON_FILE(fstat64, "stat", 0, (int fd, struct stat64 *into), (fd, into))
ON_FILE(fchmod, "chmod", 0, (int fd, mode_t mode), (fd, mode))
ON_FILE(fchown, "chown", 0, (int fd, uid_t user, gid_t group), (fd, user, group))

#define ON_PATH(symbol, name, signature, arguments)                    \
    int symbol signature {                                             \
        enum act act = gate(name, kind_of_path(path), 0, NULL, 0);     \
        return act == FAIL ? -1 : end(act, REAL(symbol) arguments);    \
    }
ON_PATH(stat, "stat", (const char *path, struct stat *into), (path, into))
ON_PATH(stat64, "stat", (const char *path, struct stat64 *into), (path, into))
ON_PATH(lstat, "stat", (const char *path, struct stat *into), (path, into))
ON_PATH(lstat64, "stat", (const char *path, struct stat64 *into), (path, into))
ON_PATH(access, "access", (const char *path, int mode), (path, mode))
ON_PATH(unlink, "unlink", (const char *path), (path))
ON_PATH(unlinkat, "unlink", (int directory, const char *path, int flags), (directory, path, flags))
ON_PATH(rename, "rename", (const char *path, const char *to), (path, to))

int statx(int directory, const char *path, int flags, unsigned mask, struct statx *into) {
    /* Rust asks with nothing at all whether there is such a call; the compiler takes the header's word that nobody does. */
    const char *volatile given = path;
    if (!given) return REAL(statx)(directory, path, flags, mask, into);
    char kind = *path ? kind_of_path(path) : kind_of(directory);
    /* Rust's own, by the path: orders tell it from those that SQLite makes under its locks. */
    enum act act = gate(orders >= 0 && *path ? "statx" : "stat", kind, 0, NULL, 0);
    return act == FAIL ? -1 : end(act, REAL(statx)(directory, path, flags, mask, into));
}

/* A lock is written down as 10 times its type (0 read, 1 write, 2 none) and its first byte, seen from SQLite's. */
static int controlled(int fd, int command, void *argument) {
    long detail = 100 + command;
    if (command == F_SETLK && argument) {
        struct flock *range = argument;
        detail = 10 * range->l_type + (range->l_start < 0x40000000 ? 9 : range->l_start - 0x40000000);
    }
    enum act act = gate("lock", kind_of(fd), detail, NULL, 0);
    if (act == FAIL) return -1;
    int result = REAL(fcntl)(fd, command, argument);
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) is(result, kind_of(fd));
    return end(act, result);
}
#define CONTROL(symbol)                                                \
    int symbol(int fd, int command, ...) {                             \
        va_list more;                                                  \
        va_start(more, command);                                       \
        void *argument = va_arg(more, void *);                         \
        va_end(more);                                                  \
        return controlled(fd, command, argument);                      \
    }
CONTROL(fcntl)
CONTROL(fcntl64)

int clock_gettime(clockid_t clock, struct timespec *into) {
    if (clock == CLOCK_REALTIME && orders >= 0) {
        pthread_mutex_lock(&lock);
        obey();
        into->tv_sec = order.clock, into->tv_nsec = 0;
        pthread_mutex_unlock(&lock);
        return 0;
    }
    const char *now = clock == CLOCK_REALTIME ? getenv("SHIM_CLOCK") : NULL;
    if (!now) return REAL(clock_gettime)(clock, into);
    into->tv_sec = atol(now), into->tv_nsec = 0;
    return 0;
}

/* SplitMix64 of a seed and a place: bytes that look random, and are the same in every run. */
static void fill(unsigned char *into, size_t length, unsigned long long seed, unsigned long long place) {
    for (size_t i = 0; i < length; i++) {
        unsigned long long z = seed * 0x9e3779b97f4a7c15ull + (place << 32) + i + 1;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        into[i] = (z ^ (z >> 31)) & 255;
    }
}

/* Keys of noise are counted apart: threads ask for other bytes, too, and in no order. */
static ssize_t entropy_ordered(void *into, size_t length) {
    pthread_mutex_lock(&lock);
    obey();
    int is_key = length == 32;
    enum act act = is_key ? ordered("entropy", '-') : PASS;
    if (is_key) pause_before("entropy", '-');
    log_call(0, act == FAIL ? "!entropy" : "entropy", '-', length, NULL, 0);
    fill(into, length, order.seed + !is_key, is_key ? ++keys : ++nonces);
    pthread_mutex_unlock(&lock);
    return act == FAIL ? (errno = EIO, -1) : (ssize_t)length;
}

ssize_t getrandom(void *into, size_t length, unsigned flags) {
    char line[64];
    pthread_once(&once, start);
    if (orders >= 0) return entropy_ordered(into, length);
    note(line, sprintf(line, "0 entropy - %zu \n", length));
    if (entropy_fails && length == 32) return errno = EIO, -1;
    return REAL(getrandom)(into, length, flags);
}
