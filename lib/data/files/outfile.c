#include "lib/data/files/outfile_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/data/files/beneath.h"
#include "lib/data/files/part.h"
#include "lib/data/files/room.h"
#include "lib/data/files/spool.h"
#include "lib/data/files/target.h"

#define TEMP_TRIES 100

/* ---- the folder ---- */

/* Report that a file cannot be created in the folder. */
static int create_error(const struct outfile *f, struct err *err)
{
	if (errno == EMFILE || errno == ENFILE)
		return err_errno(err, ERR_RESOURCE,
		                 "%s: no file descriptor left: raise the limit (ulimit -n)",
		                 f->path);
	return err_errno(err, ERR_OUTPUT, "%s: cannot create a file in its folder", f->path);
}

/* Find the name and its folder, which is open for fsync. @top: as for beneath_open. */
static int open_folder(struct outfile *f, size_t top, struct err *err)
{
	struct target t;
	if (target_find(&t, top ? path_name(f->path) : f->path, f->force && !top, err))
		return -1;
	f->name = t.name;
	f->dirfd = top ? beneath_open(f->path, top)
	               : io_retry(openat(t.dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	int error = errno, len = (int)(path_name(f->path) - f->path);
	close(t.dirfd);
	errno = error;
	if (f->dirfd >= 0)
		return 0;
	return err_errno(err, ERR_OUTPUT, "%s: cannot open the folder '%.*s'", f->path,
	                 len > 1 ? len - 1 : 1, len ? f->path : ".");
}

/* ---- the temporary file ---- */

static const char digits[] = "abcdefghijklmnopqrstuvwxyz012345"; /* of temporary names */

#define TEMP     ".collctl-"
#define KEPT     TEMP "old-"
#define RANDOMLY 12 /* digits at the end */

/* A new temporary name: @mark between the output's name, shortened to the longest valid name, and
 * random digits. Malloced; NULL: an error. */
static char *new_temp_name(const struct outfile *f, const char *mark, struct err *err)
{
	unsigned char random[RANDOMLY];
	char tail[sizeof random + 1];
	if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
		err_errno(err, ERR_RESOURCE, "no random numbers");
		return NULL;
	}
	for (size_t i = 0; i < sizeof random; i++)
		tail[i] = digits[random[i] % 32];
	tail[sizeof random] = '\0';
	return err_asprintf("a temporary name", err, ".%.*s%s%s", NAME_MAX - 32, f->name, mark,
	                    tail);
}

char *outfile_temp_name(const struct outfile *f, struct err *err)
{
	return new_temp_name(f, TEMP, err);
}

static bool has_mark(const char *name, const char *mark)
{
	const size_t len = strlen(name), end = strlen(mark) + RANDOMLY;
	return name[0] == '.' && len > end + 1 &&
	       memcmp(name + len - end, mark, strlen(mark)) == 0 &&
	       strspn(name + len - RANDOMLY, digits) == RANDOMLY;
}

bool outfile_is_temp(const char *name)
{
	return has_mark(name, TEMP);
}

bool outfile_is_kept(const char *name)
{
	return has_mark(name, KEPT);
}

void outfile_lock_temp(const struct outfile *f)
{
	io_retry(flock(f->fd, LOCK_EX | LOCK_NB));
}

void outfile_drop_name(char **name)
{
	free(*name);
	*name = NULL;
}

/* As outfile_lock_temp for links, and for files that are not open, which have no lock themselves.
 * Who shares the descriptor of the folder comes after its owner, which has locked it. */
static void lock_folder(const struct outfile *f)
{
	if (!f->shared)
		io_retry(flock(f->dirfd, LOCK_SH | LOCK_NB));
}

int outfile_make_temp(struct outfile *f, char **name, outfile_make *make, void *ctx,
                      struct err *err)
{
	int error = EEXIST;
	*name = NULL;
	lock_folder(f);
	for (int i = 0; i < TEMP_TRIES && error == EEXIST; i++) {
		free(*name);
		*name = new_temp_name(f, name == &f->kept ? KEPT : TEMP, err);
		if (!*name)
			return -1;
		error = io_retry(make(f, *name, ctx)) ? errno : 0;
	}
	if (error)
		outfile_drop_name(name);
	return error;
}

struct link_from {
	int dir;
	const char *from;
	int flags;
};

static int make_link(struct outfile *f, const char *name, void *ctx)
{
	const struct link_from *l = ctx;
	return linkat(l->dir, l->from, f->dirfd, name, l->flags);
}

int outfile_link_to(struct outfile *f, int dir, const char *from, int flags, char **name,
                    struct err *err)
{
	struct link_from l = {dir, from, flags};
	return outfile_make_temp(f, name, make_link, &l, err);
}

static int make_file(struct outfile *f, const char *name, void *ctx)
{
	(void)ctx;
	/* Nobody else may open it who may not in the end. */
	f->fd = openat(f->dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	               f->has_mode ? f->mode : 0666);
	return f->fd < 0 ? -1 : 0;
}

int outfile_open_named(struct outfile *f, struct err *err)
{
	const int error = outfile_make_temp(f, &f->temp, make_file, NULL, err);
	if (error < 0)
		return -1;
	if (error) {
		errno = error;
		return create_error(f, err);
	}
	if (!f->staged) /* which is closed soon */
		outfile_lock_temp(f);
	return 0;
}

void outfile_proc_path(int fd, char buf[32])
{
	snprintf(buf, 32, "/proc/self/fd/%d", fd);
}

/* Create an unnamed file, which disappears with the process. 1: not supported in this folder. */
static int open_unnamed(struct outfile *f, struct err *err)
{
	char proc[32];
	f->fd = io_retry(openat(f->dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
	if (f->fd < 0) {
		/* Kernels and file systems without O_TMPFILE refuse to open a folder for writing.
		 */
		if (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT || errno == EINVAL)
			return 1;
		return create_error(f, err);
	}
	/* /proc is needed to name the file later; without it the file could never get a name. */
	outfile_proc_path(f->fd, proc);
	if (access(proc, F_OK)) {
		close(f->fd);
		f->fd = -1;
		return 1;
	}
	return 0;
}

/* Report a failed write or allocation, with the file size limit if there is one. */
int outfile_write_error(const struct outfile *f, const char *what, struct err *err)
{
	struct rlimit limit;
	if (errno == EFBIG && !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	    limit.rlim_cur < f->size)
		return err_set(err, ERR_OUTPUT,
		               "%s: %s: the file needs %llu bytes, over the limit of %llu bytes a "
		               "file (ulimit -f)",
		               f->path, what, (unsigned long long)f->size,
		               (unsigned long long)limit.rlim_cur);
	return err_errno(err, ERR_OUTPUT, "%s: %s", f->path, what);
}

/* A tmpfs has pages for a file at once, but to reserve them takes a sixth of the time of writing.
 * So it is done where so many files of this size would fill it. */
#define TMPFS_FILES 16

static bool is_plenty(const struct statfs *fs, uint64_t bytes)
{
	return fs->f_type == TMPFS_MAGIC && bytes <= room_left(fs) / TMPFS_FILES;
}

static int no_room(const struct outfile *f, uint64_t bytes, struct err *err)
{
	struct room room = {0};
	int ret = room_add(&room, f->fd, f->path, 1, bytes, err);
	if (ret == 0)
		ret = room_check(&room, err);
	room_release(&room);
	errno = ENOSPC; /* reserved blocks, a quota: the numbers do not show it */
	return ret ? ret : outfile_write_error(f, "cannot allocate the file", err);
}

static int check_length(const struct outfile *f, uint64_t bytes, struct err *err)
{
	if (bytes <= INT64_MAX)
		return 0;
	return err_set(err, ERR_OUTPUT, "%s: %llu bytes are too many for a file", f->path,
	               (unsigned long long)bytes);
}

static int allocate_at(struct outfile *f, int mode, uint64_t offset, uint64_t bytes,
                       struct err *err)
{
	const int r = io_retry(fallocate(f->fd, mode, (off_t)offset, (off_t)bytes));
	if (r && errno == ENOSPC)
		return no_room(f, bytes, err);
	if (r && errno != EOPNOTSUPP && errno != ENOSYS)
		return outfile_write_error(f, "cannot allocate the file", err);
	f->unallocated = r != 0;
	return 0;
}

static void examine_room(struct outfile *f, uint64_t bytes)
{
	struct statfs fs;
	f->unallocated = fstatfs(f->fd, &fs) == 0 && is_plenty(&fs, bytes);
}

static int allocate(struct outfile *f, int mode, uint64_t bytes, struct err *err)
{
	if (check_length(f, bytes, err))
		return -1;
	if (bytes == 0)
		return 0;
	examine_room(f, bytes);
	return f->unallocated ? 0 : allocate_at(f, mode, 0, bytes, err);
}

static int set_length(struct outfile *f, struct err *err)
{
	if (check_length(f, f->size, err))
		return -1;
	return io_retry(ftruncate(f->fd, (off_t)f->size))
	               ? outfile_write_error(f, "cannot set its size", err)
	               : 0;
}

static int allocate_range(void *file, uint64_t offset, uint64_t bytes, struct err *err)
{
	struct outfile *f = file;
	return f->unallocated ? 0 : allocate_at(f, 0, offset, bytes, err);
}

int outfile_allocate(struct outfile *f, uint64_t size, struct err *err)
{
	f->size = size;
	return f->memory ? set_length(f, err) : allocate(f, 0, size, err);
}

int outfile_make_sparse(struct outfile *f, uint64_t size, const struct sparse *data,
                        struct err *err)
{
	f->size = size;
	if (set_length(f, err))
		return -1;
	examine_room(f, sparse_bytes(data, size));
	return sparse_visit(data, 0, size, allocate_range, f, err);
}

/* Create an unnamed file or, if the folder does not support that, one with a temporary name. */
static int open_anywhere(struct outfile *f, struct err *err)
{
	int r = open_unnamed(f, err);
	return r > 0 ? outfile_open_named(f, err) : r;
}

static int open_temp(struct outfile *f, struct err *err)
{
	int mode;
	if (outfile_check_target(f, &mode, err) || open_anywhere(f, err))
		return -1;
	if (mode >= 0 && outfile_set_mode(f, (unsigned)mode, err))
		return -1;
	return allocate(f, 0, f->size, err);
}

int outfile_open(struct outfile *f, const char *path, uint64_t size, bool sync, bool force,
                 struct err *err)
{
	return outfile_open_below(f, path, 0, size, sync, force, err);
}

static int begin(struct outfile *f, const char *path, bool below, uint64_t size, bool sync,
                 bool force, struct err *err)
{
	*f = (struct outfile){.fd = -1,
	                      .dirfd = -1,
	                      .sync = sync,
	                      .force = force,
	                      .below = below,
	                      .size = size,
	                      .back = WRITEBACK_INIT};
	f->path = err_strdup(path, "a path", err);
	return f->path ? 0 : -1;
}

int outfile_find_target(struct outfile *f, const char *path, size_t top, uint64_t size, bool sync,
                        bool force, struct err *err)
{
	return begin(f, path, top > 0, size, sync, force, err) ? -1 : open_folder(f, top, err);
}

int outfile_find_beside(struct outfile *f, const char *path, uint64_t size, bool sync, bool force,
                        const struct outfile *beside, struct err *err)
{
	if (begin(f, path, true, size, sync, force, err) ||
	    !(f->name = err_strdup(path_name(path), "a path", err)))
		return -1;
	f->dirfd = beside->dirfd;
	f->shared = true;
	return 0;
}

int outfile_open_below(struct outfile *f, const char *path, size_t top, uint64_t size, bool sync,
                       bool force, struct err *err)
{
	if (outfile_find_target(f, path, top, size, sync, force, err) == 0 &&
	    open_temp(f, err) == 0)
		return 0;
	outfile_release(f);
	return -1;
}

/* ---- parts ---- */

/* The permissions of a new file: umask(2) would change them for all threads. */
static unsigned new_mode(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	unsigned mask = S_IRWXG | S_IRWXO;
	char line[256];
	while (status && fgets(line, sizeof line, status))
		if (sscanf(line, "Umask: %o", &mask) == 1)
			break;
	if (status)
		fclose(status);
	return 0666 & ~mask;
}

/* Use the part @fd, which may contain more than the output needs. */
static int take_part(struct outfile *f, int fd, int mode, struct err *err)
{
	struct stat st;
	f->fd = fd;
	f->mode = mode >= 0 ? (unsigned)mode : new_mode();
	f->part = true;
	f->reach = fstat(fd, &st) ? f->size : (uint64_t)st.st_size;
	if (f->reach > f->size) {
		f->reach = f->size;
		if (io_retry(ftruncate(fd, (off_t)f->size)))
			return err_errno(err, ERR_OUTPUT, "%s: cannot cut its part", f->path);
	}
	return allocate(f, 0, f->size, err);
}

int outfile_open_part(struct outfile *f, const char *path, size_t top, uint64_t size, bool sync,
                      bool force, int part, const char **why, struct err *err)
{
	int mode, ret = outfile_find_target(f, path, top, size, sync, force, err);
	*why = NULL;
	if (ret == 0)
		ret = outfile_check_target(f, &mode, err);
	if (ret == 0 && !(f->temp = part_name(f->name)))
		*why = "its name would be too long";
	if (f->temp && part < 0)
		part = part_open(f->dirfd, f->temp, true, why);
	if (f->temp && part >= 0) {
		lock_folder(f); /* for links that share it */
		if (take_part(f, part, mode, err) == 0)
			return 0;
	} else if (ret == 0) {
		outfile_drop_name(&f->temp);
		if (open_temp(f, err) == 0)
			return 0;
	}
	if (part >= 0 && f->fd != part)
		close(part);
	outfile_release(f);
	return -1;
}

int outfile_find_part(const char *path, size_t top, bool force)
{
	struct err ignored = ERR_INIT;
	struct outfile f;
	const char *why;
	char *name = NULL;
	int part = -1;
	if (outfile_find_target(&f, path, top, 0, false, force, &ignored) == 0 &&
	    (name = part_name(f.name)))
		part = part_open(f.dirfd, name, false, &why);
	free(name);
	outfile_release(&f);
	return part;
}

void outfile_remove_part(const char *path, size_t top, bool force, int part)
{
	struct err ignored = ERR_INIT;
	struct outfile f;
	char *name = NULL;
	if (outfile_find_target(&f, path, top, 0, false, force, &ignored) == 0 &&
	    (name = part_name(f.name)) && part_is_at(f.dirfd, name, part))
		io_retry(unlinkat(f.dirfd, name, 0));
	free(name);
	outfile_release(&f);
}

/* Keep what was written, and no bytes that were only allocated. */
static void leave_part(struct outfile *f)
{
	if (f->reach)
		io_retry(ftruncate(f->fd, (off_t)f->reach));
	if (f->reach || !part_is_at(f->dirfd, f->temp, f->fd))
		outfile_drop_name(&f->temp);
}

int outfile_check_folder(const struct outfile *f, struct err *err)
{
	return faccessat(f->dirfd, ".", W_OK | X_OK, AT_EACCESS) ? create_error(f, err) : 0;
}

int outfile_probe(struct outfile *f, const char *path, size_t top, const char *points_to,
                  bool force, bool *exists, struct err *err)
{
	struct stat st;
	int mode, ret = outfile_find_target(f, path, top, 0, false, force, err);
	f->points_to = points_to;
	if (ret == 0)
		ret = outfile_check_target(f, &mode, err);
	if (ret == 0)
		ret = outfile_check_folder(f, err);
	if (ret)
		outfile_release(f);
	else
		*exists = fstatat(f->dirfd, f->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	return ret;
}

/* Open the folder of @path or, if it does not exist, the one of its first @top bytes, or its
 * parent. */
static int open_near(const char *path, size_t top)
{
	int fd = beneath_open(path, top);
	if (fd >= 0)
		return fd;
	char *folder = strndup(path, path_trim(path, top));
	if (!folder)
		return -1;
	fd = io_retry(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (fd < 0 && errno == ENOENT)
		fd = beneath_open(folder, 0);
	int error = errno;
	free(folder);
	errno = error;
	return fd;
}

int outfile_open_aside(struct outfile *f, const char *name, const char *path, size_t top,
                       uint64_t size, struct err *err)
{
	*f = (struct outfile){.fd = -1, .dirfd = -1, .size = size, .back = WRITEBACK_INIT};
	f->path = err_strdup(name, "a path", err);
	f->name = f->path ? err_strdup(path_name(path), "a path", err) : NULL;
	if (f->name && (f->dirfd = open_near(path, top)) < 0)
		create_error(f, err);
	else if (f->name && open_anywhere(f, err) == 0 && allocate(f, 0, size, err) == 0) {
		if (f->temp)
			io_retry(unlinkat(f->dirfd, f->temp, 0));
		outfile_drop_name(&f->temp);
		close(f->dirfd);
		f->dirfd = -1;
		return 0;
	}
	outfile_release(f);
	return -1;
}

int outfile_set_mode(struct outfile *f, unsigned mode, struct err *err)
{
	f->mode = mode;
	f->has_mode = true;
	if (!f->part && !f->staged && io_retry(fchmod(f->fd, mode)))
		return err_errno(err, ERR_OUTPUT, "%s: cannot set the permissions", f->path);
	return 0;
}

int outfile_set_time(struct outfile *f, struct timespec modified, struct err *err)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, modified};
	if (io_retry(futimens(f->fd, times)))
		return err_errno(err, ERR_OUTPUT, "%s: cannot set the modification time", f->path);
	return 0;
}

int outfile_spool(struct outfile *f, const char *name, uint64_t size, struct err *err)
{
	const int fd = spool_open(err);
	return fd < 0 ? -1 : outfile_take_memory(f, fd, name, size, NULL, size, err);
}

int outfile_take_memory(struct outfile *f, int fd, const char *name, uint64_t head, void *memory,
                        uint64_t size, struct err *err)
{
	*f = (struct outfile){.fd = fd, .dirfd = -1, .size = size, .memory = memory, .head = head};
	f->path = err_strdup(name, "a name", err);
	if (f->path && (memory ? set_length(f, err) : allocate(f, 0, size, err)) == 0)
		return 0;
	if (!f->path)
		close(f->fd);
	outfile_release(f);
	return -1;
}

int outfile_reserve(struct outfile *f, uint64_t bytes, struct err *err)
{
	return allocate(f, FALLOC_FL_KEEP_SIZE, bytes, err);
}

int outfile_measure(struct outfile *f, struct err *err)
{
	struct stat st;
	if (fstat(f->fd, &st))
		return err_errno(err, ERR_OUTPUT, "%s: cannot examine what was written", f->path);
	f->size = (uint64_t)st.st_size;
	return 0;
}

/* ---- reading and writing ---- */

static void extend_reach(struct outfile *f, uint64_t end)
{
	uint64_t reach = atomic_load(&f->reach);
	while (reach < end && !atomic_compare_exchange_weak(&f->reach, &reach, end))
		;
}

/* Of @bytes bytes at @pos, the number of those that are in the file; the others are in memory. */
static size_t in_file(const struct outfile *f, uint64_t pos, size_t bytes)
{
	return f->memory ? io_before(pos, bytes, f->head) : bytes;
}

int outfile_pwrite(struct outfile *f, const void *buf, size_t bytes, uint64_t pos, struct err *err)
{
	if (pos > f->size || bytes > f->size - pos)
		return err_set(err, ERR_OTHER, "%s: a write past the end of the output", f->path);
	const size_t n = in_file(f, pos, bytes);
	if (n < bytes)
		memcpy(f->memory + (pos + n - f->head), (const char *)buf + n, bytes - n);
	if (pwrite_all(f->fd, buf, n, pos) < 0)
		return outfile_write_error(f, "cannot write", err);
	if (f->part)
		extend_reach(f, pos + bytes);
	if (f->sync && writeback_chunks(&f->back, f->fd, f->size, pos, bytes))
		return outfile_write_error(f, "cannot write", err);
	return 0;
}

int outfile_pread(struct outfile *f, void *buf, size_t bytes, uint64_t pos, struct err *err)
{
	const size_t n = in_file(f, pos, bytes);
	ssize_t got = pread_full(f->fd, buf, n, pos);
	if (got < 0)
		return err_errno(err, ERR_OUTPUT, "%s: cannot read back", f->path);
	if (n < bytes)
		memcpy((char *)buf + n, f->memory + (pos + n - f->head), bytes - n);
	if ((size_t)got < n)
		return err_set(err, ERR_OUTPUT, "%s: ends at byte %llu of %llu", f->path,
		               (unsigned long long)pos + (unsigned long long)got,
		               (unsigned long long)f->size);
	return 0;
}

int outfile_put(const char *path, const void *data, size_t n, struct err *err)
{
	struct outfile f = {.fd = -1, .dirfd = -1};
	int ret = -1;
	if (outfile_open(&f, path, n, true, true, err) == 0 &&
	    outfile_pwrite(&f, data, n, 0, err) == 0 && outfile_seal(&f, err) == 0)
		ret = outfile_commit(&f, err);
	outfile_release(&f);
	return ret;
}

void outfile_release(struct outfile *f)
{
	if (!f->path)
		return;
	if (f->part && f->temp)
		leave_part(f);
	if (f->temp)
		io_retry(unlinkat(f->dirfd, f->temp, 0));
	if (f->kept)
		io_retry(unlinkat(f->dirfd, f->kept, 0));
	if (f->fd >= 0)
		close(f->fd);
	if (f->dirfd >= 0 && !f->shared)
		close(f->dirfd);
	free(f->temp);
	free(f->kept);
	free(f->name);
	free(f->path);
	*f = (struct outfile){.fd = -1, .dirfd = -1, .committed = f->committed};
}
