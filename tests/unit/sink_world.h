/*
 * For the tests of sinks: a temporary folder, and calls of the kernel that fail on demand.
 */
#ifndef COLLCTL_TESTS_SINK_WORLD_H
#define COLLCTL_TESTS_SINK_WORLD_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "lib/data/files/sink.h"
#include "tests/unit/unit.h"

/* ---- calls that fail on demand ---- */

enum call { NO_CALL, RENAMEAT, LINKAT, SYMLINKAT, FALLOCATE, FSYNC, SYNCFS, FCHMOD };

static struct {
	enum call call; /* this call, */
	int skip;       /* after so many that succeed, */
	int error;      /* fails with this error, */
	int times;      /* so often */
	int hits;
	int fsyncs, syncs;
	void (*look)(void);
	void (*look_at)(int fd, mode_t mode); /* before fchmod */
	uint32_t fs_type;                     /* of all file systems, if not 0 */
	bool full;                            /* no file system has a block left */
} fault;

static inline bool fails(enum call call)
{
	if (fault.call != call || fault.hits >= fault.times)
		return false;
	if (fault.skip > 0) {
		fault.skip--;
		return false;
	}
	fault.hits++;
	errno = fault.error;
	return true;
}

/* From now on, after @skip of them that succeed, @times of these calls fail with @error. */
static inline void fail_calls(enum call call, int skip, int error, int times)
{
	fault.call = call;
	fault.skip = skip;
	fault.error = error;
	fault.times = times;
	fault.hits = 0;
}

/* Renames to temporary names never fail. */
int renameat2(int from, const char *a, int to, const char *b, unsigned flags)
{
	const bool placed = *b != '.';
	if (fault.look && placed)
		fault.look();
	return placed && fails(RENAMEAT) ? -1 : (int)syscall(SYS_renameat2, from, a, to, b, flags);
}

int renameat(int from, const char *a, int to, const char *b)
{
	return renameat2(from, a, to, b, 0);
}

int linkat(int from, const char *a, int to, const char *b, int flags)
{
	return fails(LINKAT) ? -1 : (int)syscall(SYS_linkat, from, a, to, b, flags);
}

int symlinkat(const char *target, int at, const char *path)
{
	return fails(SYMLINKAT) ? -1 : (int)syscall(SYS_symlinkat, target, at, path);
}

int fallocate(int fd, int mode, off_t offset, off_t len)
{
	return fails(FALLOCATE) ? -1 : (int)syscall(SYS_fallocate, fd, mode, offset, len);
}

int fsync(int fd)
{
	fault.fsyncs++;
	return fails(FSYNC) ? -1 : (int)syscall(SYS_fsync, fd);
}

int syncfs(int fd)
{
	fault.syncs++;
	return fails(SYNCFS) ? -1 : (int)syscall(SYS_syncfs, fd);
}

int fchmod(int fd, mode_t mode)
{
	if (fault.look_at)
		fault.look_at(fd, mode);
	return fails(FCHMOD) ? -1 : (int)syscall(SYS_fchmod, fd, mode);
}

int fstatfs(int fd, struct statfs *fs)
{
	const int ret = (int)syscall(SYS_fstatfs, fd, fs);
	if (fault.fs_type)
		fs->f_type = fault.fs_type;
	if (fault.full)
		fs->f_bfree = fs->f_bavail = 0;
	return ret;
}

/* ---- the folder ---- */

static char folder[] = "/tmp/test_sink.XXXXXX";

static inline int into_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static inline int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
	(void)st;
	(void)flag;
	return at->level ? remove(path) : 0;
}

static inline int empty_folder(void **state)
{
	(void)state;
	memset(&fault, 0, sizeof fault);
	return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline int out_of_folder(void **state)
{
	empty_folder(state);
	return chdir("/") || rmdir(folder);
}

static inline int names(const char *path)
{
	int n = 0;
	DIR *d = opendir(path);
	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static inline void put(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static inline size_t get(const char *path, char *buf, size_t cap)
{
	int fd = open(path, O_RDONLY);
	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	ssize_t n = read(fd, buf, cap - 1);
	assert_true(n >= 0);
	buf[n] = '\0';
	close(fd);
	return (size_t)n;
}

static inline void assert_content(const char *path, const char *text)
{
	char buf[4096];
	get(path, buf, sizeof buf);
	assert_string_equal(buf, text);
}

static inline mode_t mode_of(const char *path)
{
	struct stat st;
	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode & 07777;
}

static inline void assert_err(int ret, const struct err *err, int code, const char *words)
{
	assert_int_equal(ret, -1);
	if (err->code != code || !strstr(err->text, words))
		fail_msg("%d '%s' is not %d '%s'", err->code, err->text, code, words);
}

static inline struct sink *new_sink(bool sync)
{
	struct err err = {0};
	struct sink *s = sink_new(sync, false, &err);
	assert_non_null(s);
	return s;
}

static inline int with_stdout_at(int fd, struct sink *s, struct err *err)
{
	fflush(stdout);
	int saved = dup(STDOUT_FILENO);
	assert_int_equal(dup2(fd, STDOUT_FILENO), STDOUT_FILENO);
	int ret = sink_commit(s, err);
	assert_int_equal(dup2(saved, STDOUT_FILENO), STDOUT_FILENO);
	close(saved);
	return ret;
}

#endif
