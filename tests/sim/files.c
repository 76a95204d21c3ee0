/*
 * Files: real ones, in a folder in memory that is the working directory; a rank's are in rN/. Calls
 * take time, and fail as the disk of the process says.
 */
#include "tests/sim/sim.h"
#include "tests/sim/wrap.h"

#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

static int fail(int error)
{
	errno = error;
	return -1;
}

static int keep(int fd)
{
	if (fd >= 0 && current->nfds == FILES_MOST)
		abort();
	if (fd >= 0)
		current->fds[current->nfds++] = fd;
	return fd;
}

static void forget(int fd)
{
	struct proc *p = current;
	for (int i = 0; i < p->nfds; i++)
		if (p->fds[i] == fd) {
			p->fds[i] = p->fds[--p->nfds];
			return;
		}
}

static void disk_time(int64_t most)
{
	step();
	if (most)
		task_sleep(rng_range(&sched_rng, 0, most));
	else if (rng_chance(&sched_rng, 250))
		task_yield();
}

/* A call that changes files. -1: it fails. */
static int change(int64_t time)
{
	struct file_faults *d = &current->disk;
	disk_time(time);
	current->changes++;
	if (!d->fail_at || current->changes < d->fail_at ||
	    (current->changes > d->fail_at && !d->fail_on))
		return 0;
	note("disk fails", (int64_t)current->changes, d->fail_errno);
	d->struck = true;
	return fail(d->fail_errno);
}

static ssize_t change_bytes(size_t *n)
{
	struct file_faults *d = &current->disk;
	if (change(d->slow) < 0)
		return -1;
	d->struck |= *n > d->room;
	if (*n && !d->room)
		return fail(ENOSPC);
	if (*n > d->room)
		*n = d->room;
	if (d->room != UINT64_MAX)
		d->room -= *n;
	return 0;
}

ssize_t __wrap_read(int fd, void *buf, size_t n)
{
	struct sock *s = current ? sock_of(fd) : NULL;
	if (s)
		return sock_read(s, buf, n);
	if (current)
		disk_time(0);
	return __real_read(fd, buf, n);
}

ssize_t __wrap_write(int fd, const void *buf, size_t n)
{
	struct sock *s = current ? sock_of(fd) : NULL;
	if (s)
		return sock_write(s, buf, n);
	if (current && (fd == STDOUT_FILENO || fd == STDERR_FILENO))
		return (ssize_t)fwrite(buf, 1, n,
		                       fd == STDOUT_FILENO ? current->out : current->err);
	if (current && change_bytes(&n) < 0)
		return -1;
	if (current)
		disk_wrote(fd);
	return __real_write(fd, buf, n);
}

int __wrap_close(int fd)
{
	struct sock *s = current ? sock_of(fd) : NULL;
	if (s) {
		step();
		sock_close(s);
		return 0;
	}
	if (current && fd < 0)
		return fail(EBADF);
	if (current) {
		step();
		forget(fd);
	}
	return __real_close(fd);
}

int __wrap_fcntl64(int fd, int command, ...)
{
	va_list ap;
	va_start(ap, command);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	if (!current)
		return __real_fcntl64(fd, command, arg);
	step();
	if (sock_of(fd))
		return 0;
	if (command == F_GETFD) /* descriptors of files are few */
		return fail(EBADF);
	int ret = __real_fcntl64(fd, command, arg);
	return command == F_DUPFD_CLOEXEC ? keep(ret) : ret;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
	if (!current)
		return __real_poll(fds, n, ms);
	step_and_yield();
	for (nfds_t i = 0; i < n; i++)
		fds[i].revents = fds[i].events;
	return (int)n;
}

static bool changes_files(int flags)
{
	return (flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE;
}

int __wrap_open64(const char *path, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	mode_t mode = va_arg(ap, mode_t);
	va_end(ap);
	if (!current)
		return __real_open64(path, flags, mode);
	if (changes_files(flags) ? change(0) < 0 : (disk_time(0), false))
		return -1;
	return keep(__real_open64(path, flags, mode));
}

int __wrap_openat64(int dir, const char *path, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	mode_t mode = va_arg(ap, mode_t);
	va_end(ap);
	if (!current)
		return __real_openat64(dir, path, flags, mode);
	if (changes_files(flags) ? change(0) < 0 : (disk_time(0), false))
		return -1;
	return keep(__real_openat64(dir, path, flags, mode));
}

ssize_t __wrap_pread64(int fd, void *buf, size_t n, off64_t pos)
{
	if (!current)
		return __real_pread64(fd, buf, n, pos);
	disk_time(current->disk.slow);
	if (++current->reads == current->disk.read_fails_at) {
		current->disk.struck = true;
		return fail(EIO);
	}
	return __real_pread64(fd, buf, n, pos);
}

ssize_t __wrap_pwrite64(int fd, const void *buf, size_t n, off64_t pos)
{
	if (current && change_bytes(&n) < 0)
		return -1;
	if (current)
		disk_wrote(fd);
	return __real_pwrite64(fd, buf, n, pos);
}

int __wrap_fsync(int fd)
{
	if (!current)
		return __real_fsync(fd);
	if (change(current->disk.slow_sync) < 0)
		return -1;
	disk_synced(fd);
	return 0;
}

int __wrap_sync_file_range(int fd, off64_t at_, off64_t n, unsigned flags)
{
	if (!current)
		return __real_sync_file_range(fd, at_, n, flags);
	return change(current->disk.slow);
}

int __wrap_fallocate64(int fd, int mode, off64_t at_, off64_t n)
{
	if (!current)
		return __real_fallocate64(fd, mode, at_, n);
	if (change(0) < 0)
		return -1;
	if (current->disk.room < (uint64_t)n) {
		current->disk.struck = true;
		return fail(ENOSPC);
	}
	disk_wrote(fd);
	return __real_fallocate64(fd, mode, at_, n);
}

int __wrap_ftruncate64(int fd, off64_t n)
{
	if (current && change(0) < 0)
		return -1;
	if (current)
		disk_wrote(fd);
	return __real_ftruncate64(fd, n);
}

int __wrap_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
	if (!current)
		return __real_linkat(from_dir, from, to_dir, to, flags);
	if (change(0) < 0)
		return -1;
	int ret = __real_linkat(from_dir, from, to_dir, to, flags);
	if (ret == 0) {
		disk_linked(to_dir, to);
		current->sealed = true;
	}
	return ret;
}

int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	if (!current)
		return __real_renameat(from_dir, from, to_dir, to);
	if (change(0) < 0)
		return -1;
	disk_will_rename(to_dir, from, to);
	int ret = __real_renameat(from_dir, from, to_dir, to);
	if (ret < 0)
		disk_rename_failed();
	if (ret == 0 && !current->named_at)
		current->named_at = now;
	if (ret == 0)
		note("named", current->id, 0);
	return ret;
}

/* The trial of a rename, from one temporary name to another. */
int __wrap_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	if (!current)
		return __real_renameat2(from_dir, from, to_dir, to, flags);
	if (change(0) < 0)
		return -1;
	int ret = __real_renameat2(from_dir, from, to_dir, to, flags);
	if (ret == 0)
		disk_renamed(to_dir, from, to);
	return ret;
}

int __wrap_unlinkat(int dir, const char *path, int flags)
{
	if (current)
		disk_time(0);
	return __real_unlinkat(dir, path, flags);
}

int __wrap_fchmod(int fd, mode_t mode)
{
	if (current && change(0) < 0)
		return -1;
	return __real_fchmod(fd, mode);
}

int __wrap_fstat64(int fd, struct stat64 *st)
{
	if (current)
		step();
	return __real_fstat64(fd, st);
}

/* As a disk, for which the product does more than for memory. */
int __wrap_fstatfs64(int fd, struct statfs64 *fs)
{
	int ret = __real_fstatfs64(fd, fs);
	if (current)
		fs->f_type = 0xef53; /* ext4 */
	return ret;
}

int __wrap_dup2(int from, int to)
{
	if (current)
		abort();
	return __real_dup2(from, to);
}

/* Only the host's own files are read by streams. */
FILE *__wrap_fopen64(const char *path, const char *mode)
{
	static char text[64];
	if (!current)
		return __real_fopen64(path, mode);
	disk_time(0);
	if (strcmp(path, "/proc/sys/kernel/random/boot_id") == 0) {
		snprintf(text, sizeof text, "00000000-0000-4000-8000-%012d\n", current->host);
		return fmemopen(text, strlen(text), "r");
	}
	if (strncmp(path, "/proc/", 6) == 0) {
		errno = ENOENT;
		return NULL;
	}
	return __real_fopen64(path, mode);
}

/* The folder's name differs from run to run: none of the world may see it. */
char *__wrap_realpath(const char *path, char *whole)
{
	if (!current)
		return __real_realpath(path, whole);
	step();
	if (access(path, F_OK) < 0)
		return NULL;
	snprintf(whole, 4096, "/sim/%s", path);
	return whole;
}

char *__wrap_getcwd(char *buf, size_t n)
{
	if (!current)
		return __real_getcwd(buf, n);
	snprintf(buf, n, "/sim");
	return buf;
}
