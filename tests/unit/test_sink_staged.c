/*
 * Many small outputs of a folder wait in one file until they are sealed: they need no descriptors,
 * and whichever call fails, the old files are there as they were, and nothing else.
 */
#include <linux/magic.h>

#include "lib/data/files/leftovers.h"
#include "tests/unit/sink_world.h"

#define FILES  200
#define FOLDER 3 /* folders below the top */

static const struct sink_attributes as = {true, true, 0640, {1000, 0}};

static void name_of(int i, char name[32])
{
	snprintf(name, 32, "%c/%d", 'a' + i * FOLDER / FILES, i);
}

/* File i has i bytes of its letter; each tenth is there already. */
static void put_old(void)
{
	char path[64], name[32];
	for (int k = 0; k < FOLDER; k++) {
		snprintf(path, sizeof path, "top/%c", 'a' + k);
		assert_true(mkdir("top", 0755) == 0 || errno == EEXIST);
		assert_int_equal(mkdir(path, 0755), 0);
	}
	for (int i = 0; i < FILES; i += 10) {
		name_of(i, name);
		snprintf(path, sizeof path, "top/%s", name);
		put(path, "old", 0600);
	}
}

static int files_there(void)
{
	return names("top/a") + names("top/b") + names("top/c");
}

static void assert_old(void)
{
	char path[64], name[32];
	assert_int_equal(files_there(), FILES / 10);
	for (int i = 0; i < FILES; i += 10) {
		name_of(i, name);
		snprintf(path, sizeof path, "top/%s", name);
		assert_content(path, "old");
		assert_int_equal(mode_of(path), 0600);
	}
}

static void assert_new(void)
{
	char path[64], name[32], want[FILES + 1];
	struct stat st;
	assert_int_equal(files_there(), FILES);
	for (int i = 0; i < FILES; i++) {
		name_of(i, name);
		snprintf(path, sizeof path, "top/%s", name);
		memset(want, 'a' + i % 26, (size_t)i);
		want[i] = '\0';
		assert_content(path, want);
		assert_int_equal(mode_of(path), 0640);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mtim.tv_sec, 1000);
	}
}

static struct sink *add_all(bool sync, bool drop, struct err *err)
{
	struct sink *s = new_sink(sync);
	char name[32];
	for (int i = 0; i < FILES; i++) {
		name_of(i, name);
		assert_int_equal(sink_add_below(s, "top", name, (uint64_t)i, &as, err), i);
		if (drop)
			sink_drop(s, i);
	}
	return s;
}

static int write_all_files(struct sink *s, struct err *err)
{
	char bytes[FILES];
	for (int i = FILES; i-- > 0;) {
		memset(bytes, 'a' + i % 26, sizeof bytes);
		if (sink_pwrite(s, i, bytes, (size_t)(i + 1) / 2, 0, err) ||
		    sink_pwrite(s, i, bytes, (size_t)i / 2, (uint64_t)(i + 1) / 2, err))
			return -1;
	}
	return 0;
}

static int run(struct sink *s, struct err *err)
{
	return sink_open(s, err) || write_all_files(s, err) || sink_seal(s, err) ||
	                       sink_commit(s, err)
	               ? -1
	               : 0;
}

static int open_descriptors(void)
{
	return names("/proc/self/fd");
}

TEST_WITH(test_commit, NULL, empty_folder)
{
	struct err err = {0};
	char back[FILES];
	put_old();
	struct sink *s = add_all(true, false, &err);
	const int before = open_descriptors();
	assert_int_equal(sink_open(s, &err), 0);
	/* A descriptor for each folder, and the bytes. */
	assert_int_equal(open_descriptors() - before, FOLDER + 1);
	assert_true(sink_descriptors(s) >= FOLDER + 1 && sink_descriptors(s) < FILES);
	assert_int_equal(write_all_files(s, &err), 0);
	assert_int_equal(sink_pread(s, 7, back, 3, 4, &err), 0);
	assert_memory_equal(back, "hhh", 3);
	if (sink_seal(s, &err) || sink_commit(s, &err))
		fail_msg("%s", err.text);
	assert_int_equal(fault.syncs, 1);
	assert_int_equal(fault.fsyncs, FOLDER);
	assert_int_equal(sink_state(s), SINK_ALL_NEW);
	sink_free(s);
	assert_new();
}

TEST_WITH(test_without_sync, NULL, empty_folder)
{
	struct err err = {0};
	put_old();
	struct sink *s = add_all(false, false, &err);
	if (run(s, &err))
		fail_msg("%s", err.text);
	assert_int_equal(fault.syncs + fault.fsyncs, 0);
	sink_free(s);
	assert_new();
}

/* FUSE does not pass syncfs on to its server. */
TEST_WITH(test_a_file_system_that_syncs_only_files, NULL, empty_folder)
{
	struct err err = {0};
	put_old();
	fault.fs_type = FUSE_SUPER_MAGIC;
	struct sink *s = add_all(true, false, &err);
	if (run(s, &err))
		fail_msg("%s", err.text);
	assert_int_equal(fault.syncs, 0);
	assert_int_equal(fault.fsyncs, FILES + FOLDER);
	sink_free(s);
	assert_new();
}

static void assert_private(int fd, mode_t mode)
{
	struct stat st;
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(mode, 0640);
}

/* Until a file has its permissions, others cannot open it. */
TEST_WITH(test_permissions, NULL, empty_folder)
{
	struct err err = {0};
	put_old();
	struct sink *s = add_all(false, false, &err);
	assert_int_equal(sink_open(s, &err), 0);
	assert_int_equal(write_all_files(s, &err), 0);
	fault.look_at = assert_private;
	assert_int_equal(sink_seal(s, &err), 0);
	fault.look_at = NULL;
	sink_free(s);
	assert_old();
}

static void count_used(void *ctx, const struct leftover *l)
{
	int *used = ctx;
	assert_int_equal(l->fate, LEFTOVER_USED);
	++*used;
}

/* They have no lock, and the old time of the files that they copy. */
TEST_WITH(test_files_of_a_job_are_no_leftovers, NULL, empty_folder)
{
	struct err err = {0};
	int used = 0;
	const struct leftovers l = {.age = 1, .tell = count_used, .ctx = &used};
	put_old();
	struct sink *s = add_all(false, false, &err);
	assert_int_equal(sink_add_symlink_below(s, "top", "link", "a", &as, &err), FILES);
	assert_int_equal(sink_open(s, &err), 0);
	assert_int_equal(write_all_files(s, &err), 0);
	assert_int_equal(sink_seal(s, &err), 0);
	assert_int_equal(leftovers_remove(&l, "top", &err), 0);
	assert_int_equal(used, FILES + 1 + FILES / 10); /* the new ones, the old ones */
	if (sink_commit(s, &err))
		fail_msg("%s", err.text);
	sink_free(s);
	assert_new();
}

/* No single file needs so much: the errors name the folder, or how many files there are. */
TEST_WITH(test_no_room, NULL, empty_folder)
{
	struct err err = {0};
	put_old();
	struct sink *s = add_all(false, false, &err);
	fail_calls(FALLOCATE, 0, ENOSPC, 1);
	fault.fs_type = XFS_SUPER_MAGIC;
	assert_err(sink_open(s, &err), &err, ERR_OUTPUT, "top: cannot allocate the file: No space");
	sink_free(s);
	err = (struct err){0};
	s = add_all(false, false, &err);
	fault.full = true;
	assert_err(sink_open(s, &err), &err, ERR_OUTPUT, " and 199 other outputs: No space");
	sink_free(s);
	assert_old();
}

/* Each file is below the limit, all of them together are not. */
TEST_WITH(test_a_limit_for_each_file, NULL, empty_folder)
{
	struct err err = {0};
	struct rlimit before, limit;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = (struct rlimit){FILES, before.rlim_max};
	put_old();
	struct sink *s = add_all(false, false, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	const int ret = run(s, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	if (ret)
		fail_msg("%s", err.text);
	sink_free(s);
	assert_new();
}

TEST_WITH(test_every_failure, NULL, empty_folder)
{
	static const enum call calls[] = {RENAMEAT, LINKAT, FALLOCATE, SYNCFS, FCHMOD};
	put_old();
	for (size_t k = 0; k < LENGTH(calls); k++)
		for (int skip = 0;; skip += skip / 4 + 1) {
			struct err err = {0};
			struct sink *s = add_all(true, false, &err);
			fail_calls(calls[k], skip, EIO, 1);
			const int ret = run(s, &err);
			sink_free(s);
			if (!fault.hits) {
				assert_int_equal(ret, 0);
				assert_new();
				empty_folder(NULL);
				put_old();
				break;
			}
			assert_err(ret, &err, ERR_OUTPUT, "Input/output error");
			assert_old();
		}
}

/* The bytes are there only to be read back. */
TEST_WITH(test_dropped, NULL, empty_folder)
{
	struct err err = {0};
	char back[4];
	put_old();
	struct sink *s = add_all(true, true, &err);
	assert_int_equal(sink_open(s, &err), 0);
	assert_int_equal(write_all_files(s, &err), 0);
	assert_int_equal(sink_pread(s, 25, back, 4, 20, &err), 0);
	assert_memory_equal(back, "zzzz", 4);
	assert_int_equal(sink_seal(s, &err), 0);
	assert_int_equal(sink_commit(s, &err), 0);
	sink_free(s);
	assert_old();
}

static void replace_one(void)
{
	if (fault.hits++ == 0) {
		fault.look = NULL;
		DIR *d = opendir("top/b");
		for (struct dirent *e; (e = readdir(d));)
			if (strstr(e->d_name, ".collctl-") && !strstr(e->d_name, "-old-")) {
				assert_int_equal(unlinkat(dirfd(d), e->d_name, 0), 0);
				char path[300];
				snprintf(path, sizeof path, "top/b/%s", e->d_name);
				put("stranger", "not ours", 0600);
				assert_int_equal(rename("stranger", path), 0);
			}
		closedir(d);
	}
}

TEST_WITH(test_temporary_files_that_were_replaced, NULL, empty_folder)
{
	struct err err = {0};
	put_old();
	struct sink *s = add_all(false, false, &err);
	assert_int_equal(sink_open(s, &err), 0);
	assert_int_equal(write_all_files(s, &err), 0);
	assert_int_equal(sink_seal(s, &err), 0);
	fault.look = replace_one;
	assert_err(sink_commit(s, &err), &err, ERR_OUTPUT, "was replaced by another");
	sink_free(s);
	assert_old();
}

TEST_WITH(test_a_folder_that_cannot_be_written, NULL, empty_folder)
{
	struct err err = {0};
	if (geteuid() == 0) /* may write everywhere */
		skip();
	put_old();
	assert_int_equal(chmod("top/b", 0500), 0);
	struct sink *s = add_all(false, false, &err);
	assert_err(sink_open(s, &err), &err, ERR_OUTPUT, "cannot create a file in its folder");
	assert_int_equal(chmod("top/b", 0700), 0);
	sink_free(s);
	assert_old();
	/* Nothing is written directly into this one. */
	err = (struct err){0};
	assert_int_equal(chmod("top", 0500), 0);
	s = add_all(false, false, &err);
	const int ret = run(s, &err);
	assert_int_equal(chmod("top", 0700), 0);
	if (ret)
		fail_msg("%s", err.text);
	sink_free(s);
	assert_new();
}

int main(void)
{
	return unit_run(into_folder, out_of_folder);
}
