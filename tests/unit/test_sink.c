/*
 * All the outputs of a rank, or none: whichever call fails, every file that was there is there as
 * it was, and nothing else.
 */
#include "tests/unit/sink_world.h"

/* ---- three files: a (old), sub/b (new), c (old) ---- */

static const char *const paths[] = {"a", "sub/b", "c"};
#define FILES 3

static void leave_own(struct sink *s, int file, int fd)
{
	struct stat st;
	assert_int_equal(fstat(fd, &st), 0);
	sink_leave_own(s, file, &st, fd);
}

static void put_old(void)
{
	put("a", "old a", 0640);
	assert_true(mkdir("sub", 0755) == 0 || errno == EEXIST);
	put("c", "old c", 0604);
}

static void assert_old(void)
{
	assert_content("a", "old a");
	assert_content("c", "old c");
	assert_int_equal(mode_of("a"), 0640);
	assert_int_equal(mode_of("c"), 0604);
	assert_int_equal(names("sub"), 0);
	assert_int_equal(names("."), 3);
}

static int write_all_files(struct sink *s, struct err *err)
{
	for (int i = 0; i < FILES; i++)
		if (sink_add(s, paths[i], "new ", 4, 9, err) != i)
			return -1;
	if (sink_open(s, err))
		return -1;
	for (int i = 0; i < FILES; i++)
		if (sink_pwrite(s, i, paths[i], strlen(paths[i]), 4, err))
			return -1;
	return sink_seal(s, err) ? -1 : sink_commit(s, err);
}

static const char *const contents[] = {"new a\0\0\0", "new sub/b", "new c\0\0\0"};

TEST_WITH(test_commit, NULL, empty_folder)
{
	struct err err = {0};
	put_old();
	struct sink *s = new_sink(true);
	if (write_all_files(s, &err))
		fail_msg("%s", err.text);
	assert_int_equal(sink_files(s), FILES);
	assert_string_equal(sink_path(s, 1), "sub/b");
	/* Three files and two folders. */
	assert_int_equal(fault.fsyncs, 5);
	sink_free(s);
	for (int i = 0; i < FILES; i++)
		assert_content(paths[i], contents[i]);
	assert_int_equal(mode_of("a"), 0640);
	assert_int_equal(mode_of("c"), 0604);
	assert_int_equal(names("."), 3);
	assert_int_equal(names("sub"), 1);
}

TEST_WITH(test_each_rename_fails, NULL, empty_folder)
{
	for (int k = 0; k < FILES; k++) {
		struct err err = {0};
		put_old();
		fail_calls(RENAMEAT, k, EIO, 1);
		struct sink *s = new_sink(k & 1);
		int ret = write_all_files(s, &err);
		assert_int_equal(fault.hits, 1);
		assert_err(ret, &err, ERR_OUTPUT, "cannot rename the new file into place");
		assert_true(strncmp(err.text, paths[k], strlen(paths[k])) == 0);
		sink_free(s);
		assert_old();
	}
}

/* A file that appears where there was none is replaced, too, and comes back if the job fails. */
static void let_appear(void)
{
	if (access("sub/b", F_OK))
		put("sub/b", "theirs", 0600);
}

TEST_WITH(test_appeared, NULL, empty_folder)
{
	for (int k = 0; k < 2; k++) {
		struct err err = ERR_INIT;
		put_old();
		unlink("sub/b");
		fault.look = let_appear;
		if (k)
			fail_calls(RENAMEAT, 3, EIO, 1); /* c: sub/b takes two */
		struct sink *s = new_sink(false);
		const int ret = write_all_files(s, &err);
		fault.look = NULL;
		sink_free(s);
		if (k)
			assert_err(ret, &err, ERR_OUTPUT,
			           "c: cannot rename the new file into place");
		else
			assert_int_equal(ret, 0);
		assert_content("sub/b", k ? "theirs" : contents[1]);
		assert_int_equal(names("sub"), 1);
	}
}

/* Where another rank has chosen the name, such a file stays: before the seal, and after it. */
TEST_WITH(test_appeared_under_a_foreign_name, NULL, empty_folder)
{
	for (int k = 0; k < 3; k++) {
		struct err err = ERR_INIT;
		struct sink *s = sink_new(true, k == 2, &err);
		assert_non_null(s);
		assert_int_equal(mkdir("sub", 0755) == 0 || errno == EEXIST, 1);
		unlink("sub/b");
		assert_int_equal(sink_add(s, "sub/b", NULL, 0, 3, &err), 0);
		sink_expect_none(s, 0, 1);
		assert_int_equal(sink_open(s, &err), 0);
		assert_int_equal(sink_pwrite(s, 0, "new", 3, 0, &err), 0);
		if (k == 0)
			let_appear();
		else
			fault.look = let_appear;
		const int ret = sink_seal(s, &err) ? -1 : sink_commit(s, &err);
		fault.look = NULL;
		sink_free(s);
		if (k < 2)
			assert_err(ret, &err, ERR_OUTPUT, "give --force");
		assert_content("sub/b", k < 2 ? "theirs" : "new");
		assert_int_equal(names("sub"), 1);
	}
}

/* Of every other call's failure nothing is left either. */
TEST_WITH(test_each_failure, NULL, empty_folder)
{
	static const struct {
		enum call call;
		int calls; /* there are so many; one file replaces none */
		int error;
	} faults[] = {{LINKAT, 5, ENOSPC}, {FALLOCATE, 3, ENOSPC}, {FSYNC, 3, EIO}};
	for (size_t i = 0; i < LENGTH(faults); i++)
		for (int k = 0; k < faults[i].calls; k++) {
			struct err err = {0};
			put_old();
			fail_calls(faults[i].call, k, faults[i].error, 1);
			struct sink *s = new_sink(true);
			int ret = write_all_files(s, &err);
			/* tmpfs isn't asked to allocate. */
			if (ret == 0 && !fault.hits && faults[i].call == FALLOCATE) {
				print_message("skipped: this file system is not preallocated\n");
				sink_free(s);
				unlink("sub/b");
				break;
			}
			assert_int_equal(fault.hits, 1);
			assert_err(ret, &err, ERR_OUTPUT, strerror(faults[i].error));
			sink_free(s);
			assert_old();
		}
}

/* At every rename each name has an old file or a new one, whole. */
static void look(void)
{
	char buf[64];
	for (int i = 0; i < FILES; i++) {
		if (i == 1 && access(paths[1], F_OK))
			continue;
		size_t n = get(paths[i], buf, sizeof buf);
		assert_true(n == 9 ? !memcmp(buf, contents[i], 9)
		                   : n == 5 && !strncmp(buf, "old ", 4));
	}
}

TEST_WITH(test_whole_at_any_time, NULL, empty_folder)
{
	struct err err = {0};
	put_old();
	fault.look = look;
	fail_calls(RENAMEAT, 2, EIO, 1);
	struct sink *s = new_sink(false);
	assert_int_equal(write_all_files(s, &err), -1);
	sink_free(s);
	fault.look = NULL;
	assert_old();
}

/* What can't be put back stays at a name that the error tells. */
TEST_WITH(test_undo_fails, NULL, empty_folder)
{
	struct err err = {0};
	char name[64];
	put_old();
	fail_calls(RENAMEAT, 2, EIO, 2);
	struct sink *s = new_sink(false);
	int ret = write_all_files(s, &err);
	assert_err(ret, &err, ERR_OUTPUT, "c: cannot rename the new file into place");
	const char *told =
	        strstr(err.text, "; a: the old file cannot be restored: it has the name '");
	assert_non_null(told);
	assert_int_equal(sscanf(strchr(told, '\''), "'%63[^']", name), 1);
	sink_free(s);
	assert_content(name, "old a");
	assert_content("a", contents[0]);
	assert_content("c", "old c");
	assert_int_equal(names("sub"), 0);
	assert_int_equal(names("."), 4);
}

/* Without hard links the renames go on; a failure leaves what was replaced. */
TEST_WITH(test_no_hard_links, NULL, empty_folder)
{
	for (int bad = 0; bad < 2; bad++) {
		struct err err = {0};
		put_old();
		memset(&fault, 0, sizeof fault);
		struct sink *s = new_sink(false);
		for (int i = 0; i < FILES; i++)
			assert_int_equal(sink_add(s, paths[i], contents[i], 9, 9, &err), i);
		assert_int_equal(sink_open(s, &err), 0);
		fail_calls(LINKAT, FILES, EPERM, 99); /* the new files get their names */
		assert_int_equal(sink_seal(s, &err), 0);
		if (bad) {
			/* The last target becomes a folder meanwhile. */
			assert_int_equal(unlink("c"), 0);
			assert_int_equal(mkdir("c", 0700), 0);
		}
		int ret = sink_commit(s, &err);
		sink_free(s);
		assert_true(fault.hits > 0);
		assert_content("a", contents[0]);
		if (!bad) {
			assert_int_equal(ret, 0);
			assert_content("c", contents[2]);
			assert_int_equal(unlink("sub/b"), 0);
			continue;
		}
		assert_err(ret, &err, ERR_OUTPUT,
		           "; a: is in place: the old file could not be kept");
		assert_int_equal(names("."), 3);
	}
}

/* One file alone is renamed, and nothing more. */
TEST_WITH(test_one_file, NULL, empty_folder)
{
	struct err err = {0};
	put_old();
	struct sink *s = new_sink(true);
	fail_calls(LINKAT, 1, EIO, 1); /* that of the unnamed file */
	assert_int_equal(sink_add(s, "a", "new", 3, 3, &err), 0);
	assert_int_equal(sink_open(s, &err), 0);
	assert_int_equal(sink_seal(s, &err), 0);
	assert_int_equal(sink_commit(s, &err), 0);
	sink_free(s);
	assert_int_equal(fault.hits, 0);
	assert_content("a", "new");
	assert_int_equal(mode_of("a"), 0640);
	assert_int_equal(names("."), 3);
}

TEST_WITH(test_given_up, NULL, empty_folder)
{
	for (int stage = 0; stage < 3; stage++) {
		struct err err = {0};
		put_old();
		struct sink *s = new_sink(false);
		for (int i = 0; i < FILES; i++)
			assert_int_equal(sink_add(s, paths[i], NULL, 0, 0, &err), i);
		if (stage > 0)
			assert_int_equal(sink_open(s, &err), 0);
		if (stage > 1)
			assert_int_equal(sink_seal(s, &err), 0);
		sink_free(s);
		assert_old();
	}
	sink_free(NULL);
}

TEST_WITH(test_duplicates, NULL, empty_folder)
{
	static const char *const pairs[][2] = {{"x", "x"},
	                                       {"x", "./x"},
	                                       {"sub/x", "sub//x"},
	                                       {"sub/../x", "x"},
	                                       {"link/x", "sub/x"}};
	assert_int_equal(mkdir("sub", 0755), 0);
	assert_int_equal(symlink("sub", "link"), 0);
	for (size_t i = 0; i < LENGTH(pairs); i++) {
		struct err err = {0};
		struct sink *s = new_sink(false);
		assert_int_equal(sink_add(s, "y", NULL, 0, 0, &err), 0);
		assert_int_equal(sink_add(s, pairs[i][0], NULL, 0, 0, &err), 1);
		assert_int_equal(sink_add(s, pairs[i][1], NULL, 0, 0, &err), 2);
		int ret = sink_open(s, &err);
		assert_err(ret, &err, ERR_USAGE, "is given as output twice");
		sink_free(s);
	}
	struct err err = {0};
	struct sink *s = new_sink(false);
	assert_int_equal(sink_add(s, "-", NULL, 0, 0, &err), 0);
	int ret = sink_add(s, "-", NULL, 0, 0, &err);
	assert_err(ret, &err, ERR_USAGE, "stdout: is given as output twice");
	sink_free(s);
	assert_int_equal(names("."), 2);
}

/* A link that is followed leads to a file that is an output already. */
TEST_WITH(test_duplicate_by_link, NULL, empty_folder)
{
	struct err err = {0};
	put("x", "old", 0644);
	assert_int_equal(symlink("x", "link"), 0);
	struct sink *s = sink_new(false, true, &err);
	assert_int_equal(sink_add(s, "link", NULL, 0, 0, &err), 0);
	assert_int_equal(sink_add(s, "x", NULL, 0, 0, &err), 1);
	int ret = sink_open(s, &err);
	assert_err(ret, &err, ERR_USAGE, "x: is given as output twice, also as link");
	sink_free(s);
}

static int descriptors(void)
{
	return names("/proc/self/fd");
}

TEST_WITH(test_one_descriptor_a_folder, NULL, empty_folder)
{
	enum { MANY = 100 };
	struct err err = {0};
	struct sink *s = new_sink(false);
	int before = descriptors();
	for (int i = 0; i < MANY; i++) {
		char path[16];
		snprintf(path, sizeof path, "%d", i);
		assert_int_equal(sink_add(s, path, path, strlen(path), strlen(path), &err), i);
	}
	assert_int_equal(sink_open(s, &err), 0);
	assert_int_equal(descriptors() - before, MANY + 1);
	assert_int_equal(sink_seal(s, &err), 0);
	assert_int_equal(sink_commit(s, &err), 0);
	sink_free(s);
	assert_int_equal(descriptors(), before);
	assert_int_equal(names("."), MANY);
	assert_content("57", "57");
}

TEST_WITH(test_too_few_descriptors, NULL, empty_folder)
{
	struct err err = {0};
	struct rlimit before, small;
	struct sink *s = new_sink(false);
	for (int i = 0; i < 10; i++) {
		char path[16];
		snprintf(path, sizeof path, "%d", i);
		assert_int_equal(sink_add(s, path, NULL, 0, 5, &err), i);
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	small = before;
	small.rlim_cur = (rlim_t)descriptors() + 5;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
	int ret = sink_open(s, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_err(ret, &err, ERR_RESOURCE, "Too many open files");
	sink_free(s);
	assert_int_equal(names("."), 0);
}

static void assert_no_folder(const char *path, const char *why)
{
	int (*const calls[])(struct sink *, struct err *) = {sink_open, sink_check};
	for (int i = 0; i < 2; i++) {
		struct err err = {0};
		struct sink *s = new_sink(false);
		assert_int_equal(sink_add_folder(s, path, &err), 0);
		int ret = calls[i](s, &err);
		assert_err(ret, &err, ERR_OUTPUT, why);
		sink_free(s);
	}
}

TEST_WITH(test_folders, NULL, empty_folder)
{
	struct err err = {0};
	mode_t mask = umask(027);
	/* Made and, if nothing comes of it, removed; */
	struct sink *s = new_sink(true);
	assert_int_equal(sink_add_folder(s, "set/", &err), 0);
	assert_int_equal(sink_add_folder(s, "set/inner", &err), 0);
	assert_int_equal(sink_add(s, "set/inner/x", "1", 1, 1, &err), 0);
	assert_int_equal(sink_open(s, &err), 0);
	assert_int_equal(sink_seal(s, &err), 0);
	assert_int_equal(names("set/inner"), 1);
	sink_free(s);
	assert_int_equal(names("."), 0);
	/* else it stays, */
	s = new_sink(true);
	assert_int_equal(sink_add_folder(s, "set", &err), 0);
	assert_int_equal(sink_add(s, "set/x", "1", 1, 1, &err), 0);
	assert_int_equal(names("."), 0); /* before it is opened nothing is there */
	assert_int_equal(sink_open(s, &err), 0);
	assert_int_equal(mode_of("set"), 0750);
	assert_int_equal(sink_seal(s, &err), 0);
	assert_int_equal(sink_commit(s, &err), 0);
	sink_free(s);
	assert_content("set/x", "1");
	/* also one that was there, or that a link leads to. */
	assert_int_equal(symlink("set", "link"), 0);
	s = new_sink(false);
	assert_int_equal(sink_add_folder(s, "set", &err), 0);
	assert_int_equal(sink_add_folder(s, "link/", &err), 0);
	assert_int_equal(sink_open(s, &err), 0);
	sink_free(s);
	assert_content("set/x", "1");
	umask(mask);

	put("file", "", 0600);
	assert_int_equal(symlink("gone", "dangling"), 0);
	assert_no_folder("file", "file: is a file: expected a folder");
	assert_no_folder("nowhere/set", "nowhere/set: cannot create the folder");
	assert_no_folder("dangling", "dangling: ");
}

/* A check finds what would become of each file, and creates nothing. */
TEST_WITH(test_check, NULL, empty_folder)
{
	struct err err = {0};
	assert_int_equal(mkdir("there", 0700), 0);
	put("there/old", "old", 0600);
	int fd = open("there/old", O_RDONLY);
	struct sink *s = new_sink(true);
	assert_int_equal(sink_add_folder(s, "there", &err), 0);
	assert_int_equal(sink_add_folder(s, "new/", &err), 0);
	assert_int_equal(sink_add_folder(s, "new/inner", &err), 0);
	assert_int_equal(sink_add(s, "there/old", "1", 1, 1, &err), 0);
	assert_int_equal(sink_add(s, "there/x", "1", 1, 1, &err), 1);
	assert_int_equal(sink_add(s, "new//x", "1", 1, 1, &err), 2);
	assert_int_equal(sink_add(s, "new/inner/x", "1", 1, 1, &err), 3);
	assert_int_equal(sink_add(s, "-", "1", 1, 1, &err), 4);
	assert_int_equal(sink_add(s, "there/y", "1", 1, 1, &err), 5);
	sink_drop(s, 5);
	assert_int_equal(sink_check(s, &err), 0);
	const enum sink_fate fates[] = {SINK_REPLACE, SINK_CREATE, SINK_CREATE,
	                                SINK_CREATE,  SINK_STDOUT, SINK_LEAVE};
	for (int i = 0; i < 6; i++)
		assert_int_equal(sink_fate(s, i), fates[i]);
	sink_free(s);
	assert_int_equal(names("."), 1);
	assert_int_equal(names("there"), 1);
	assert_content("there/old", "old");

	s = new_sink(true);
	assert_int_equal(sink_add(s, "there/old", "old", 3, 3, &err), 0);
	leave_own(s, 0, fd);
	assert_int_equal(sink_check(s, &err), 0);
	assert_int_equal(sink_fate(s, 0), SINK_KEEP);
	sink_free(s);
	close(fd);
}

/* A check finds what sink_open would find. */
TEST_WITH(test_check_finds, NULL, empty_folder)
{
	static const struct {
		const char *paths[2];
		int code;
		const char *why;
	} rows[] = {
	        {{"there/a", "./there/a"}, ERR_USAGE, "is given as output twice"},
	        {{"there/a", "gone/a"}, ERR_OUTPUT, "gone/a: cannot open the folder 'gone'"},
	        {{"there/a", "there"}, ERR_OUTPUT, "there: is a directory"},
	        {{"there/a", "link"}, ERR_OUTPUT, "link: is a symbolic link"},
	};
	int (*const calls[])(struct sink *, struct err *) = {sink_open, sink_check};
	assert_int_equal(mkdir("there", 0700), 0);
	assert_int_equal(symlink("target", "link"), 0);
	for (size_t i = 0; i < 2 * LENGTH(rows); i++) {
		struct err err = {0};
		struct sink *s = new_sink(true);
		for (int k = 0; k < 2; k++)
			assert_int_equal(sink_add(s, rows[i / 2].paths[k], "1", 1, 1, &err), k);
		int ret = calls[i % 2](s, &err);
		assert_err(ret, &err, rows[i / 2].code, rows[i / 2].why);
		sink_free(s);
		assert_int_equal(names("there"), 0);
	}
}

/* What a peer names goes below the folder, through no symlink; and gets its attributes. */
TEST_WITH(test_below, NULL, empty_folder)
{
	static const struct sink_attributes as = {
	        .has_mode = true, .has_time = true, .mode = 0751, .modified = {12, 34}};
	struct err err = {0};
	struct stat st;
	struct sink *s = new_sink(true);
	assert_int_equal(sink_add_folder_below(s, "top/", "", &as, &err), 0);
	assert_int_equal(sink_add_folder_below(s, "top/", "in", &as, &err), 0);
	assert_int_equal(sink_add_below(s, "top/", "in/x", 1, &as, &err), 0);
	assert_int_equal(sink_open(s, &err), 0);
	assert_int_equal(sink_pwrite(s, 0, "1", 1, 0, &err), 0);
	assert_int_equal(sink_seal(s, &err), 0);
	assert_int_equal(sink_commit(s, &err), 0);
	sink_free(s);
	assert_content("top/in/x", "1");
	static const char *const made[] = {"top", "top/in", "top/in/x"};
	for (int i = 0; i < 3; i++) {
		assert_int_equal(mode_of(made[i]), 0751);
		assert_int_equal(stat(made[i], &st), 0);
		assert_true(st.st_mtim.tv_sec == 12 && st.st_mtim.tv_nsec == 34);
	}
	/* A link where a folder is expected leads nowhere, */
	assert_int_equal(mkdir("outside", 0700), 0);
	assert_int_equal(symlink("../outside", "top/link"), 0);
	s = new_sink(false);
	assert_int_equal(sink_add_below(s, "top", "link/x", 1, &as, &err), 0);
	int ret = sink_open(s, &err);
	assert_err(ret, &err, ERR_OUTPUT, "top/link/x: cannot open the folder");
	sink_free(s);
	err_clear(&err);
	s = new_sink(false);
	assert_int_equal(sink_add_folder_below(s, "top", "link", &as, &err), 0);
	ret = sink_open(s, &err);
	assert_err(ret, &err, ERR_OUTPUT, "top/link: is a symbolic link: expected a folder");
	sink_free(s);
	err_clear(&err);
	s = new_sink(false);
	assert_int_equal(sink_add_folder_below(s, "top", "link/deep", &as, &err), 0);
	ret = sink_open(s, &err);
	assert_err(ret, &err, ERR_OUTPUT, "top/link/deep: cannot create the folder");
	sink_free(s);
	/* nor where a file is, also with --force; but the folder itself may be one. */
	err_clear(&err);
	put("outside/y", "old", 0600);
	assert_int_equal(symlink("../outside/y", "top/y"), 0);
	s = sink_new(false, true, &err);
	assert_int_equal(sink_add_below(s, "top", "y", 1, &as, &err), 0);
	ret = sink_open(s, &err);
	assert_err(ret, &err, ERR_OUTPUT, "top/y: is a symbolic link");
	sink_free(s);
	err_clear(&err);
	s = new_sink(false);
	assert_int_equal(sink_add_below(s, "top/link", "z", 1, &as, &err), 0);
	assert_int_equal(sink_open(s, &err), 0);
	sink_free(s);
	assert_int_equal(names("outside"), 1);
}

/* The root's own file stays as it is: nothing is written, and what is read back is in it. */
TEST_WITH(test_left_alone, NULL, empty_folder)
{
	struct err err = {0};
	struct stat before, after;
	char back[3];
	put("own", "old", 0600);
	put("other", "old", 0600);
	assert_int_equal(stat("own", &before), 0);
	int fd = open("own", O_RDONLY);
	struct sink *s = new_sink(true);
	assert_int_equal(sink_add(s, "./own", NULL, 0, 3, &err), 0);
	assert_int_equal(sink_add(s, "other", NULL, 0, 3, &err), 1);
	leave_own(s, 0, fd);
	leave_own(s, 1, fd);
	assert_int_equal(sink_open(s, &err), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(sink_pwrite(s, i, "new", 3, 0, &err), 0);
	assert_int_equal(sink_pread(s, 0, back, 3, 0, &err), 0);
	assert_memory_equal(back, "old", 3);
	assert_int_equal(sink_seal(s, &err), 0);
	assert_int_equal(sink_commit(s, &err), 0);
	sink_free(s);
	close(fd);
	assert_int_equal(stat("own", &after), 0);
	assert_true(before.st_ino == after.st_ino &&
	            before.st_ctim.tv_nsec == after.st_ctim.tv_nsec);
	assert_content("own", "old");
	assert_content("other", "new");
}

/* Another rank writes it: the bytes can be read back, and nothing gets the name. */
TEST_WITH(test_dropped, NULL, empty_folder)
{
	struct err err = {0};
	char back[3];
	struct sink *s = new_sink(true);
	put("mine", "old", 0600);
	put("theirs", "old", 0600);
	assert_int_equal(sink_add(s, "theirs", "new", 3, 3, &err), 0);
	assert_int_equal(sink_add(s, "mine", "new", 3, 3, &err), 1);
	sink_drop(s, 0);
	assert_int_equal(sink_open(s, &err), 0);
	assert_int_equal(sink_pread(s, 0, back, 3, 0, &err), 0);
	assert_memory_equal(back, "new", 3);
	assert_int_equal(sink_seal(s, &err), 0);
	assert_int_equal(sink_commit(s, &err), 0);
	sink_free(s);
	assert_content("mine", "new");
	assert_content("theirs", "old");
	assert_int_equal(names("."), 2);
}

/* ---- stdout ---- */

static struct sink *sealed_with_stdout(struct err *err)
{
	struct sink *s = new_sink(false);
	char buf[4];
	assert_int_equal(sink_add(s, "a", "new", 3, 3, err), 0);
	assert_int_equal(sink_add(s, "-", "to ", 3, 9, err), 1);
	assert_int_equal(sink_add(s, "sub/b", "new", 3, 3, err), 2);
	assert_int_equal(sink_open(s, err), 0);
	assert_int_equal(sink_pwrite(s, 1, "stdout", 6, 3, err), 0);
	assert_int_equal(sink_pread(s, 1, buf, 4, 1, err), 0);
	assert_memory_equal(buf, "o st", 4);
	assert_int_equal(sink_seal(s, err), 0);
	return s;
}

TEST_WITH(test_stdout, NULL, empty_folder)
{
	struct err err = {0};
	put_old();
	struct sink *s = sealed_with_stdout(&err);
	int fd = open("out", O_WRONLY | O_CREAT, 0600);
	assert_int_equal(with_stdout_at(fd, s, &err), 0);
	close(fd);
	sink_free(s);
	assert_content("out", "to stdout");
	assert_content("a", "new");
	assert_content("sub/b", "new");
}

/* It can't be undone: it comes last, and its failure undoes the rest. */
TEST_WITH(test_stdout_fails, NULL, empty_folder)
{
	struct err err = {0};
	put_old();
	struct sink *s = sealed_with_stdout(&err);
	int fd = open("/dev/full", O_WRONLY);
	assert_true(fd >= 0);
	int ret = with_stdout_at(fd, s, &err);
	close(fd);
	assert_err(ret, &err, ERR_OUTPUT, "stdout: ");
	sink_free(s);
	assert_old();

	err_clear(&err);
	s = sealed_with_stdout(&err);
	fd = open("out", O_WRONLY | O_CREAT, 0600);
	fail_calls(RENAMEAT, 1, EIO, 1);
	assert_int_equal(with_stdout_at(fd, s, &err), -1);
	close(fd);
	sink_free(s);
	assert_content("out", "");
	assert_int_equal(unlink("out"), 0);
	assert_old();
}

/* ---- arrays ---- */

TEST_WITH(test_arrays, NULL, empty_folder)
{
	static const struct {
		const char *path;
		const struct format *hint, *format;
		const char *words; /* of the error; NULL: it is fine */
	} cases[] = {
	        {"x.npy", NULL, &format_npy, NULL},
	        {"x.bin", NULL, &format_raw, NULL},
	        {"x", &format_raw, &format_raw, NULL},
	        {"x.npy", NULL, &format_raw,
	         "x.npy: the output has the input's format: end its name in .bin or .raw"},
	        {"x.raw", NULL, &format_npy,
	         "x.raw: the output has the input's format: end its name in .npy"},
	        {"x.npy", &format_raw, &format_npy,
	         "x.npy: the output has the input's format: --format npy"},
	        {"x.txt", NULL, &format_npy, "x.txt: unknown format"},
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct err err = {0};
		struct array_info info = {.format = cases[i].format,
		                          .dtype = DTYPE_I32,
		                          .ndim = 2,
		                          .shape = {3, 2},
		                          .count = 6};
		const int32_t values[] = {1, 2, 3, 4, 5, 6};
		struct place place;
		struct dataset d;
		struct array_hints hints = {cases[i].format, DTYPE_I32, "3,2"};
		const struct dataset_source source = {.hints = &hints};
		struct sink *s = new_sink(false);
		int ret = sink_add_array(s, cases[i].path, cases[i].hint, &info, &place, &err);
		if (cases[i].words) {
			assert_err(ret, &err, ERR_USAGE, cases[i].words);
			sink_free(s);
			continue;
		}
		assert_int_equal(ret, 0);
		assert_int_equal(place.file, 0);
		assert_int_equal(sink_open(s, &err), 0);
		assert_int_equal(sink_pwrite(s, 0, values, sizeof values, place.offset, &err), 0);
		assert_int_equal(sink_seal(s, &err), 0);
		assert_int_equal(sink_commit(s, &err), 0);
		sink_free(s);
		if (cases[i].format == &format_npy)
			hints = (struct array_hints){0};
		if (dataset_open(&d, cases[i].path, &source, &err))
			fail_msg("%s", err.text);
		int32_t found[6];
		struct array_info as;
		assert_int_equal(tensor_info(&d.tensors[0], &as), 0);
		assert_true(array_same(&as, &info));
		assert_int_equal(
		        dataset_pread(&d, 0, found, sizeof found, d.tensors[0].offset, &err), 0);
		assert_memory_equal(found, values, sizeof values);
		dataset_close(&d);
	}
}

/* Bytes count as written at once, and as stored when they are on disk; those that are not written,
 * because the file has them, do not count. */
TEST_WITH(test_progress, NULL, empty_folder)
{
	struct err err = ERR_INIT;
	struct sink *s = sink_new(true, false, &err);
	assert_non_null(s);
	assert_false(sink_writes(s) || sink_syncs(s));
	assert_int_equal(sink_add(s, "f", NULL, 0, 5, &err), 0);
	assert_true(sink_writes(s) && sink_syncs(s));
	assert_int_equal(sink_open(s, &err), 0);
	assert_int_equal(sink_pwrite(s, 0, "hello", 5, 0, &err), 0);
	assert_int_equal(sink_progress(s).written, 5);
	assert_int_equal(sink_progress(s).stored, 0);
	assert_int_equal(sink_seal(s, &err), 0);
	assert_int_equal(sink_progress(s).stored, 5);
	assert_true(sink_progress(s).waited <= 5);
	sink_free(s);
	s = sink_new(false, false, &err);
	assert_non_null(s);
	assert_int_equal(sink_add(s, "f", NULL, 0, 5, &err), 0);
	assert_true(sink_writes(s) && !sink_syncs(s));
	sink_drop(s, 0);
	assert_false(sink_writes(s));
	sink_free(s);
}

/* Without a descriptor nobody knows whether there is an old file, or whether it has changed. */
TEST_WITH(test_old_without_descriptors, NULL, empty_folder)
{
	struct err err = ERR_INIT;
	struct rlimit limit;
	put("f", "old", 0644);
	struct sink *s = new_sink(false);
	assert_int_equal(sink_add(s, "f", NULL, 0, 5, &err), 0);
	assert_int_equal(sink_add(s, "g", NULL, 0, 5, &err), 1);
	const int fd = sink_open_old(s, 0, &err);
	assert_true(fd >= 0);
	assert_err(sink_open_old(s, 1, &err), &err, ERR_OUTPUT, "g: cannot open");
	err_clear(&err);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int left = 0; left <= 1; left++) { /* none for the folder; none for the file in it */
		const struct rlimit few = {(rlim_t)(fd - 1 + left), limit.rlim_max};
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		const int old = sink_open_old(s, 0, &err);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		assert_err(old, &err, ERR_RESOURCE, "Too many open files");
		err_clear(&err);
	}
	close(fd);
	sink_free(s);
}

/* The same folder is opened once; each file is looked at in its own. */
TEST_WITH(test_attributes_of_old_files, NULL, empty_folder)
{
	static const char *const names[] = {"a/x",    "a/y",    "b/x", "a/x",
	                                    "a/none", "link/x", "b",   "z"};
	static const int sizes[] = {1, 2, 3, 1, -1, -1, -1, 4};
	const struct sink_attributes as = {.has_mode = false};
	struct err err = ERR_INIT;
	struct beneath last = BENEATH_INIT;
	struct stat st;
	int before = -1;
	assert_int_equal(mkdir("top", 0755) | mkdir("top/a", 0755) | mkdir("top/b", 0755), 0);
	assert_int_equal(symlink("a", "top/link"), 0);
	put("top/a/x", "1", 0644);
	put("top/a/y", "12", 0644);
	put("top/b/x", "123", 0644);
	put("top/z", "1234", 0644);
	struct sink *s = new_sink(false);
	for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
		const int file = sink_add_below(s, "top", names[i], 5, &as, &err);
		assert_true(file >= 0);
		const int ret = sink_stat_old(s, file, &last, &st, &err);
		assert_int_equal(ret, sizes[i] < 0 ? -1 : 0);
		if (ret == 0)
			assert_int_equal(st.st_size, sizes[i]);
		if (i == 1)
			assert_int_equal(last.fd, before);
		before = last.fd;
		err_clear(&err);
	}
	beneath_release(&last);
	assert_int_equal(last.fd, -1);
	sink_free(s);
}

int main(void)
{
	return unit_run(into_folder, out_of_folder);
}
