/* The cache of digests: what is found, what is not entered, and tables that lie. The clock is the
 * test's. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/data/digest_cache.h"
#include "tests/unit/unit.h"

#define TABLE "home/collctl/digests"

static char folder[] = "/tmp/collctl-digests.XXXXXX";
static int64_t later; /* seconds, which the clock is ahead */

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	const int ret = (int)syscall(SYS_clock_gettime, clock, ts);
	if (clock == CLOCK_REALTIME)
		ts->tv_sec += later;
	return ret;
}

static int into_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int out_of_folder(void **state)
{
	char remove_it[64];
	(void)state;
	snprintf(remove_it, sizeof remove_it, "rm -rf '%s'", folder);
	return chdir("/") || system(remove_it);
}

/* Without a table, and with a file x. */
static int begin(void **state)
{
	char home[64];
	(void)state;
	snprintf(home, sizeof home, "%s/home", folder);
	if (system("rm -rf home x y; mkdir -m 700 home") || setenv("XDG_CACHE_HOME", home, 1))
		return -1;
	const int fd = open("x", O_RDWR | O_CREAT, 0600);
	const bool ok = fd >= 0 && write(fd, "content", 7) == 7;
	close(fd);
	later = 10;
	return ok ? 0 : -1;
}

static const uint8_t digest[DIGEST_BYTES] = "0123456789abcdef";

/* Enter the digest of @n bytes of x from @at on. */
static void enter(uint64_t at, uint64_t n, const uint8_t *d)
{
	struct digest_cache c;
	struct digest_key k;
	const int fd = open("x", O_RDONLY);
	digest_cache_open(&c);
	digest_key_of(&c, fd, &k);
	digest_cache_put(&c, &k, fd, at, n, d);
	digest_cache_close(&c);
	close(fd);
}

/* Is it there? */
static bool found(const char *path, uint64_t at, uint64_t n, const uint8_t *d)
{
	struct digest_cache c;
	struct digest_key k;
	uint8_t got[DIGEST_BYTES] = {0};
	const int fd = open(path, O_RDONLY);
	digest_cache_open(&c);
	digest_key_of(&c, fd, &k);
	const bool ok = digest_cache_get(&c, &k, at, n, got);
	assert_true(!ok || memcmp(got, d, DIGEST_BYTES) == 0);
	digest_cache_close(&c);
	close(fd);
	return ok;
}

TEST_WITH(a_file_that_has_not_changed, begin, NULL)
{
	struct stat st;
	struct timespec times[2];
	assert_false(found("x", 0, 7, digest));
	enter(0, 7, digest);
	assert_true(found("x", 0, 7, digest));
	assert_false(found("x", 0, 6, digest));
	assert_false(found("x", 1, 7, digest));
	assert_int_equal(stat(TABLE, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	assert_int_equal(stat("home/collctl", &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	/* Another file with the same content, another state of this one. */
	assert_int_equal(system("cp -p x y"), 0);
	assert_false(found("y", 0, 7, digest));
	assert_int_equal(stat("x", &st), 0);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	do { /* until the clock of the file system has moved */
		assert_int_equal(utimensat(AT_FDCWD, "x", times, 0), 0);
		times[0] = st.st_ctim;
		assert_int_equal(stat("x", &st), 0);
	} while (st.st_ctim.tv_sec == times[0].tv_sec && st.st_ctim.tv_nsec == times[0].tv_nsec);
	assert_false(found("x", 0, 7, digest));
	enter(0, 7, digest);
	assert_true(found("x", 0, 7, digest));
	assert_int_equal(unsetenv("XDG_CACHE_HOME"), 0);
}

TEST_WITH(a_file_that_may_change_unseen_is_not_entered, begin, NULL)
{
	struct digest_cache c;
	struct digest_key k;
	for (later = -10; later < 2; later++) {
		enter(0, 7, digest);
		assert_false(found("x", 0, 7, digest));
	}
	later = 10;
	const int fd = open("x", O_RDWR);
	digest_cache_open(&c);
	digest_key_of(&c, fd, &k);
	assert_int_equal(write(fd, "CONTENTS", 8), 8); /* while it was read */
	digest_cache_put(&c, &k, fd, 0, 7, digest);
	assert_false(digest_cache_get(&c, &k, 0, 7, (uint8_t[DIGEST_BYTES]){0}));
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) + 1000}};
	assert_int_equal(futimens(fd, times), 0);
	enter(0, 8, digest); /* of a time to come */
	assert_false(found("x", 0, 8, digest));
	digest_cache_close(&c);
	close(fd);
}

TEST_WITH(the_oldest_of_a_place_is_dropped, begin, NULL)
{
	struct stat st;
	uint8_t d[DIGEST_BYTES] = {0};
	for (uint64_t n = 1; n <= 5; n++) { /* of one place */
		d[0] = (uint8_t)n;
		enter(0, n, d);
		enter(0, n, d); /* nothing new */
	}
	for (uint64_t n = 1; n <= 5; n++) {
		d[0] = (uint8_t)n;
		assert_int_equal(found("x", 0, n, d), n > 1);
	}
	for (uint64_t at = 0; at < 100; at++) {
		d[1] = (uint8_t)at;
		enter(at << 40, 1, d);
	}
	assert_int_equal(stat(TABLE, &st), 0);
	assert_true(st.st_size <= 64 << 20);
}

TEST_WITH(no_damaged_entry_is_found, begin, NULL)
{
	struct stat st;
	enter(0, 7, digest);
	const int fd = open(TABLE, O_RDWR);
	assert_int_equal(fstat(fd, &st), 0);
	const off_t at = st.st_size - 128; /* its place is the last */
	for (int i = 0; i < 8 * 32; i++) {
		uint8_t byte;
		assert_int_equal(pread(fd, &byte, 1, at + i / 8), 1);
		byte ^= (uint8_t)(1 << i % 8);
		assert_int_equal(pwrite(fd, &byte, 1, at + i / 8), 1);
		assert_false(found("x", 0, 7, digest));
		byte ^= (uint8_t)(1 << i % 8);
		assert_int_equal(pwrite(fd, &byte, 1, at + i / 8), 1);
	}
	assert_true(found("x", 0, 7, digest));
	for (int cut = 1; cut < 128; cut += 3) {
		assert_int_equal(ftruncate(fd, st.st_size - cut), 0);
		found("x", 0, 7, digest);
	}
	assert_int_equal(ftruncate(fd, st.st_size - 100), 0);
	assert_false(found("x", 0, 7, digest));
	enter(0, 7, digest);
	assert_true(found("x", 0, 7, digest));
	close(fd);
}

static void use(int of)
{
	for (int i = 0; i < 2000; i++) {
		const uint8_t d[DIGEST_BYTES] = {(uint8_t)(i % 40)};
		enter((uint64_t)(i % 4) << 20, (uint64_t)(i % 40 + 1), d);
		const uint8_t other = (uint8_t)(i * of % 40);
		found("x", (uint64_t)(other % 4) << 20, other + 1u, (uint8_t[DIGEST_BYTES]){other});
	}
}

TEST_WITH(two_processes_at_once, begin, NULL)
{
	int status = -1;
	const pid_t child = fork();
	assert_true(child >= 0);
	use(child ? 7 : 11);
	if (child == 0)
		_exit(0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

TEST_WITH(a_table_that_is_none_is_not_used, begin, NULL)
{
	static const char *const places[] = {
	        "mkdir -p home/collctl && chmod 777 home/collctl",
	        "mkdir -m 700 elsewhere && ln -s ../elsewhere home/collctl",
	        "mkdir -m 700 home/collctl && : >victim && ln -s ../../victim " TABLE,
	        "mkdir -m 700 home/collctl && : >victim && chmod 600 victim && ln victim " TABLE,
	        "mkdir -m 700 home/collctl && : >" TABLE " && chmod 644 " TABLE,
	        "mkdir -m 700 home/collctl && mkfifo -m 600 " TABLE,
	        "mkdir -m 700 home/collctl && mkdir -m 700 " TABLE,
	        "chmod 777 home",
	        "rm -rf home && : >home",
	};
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		struct stat st;
		begin(NULL);
		assert_int_equal(system("rm -rf elsewhere victim"), 0);
		assert_int_equal(system(places[i]), 0);
		enter(0, 7, digest);
		if (found("x", 0, 7, digest))
			fail_msg("used: %s", places[i]);
		assert_true(stat("victim", &st) || st.st_size == 0);
		assert_int_equal(rmdir("elsewhere") == 0 || access("elsewhere", F_OK) != 0, 1);
	}
	begin(NULL);
	setenv("XDG_CACHE_HOME", "home", 1); /* a relative path does not count */
	unsetenv("HOME");
	enter(0, 7, digest);
	assert_false(found("x", 0, 7, digest));
	setenv("HOME", folder, 1);
	enter(0, 7, digest);
	assert_true(found("x", 0, 7, digest));
	assert_int_equal(access(".cache/collctl/digests", F_OK), 0);
}

int main(void)
{
	return unit_run(into_folder, out_of_folder);
}
