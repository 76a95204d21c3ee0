/*
 * Outputs that are hard links to other outputs, and sparse outputs: whichever call fails, the old
 * files are there as they were, and nothing else.
 */
#include "tests/unit/sink_world.h"

/* a is a file, b and c are links to it; d has 4096 bytes of data after a hole. */
static struct file_range range[] = {{1 << 20, 4096}};
static const struct sparse holes = {true, range, 1};
#define SPARSE_SIZE (2 << 20)

static struct sink *add_all(bool sync, struct err *err)
{
	struct sink *s = new_sink(sync);
	assert_int_equal(sink_add(s, "a", NULL, 0, 3, err), 0);
	assert_int_equal(sink_add(s, "b", NULL, 0, 0, err), 1);
	assert_int_equal(sink_add(s, "c", NULL, 0, 0, err), 2);
	assert_int_equal(sink_add(s, "d", NULL, 0, SPARSE_SIZE, err), 3);
	sink_link(s, 1, 0);
	sink_link(s, 2, 0);
	sink_set_data(s, 3, &holes);
	return s;
}

static int write_all_files(struct sink *s, struct err *err)
{
	static char zeros[SPARSE_SIZE];
	if (sink_open(s, err) || sink_pwrite(s, 0, "new", 3, 0, err) ||
	    sink_pwrite(s, 3, zeros, sizeof zeros, 0, err))
		return -1;
	return sink_seal(s, err) ? -1 : sink_commit(s, err);
}

static void put_old(void)
{
	put("b", "old b", 0640);
}

static struct stat stat_of(const char *path)
{
	struct stat st;
	assert_int_equal(lstat(path, &st), 0);
	return st;
}

TEST_WITH(links_and_holes, NULL, empty_folder)
{
	struct err err = {0};
	put_old();
	struct sink *s = add_all(true, &err);
	if (write_all_files(s, &err))
		fail_msg("%s", err.text);
	sink_free(s);
	assert_int_equal(names("."), 4);
	assert_content("b", "new");
	assert_true(stat_of("a").st_ino == stat_of("b").st_ino);
	assert_true(stat_of("a").st_ino == stat_of("c").st_ino);
	assert_int_equal(stat_of("a").st_nlink, 3);
	assert_int_equal(stat_of("d").st_size, SPARSE_SIZE);
	assert_true(stat_of("d").st_blocks < 64);
}

/* Where the file system, or a rule, allows no link, the output is a copy. */
TEST_WITH(a_copy_where_no_link_is_possible, NULL, empty_folder)
{
	static const int errors[] = {EPERM, EMLINK, EXDEV, EOPNOTSUPP};
	for (size_t i = 0; i < LENGTH(errors); i++) {
		struct err err = {0};
		memset(&fault, 0, sizeof fault);
		struct sink *s = add_all(i & 1, &err);
		assert_int_equal(sink_open(s, &err), 0);
		assert_int_equal(sink_pwrite(s, 0, "new", 3, 0, &err), 0);
		fail_calls(LINKAT, 1, errors[i], 1); /* a itself */
		if (sink_seal(s, &err) || sink_commit(s, &err))
			fail_msg("%s", err.text);
		assert_int_equal(fault.hits, 1);
		sink_free(s);
		assert_content("b", "new");
		assert_content("c", "new");
		assert_true(stat_of("a").st_ino != stat_of("b").st_ino);
		assert_true(stat_of("a").st_ino == stat_of("c").st_ino);
		assert_int_equal(stat_of("b").st_mode, stat_of("a").st_mode);
		assert_int_equal(names("."), 4);
	}
}

TEST_WITH(each_failure_leaves_the_old_files, NULL, empty_folder)
{
	static const struct {
		enum call call;
		int calls; /* there are at least so many */
	} faults[] = {{LINKAT, 4}, {FSYNC, 2}, {RENAMEAT, 4}};
	for (size_t i = 0; i < LENGTH(faults); i++)
		for (int k = 0; k < faults[i].calls; k++) {
			struct err err = {0};
			put_old();
			fail_calls(faults[i].call, k, EIO, 1);
			struct sink *s = add_all(true, &err);
			int ret = write_all_files(s, &err);
			assert_int_equal(fault.hits, 1);
			assert_err(ret, &err, ERR_OUTPUT, strerror(EIO));
			sink_free(s);
			assert_content("b", "old b");
			assert_int_equal(mode_of("b"), 0640);
			assert_int_equal(names("."), 1);
		}
}

/* ---- symbolic links ---- */

/* t/f is a file, t/l and t/m are symbolic links. */
static struct sink *add_symlinks(bool force, struct err *err)
{
	static const struct sink_attributes as = {
	        .has_mode = true, .mode = 0644, .has_time = true, .modified = {.tv_sec = 5}};
	struct sink *s = sink_new(true, force, err);
	assert_non_null(s);
	sink_replace_symlinks(s);
	assert_int_equal(sink_add_folder_below(s, "t", "", &as, err), 0);
	assert_int_equal(sink_add_below(s, "t", "f", 3, &as, err), 0);
	assert_int_equal(sink_add_symlink_below(s, "t", "l", "f", &as, err), 1);
	assert_int_equal(sink_add_symlink_below(s, "t", "m", "none", &as, err), 2);
	return s;
}

static int write_symlinks(struct sink *s, struct err *err)
{
	if (sink_open(s, err) || sink_pwrite(s, 0, "new", 3, 0, err))
		return -1;
	return sink_seal(s, err) ? -1 : sink_commit(s, err);
}

static void assert_target(const char *path, const char *target)
{
	char found[100] = "";
	assert_true(readlink(path, found, sizeof found - 1) >= 0);
	assert_string_equal(found, target);
}

TEST_WITH(symbolic_links, NULL, empty_folder)
{
	struct err err = {0};
	for (int again = 0; again < 2; again++) {
		struct sink *s = add_symlinks(false, &err);
		assert_string_equal(sink_points_to(s, 1), "f");
		if (write_symlinks(s, &err))
			fail_msg("%s", err.text);
		assert_int_equal(sink_fate(s, 1), again ? SINK_EQUAL : SINK_CREATE);
		sink_free(s);
		assert_int_equal(names("t"), 3);
		assert_content("t/l", "new");
		assert_target("t/m", "none");
		assert_int_equal(stat_of("t/m").st_mtim.tv_sec, 5);
	}
}

/* Only with force do links and files replace each other; what a link points to stays. */
TEST_WITH(symbolic_links_and_files, NULL, empty_folder)
{
	for (int force = 0; force < 2; force++) {
		for (int which = 0; which < 2; which++) {
			struct err err = {0};
			empty_folder(NULL);
			assert_int_equal(mkdir("t", 0700), 0);
			put("own", "own", 0600);
			if (which)
				put("t/l", "own", 0600);
			else
				assert_int_equal(symlink("../own", "t/f"), 0);
			struct sink *s = add_symlinks(force, &err);
			const int ret = write_symlinks(s, &err);
			sink_free(s);
			assert_content("own", "own");
			if (force) {
				assert_int_equal(ret, 0);
				assert_content("t/f", "new");
				assert_target("t/l", "f");
				assert_int_equal(names("t"), 3);
				continue;
			}
			assert_err(ret, &err, ERR_OUTPUT, "give --force to replace it");
			assert_content(which ? "t/l" : "t/f", "own");
			assert_int_equal(names("t"), 1);
		}
	}
}

TEST_WITH(each_failure_leaves_the_old_symbolic_links, NULL, empty_folder)
{
	static const struct {
		enum call call;
		int calls; /* there are at least so many */
	} faults[] = {{SYMLINKAT, 4}, {LINKAT, 3}, {RENAMEAT, 3}};
	for (size_t i = 0; i < LENGTH(faults); i++)
		for (int k = 0; k < faults[i].calls; k++) {
			struct err err = {0};
			empty_folder(NULL);
			assert_int_equal(mkdir("t", 0700), 0);
			put("t/f", "old", 0600);
			assert_int_equal(symlink("old", "t/l"), 0);
			assert_int_equal(symlink("older", "t/m"), 0);
			fail_calls(faults[i].call, k, EIO, 1);
			struct sink *s = add_symlinks(false, &err);
			const int ret = write_symlinks(s, &err);
			assert_int_equal(fault.hits, 1);
			assert_err(ret, &err, ERR_OUTPUT, strerror(EIO));
			sink_free(s);
			assert_content("t/f", "old");
			assert_target("t/l", "old");
			assert_target("t/m", "older");
			assert_int_equal(names("t"), 3);
		}
}

int main(void)
{
	return unit_run(into_folder, out_of_folder);
}
