/*
 * Outputs that are clones of those of another sink. The file system of the tests may have no
 * clones, so the kernel's call is played by a copy.
 */
#include "tests/unit/sink_world.h"

#include <linux/fs.h>
#include <stdarg.h>
#include <sys/ioctl.h>

static struct {
	int probe, clone; /* errno of these calls; 0: they succeed */
	uint64_t cut;     /* bytes that a clone lacks */
	int clones;
} kernel;

static int play(int error)
{
	errno = error;
	return error ? -1 : 0;
}

int ioctl(int fd, unsigned long request, ...)
{
	char bytes[65536];
	va_list ap;
	va_start(ap, request);
	const struct file_clone_range *range = va_arg(ap, const struct file_clone_range *);
	va_end(ap);
	if (request == FICLONE)
		return play(kernel.probe);
	assert_int_equal(request, FICLONERANGE);
	const ssize_t n = pread((int)range->src_fd, bytes, sizeof bytes, 0);
	assert_int_equal(n, range->src_length);
	kernel.clones++;
	assert_true(pwrite(fd, bytes, (size_t)n - kernel.cut, 0) >= 0);
	return play(kernel.clone);
}

/* a has a head, d has 4096 bytes of data after a hole, b is a link to a, e is empty. */
static struct file_range range[] = {{32 << 10, 4096}};
static const struct sparse holes = {true, range, 1};
#define FILES       4
#define SPARSE_SIZE (60 << 10)

static struct sink *add_all(const char *const *names, const char *head)
{
	struct err err = {0};
	struct sink *s = new_sink(true);
	assert_int_equal(sink_add(s, names[0], head, 4, 9, &err), 0);
	assert_int_equal(sink_add(s, names[1], NULL, 0, 0, &err), 1);
	assert_int_equal(sink_add(s, names[2], NULL, 0, SPARSE_SIZE, &err), 2);
	assert_int_equal(sink_add(s, names[3], NULL, 0, 0, &err), 3);
	sink_link(s, 1, 0);
	sink_set_data(s, 2, &holes);
	return s;
}

static const char *const own[] = {"a", "b", "d", "e"}, *const others[] = {"A", "B", "D", "E"};

static void write_all_files(struct sink *s)
{
	static char data[SPARSE_SIZE];
	struct err err = {0};
	memset(data, 'd', sizeof data);
	if (sink_pwrite(s, 0, "bytes", 5, 4, &err) || sink_pwrite(s, 2, data, sizeof data, 0, &err))
		fail_msg("%s", err.text);
}

static XXH128_hash_t hash_of(struct sink *s)
{
	XXH3_state_t *state = XXH3_createState();
	XXH3_128bits_reset(state);
	sink_hash(s, state);
	const XXH128_hash_t hash = XXH3_128bits_digest(state);
	XXH3_freeState(state);
	return hash;
}

/* A sink of the same bytes, written and sealed. */
static struct sink *written(void)
{
	struct err err = {0};
	dev_t dev;
	struct sink *s = add_all(others, "head");
	assert_true(sink_may_clone(s));
	sink_defer(s);
	assert_int_equal(sink_open(s, &err), 0);
	assert_true(sink_has_clones(s, &dev));
	if (sink_fill(s, &err))
		fail_msg("%s", err.text);
	write_all_files(s);
	if (sink_seal(s, &err))
		fail_msg("%s", err.text);
	return s;
}

/* Clone all files of @from, and commit. Returns how many could not be cloned. */
static int clone_all(struct sink *from, struct sink *s)
{
	struct err err = {0};
	int copied = 0;
	sink_defer(s);
	assert_int_equal(sink_open(s, &err), 0);
	sink_await_clones(s);
	write_all_files(s); /* writes nothing */
	for (int f = 0; f < FILES; f++) {
		const int fd = sink_descriptor(from, f);
		int error = -1;
		assert_int_equal(fd < 0, f == 1);
		if (fd < 0)
			continue;
		assert_int_equal(lseek(sink_descriptor(s, f), 0, SEEK_END), 0);
		if (sink_clone(s, f, fd, &error, &err))
			fail_msg("%s", err.text);
		copied += error != 0;
	}
	if (sink_seal(s, &err) || sink_commit(s, &err))
		fail_msg("%s", err.text);
	return copied;
}

static void assert_alike(void)
{
	struct stat a, b, d;
	assert_content("a", "headbytes");
	assert_content("e", "");
	assert_true(stat("a", &a) == 0 && stat("b", &b) == 0 && stat("d", &d) == 0);
	assert_int_equal(a.st_ino, b.st_ino);
	assert_int_equal(d.st_size, SPARSE_SIZE);
	char bytes[SPARSE_SIZE];
	FILE *f = fopen("d", "re");
	assert_int_equal(fread(bytes, 1, sizeof bytes, f), sizeof bytes);
	fclose(f);
	for (size_t i = 0; i < sizeof bytes; i++)
		assert_int_equal(bytes[i], i / 4096 == 8 ? 'd' : 0);
}

TEST_WITH(clones_and_copies, NULL, empty_folder)
{
	static const struct {
		int error;
		uint64_t cut;
		int copied;
	} cases[] = {{0, 0, 0}, {EOPNOTSUPP, 0, 2}, {ENOSPC, 3, 2}, {0, 3, 2}};
	kernel.probe = 0;
	struct sink *from = written();
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct sink *s = add_all(own, "head");
		assert_true(XXH128_isEqual(hash_of(s), hash_of(from)));
		kernel.clone = cases[i].error;
		kernel.cut = cases[i].cut;
		kernel.clones = 0;
		assert_int_equal(clone_all(from, s), cases[i].copied);
		assert_int_equal(kernel.clones, 2);
		sink_free(s);
		assert_alike();
		assert_int_equal(names("."), 2 * FILES); /* those of @from have temporary names */
	}
	sink_free(from);
}

TEST_WITH(a_copy_without_room, NULL, empty_folder)
{
	struct err err = {0};
	int error;
	kernel.probe = 0;
	kernel.cut = 0;
	struct sink *from = written(), *s = add_all(own, "head");
	sink_defer(s);
	assert_int_equal(sink_open(s, &err), 0);
	sink_await_clones(s);
	kernel.clone = EDQUOT;
	fail_calls(FALLOCATE, 0, EDQUOT, 1);
	assert_err(sink_clone(s, 0, sink_descriptor(from, 0), &error, &err), &err, ERR_OUTPUT,
	           "a: cannot allocate the file");
	sink_free(s);
	sink_free(from);
	assert_int_equal(names("."), 0);
}

/* What another rank may pass. */
TEST_WITH(what_is_no_file_of_this_sink, NULL, empty_folder)
{
	struct err err = {0};
	int error, ends[2], other = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	kernel.probe = kernel.clone = 0;
	kernel.cut = 0;
	struct sink *from = written(), *s = add_all(own, "head");
	sink_defer(s);
	assert_int_equal(sink_open(s, &err), 0);
	sink_await_clones(s);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	const int wrong[] = {ends[0], ends[1], other, sink_descriptor(from, 2),
	                     open(".", O_RDONLY | O_CLOEXEC)};
	for (size_t i = 0; i < LENGTH(wrong); i++) {
		err = (struct err){0};
		assert_err(sink_clone(s, 0, wrong[i], &error, &err), &err, ERR_INTEGRITY,
		           "a: to be cloned, another rank has passed what is no file of 9 bytes");
	}
	kernel.clones = 0;
	close(ends[0]);
	close(ends[1]);
	close(other);
	close(wrong[4]);
	sink_free(s);
	sink_free(from);
}

TEST_WITH(who_takes_no_part, NULL, empty_folder)
{
	struct err err = {0};
	dev_t dev;
	struct sink *s = add_all(own, "head"), *other = add_all(own, "HEAD");
	assert_false(XXH128_isEqual(hash_of(s), hash_of(other)));
	sink_free(other);
	kernel.probe = EOPNOTSUPP;
	sink_defer(s);
	assert_int_equal(sink_open(s, &err), 0);
	assert_false(sink_has_clones(s, &dev));
	sink_free(s);
	s = new_sink(true);
	assert_false(sink_may_clone(s)); /* it has no files */
	assert_int_equal(sink_add(s, "-", NULL, 0, 3, &err), 0);
	assert_false(sink_may_clone(s));
	sink_free(s);
	s = add_all(own, "head");
	sink_resume(s);
	assert_false(sink_may_clone(s));
	sink_free(s);
	s = add_all(own, "head");
	sink_keep(s, 2);
	assert_false(sink_may_clone(s));
	sink_free(s);
}

int main(void)
{
	return unit_run(into_folder, out_of_folder);
}
