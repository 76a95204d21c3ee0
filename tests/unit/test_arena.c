/* The memory that ranks of one host share: ranges that are taken, returned and joined, always
 * zeroed; seals, which other processes can't get around; mappings that several users share. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/net/arena.h"
#include "tests/unit/unit.h"

#define ARENA_TEST(name) TEST_WITH(name, set_up, tear_down)

#define PAGE 4096

static struct arena *arena;

static int set_up(void **state)
{
	struct err err = {0};
	arena = arena_new(16 * PAGE, &err);
	return arena ? 0 : -1;
}

static int tear_down(void **state)
{
	arena_free(arena);
	return 0;
}

static bool is_zero(const uint8_t *p, size_t n)
{
	while (n && !*p) {
		p++;
		n--;
	}
	return n == 0;
}

/* @bytes, zeroed and page-aligned, at the page @page; then they are used. */
static uint8_t *take(size_t bytes, int page)
{
	uint8_t *p = arena_alloc(arena, bytes);
	assert_non_null(p);
	assert_int_equal(arena_offset(arena, p, bytes), page * PAGE);
	assert_int_equal((uintptr_t)p % PAGE, 0);
	assert_true(is_zero(p, bytes));
	memset(p, 0xa5, bytes);
	return p;
}

ARENA_TEST(ranges_are_whole_pages)
{
	take(1, 0);
	take(PAGE + 1, 1);
	take(13 * PAGE, 3);
	assert_null(arena_alloc(arena, 1));
}

ARENA_TEST(no_range_is_long_enough)
{
	assert_null(arena_alloc(arena, 16 * PAGE + 1));
	assert_null(arena_alloc(arena, 0));
	assert_null(arena_alloc(arena, SIZE_MAX));
	take(16 * PAGE, 0);
}

ARENA_TEST(what_is_used_again_is_zeroed)
{
	uint8_t *a = take(2 * PAGE, 0);
	assert_true(arena_release(arena, a, 2 * PAGE));
	/* Of this range only the first part was used before. */
	a = take(5 * PAGE, 0);
	assert_true(arena_release(arena, a, 5 * PAGE));
	take(PAGE, 0);
	take(PAGE, 1);
	take(14 * PAGE, 2);
}

ARENA_TEST(free_ranges_join)
{
	uint8_t *p[4];
	for (int first = 0; first < 4;
	     first++) { /* in four orders: with the one before, after, both */
		static const int order[4][4] = {
		        {0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}, {1, 3, 0, 2}};
		for (int i = 0; i < 4; i++)
			p[i] = take(4 * PAGE, 4 * i);
		for (int i = 0; i < 4; i++)
			assert_true(arena_release(arena, p[order[first][i]], 4 * PAGE));
		assert_true(arena_release(arena, take(16 * PAGE, 0), 16 * PAGE));
	}
}

ARENA_TEST(the_first_range_that_fits)
{
	uint8_t *a = take(2 * PAGE, 0), *b;
	take(PAGE, 2);
	b = take(4 * PAGE, 3);
	take(PAGE, 7);
	assert_true(arena_release(arena, a, 2 * PAGE));
	assert_true(arena_release(arena, b, 4 * PAGE));
	take(3 * PAGE, 3);
	take(PAGE, 0);
	take(PAGE, 1);
	take(PAGE, 6);
	take(8 * PAGE, 8);
}

ARENA_TEST(only_what_was_taken_is_returned)
{
	uint8_t outside[PAGE], *a = take(2 * PAGE, 0);
	assert_false(arena_release(arena, outside, sizeof outside));
	assert_false(arena_release(arena, a + PAGE, PAGE));     /* not its beginning */
	assert_false(arena_release(arena, a + 2 * PAGE, PAGE)); /* free */
	assert_true(arena_release(arena, a, 2 * PAGE));
	assert_false(arena_release(arena, a, 2 * PAGE));
	take(16 * PAGE, 0);
}

ARENA_TEST(offsets)
{
	const uint8_t *a = take(PAGE, 0);
	assert_int_equal(arena_offset(arena, a + 5, 3), 5);
	assert_int_equal(arena_offset(arena, a, 16 * PAGE), 0);
	assert_int_equal(arena_offset(arena, a, 16 * PAGE + 1), -1);
	assert_int_equal(arena_offset(arena, a + 16 * PAGE, 0), 16 * PAGE);
	assert_int_equal(arena_offset(arena, a + 16 * PAGE, 1), -1);
	assert_int_equal(arena_offset(arena, a - 1, 1), -1);
	assert_int_equal(arena_offset(arena, a + 8, SIZE_MAX), -1);
	assert_int_equal(arena_offset(arena, a + 8, SIZE_MAX - 8), -1);
}

/* ---- seals ---- */

/* Whoever has the descriptor can read the memory, and nothing else. */
ARENA_TEST(others_only_read)
{
	char path[64];
	int fd = arena_fd(arena);
	memcpy(take(PAGE, 0), "words", 5);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	int again = open(path, O_RDWR | O_CLOEXEC);
	assert_true(again >= 0);
	for (int i = 0; i < 2; i++) {
		int f = i ? again : fd;
		char *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, f, 0);
		assert_ptr_not_equal(p, MAP_FAILED);
		assert_memory_equal(p, "words", 5);
		assert_int_equal(mprotect(p, PAGE, PROT_READ | PROT_WRITE), -1);
		munmap(p, PAGE);
		assert_ptr_equal(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0),
		                 MAP_FAILED);
		assert_int_equal(errno, EPERM);
		assert_int_equal(pwrite(f, "x", 1, 0), -1);
		assert_int_equal(errno, EPERM);
		assert_int_equal(ftruncate(f, PAGE), -1);
		assert_int_equal(errno, EPERM);
		assert_int_equal(ftruncate(f, 32 * PAGE), -1);
		assert_int_equal(errno, EPERM);
		assert_int_equal(fallocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE),
		                 -1);
		assert_int_equal(errno, EPERM);
		assert_int_equal(fcntl(f, F_ADD_SEALS, F_SEAL_WRITE), -1);
	}
	assert_int_equal(open(path, O_RDWR | O_TRUNC | O_CLOEXEC), -1);
	assert_int_equal(errno, EPERM);
	close(again);
	assert_memory_equal((uint8_t *)arena_alloc(arena, 1) - PAGE, "words", 5);
}

/* Is @fd refused as an arena, because it is not sealed? */
static void not_sealed(int fd)
{
	struct arena_maps maps = {0};
	struct err err = {0};
	assert_true(fd >= 0);
	assert_null(arena_map(&maps, fd, &err));
	assert_int_equal(err.code, ERR_INTEGRITY);
	assert_non_null(strstr(err.text, "not sealed"));
	assert_null(maps.first);
	err = (struct err){0};
	assert_int_equal(sealed_size(fd, &err), -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	close(fd);
}

ARENA_TEST(what_may_shrink_is_refused)
{
	static const int some[] = {0, F_SEAL_SHRINK, F_SEAL_SHRINK | F_SEAL_GROW,
	                           F_SEAL_SHRINK | F_SEAL_SEAL, F_SEAL_GROW | F_SEAL_SEAL};
	int ends[2];
	for (size_t i = 0; i < LENGTH(some); i++) {
		int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		assert_int_equal(ftruncate(fd, PAGE), 0);
		assert_int_equal(fcntl(fd, F_ADD_SEALS, some[i]), 0);
		not_sealed(fd);
	}
	not_sealed(memfd_create("test", MFD_CLOEXEC)); /* nobody can seal it */
	FILE *plain = tmpfile();
	assert_non_null(plain);
	not_sealed(dup(fileno(plain)));
	fclose(plain);
	assert_int_equal(pipe(ends), 0);
	not_sealed(ends[0]);
	close(ends[1]);
	not_sealed(open("/dev/zero", O_RDWR | O_CLOEXEC));
}

/* ---- mappings ---- */

ARENA_TEST(users_share_a_mapping)
{
	struct arena_maps maps = {0};
	struct err err = {0};
	struct arena *other = arena_new(3 * PAGE - 5, &err);
	assert_non_null(other);
	memcpy(take(PAGE, 0), "this", 4);
	memcpy(arena_alloc(other, 1), "that", 4);
	int fd = dup(arena_fd(arena));
	struct arena_map *a = arena_map(&maps, arena_fd(arena), &err);
	struct arena_map *b = arena_map(&maps, arena_fd(other), &err);
	struct arena_map *c = arena_map(&maps, fd, &err);
	assert_true(a && b && c);
	assert_ptr_equal(a, c);
	assert_ptr_not_equal(a, b);
	assert_int_equal(a->size, 16 * PAGE);
	assert_int_equal(b->size, 3 * PAGE);
	close(fd);
	arena_unmap(&maps, a);
	arena_unmap(&maps, NULL);
	assert_memory_equal(c->base, "this", 4);
	/* A mapping outlives its arena. */
	arena_free(other);
	assert_memory_equal(b->base, "that", 4);
	arena_unmap(&maps, b);
	arena_unmap(&maps, c);
	assert_null(maps.first);
}

/* ---- resources ---- */

/* The code with which arena_new fails in a process that has a limit. */
static int fails_under(__rlimit_resource_t resource, rlim_t limit, size_t size)
{
	int status;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct err err = {0};
		if (setrlimit(resource, &(struct rlimit){limit, limit}) < 0)
			_exit(100);
		struct arena *a = arena_new(size, &err);
		_exit(a ? 0 : err.code);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

ARENA_TEST(too_little)
{
	struct err err = {0};
	assert_int_equal(fails_under(RLIMIT_NOFILE, 3, PAGE), ERR_RESOURCE);
	assert_null(arena_new((size_t)1 << 62, &err));
	assert_int_equal(err.code, ERR_RESOURCE);
	arena_free(NULL);
}

/* Pages that nobody has touched cost nothing, so the arena may be larger than the memory. */
ARENA_TEST(larger_than_the_memory)
{
	struct err err = {0};
	size_t size = (size_t)1 << 42;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	size = (size_t)1 << 36;
#endif
	struct arena *a = arena_new(size, &err);
	assert_non_null(a);
	uint8_t *p = arena_alloc(a, PAGE);
	assert_non_null(p);
	*p = 1;
	arena_free(a);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
