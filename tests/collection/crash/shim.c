/* Sits between a process and libc (LD_PRELOAD) and watches the calls that change files below one folder.
 *
 * The process arms it through shim_arm(). From then on every such call has a number, counted from 1. The shim can kill
 * the process at a call, let calls fail as on a full or broken disk, and write every call with its data to a trace.
 * Calls are serialized, so that the order of the trace is the order in which they took effect.
 *
 * An entry of the trace: type (1 byte), file (8), a number (8), lengths of two texts (4 + 4), the texts. Types:
 *   C file was created at text 1          W file got text 1 at offset `number`
 *   T file was cut to `number` bytes      S file or folder at text 1 was synced
 *   R text 1 was renamed to text 2        L text 2 is another name of text 1
 *   U text 1 was unlinked                 M folder text 1 was made            D folder text 1 was removed
 *   A text 1 was written to the descriptor for acknowledgments
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[PATH_MAX];
static size_t folder_length;
static int trace_descriptor = -1;
static int ack_descriptor = -1;
static long calls;

/* What happens, to which calls. */
static long first_call, last_call;
static int action;      /* one of the following */
static int error_code;  /* for FAIL and FAIL_HALF */
enum { NOTHING, KILL, KILL_HALF, FAIL, FAIL_HALF };

#define REAL(name)                                                          \
    static __typeof__(&name) real_##name;                                   \
    if (real_##name == NULL) real_##name = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* Start watching: the folder, where to write the trace (-1: nowhere), which descriptor gets acknowledgments. */
void shim_arm(const char* path, int trace, int acks, int what, long first, long last, int code) {
    pthread_mutex_lock(&lock);
    snprintf(folder, sizeof folder, "%s", path);
    folder_length = strlen(folder);
    trace_descriptor = trace;
    ack_descriptor = acks;
    action = what;
    first_call = first;
    last_call = last;
    error_code = code;
    calls = 0;
    pthread_mutex_unlock(&lock);
}

long shim_calls(void) { return calls; }

/* --- paths ------------------------------------------------------------------------------------------------------- */

/* Return the part of an absolute path below the folder, or NULL. */
static const char* below(const char* path) {
    if (folder_length == 0 || strncmp(path, folder, folder_length) != 0) return NULL;
    if (path[folder_length] == '\0') return "";
    return path[folder_length] == '/' ? path + folder_length + 1 : NULL;
}

static const char* below_descriptor(int descriptor, char* buffer) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, buffer, PATH_MAX - 1);
    if (length < 0) return NULL;
    buffer[length] = '\0';
    return below(buffer);
}

static const char* below_at(int at, const char* path, char* buffer) {
    if (folder_length == 0) return NULL;
    if (path[0] == '/') return below(path);
    char start[PATH_MAX];
    if (at == AT_FDCWD) {
        if (getcwd(start, sizeof start) == NULL) return NULL;
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        ssize_t length = readlink(link, start, sizeof start - 1);
        if (length < 0) return NULL;
        start[length] = '\0';
    }
    snprintf(buffer, PATH_MAX, "%.2000s/%.2000s", start, path);
    return below(buffer);
}

/* --- the trace --------------------------------------------------------------------------------------------------- */

static uint64_t file_of(int descriptor) {
    struct stat about;
    return fstat(descriptor, &about) == 0 ? (uint64_t)about.st_ino : 0;
}

static void put(const void* data, size_t length) {
    REAL(write);
    const char* at = data;
    while (length > 0) {
        ssize_t count = real_write(trace_descriptor, at, length);
        if (count <= 0) abort();
        at += count;
        length -= (size_t)count;
    }
}

static void record(char type, uint64_t file, uint64_t number, const void* text, size_t length, const char* other) {
    if (trace_descriptor < 0) return;
    uint32_t lengths[2] = {(uint32_t)length, other == NULL ? 0 : (uint32_t)strlen(other)};
    put(&type, 1);
    put(&file, 8);
    put(&number, 8);
    put(lengths, 8);
    put(text, length);
    if (other != NULL) put(other, lengths[1]);
}

static void record_path(char type, uint64_t file, const char* path, const char* other) {
    record(type, file, 0, path, strlen(path), other);
}

/* --- what happens to a call -------------------------------------------------------------------------------------- */

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Count a call that is about to happen. Return what the caller has to do: NOTHING, KILL_HALF, FAIL or FAIL_HALF. */
static int next_call(void) {
    ++calls;
    if (action == NOTHING || calls < first_call || calls > last_call) return NOTHING;
    if (action == KILL) die();
    /* A disk that fills up in the middle of a write writes a part of it, and fails at the next call. */
    return action == FAIL_HALF && calls > first_call ? FAIL : action;
}

/* For calls that have no half: they do not happen, or fail. */
static int is_prevented(void) {
    int what = next_call();
    if (what == KILL_HALF) die();
    if (what == NOTHING) return 0;
    errno = error_code;
    return 1;
}

/* --- opening ----------------------------------------------------------------------------------------------------- */

static int opened(int at, const char* path, int flags, mode_t mode) {
    REAL(openat);
    char buffer[PATH_MAX];
    int is_temporary = (flags & O_TMPFILE) == O_TMPFILE;
    int is_writing = (flags & (O_CREAT | O_TRUNC)) != 0 && !is_temporary;
    const char* name = is_writing ? below_at(at, path, buffer) : NULL;
    if (name == NULL) return real_openat(at, path, flags, mode);
    pthread_mutex_lock(&lock);
    struct stat about;
    int is_new = fstatat(at, path, &about, AT_SYMLINK_NOFOLLOW) != 0;
    int descriptor = -1;
    if (!is_new && (flags & O_TRUNC) == 0) {
        descriptor = real_openat(at, path, flags, mode); /* it changes nothing */
    } else if (!is_prevented()) {
        descriptor = real_openat(at, path, flags, mode);
        if (descriptor >= 0 && is_new) record_path('C', file_of(descriptor), name, NULL);
        if (descriptor >= 0 && !is_new) record('T', file_of(descriptor), 0, "", 0, NULL);
    }
    int code = errno;
    pthread_mutex_unlock(&lock);
    errno = code;
    return descriptor;
}

#define MODE(flags)                                     \
    mode_t mode = 0;                                    \
    if (((flags) & (O_CREAT | O_TMPFILE)) != 0) {       \
        va_list arguments;                              \
        va_start(arguments, flags);                     \
        mode = (mode_t)va_arg(arguments, unsigned int); \
        va_end(arguments);                              \
    }

int open(const char* path, int flags, ...) {
    MODE(flags)
    return opened(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
    MODE(flags)
    return opened(AT_FDCWD, path, flags, mode);
}
int openat(int at, const char* path, int flags, ...) {
    MODE(flags)
    return opened(at, path, flags, mode);
}
int openat64(int at, const char* path, int flags, ...) {
    MODE(flags)
    return opened(at, path, flags, mode);
}

/* --- writing ----------------------------------------------------------------------------------------------------- */

static ssize_t written(int descriptor, const struct iovec* pieces, int count, int has_offset, off_t offset) {
    REAL(writev);
    REAL(pwritev);
    char buffer[PATH_MAX];
    int is_ack = folder_length > 0 && descriptor == ack_descriptor;
    if (!is_ack && (folder_length == 0 || below_descriptor(descriptor, buffer) == NULL)) {
        return has_offset ? real_pwritev(descriptor, pieces, count, offset) : real_writev(descriptor, pieces, count);
    }
    pthread_mutex_lock(&lock);
    size_t length = 0;
    for (int i = 0; i < count; ++i) length += pieces[i].iov_len;
    char* data = malloc(length + 1);
    size_t at = 0;
    for (int i = 0; i < count; ++i) {
        memcpy(data + at, pieces[i].iov_base, pieces[i].iov_len);
        at += pieces[i].iov_len;
    }
    int what = is_ack ? NOTHING : next_call();
    if (what == KILL_HALF || what == FAIL_HALF) length /= 2;
    if (!has_offset && !is_ack) {
        int is_appending = (fcntl(descriptor, F_GETFL) & O_APPEND) != 0;
        offset = lseek(descriptor, 0, is_appending ? SEEK_END : SEEK_CUR);
    }
    ssize_t result = -1;
    if (what != FAIL) {
        struct iovec whole = {data, length};
        result = has_offset ? real_pwritev(descriptor, &whole, 1, offset) : real_writev(descriptor, &whole, 1);
        if (result > 0) record(is_ack ? 'A' : 'W', is_ack ? 0 : file_of(descriptor), (uint64_t)offset, data, (size_t)result, NULL);
    }
    int code = errno;
    free(data);
    if (what == KILL_HALF) die();
    if (what == FAIL) code = error_code;
    pthread_mutex_unlock(&lock);
    errno = code;
    return result;
}

ssize_t write(int descriptor, const void* data, size_t length) {
    REAL(write);
    if (folder_length == 0) return real_write(descriptor, data, length);
    struct iovec piece = {(void*)data, length};
    return written(descriptor, &piece, 1, 0, 0);
}
ssize_t pwrite(int descriptor, const void* data, size_t length, off_t offset) {
    struct iovec piece = {(void*)data, length};
    return written(descriptor, &piece, 1, 1, offset);
}
ssize_t pwrite64(int descriptor, const void* data, size_t length, off_t offset) {
    return pwrite(descriptor, data, length, offset);
}
ssize_t writev(int descriptor, const struct iovec* pieces, int count) { return written(descriptor, pieces, count, 0, 0); }
ssize_t pwritev(int descriptor, const struct iovec* pieces, int count, off_t offset) {
    return written(descriptor, pieces, count, 1, offset);
}
ssize_t pwritev64(int descriptor, const struct iovec* pieces, int count, off_t offset) {
    return written(descriptor, pieces, count, 1, offset);
}
ssize_t pwritev2(int descriptor, const struct iovec* pieces, int count, off_t offset, int flags) {
    (void)flags;
    return written(descriptor, pieces, count, offset >= 0, offset);
}
ssize_t pwritev64v2(int descriptor, const struct iovec* pieces, int count, off_t offset, int flags) {
    return pwritev2(descriptor, pieces, count, offset, flags);
}

/* Copies inside of the system would not be seen: callers fall back to reading and writing. */
ssize_t sendfile(int out, int in, off_t* offset, size_t count) {
    (void)out, (void)in, (void)offset, (void)count;
    errno = ENOSYS;
    return -1;
}
ssize_t sendfile64(int out, int in, off_t* offset, size_t count) { return sendfile(out, in, offset, count); }
ssize_t copy_file_range(int in, off_t* from, int out, off_t* to, size_t count, unsigned flags) {
    (void)in, (void)from, (void)out, (void)to, (void)count, (void)flags;
    errno = ENOSYS;
    return -1;
}

/* --- calls that happen or do not --------------------------------------------------------------------------------- */

/* Run CALL unless it is prevented, then RECORD if it worked. NAME is NULL for what is elsewhere. */
#define WATCHED(NAME, CALL, RECORD)                     \
    do {                                                \
        if ((NAME) == NULL) return CALL;                \
        pthread_mutex_lock(&lock);                      \
        int result = is_prevented() ? -1 : CALL;        \
        int code = errno;                               \
        if (result == 0) RECORD;                        \
        pthread_mutex_unlock(&lock);                    \
        errno = code;                                   \
        return result;                                  \
    } while (0)

int fsync(int descriptor) {
    REAL(fsync);
    char buffer[PATH_MAX];
    const char* name = folder_length == 0 ? NULL : below_descriptor(descriptor, buffer);
    WATCHED(name, real_fsync(descriptor), record_path('S', file_of(descriptor), name, NULL));
}
int fdatasync(int descriptor) {
    REAL(fdatasync);
    char buffer[PATH_MAX];
    const char* name = folder_length == 0 ? NULL : below_descriptor(descriptor, buffer);
    WATCHED(name, real_fdatasync(descriptor), record_path('S', file_of(descriptor), name, NULL));
}
int ftruncate(int descriptor, off_t size) {
    REAL(ftruncate);
    char buffer[PATH_MAX];
    const char* name = folder_length == 0 ? NULL : below_descriptor(descriptor, buffer);
    WATCHED(name, real_ftruncate(descriptor, size), record('T', file_of(descriptor), (uint64_t)size, "", 0, NULL));
}
int ftruncate64(int descriptor, off_t size) { return ftruncate(descriptor, size); }
int truncate(const char* path, off_t size) {
    int descriptor = open(path, O_WRONLY);
    if (descriptor < 0) return -1;
    int result = ftruncate(descriptor, size);
    int code = errno;
    close(descriptor);
    errno = code;
    return result;
}
int truncate64(const char* path, off_t size) { return truncate(path, size); }

int unlinkat(int at, const char* path, int flags) {
    REAL(unlinkat);
    char buffer[PATH_MAX];
    const char* name = below_at(at, path, buffer);
    WATCHED(name, real_unlinkat(at, path, flags), record_path((flags & AT_REMOVEDIR) != 0 ? 'D' : 'U', 0, name, NULL));
}
int unlink(const char* path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char* path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) {
    struct stat about;
    int is_folder = lstat(path, &about) == 0 && S_ISDIR(about.st_mode);
    return unlinkat(AT_FDCWD, path, is_folder ? AT_REMOVEDIR : 0);
}

int mkdirat(int at, const char* path, mode_t mode) {
    REAL(mkdirat);
    char buffer[PATH_MAX];
    const char* name = below_at(at, path, buffer);
    WATCHED(name, real_mkdirat(at, path, mode), record_path('M', 0, name, NULL));
}
int mkdir(const char* path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int renameat(int at, const char* path, int other_at, const char* other) {
    REAL(renameat);
    char buffer[PATH_MAX], other_buffer[PATH_MAX];
    const char* name = below_at(at, path, buffer);
    const char* other_name = below_at(other_at, other, other_buffer);
    if ((name == NULL) != (other_name == NULL)) abort(); /* what comes from elsewhere cannot be traced */
    WATCHED(name, real_renameat(at, path, other_at, other), record_path('R', 0, name, other_name));
}
int rename(const char* path, const char* other) { return renameat(AT_FDCWD, path, AT_FDCWD, other); }
int renameat2(int at, const char* path, int other_at, const char* other, unsigned int flags) {
    if (flags != 0) abort();
    return renameat(at, path, other_at, other);
}

int linkat(int at, const char* path, int other_at, const char* other, int flags) {
    REAL(linkat);
    char buffer[PATH_MAX], other_buffer[PATH_MAX];
    const char* name = below_at(at, path, buffer);
    const char* other_name = below_at(other_at, other, other_buffer);
    if (name == NULL && other_name != NULL) abort();
    WATCHED(other_name, real_linkat(at, path, other_at, other, flags), record_path('L', 0, name, other_name));
}
int link(const char* path, const char* other) { return linkat(AT_FDCWD, path, AT_FDCWD, other, 0); }
