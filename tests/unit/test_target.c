/* Places of outputs: one file has one place, by whatever path; other files have others. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/user.h"
#include "lib/data/files/target.h"
#include "tests/unit/unit.h"

static char folder[] = "/tmp/test_target.XXXXXX";

static int enter(void **state)
{
	return mkdtemp(folder) && chdir(folder) == 0 && mkdir("a", 0777) == 0 &&
	                       mkdir("b", 0777) == 0 && symlink("a", "link") == 0
	               ? 0
	               : -1;
}

static int leave(void **state)
{
	char command[64];
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

static void put(const char *path)
{
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
}

TEST(one_file_has_one_place)
{
	char whole[128];
	snprintf(whole, sizeof whole, "%s/a/x", folder);
	uint64_t x = target_place("a/x", false);
	assert_int_not_equal(x, 0);
	assert_int_equal(target_place("./a/x", false), x);
	assert_int_equal(target_place("b/../a//x", false), x);
	assert_int_equal(target_place("link/x", false), x);
	assert_int_equal(target_place(whole, false), x);
	put("a/x"); /* whether it is there or not */
	assert_int_equal(target_place("a/x", false), x);
	assert_int_equal(target_place_in(target_place("link/", false), "x"), x);
	assert_int_not_equal(target_place("a/y", false), x);
	assert_int_not_equal(target_place("b/x", false), x);
}

TEST(a_folder_that_is_to_be_made_has_a_place)
{
	uint64_t set = target_place("a/set", false);
	assert_int_not_equal(set, 0);
	assert_int_equal(target_place("a/set//", false), set);
	assert_int_equal(target_place("link/set/", false), set);
	assert_int_not_equal(target_place("a", false), target_place("b", false));
	assert_int_equal(target_place("link", false), target_place("a/", false));
	assert_int_not_equal(target_place_in(set, "x"), target_place_in(set, "y"));
}

TEST(a_second_name_is_another_place)
{
	put("a/one"); /* each name is replaced for itself */
	assert_int_equal(link("a/one", "a/two"), 0);
	assert_int_not_equal(target_place("a/one", false), target_place("a/two", false));
}

TEST(symlinks_are_followed_by_force_alone)
{
	put("a/real");
	assert_int_equal(symlink("real", "a/soft"), 0);
	assert_int_equal(target_place("a/soft", false), 0);
	assert_int_equal(target_place("a/soft", true), target_place("a/real", false));
}

static bool same(const char *a, const char *b)
{
	struct target_id one, other;
	target_id(&one, a, true);
	target_id(&other, b, true);
	const bool is = target_id_same(&one, &other);
	assert_int_equal(target_id_same(&other, &one), is);
	target_id_release(&one);
	target_id_release(&other);
	return is;
}

TEST(files_that_are_one)
{
	put("a/file");
	put("a/second");
	assert_int_equal(symlink("file", "a/to-file"), 0);
	assert_int_equal(symlink("../link/to-file", "b/to-to-file"), 0);
	assert_int_equal(symlink("absent", "a/to-absent"), 0);
	assert_int_equal(link("a/file", "b/hard"), 0);
	assert_true(same("a/file", "b/../link/file"));
	assert_true(same("a/file", "b/to-to-file"));
	assert_true(same("a/file", "b/hard"));
	assert_true(same("a/absent", "a/to-absent"));
	assert_false(same("a/file", "a/second"));
	assert_false(same("a/absent", "b/absent"));
	assert_false(same("a/none/x", "a/none/x")); /* not known */
	assert_false(same("-", "-"));
	assert_false(same("a", "a/"));
}

TEST(no_folder_by_the_link_of_another_user)
{
	struct err err = {.rank = ERR_RANK_SELF};
	assert_int_equal(symlink("a", "own"), 0);
	assert_int_equal(target_check_folder("own", &err), 0);
	assert_int_equal(target_check_folder("own//", &err), 0);
	assert_int_equal(target_check_folder("none/x", &err), 0);
	assert_int_equal(target_check_folder("/", &err), 0);
	if (geteuid() != 0)
		skip();
	assert_int_equal(lchown("own", 12345, 12345), 0);
	assert_int_equal(target_check_folder("own/", &err), -1);
	assert_int_equal(err.code, ERR_OUTPUT);
	assert_string_equal(err.text,
	                    "own: is a symbolic link of user 12345, which is not followed: "
	                    "name the file itself");
}

/* Who can change a file besides this user and root. */
TEST(what_others_can_change)
{
	static const struct {
		mode_t mode;
		bool own, own_group, changes;
	} cases[] = {
	        {S_IFREG | 0644, true, true, false},  {S_IFREG | 0664, true, true, false},
	        {S_IFREG | 0664, true, false, true},  {S_IFREG | 0646, true, true, true},
	        {S_IFREG | 0600, false, true, true},  {S_IFDIR | 0777, true, true, true},
	        {S_IFDIR | 01777, true, true, false}, {S_IFDIR | 01777, false, true, true},
	        {S_IFREG | 01666, true, true, true},
	};
	char why[128];
	for (size_t i = 0; i < LENGTH(cases); i++) {
		const struct stat st = {.st_mode = cases[i].mode,
		                        .st_uid = cases[i].own ? geteuid() : 12345,
		                        .st_gid = cases[i].own_group ? getegid() : 12345};
		assert_int_equal(user_others_change(&st, geteuid(), why, sizeof why),
		                 cases[i].changes);
	}
	const struct stat theirs = {
	        .st_mode = S_IFREG | 0644, .st_uid = 12345, .st_gid = getegid()};
	assert_false(user_others_change(&theirs, 12345, why, sizeof why));
}

TEST(what_is_no_place)
{
	assert_int_equal(mkfifo("a/pipe", 0600), 0);
	assert_int_equal(target_place("-", false), 0);
	assert_int_equal(target_place("/dev/null", true), 0);
	assert_int_equal(target_place("a/pipe", false), 0);
	assert_int_equal(target_place("nowhere/x", false), 0);
	assert_int_equal(target_place_in(0, "x"), 0);
}

int main(void)
{
	return unit_run(enter, leave);
}
