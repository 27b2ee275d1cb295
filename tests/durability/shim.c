/* Loaded before the C library (LD_PRELOAD) into a broker: it records what the broker does to the files of one directory,
 * and what it sends and receives, in the order in which that happens; and it lets single calls fail.
 *
 * SHIM_DIRECTORY  absolute; the files in it and below it are the ones that count
 * SHIM_LOG        the record is appended here; without it nothing is recorded
 * SHIM_FAULT      KIND:NUMBER: the call of this number, from 1, fails. eio, enospc, and short (half of it is written)
 *                 are that one call; full (ENOSPC) and quota (EDQUOT) are all that need room, from this one on, until
 *                 the file SHIM_ROOM is there
 * SHIM_COUNT      a file to which the name of each call that counts is appended
 *
 * A sync is recorded when it has returned, what is sent before it leaves: so what is before it in the record was so in
 * fact. One mutex makes it one order for all threads. An entry is `kind, length of the name, name, number, length of
 * the data, data`, as trace.py reads it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 65536
#define REAL(name) ((__typeof__(&name))real(#name))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char *directory, *fault, *room;
static size_t directory_length;
static long fault_at, calls;
static int log_file = -1, count_file = -1;
static char *paths[FILES]; /* by file descriptor, of the files that count; relative to the directory */
static int failing[FILES]; /* what its next sync fails with: as in Linux, every descriptor of a file is told of an error once */
static unsigned char sockets[FILES]; /* 1: TCP, 2: something else */

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static void put(char kind, const char *name, int64_t number, const struct iovec *parts, int count, size_t length) {
    if (log_file < 0) return;
    uint16_t name_length = strlen(name);
    uint32_t data_length = length;
    struct iovec head[] = {{&kind, 1}, {&name_length, 2}, {(void *)name, name_length}, {&number, 8}, {&data_length, 4}};
    REAL(writev)(log_file, head, 5);
    for (int i = 0; i < count && length; i++) {
        size_t part = parts[i].iov_len < length ? parts[i].iov_len : length;
        if (part) REAL(write)(log_file, parts[i].iov_base, part);
        length -= part;
    }
}

static void note(char kind, const char *name, int64_t number, const void *data, size_t length) {
    struct iovec part = {(void *)data, length};
    int before = errno;
    pthread_mutex_lock(&mutex);
    put(kind, name, number, &part, 1, length);
    pthread_mutex_unlock(&mutex);
    errno = before;
}

__attribute__((constructor)) static void begin(void) {
    directory = getenv("SHIM_DIRECTORY");
    directory_length = directory ? strlen(directory) : 0;
    room = getenv("SHIM_ROOM");
    fault = getenv("SHIM_FAULT");
    if (fault && strchr(fault, ':')) fault_at = atol(strchr(fault, ':') + 1);
    if (getenv("SHIM_LOG")) log_file = REAL(open)(getenv("SHIM_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (getenv("SHIM_COUNT"))
        count_file = REAL(open)(getenv("SHIM_COUNT"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    note('p', "", getpid(), "", 0);
}

/* The path from the directory on, if it is in there. */
static const char *inside(const char *path) {
    if (!directory || strncmp(path, directory, directory_length)) return NULL;
    path += directory_length;
    return *path == '/' ? path + 1 : *path ? NULL : ".";
}

static const char *name_of(int file) { return file >= 0 && file < FILES ? paths[file] : NULL; }

static int is_tcp(int file) {
    if (log_file < 0 || file < 0 || file >= FILES) return 0;
    if (!sockets[file]) {
        struct sockaddr_storage address;
        socklen_t length = sizeof address;
        int before = errno;
        sockets[file] = getsockname(file, (struct sockaddr *)&address, &length) == 0 &&
            (address.ss_family == AF_INET || address.ss_family == AF_INET6) ? 1 : 2;
        errno = before;
    }
    return sockets[file] == 1;
}

/* Count a call. Returns the errno that it is to fail with, -1 if only half of it is to be done. */
static int fails(const char *call, const char *name, int needs_room) {
    pthread_mutex_lock(&mutex);
    long number = ++calls;
    if (count_file >= 0) dprintf(count_file, "%s %s\n", call, name);
    pthread_mutex_unlock(&mutex);
    if (!fault) return 0;
    if (!strncmp(fault, "full", 4) || !strncmp(fault, "quota", 5))
        return needs_room && number >= fault_at && (!room || access(room, F_OK)) ? (*fault == 'f' ? ENOSPC : EDQUOT) : 0;
    if (number != fault_at) return 0;
    if (!strncmp(fault, "short", 5)) return !strcmp(call, "write") ? -1 : 0;
    if (!strncmp(fault, "eio", 3)) return EIO;
    if (!strncmp(fault, "enospc", 6)) return needs_room ? ENOSPC : 0;
    return 0;
}

#define FAIL(call, name, needs_room) \
    int error = fails(call, name, needs_room); \
    if (error) note('!', name, error, call, strlen(call)); \
    if (error > 0) { errno = error; return -1; }

static int opened(const char *path, int flags, mode_t mode, int at) {
    const char *name = inside(path);
    if (!name) {
        int other = REAL(openat)(at, path, flags, mode);
        if (other >= 0 && other < FILES) sockets[other] = 0; /* a socket of this number may have been closed unseen */
        return other;
    }
    struct stat found;
    int is_new = flags & O_CREAT && stat(path, &found);
    FAIL("open", name, is_new)
    int file = REAL(openat)(at, path, flags, mode);
    if (file >= 0 && file < FILES) {
        free(paths[file]);
        paths[file] = strdup(name);
        failing[file] = 0;
        sockets[file] = 0;
        if (is_new) note('o', name, 0, "", 0);
        if (flags & O_TRUNC) note('t', name, 0, "", 0);
    }
    return file;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if (flags & O_CREAT) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }

int open(const char *path, int flags, ...) { MODE(flags) return opened(path, flags, mode, AT_FDCWD); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened(path, flags | O_LARGEFILE, mode, AT_FDCWD); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return opened(path, flags, mode, at); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return opened(path, flags | O_LARGEFILE, mode, at); }

int close(int file) {
    if (file >= 0 && file < FILES) {
        pthread_mutex_lock(&mutex);
        if (sockets[file] == 1) put('c', "", file, NULL, 0, 0);
        sockets[file] = 0;
        free(paths[file]);
        paths[file] = NULL;
        pthread_mutex_unlock(&mutex);
    }
    return REAL(close)(file);
}

int accept4(int file, struct sockaddr *address, socklen_t *length, int flags) {
    int client = REAL(accept4)(file, address, length, flags);
    if (client >= 0 && client < FILES) sockets[client] = 0;
    if (client >= 0 && is_tcp(client)) note('a', "", client, "", 0);
    return client;
}

int accept(int file, struct sockaddr *address, socklen_t *length) { return accept4(file, address, length, 0); }

static ssize_t write_at(int file, const void *data, size_t length, off64_t offset) {
    const char *name = name_of(file);
    FAIL("write", name, 1)
    if (error < 0 && length > 1) length /= 2;
    ssize_t written = REAL(pwrite64)(file, data, length, offset);
    if (written > 0) note('w', name, offset, data, written);
    return written;
}

ssize_t pwrite(int file, const void *data, size_t length, off_t offset) {
    return name_of(file) ? write_at(file, data, length, offset) : REAL(pwrite)(file, data, length, offset);
}
ssize_t pwrite64(int file, const void *data, size_t length, off64_t offset) {
    return name_of(file) ? write_at(file, data, length, offset) : REAL(pwrite64)(file, data, length, offset);
}

/* The kind of the record is d if what is written is synced, too. */
static ssize_t write_parts(int file, const struct iovec *parts, int count, off64_t offset, int flags) {
    const char *name = name_of(file);
    FAIL("write", name, 1)
    struct iovec half = {parts[0].iov_base, parts[0].iov_len / 2};
    if (error < 0 && half.iov_len) parts = &half, count = 1;
    ssize_t written = REAL(pwritev64v2)(file, parts, count, offset, flags);
    if (written <= 0) return written;
    int before = errno;
    pthread_mutex_lock(&mutex);
    put(flags & RWF_DSYNC ? 'd' : 'w', name, offset, parts, count, written);
    pthread_mutex_unlock(&mutex);
    errno = before;
    return written;
}

ssize_t pwritev2(int file, const struct iovec *parts, int count, off_t offset, int flags) {
    if (!name_of(file)) return REAL(pwritev2)(file, parts, count, offset, flags);
    return write_parts(file, parts, count, offset, flags);
}
ssize_t pwritev64v2(int file, const struct iovec *parts, int count, off64_t offset, int flags) {
    if (!name_of(file)) return REAL(pwritev64v2)(file, parts, count, offset, flags);
    return write_parts(file, parts, count, offset, flags);
}

/* How much of it has left: -1 if nothing could. */
static ssize_t left(int file, ssize_t sent) {
    int before = errno;
    if (is_tcp(file)) note('=', "", file, &sent, sizeof sent);
    errno = before;
    return sent;
}

ssize_t write(int file, const void *data, size_t length) {
    if (name_of(file)) {
        off64_t offset = lseek64(file, 0, SEEK_CUR);
        ssize_t written = write_at(file, data, length, offset);
        if (written > 0) lseek64(file, offset + written, SEEK_SET);
        return written;
    }
    if (is_tcp(file)) note('>', "", file, data, length);
    return left(file, REAL(write)(file, data, length));
}

ssize_t pread(int file, void *data, size_t length, off_t offset) {
    const char *name = name_of(file);
    if (name) { FAIL("read", name, 0) }
    return REAL(pread)(file, data, length, offset);
}
ssize_t pread64(int file, void *data, size_t length, off64_t offset) {
    const char *name = name_of(file);
    if (name) { FAIL("read", name, 0) }
    return REAL(pread64)(file, data, length, offset);
}

static int sync_it(int file, int (*how)(int)) {
    const char *name = name_of(file);
    if (!name) return how(file);
    int error = fails("sync", name, 0);
    int result = error ? -1 : how(file);
    pthread_mutex_lock(&mutex);
    if (error)
        for (int other = 0; other < FILES; other++)
            if (paths[other] && !strcmp(paths[other], name)) failing[other] = error;
    error = error ? error : failing[file];
    failing[file] = 0;
    struct iovec part = {"sync", 4};
    if (error) put('!', name, error, &part, 1, 4);
    else if (!result) put('s', name, 0, &part, 1, 0);
    pthread_mutex_unlock(&mutex);
    if (error) errno = error;
    return error ? -1 : result;
}

int fsync(int file) { return sync_it(file, REAL(fsync)); }
int fdatasync(int file) { return sync_it(file, REAL(fdatasync)); }

int ftruncate64(int file, off64_t size) {
    const char *name = name_of(file);
    if (!name) return REAL(ftruncate64)(file, size);
    FAIL("truncate", name, 0)
    int result = REAL(ftruncate64)(file, size);
    if (!result) note('t', name, size, "", 0);
    return result;
}
int ftruncate(int file, off_t size) { return ftruncate64(file, size); }

int unlink(const char *path) {
    const char *name = inside(path);
    if (!name) return REAL(unlink)(path);
    FAIL("unlink", name, 0)
    int result = REAL(unlink)(path);
    if (!result) note('u', name, 0, "", 0);
    return result;
}

int posix_fallocate64(int file, off64_t offset, off64_t length) {
    const char *name = name_of(file);
    if (!name) return REAL(posix_fallocate64)(file, offset, length);
    int error = fails("allocate", name, 1);
    if (error > 0) { note('!', name, error, "allocate", 8); return error; }
    int result = REAL(posix_fallocate64)(file, offset, length);
    if (!result) note('t', name, offset + length, "", 0);
    return result;
}
int posix_fallocate(int file, off_t offset, off_t length) { return posix_fallocate64(file, offset, length); }

int rename(const char *from, const char *to) {
    const char *name = inside(from), *new = inside(to);
    if (!name || !new) return REAL(rename)(from, to);
    FAIL("rename", name, 1)
    int result = REAL(rename)(from, to);
    if (!result) note('r', name, 0, new, strlen(new));
    return result;
}

int mkdir(const char *path, mode_t mode) {
    const char *name = inside(path);
    if (!name) return REAL(mkdir)(path, mode);
    struct stat found;
    if (!stat(path, &found)) return REAL(mkdir)(path, mode);
    FAIL("mkdir", name, 1)
    int result = REAL(mkdir)(path, mode);
    if (!result) note('m', name, 0, "", 0);
    return result;
}

/* What is sent is recorded before it leaves, how much of it did afterwards. */
static void note_parts(int file, const struct iovec *parts, size_t count) {
    size_t length = 0;
    for (size_t i = 0; i < count; i++) length += parts[i].iov_len;
    pthread_mutex_lock(&mutex);
    put('>', "", file, parts, count, length);
    pthread_mutex_unlock(&mutex);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    if (!is_tcp(file)) return REAL(writev)(file, parts, count);
    note_parts(file, parts, count);
    return left(file, REAL(writev)(file, parts, count));
}
ssize_t send(int file, const void *data, size_t length, int flags) {
    if (is_tcp(file)) note('>', "", file, data, length);
    return left(file, REAL(send)(file, data, length, flags));
}
ssize_t sendmsg(int file, const struct msghdr *message, int flags) {
    if (is_tcp(file)) note_parts(file, message->msg_iov, message->msg_iovlen);
    return left(file, REAL(sendmsg)(file, message, flags));
}

ssize_t recv(int file, void *data, size_t length, int flags) {
    ssize_t received = REAL(recv)(file, data, length, flags);
    if (received > 0 && is_tcp(file)) note('<', "", file, data, received);
    return received;
}
ssize_t read(int file, void *data, size_t length) {
    const char *name = name_of(file);
    if (name) { FAIL("read", name, 0) }
    ssize_t received = REAL(read)(file, data, length);
    if (received > 0 && !name && is_tcp(file)) note('<', "", file, data, received);
    return received;
}
ssize_t recvmsg(int file, struct msghdr *message, int flags) {
    ssize_t received = REAL(recvmsg)(file, message, flags);
    if (received > 0 && is_tcp(file)) {
        pthread_mutex_lock(&mutex);
        put('<', "", file, message->msg_iov, message->msg_iovlen, received);
        pthread_mutex_unlock(&mutex);
    }
    return received;
}
