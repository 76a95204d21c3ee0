/*
 * Output files: all or nothing, whatever call fails. The calls of the C library that outfile*.c
 * make are replaced here by ones that can be told to fail.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/data/files/outfile.h"
#include "tests/unit/unit.h"

/* ---- calls that fail on demand ---- */

enum call {
	NO_CALL,
	OPENAT,
	FALLOCATE,
	PWRITE,
	PREAD,
	FSYNC,
	CLOSE,
	LINKAT,
	RENAMEAT,
	RENAMEAT2,
	FCHMOD,
	SYNC_RANGE
};

static struct {
	enum call call; /* this call */
	int skip;       /* after so many that succeed */
	int error;      /* fails with this error, */
	bool for_ever;  /* once or always */
	bool hit;
	bool no_tmpfile;   /* O_TMPFILE is not supported */
	bool no_fallocate; /* nor fallocate */
	size_t at_most;    /* bytes a pwrite or pread takes */
	int interrupt;     /* so many calls are interrupted */
	unsigned ranges;   /* sync_file_range was called so often */
	unsigned fsyncs;
} fault;

static bool fails(enum call call)
{
	if (fault.call != call)
		return false;
	if (fault.skip > 0) {
		fault.skip--;
		return false;
	}
	if (fault.hit && !fault.for_ever)
		return false;
	fault.hit = true;
	errno = fault.error;
	return true;
}

static bool interrupted(void)
{
	if (fault.interrupt <= 0)
		return false;
	fault.interrupt--;
	errno = EINTR;
	return true;
}

int openat(int dir, const char *path, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	unsigned mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, unsigned) : 0;
	va_end(ap);
	if ((flags & O_TMPFILE) == O_TMPFILE && fault.no_tmpfile) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return fails(OPENAT) ? -1 : (int)syscall(SYS_openat, dir, path, flags, mode);
}

int fallocate(int fd, int mode, off_t offset, off_t len)
{
	if (fault.no_fallocate) {
		errno = EOPNOTSUPP;
		return -1;
	}
	if (interrupted() || fails(FALLOCATE))
		return -1;
	return (int)syscall(SYS_fallocate, fd, mode, offset, len);
}

static size_t part(size_t n)
{
	return fault.at_most && n > fault.at_most ? fault.at_most : n;
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
	if (interrupted() || fails(PWRITE))
		return -1;
	return syscall(SYS_pwrite64, fd, buf, part(n), at);
}

ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
	if (interrupted() || fails(PREAD))
		return -1;
	return syscall(SYS_pread64, fd, buf, part(n), at);
}

int fsync(int fd)
{
	fault.fsyncs++;
	return fails(FSYNC) ? -1 : (int)syscall(SYS_fsync, fd);
}

int close(int fd)
{
	int r = (int)syscall(SYS_close, fd);
	return fails(CLOSE) ? -1 : r;
}

int linkat(int from, const char *a, int to, const char *b, int flags)
{
	return fails(LINKAT) ? -1 : (int)syscall(SYS_linkat, from, a, to, b, flags);
}

int renameat(int from, const char *a, int to, const char *b)
{
	return fails(RENAMEAT) ? -1 : (int)syscall(SYS_renameat2, from, a, to, b, 0);
}

static bool no_flag; /* RENAME_NOREPLACE is not supported */

int renameat2(int from, const char *a, int to, const char *b, unsigned flags)
{
	if (no_flag) {
		errno = EINVAL;
		return -1;
	}
	return fails(RENAMEAT2) ? -1 : (int)syscall(SYS_renameat2, from, a, to, b, flags);
}

int fchmod(int fd, mode_t mode)
{
	return fails(FCHMOD) ? -1 : (int)syscall(SYS_fchmod, fd, mode);
}

int sync_file_range(int fd, off_t offset, off_t len, unsigned flags)
{
	fault.ranges++;
	return fails(SYNC_RANGE) ? -1 : (int)syscall(SYS_sync_file_range, fd, offset, len, flags);
}

/* ---- a folder of its own ---- */

static char folder[] = "/tmp/test_outfile.XXXXXX";
static const char old[] = "the old content";
#define OLD_LEN (sizeof old - 1)
#define NEW_LEN 100000

static char content[NEW_LEN];

static int into_folder(void **state)
{
	for (size_t i = 0; i < NEW_LEN; i++)
		content[i] = (char)('a' + i % 23);
	return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static int empty_folder(void **state)
{
	memset(&fault, 0, sizeof fault);
	DIR *d = opendir(".");
	struct dirent *e;
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			assert_int_equal(remove(e->d_name), 0);
	closedir(d);
	return 0;
}

static int out_of_folder(void **state)
{
	empty_folder(state);
	return chdir("/") || rmdir(folder);
}

static int names(void)
{
	int n = 0;
	DIR *d = opendir(".");
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void put(const char *path, const void *p, size_t n, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, p, n), n);
	assert_int_equal(syscall(SYS_fchmod, fd, mode), 0);
	assert_int_equal(syscall(SYS_close, fd), 0);
}

static void assert_content(const char *path, const void *p, size_t n)
{
	char *buf = malloc(n + 1);
	int fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, buf, n + 1), n);
	assert_memory_equal(buf, p, n);
	syscall(SYS_close, fd);
	free(buf);
}

static mode_t mode_of(const char *path)
{
	struct stat st;
	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode;
}

/* The whole life of an output file; -1 and the error where it ends early. */
static int write_out(const char *path, bool sync, bool force, struct err *err)
{
	struct outfile f;
	int ret = -1;
	err_clear(err);
	if (outfile_open(&f, path, NEW_LEN, sync, force, err))
		return -1;
	/* Two ranges, the second one first. */
	if (!outfile_pwrite(&f, content + 60000, NEW_LEN - 60000, 60000, err) &&
	    !outfile_pwrite(&f, content, 60000, 0, err) && !outfile_seal(&f, err))
		ret = outfile_commit(&f, err);
	outfile_release(&f);
	outfile_release(&f);
	return ret;
}

static void assert_written(const char *path, bool sync, bool force)
{
	struct err err;
	if (write_out(path, sync, force, &err))
		fail_msg("%s: %s", path, err.text);
	assert_content(path, content, NEW_LEN);
}

static void assert_refused(const char *path, bool force, const char *words)
{
	struct err err;
	assert_int_equal(write_out(path, true, force, &err), -1);
	assert_int_equal(err.code, ERR_OUTPUT);
	if (!strstr(err.text, words))
		fail_msg("'%s' lacks '%s'", err.text, words);
}

/* Is the file's temporary name told from others, and would another process find it in use? */
static bool is_locked_temp(const struct outfile *f)
{
	int fd = f->temp ? open(f->temp, O_RDONLY) : -1;
	bool locked = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
	if (fd >= 0)
		syscall(SYS_close, fd);
	return locked && outfile_is_temp(f->temp) && !outfile_is_kept(f->temp);
}

/* ---- tests ---- */

TEST_WITH(test_new, NULL, empty_folder)
{
	mode_t mask = umask(027);
	for (int named = 0; named < 2; named++) {
		fault.no_tmpfile = named;
		assert_written("new.npy", named, false);
		assert_int_equal(mode_of("new.npy"), S_IFREG | 0640);
		assert_int_equal(names(), 1);
		remove("new.npy");
		char path[sizeof folder + 16];
		snprintf(path, sizeof path, "%s/abs.npy", folder);
		assert_written(path, false, false);
		remove(path);
	}
	umask(mask);
}

TEST_WITH(test_replace_keeps_mode, NULL, empty_folder)
{
	for (int named = 0; named < 2; named++) {
		fault.no_tmpfile = named;
		put("x", old, OLD_LEN, 0604);
		assert_written("x", true, false);
		assert_int_equal(mode_of("x"), S_IFREG | 0604);
		assert_int_equal(names(), 1);
	}
}

TEST_WITH(test_empty, NULL, empty_folder)
{
	struct outfile f;
	struct err err = {0};
	assert_int_equal(outfile_open(&f, "empty", 0, true, false, &err), 0);
	assert_int_equal(outfile_seal(&f, &err), 0);
	assert_int_equal(outfile_commit(&f, &err), 0);
	outfile_release(&f);
	assert_content("empty", "", 0);
}

/* Until the commit the folder shows the old file; sealed and given up, nothing else is left. */
TEST_WITH(test_nothing_before_commit, NULL, empty_folder)
{
	for (int named = 0; named < 2; named++)
		for (int sealed = 0; sealed < 2; sealed++) {
			struct outfile f;
			struct err err = {0};
			fault.no_tmpfile = named;
			put("x", old, OLD_LEN, 0644);
			assert_int_equal(outfile_open(&f, "x", NEW_LEN, true, false, &err), 0);
			assert_int_equal(outfile_pwrite(&f, content, NEW_LEN, 0, &err), 0);
			assert_int_equal(names(), 1 + named);
			if (sealed)
				assert_int_equal(outfile_seal(&f, &err), 0);
			assert_int_equal(names(), 1 + (named || sealed));
			assert_int_equal(is_locked_temp(&f), named || sealed);
			assert_content("x", old, OLD_LEN);
			outfile_release(&f);
			assert_int_equal(names(), 1);
			assert_content("x", old, OLD_LEN);
		}
}

TEST_WITH(test_read_back, NULL, empty_folder)
{
	struct outfile f;
	struct err err = {0};
	char buf[5000];
	assert_int_equal(outfile_open(&f, "x", NEW_LEN, true, false, &err), 0);
	assert_int_equal(outfile_pwrite(&f, content, NEW_LEN, 0, &err), 0);
	fault.at_most = 7;
	fault.interrupt = 3;
	assert_int_equal(outfile_pread(&f, buf, sizeof buf, 1234, &err), 0);
	assert_memory_equal(buf, content + 1234, sizeof buf);
	assert_int_equal(outfile_pread(&f, buf, 10, NEW_LEN - 5, &err), -1);
	assert_int_equal(err.code, ERR_OUTPUT);
	outfile_release(&f);
}

TEST_WITH(test_short_writes, NULL, empty_folder)
{
	fault.at_most = 1001;
	fault.interrupt = 5;
	assert_written("x", true, false);
}

TEST_WITH(test_past_the_end, NULL, empty_folder)
{
	struct outfile f;
	struct err err = {0};
	assert_int_equal(outfile_open(&f, "x", 10, true, false, &err), 0);
	assert_int_equal(outfile_pwrite(&f, content, 10, 1, &err), -1);
	err_clear(&err);
	assert_int_equal(outfile_pwrite(&f, content, 1, UINT64_MAX, &err), -1);
	outfile_release(&f);
}

TEST_WITH(test_no_fallocate, NULL, empty_folder)
{
	fault.no_fallocate = true;
	assert_written("x", true, false);
}

/* A file that isn't as long as it should be doesn't pass the seal. */
TEST_WITH(test_truncated_behind_our_back, NULL, empty_folder)
{
	struct outfile f;
	struct err err = {0};
	assert_int_equal(outfile_open(&f, "x", NEW_LEN, true, false, &err), 0);
	assert_int_equal(outfile_pwrite(&f, content, NEW_LEN, 0, &err), 0);
	assert_int_equal(ftruncate(f.fd, 5), 0);
	assert_int_equal(outfile_seal(&f, &err), -1);
	assert_non_null(strstr(err.text, "5 bytes long after writing, not 100000"));
	outfile_release(&f);
	assert_int_equal(names(), 0);
}

/* Each call fails in turn: the error is 4, the old file is whole, nothing else is there. */
TEST_WITH(test_each_failure, NULL, empty_folder)
{
	static const struct {
		enum call call;
		int skip, error;
	} faults[] = {
	        {OPENAT, 0, EACCES},    {OPENAT, 1, EACCES}, /* the folder */
	        {OPENAT, 2, EACCES},    {OPENAT, 2, EROFS},     {OPENAT, 2, ENOSPC},
	        {FALLOCATE, 0, ENOSPC}, {FALLOCATE, 0, EDQUOT}, {FALLOCATE, 0, EFBIG},
	        {PWRITE, 0, ENOSPC},    {PWRITE, 1, ENOSPC},    {PWRITE, 50, EIO},
	        {PWRITE, 99, EDQUOT},   {FSYNC, 0, EIO},        {FSYNC, 0, ENOSPC},
	        {CLOSE, 1, EIO},        {CLOSE, 1, EDQUOT},     {LINKAT, 0, EPERM},
	        {LINKAT, 0, ENOSPC},    {RENAMEAT, 0, EIO},     {RENAMEAT, 0, EACCES},
	        {FCHMOD, 0, EPERM},     {RENAMEAT2, 0, EIO},    {RENAMEAT2, 0, EACCES},
	};
	for (int named = 0; named < 2; named++)
		for (size_t i = 0; i < LENGTH(faults); i++) {
			struct err err;
			memset(&fault, 0, sizeof fault);
			put("x", old, OLD_LEN, 0644);
			if (named && faults[i].call == LINKAT)
				continue;
			fault.no_tmpfile = named;
			fault.at_most = 1000;
			fault.call = faults[i].call;
			fault.skip = faults[i].skip;
			fault.error = faults[i].error;
			assert_int_equal(write_out("x", true, false, &err), -1);
			assert_true(fault.hit);
			assert_int_equal(err.code, ERR_OUTPUT);
			assert_true(!strncmp(err.text, "x: ", 3));
			assert_non_null(strstr(err.text, strerror(faults[i].error)));
			assert_content("x", old, OLD_LEN);
			assert_int_equal(names(), 1);
		}
}

/* The folder's fsync comes after the rename: the caller gets the error, and the new file is there.
 */
TEST_WITH(test_folder_sync_fails, NULL, empty_folder)
{
	struct err err;
	put("x", old, OLD_LEN, 0644);
	fault.call = FSYNC;
	fault.skip = 1;
	fault.error = EIO;
	assert_int_equal(write_out("x", true, false, &err), -1);
	assert_int_equal(err.code, ERR_OUTPUT);
	assert_content("x", content, NEW_LEN);
	assert_int_equal(names(), 1);
}

/* A temporary name that is taken is not an error, but not for ever. */
TEST_WITH(test_names_taken, NULL, empty_folder)
{
	struct err err;
	fault.call = LINKAT;
	fault.error = EEXIST;
	assert_written("x", true, false);
	assert_true(fault.hit);
	fault.no_tmpfile = true;
	fault.call = OPENAT;
	fault.skip = 2; /* those of the folder */
	fault.hit = false;
	assert_written("y", true, false);
	assert_true(fault.hit);
	fault.for_ever = true;
	fault.skip = 2;
	assert_int_equal(write_out("z", true, false, &err), -1);
	assert_int_equal(names(), 2);
}

/* A file system or a filter of system calls that does not know the trial's flag. */
TEST_WITH(test_trial_without_flag, NULL, empty_folder)
{
	static const int errors[] = {EINVAL, ENOSYS, EOPNOTSUPP, EPERM};
	for (size_t i = 0; i < LENGTH(errors); i++) {
		struct err err;
		memset(&fault, 0, sizeof fault);
		fault.call = RENAMEAT2;
		fault.error = errors[i];
		assert_written("x", true, false);
		assert_true(fault.hit);
		assert_int_equal(names(), 1);
		put("x", old, OLD_LEN, 0644);
		memset(&fault, 0, sizeof fault);
		no_flag = true;
		fault.call = RENAMEAT;
		fault.error = EROFS;
		assert_int_equal(write_out("x", true, false, &err), -1);
		no_flag = false;
		assert_non_null(strstr(err.text, "cannot rename a file in its folder"));
		assert_content("x", old, OLD_LEN);
		assert_int_equal(names(), 1);
	}
}

TEST_WITH(test_no_sync, NULL, empty_folder)
{
	assert_written("x", false, false);
	assert_int_equal(fault.fsyncs, 0);
	assert_written("x", true, false);
	assert_int_equal(fault.fsyncs, 2);
}

/* Write-back starts once a chunk of 8 MiB, and its errors count. */
TEST_WITH(test_early_write_back, NULL, empty_folder)
{
	enum { MIB = 1 << 20 };
	struct outfile f;
	struct err err = {0};
	char *mib = calloc(1, MIB);
	assert_int_equal(outfile_open(&f, "big", 20 * MIB, true, false, &err), 0);
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(outfile_pwrite(&f, mib, MIB, i * MIB, &err), 0);
	assert_int_equal(fault.ranges, 2);
	fault.call = SYNC_RANGE;
	fault.error = EIO;
	assert_int_equal(outfile_pwrite(&f, mib, MIB, 7 * MIB, &err), -1);
	assert_int_equal(err.code, ERR_OUTPUT);
	outfile_release(&f);
	assert_int_equal(outfile_open(&f, "big", 20 * MIB, false, false, &err), 0);
	fault.ranges = 0;
	assert_int_equal(outfile_pwrite(&f, mib, MIB, 7 * MIB, &err), 0);
	assert_int_equal(fault.ranges, 0);
	outfile_release(&f);
	free(mib);
}

TEST_WITH(test_targets, NULL, empty_folder)
{
	assert_refused("", false, "is a directory");
	assert_refused(".", false, "is a directory");
	assert_refused("nowhere/", false, "is a directory");
	assert_refused("/", false, "is a directory");
	assert_refused("nowhere/x", false, "cannot open the folder 'nowhere'");
	assert_int_equal(mkdir("dir", 0755), 0);
	assert_refused("dir", false, "is a directory");
	assert_refused("dir", true, "is a directory");
	assert_int_equal(mkfifo("fifo", 0644), 0);
	assert_refused("fifo", false, "is a FIFO");
	assert_refused("fifo", true, "is a FIFO");
	assert_refused("/dev/null", true, "is a device");
	assert_int_equal(names(), 2);
	char longest[NAME_MAX + 1];
	memset(longest, 'n', NAME_MAX);
	longest[NAME_MAX] = '\0';
	assert_written(longest, false, false);
	fault.no_tmpfile = true;
	assert_written(longest, false, false);
}

TEST_WITH(test_symlinks, NULL, empty_folder)
{
	put("file", old, OLD_LEN, 0600);
	assert_int_equal(symlink("file", "link"), 0);
	assert_refused("link", false, "is a symbolic link");
	assert_content("file", old, OLD_LEN);

	assert_written("link", true, true);
	assert_content("file", content, NEW_LEN);
	assert_true(S_ISLNK(mode_of("link")));
	assert_int_equal(mode_of("file"), S_IFREG | 0600);

	/* Link to link to a file in another folder that isn't there yet. */
	assert_int_equal(mkdir("sub", 0755), 0);
	assert_int_equal(symlink("../there", "sub/two"), 0);
	assert_int_equal(symlink("sub/two", "one"), 0);
	assert_written("one", true, true);
	assert_content("there", content, NEW_LEN);
	assert_true(S_ISLNK(mode_of("sub/two")));
	remove("sub/two");

	assert_int_equal(symlink("loop", "loop"), 0);
	assert_refused("loop", true, "cannot follow the symbolic link");
	assert_refused("loop", false, "is a symbolic link");
	assert_int_equal(symlink("sub", "to-dir"), 0);
	assert_refused("to-dir", true, "is a directory");
}

/* A link of a user who owns neither the file nor the folder, and one of the folder's owner. */
TEST_WITH(test_foreign_links, NULL, empty_folder)
{
	struct err err = {0};
	struct outfile f;
	bool exists;
	if (geteuid() != 0)
		skip();
	put("file", old, OLD_LEN, 0644);
	assert_int_equal(symlink("file", "link"), 0);
	assert_int_equal(symlink("link", "mine"), 0);
	assert_int_equal(lchown("link", 12345, 12345), 0);
	for (int force = 0; force < 2; force++)
		assert_refused("link", force,
		               "is a symbolic link of user 12345, which is not followed");
	assert_refused("mine", true, "mine: is a symbolic link of user 12345");
	assert_int_equal(outfile_probe(&f, "link", 0, NULL, true, &exists, &err), -1);
	assert_int_equal(err.code, ERR_OUTPUT);
	err_clear(&err);
	assert_int_equal(outfile_put("link", content, NEW_LEN, &err), -1);
	assert_int_equal(err.code, ERR_OUTPUT);
	assert_content("file", old, OLD_LEN);
	assert_true(S_ISLNK(mode_of("link")));

	assert_int_equal(mkdir("home", 0755), 0);
	assert_int_equal(chown("home", 12345, 12345), 0);
	assert_int_equal(symlink("../file", "home/theirs"), 0);
	assert_int_equal(lchown("home/theirs", 12345, 12345), 0);
	assert_written("home/theirs", true, true);
	assert_content("file", content, NEW_LEN);
	put("home/x", old, OLD_LEN, 0644);
	assert_int_equal(symlink("home", "folder"), 0);
	assert_written("folder/x", true, false);
	assert_content("home/x", content, NEW_LEN);
	remove("home/x");
	remove("home/theirs");
}

/* The attributes of a file that no rename may replace are found before data move, and at the seal.
 */
TEST_WITH(test_attributes, NULL, empty_folder)
{
	static const struct {
		const char *on, *set, *unset, *words;
	} cases[] = {
	        {"x", "+i", "-i", "x: is immutable"},
	        {"x", "+a", "-a", "x: is only for appending"},
	        {".", "+i", "-i", "x: its folder is immutable"},
	        {".", "+a", "-a", "x: its folder is only for appending"},
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		char set[64], unset[64];
		struct outfile f;
		struct err err = {0};
		snprintf(set, sizeof set, "chattr %s %s 2>/dev/null", cases[i].set, cases[i].on);
		snprintf(unset, sizeof unset, "chattr %s %s", cases[i].unset, cases[i].on);
		put("x", old, OLD_LEN, 0644);
		if (system(set) != 0)
			skip();
		assert_refused("x", true, cases[i].words);
		assert_int_equal(system(unset), 0);
		assert_int_equal(outfile_open(&f, "x", 0, true, false, &err), 0);
		assert_int_equal(system(set), 0);
		int ret = outfile_seal(&f, &err);
		assert_int_equal(system(unset), 0);
		assert_int_equal(ret, -1);
		assert_int_equal(err.code, ERR_OUTPUT);
		outfile_release(&f);
		assert_content("x", old, OLD_LEN);
		empty_folder(NULL);
	}
}

/* Someone puts another file at the temporary name between seal and commit. */
TEST_WITH(test_temp_race, NULL, empty_folder)
{
	struct outfile f;
	struct err err = {0};
	put("x", old, OLD_LEN, 0644);
	assert_int_equal(outfile_open(&f, "x", NEW_LEN, true, false, &err), 0);
	assert_int_equal(outfile_pwrite(&f, content, NEW_LEN, 0, &err), 0);
	assert_int_equal(outfile_seal(&f, &err), 0);
	put("evil", "evil", 4, 0644);
	assert_int_equal(rename("evil", f.temp), 0);
	assert_int_equal(outfile_commit(&f, &err), -1);
	assert_non_null(strstr(err.text, "replaced by another"));
	outfile_release(&f);
	assert_content("x", old, OLD_LEN);
}

TEST_WITH(test_file_size_limit, NULL, empty_folder)
{
	struct rlimit before, small;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = before;
	small.rlim_cur = 50000;
	put("x", old, OLD_LEN, 0644);
	for (int i = 0; i < 2; i++) {
		struct err err;
		fault.no_fallocate = i;
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
		int r = write_out("x", true, false, &err);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
		assert_int_equal(r, -1);
		assert_int_equal(err.code, ERR_OUTPUT);
		assert_non_null(strstr(err.text, "over the limit of 50000 bytes a file"));
		assert_content("x", old, OLD_LEN);
		assert_int_equal(names(), 1);
	}
}

/* ---- parts ---- */

#define PART ".x.collctl-part"

/* The life of x as a part, of which @fd is the open part, or -1. */
static int write_part(int fd, struct err *err)
{
	struct outfile f;
	const char *why;
	int ret = -1;
	err_clear(err);
	if (outfile_open_part(&f, "x", 0, NEW_LEN, true, false, fd, &why, err))
		return -1;
	assert_null(why);
	if (!outfile_pwrite(&f, content, NEW_LEN, 0, err) && !outfile_seal(&f, err))
		ret = outfile_commit(&f, err);
	outfile_release(&f);
	return ret;
}

TEST_WITH(a_part_stays_until_the_commit, NULL, empty_folder)
{
	mode_t mask = umask(027);
	struct outfile f, second;
	struct err err = {0};
	const char *why;
	assert_int_equal(outfile_find_part("x", 0, false), -1);
	for (int sealed = 0; sealed < 2; sealed++) {
		put("x", old, OLD_LEN, 0444);
		assert_int_equal(
		        outfile_open_part(&f, "x", 0, NEW_LEN, true, false, -1, &why, &err), 0);
		assert_int_equal(outfile_pwrite(&f, content, sealed ? NEW_LEN : 5000, 0, &err), 0);
		assert_int_equal(mode_of(PART), S_IFREG | 0600);
		assert_int_equal(
		        outfile_open_part(&second, "x", 0, NEW_LEN, true, false, -1, &why, &err),
		        0);
		assert_non_null(strstr(why, "another job uses it"));
		outfile_release(&second);
		if (sealed)
			assert_int_equal(outfile_seal(&f, &err), 0);
		outfile_release(&f);
		assert_content("x", old, OLD_LEN);
		assert_content(PART, content, sealed ? NEW_LEN : 5000);
		assert_int_equal(names(), 2);
	}
	int fd = outfile_find_part("x", 0, false);
	assert_true(fd >= 0);
	assert_int_equal(write_part(fd, &err), 0);
	assert_content("x", content, NEW_LEN);
	assert_int_equal(mode_of("x"), S_IFREG | 0444);
	assert_int_equal(names(), 1);
	remove("x");
	put(PART, content, 10, 0777);
	assert_int_equal(write_part(-1, &err), 0);
	assert_int_equal(mode_of("x"), S_IFREG | 0640);
	/* One that nothing was written to is not left; one of another output is not needed. */
	assert_int_equal(outfile_open_part(&f, "x", 0, NEW_LEN, true, false, -1, &why, &err), 0);
	outfile_release(&f);
	assert_int_equal(names(), 1);
	put(PART, content, 10, 0600);
	fd = outfile_find_part("x", 0, false);
	outfile_remove_part("x", 0, false, fd);
	syscall(SYS_close, fd);
	assert_int_equal(names(), 1);
	umask(mask);
}

/* Whatever fails: the old file, and a part at most. */
TEST_WITH(a_part_of_a_job_that_fails, NULL, empty_folder)
{
	for (int call = OPENAT; call <= SYNC_RANGE; call++)
		for (int skip = 0; skip < 4; skip++) {
			struct err err;
			empty_folder(NULL);
			put("x", old, OLD_LEN, 0644);
			put(PART, content, 3000, 0600);
			memset(&fault, 0, sizeof fault);
			fault.call = (enum call)call;
			fault.skip = skip;
			fault.error = EIO;
			const int ret = write_part(outfile_find_part("x", 0, false), &err);
			fault.call = NO_CALL;
			const bool part = access(PART, F_OK) == 0;
			assert_int_equal(names(), 1 + part);
			assert_int_equal(part, part && ret != 0);
			if (ret == 0 || call == FSYNC) /* of the folder: after the commit */
				continue;
			assert_content("x", old, OLD_LEN);
			assert_int_equal(err.code, ERR_OUTPUT);
		}
}

TEST(test_release_zeroed)
{
	struct outfile f = {0};
	outfile_release(&f);
	assert_true(fcntl(0, F_GETFD) != -1 || errno == EBADF);
	assert_null(f.path);
}

int main(void)
{
	signal(SIGXFSZ, SIG_IGN);
	return unit_run(into_folder, out_of_folder);
}
