/* What ranks tell of their arrays: out and in again, cut at every byte, and what is impossible. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/coll/agreement/agree_wire.h"
#include "lib/coll/agreement/file_list.h"
#include "tests/unit/unit.h"

static const struct format zero = {.number = 0}, unknown = {.number = 99};

#define SIZE 3

static struct array_info matrix(uint64_t rows, uint64_t columns)
{
	struct array_info info = {
	        .format = &format_npy, .dtype = DTYPE_F32, .ndim = 2, .shape = {rows, columns}};
	assert_int_equal(array_count(&info), 0);
	return info;
}

/* The getter on all of @v, with nothing left. */
static int get_array(struct view v, int size, struct array_info *info, uint64_t *counts, bool *even,
                     struct err *err)
{
	uint64_t *got;
	int ret = wire_get_array(&v, size, info, &got, err) < 0 ? -1 : wire_end(&v, err);
	*even = got == NULL;
	if (got)
		memcpy(counts, got, (size_t)size * sizeof *got);
	free(got);
	return ret;
}

static int get_rows(struct view v, int size, uint64_t *rows, struct err *err)
{
	uint64_t *got;
	int ret = wire_get_rows(&v, size, &got, err) < 0 ? -1 : wire_end(&v, err);
	if (got)
		memcpy(rows, got, (size_t)size * sizeof *got);
	free(got);
	return ret;
}

/* Encode, decode: what comes back in *info, *counts, *even; the decoder's result. */
static int there_and_back(const struct array_info *said, const uint64_t *cut, int size,
                          struct array_info *info, uint64_t *counts, bool *even)
{
	struct err err = {0};
	struct buf b;
	buf_init(&b, 1u << 20);
	wire_put_array(&b, said, cut, size);
	assert_false(b.failed);
	int ret = get_array(view_of(b.data, b.len), SIZE, info, counts, even, &err);
	assert_int_equal(err.code, ret ? ERR_INTEGRITY : 0);
	buf_release(&b);
	return ret;
}

TEST(arrays_come_back)
{
	static const uint64_t cut[SIZE] = {5, 0, 2};
	struct array_info said = matrix(7, 4), info;
	uint64_t counts[SIZE];
	bool even;
	assert_int_equal(there_and_back(&said, NULL, SIZE, &info, counts, &even), 0);
	assert_true(even && array_same(&said, &info) && info.format == &format_npy);
	assert_int_equal(info.count, 28);
	assert_int_equal(there_and_back(&said, cut, SIZE, &info, counts, &even), 0);
	assert_false(even);
	assert_memory_equal(counts, cut, sizeof cut);
	said = (struct array_info){.format = &format_raw, .dtype = DTYPE_U8, .count = 1};
	assert_int_equal(there_and_back(&said, NULL, SIZE, &info, counts, &even), 0);
	assert_true(info.ndim == 0 && info.count == 1 && info.format == &format_raw);
}

TEST(what_can_t_be_is_refused)
{
	static const uint64_t cut[SIZE] = {5, 0, 2}, more[SIZE] = {5, 1, 2};
	static const uint64_t huge[SIZE] = {INT64_MAX, INT64_MAX, 9};
	struct array_info info, said = matrix(7, 4), bad[7];
	struct err err = {0};
	uint64_t counts[SIZE];
	struct buf b;
	bool even;
	for (int i = 0; i < 7; i++)
		bad[i] = said;
	bad[0].format = &unknown;
	bad[1].format = &format_safetensors;
	bad[2].dtype = DTYPE_NONE;
	bad[3].dtype = DTYPES;
	bad[4].shape[0] = UINT64_MAX / 2;
	bad[5].shape[1] = UINT64_MAX;
	bad[6].ndim = 0;
	for (int i = 0; i < 7; i++)
		assert_int_equal(
		        there_and_back(&bad[i], i == 6 ? cut : NULL, SIZE, &info, counts, &even),
		        -1);
	/* More dimensions than there may be, all of them there. */
	buf_init(&b, 1u << 10);
	buf_put_u8(&b, format_npy.number);
	buf_put_u8(&b, DTYPE_F32);
	buf_put_u8(&b, ARRAY_MAX_DIMS + 1);
	for (int i = 0; i <= ARRAY_MAX_DIMS; i++)
		buf_put_u64(&b, 1);
	buf_put_u32(&b, 0);
	assert_int_equal(get_array(view_of(b.data, b.len), SIZE, &info, counts, &even, &err), -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	buf_release(&b);
	assert_int_equal(there_and_back(&said, more, SIZE, &info, counts, &even), -1);
	assert_int_equal(there_and_back(&said, huge, SIZE, &info, counts, &even), -1);
	assert_int_equal(there_and_back(&said, cut, SIZE - 1, &info, counts, &even), -1);
}

TEST(arrays_cut_anywhere)
{
	static const uint64_t cut[SIZE] = {5, 0, 2};
	struct array_info said = matrix(7, 4), info;
	uint64_t counts[SIZE];
	bool even;
	struct buf b;
	buf_init(&b, 1u << 20);
	wire_put_array(&b, &said, cut, SIZE);
	for (size_t n = 0; n < b.len; n++) {
		struct err err = {0};
		uint8_t *part = malloc(n ? n : 1); /* its own, for a sanitizer to see the end */
		assert_non_null(part);
		memcpy(part, b.data, n);
		assert_int_equal(get_array(view_of(part, n), SIZE, &info, counts, &even, &err), -1);
		free(part);
	}
	struct err err = {0};
	buf_put_u8(&b, 0);
	assert_int_equal(get_array(view_of(b.data, b.len), SIZE, &info, counts, &even, &err), -1);
	buf_release(&b);
}

TEST(rows_come_back)
{
	static const uint64_t rows[SIZE] = {0, INT64_MAX, 0}, many[SIZE] = {1, INT64_MAX, 0};
	uint64_t back[SIZE];
	struct err err = {0};
	struct buf b;
	buf_init(&b, 100);
	wire_put_rows(&b, rows, SIZE);
	assert_int_equal(get_rows(view_of(b.data, b.len), SIZE, back, &err), 0);
	assert_memory_equal(back, rows, sizeof rows);
	for (size_t n = 0; n <= b.len; n++) {
		err_clear(&err);
		int size = n == b.len ? SIZE - 1 : SIZE; /* too short; at last too long */
		assert_int_equal(get_rows(view_of(b.data, n), size, back, &err), -1);
		assert_int_equal(err.code, ERR_INTEGRITY);
	}
	buf_release(&b);
	buf_init(&b, 100);
	wire_put_rows(&b, many, SIZE);
	err_clear(&err);
	assert_int_equal(get_rows(view_of(b.data, b.len), SIZE, back, &err), -1);
	buf_release(&b);
}

/* ---- files, weights ---- */

static struct listed_file files[] = {
        {.name = "model-1.safetensors", .bytes = 7, .mode = 0640, .mtime = -5},
        {.name = "x.json", .mode = MODE_NONE}};
static const struct file_list set = {
        .format = &format_safetensors, .folder = true, .files = files, .nfiles = 2};

static struct err last; /* of get_list */

static int get_list(const void *p, size_t n, struct file_list *out)
{
	struct err err = {0};
	struct view v = view_of(p, n);
	int ret = file_list_get(&v, out, &err);
	if (ret == 0 && wire_end(&v, &err) < 0) {
		file_list_release(out);
		ret = -1;
	}
	assert_true(err.code == 0 ? ret == 0
	                          : err.code == ERR_INTEGRITY || err.code == ERR_DISAGREE);
	last = err;
	return ret;
}

static int list_and_back(const struct file_list *t, struct file_list *out)
{
	struct buf b;
	buf_init(&b, 2 * PATH_MAX);
	file_list_put(&b, t);
	int ret = get_list(b.data, b.len, out);
	buf_release(&b);
	return ret;
}

TEST(files_come_back)
{
	struct file_list out;
	assert_int_equal(list_and_back(&set, &out), 0);
	assert_true(out.format == &format_safetensors && out.folder && out.nfiles == 2);
	assert_string_equal(out.files[0].name, files[0].name);
	assert_string_equal(out.files[1].name, files[1].name);
	assert_true(out.files[0].bytes == 7 && out.files[1].bytes == 0);
	assert_true(out.files[0].mode == 0640 && out.files[0].mtime == -5);
	assert_int_equal(out.files[1].mode, MODE_NONE);
	file_list_release(&out);
}

TEST(files_cut_anywhere)
{
	struct file_list out;
	struct buf b;
	buf_init(&b, 4096);
	file_list_put(&b, &set);
	for (size_t n = 0; n < b.len; n++) {
		uint8_t *part = malloc(n ? n : 1);
		assert_non_null(part);
		memcpy(part, b.data, n);
		assert_int_equal(get_list(part, n, &out), -1);
		free(part);
	}
	buf_release(&b);
}

TEST(names_stay_in_their_folder)
{
	static char *const bad[] = {"",  ".",     "..",   ".hidden", "a/b",
	                            "/", "../up", "/etc", "x.json"}; /* the last: twice */
	struct file_list out, t = set;
	struct listed_file two[] = {files[1], files[1]};
	t.files = two;
	for (size_t i = 0; i < LENGTH(bad); i++) {
		two[0].name = bad[i];
		assert_int_equal(list_and_back(&t, &out), -1);
		bool twice = strcmp(bad[i], two[1].name) == 0;
		assert_int_equal(last.code, twice ? ERR_INTEGRITY : ERR_DISAGREE);
		assert_true(twice || strstr(last.text, bad[i]));
	}
	two[0].name = "other";
	assert_int_equal(list_and_back(&t, &out), 0);
	file_list_release(&out);
}

/* Trees: names that stay below their folder, as they are, with what files and folders have. */
TEST(trees_come_back)
{
	struct listed_file in[] = {{.name = ".a/b", .bytes = 3, .mode = 0755, .mtime = INT64_MIN},
	                           {.name = ".a/bc\nd", .bytes = 0, .mode = 0, .mtime = INT64_MAX},
	                           {.name = ".a/bc/x", .bytes = 1}};
	struct listed_file folders[] = {{.name = "", .mode = 0700}, {.name = ".a", .mode = 0555}};
	const struct file_list tree = {.format = &format_raw,
	                               .folder = true,
	                               .tree = true,
	                               .files = in,
	                               .nfiles = 3,
	                               .folders = folders,
	                               .nfolders = 2};
	struct file_list out;
	assert_int_equal(list_and_back(&tree, &out), 0);
	assert_true(out.tree && out.folder && out.nfiles == 3 && out.nfolders == 2);
	for (int i = 0; i < 3; i++) {
		assert_string_equal(out.files[i].name, in[i].name);
		assert_int_equal(out.files[i].mode, in[i].mode);
		assert_true(out.files[i].mtime == in[i].mtime && out.files[i].bytes == in[i].bytes);
	}
	assert_string_equal(out.folders[0].name, "");
	assert_int_equal(out.folders[1].mode, 0555);
	file_list_release(&out);
	struct file_list none = tree;
	none.nfiles = 0;
	assert_int_equal(list_and_back(&none, &out), 0);
	file_list_release(&out);
}

/* Holes and hard links come back; lists that make no sense do not. */
TEST(holes_and_links)
{
	struct file_range range[] = {{0, 10}, {50, 20}};
	struct listed_file in[] = {
	        {.name = "a", .bytes = 100, .data = {true, range, 2}},
	        {.name = "b", .bytes = 1u << 30, .data = {.sparse = true}},
	        {.name = "c", .linked = true, .to = 0, .mode = 0600},
	};
	const struct file_list tree = {
	        .format = &format_raw, .folder = true, .tree = true, .files = in, .nfiles = 3};
	struct file_list out;
	assert_int_equal(list_and_back(&tree, &out), 0);
	assert_true(out.files[0].data.sparse && out.files[0].data.n == 2);
	assert_true(out.files[0].data.range[1].offset == 50);
	assert_true(listed_bytes(&out.files[0]) == 30 && listed_bytes(&out.files[1]) == 0);
	assert_true(out.files[2].linked && out.files[2].to == 0 && out.files[2].mode == 0600);
	file_list_release(&out);

	static const struct file_range bad[] = {{60, 20}, {9, 20},   {10, 20},        {50, 0},
	                                        {50, 51}, {101, 20}, {50, 1ull << 63}};
	for (size_t i = 1; i < LENGTH(bad); i++) {
		range[1] = bad[i];
		assert_int_equal(list_and_back(&tree, &out), -1);
		assert_int_equal(last.code, ERR_INTEGRITY);
	}
	range[1] = bad[0];
	in[0].bytes = 30; /* no hole is left */
	range[0].bytes = 30;
	in[0].data.n = 1;
	assert_int_equal(list_and_back(&tree, &out), -1);
	in[0].data = (struct sparse){0};
	in[2].to = 2; /* itself; then a link; then in a list that is no tree */
	assert_int_equal(list_and_back(&tree, &out), -1);
	in[1].data = (struct sparse){0};
	in[1].linked = true;
	in[2].to = 1;
	assert_int_equal(list_and_back(&tree, &out), -1);
	in[2].to = 0;
	struct file_list flat = tree;
	flat.tree = false;
	assert_int_equal(list_and_back(&flat, &out), -1);
	assert_int_equal(list_and_back(&tree, &out), 0);
	file_list_release(&out);
}

TEST(trees_stay_below)
{
	static char *const bad[] = {
	        "",     "/",    "/etc/x", ".",   "..",    "a/../b", "../b",
	        "a/..", "a//b", "a/",     "./a", "a/./b", "x"}; /* the last: a folder's */
	char long_name[300];
	struct listed_file file = {.name = NULL}, folder = {.name = "x"};
	struct file_list out, t = {.format = &format_raw,
	                           .folder = true,
	                           .tree = true,
	                           .files = &file,
	                           .nfiles = 1,
	                           .folders = &folder,
	                           .nfolders = 1};
	for (size_t i = 0; i < LENGTH(bad); i++) {
		file.name = bad[i];
		assert_int_equal(list_and_back(&t, &out), -1);
		bool twice = strcmp(bad[i], folder.name) == 0;
		assert_int_equal(last.code, twice ? ERR_INTEGRITY : ERR_DISAGREE);
	}
	memset(long_name, 'n', sizeof long_name);
	long_name[sizeof long_name - 1] = '\0';
	file.name = long_name;
	assert_int_equal(list_and_back(&t, &out), -1);
	file.name = "x/..y/...";
	assert_int_equal(list_and_back(&t, &out), 0);
	file_list_release(&out);
	t.tree = false; /* folders of files that have none */
	file.name = "y";
	assert_int_equal(list_and_back(&t, &out), -1);
}

/* Symbolic links come back with their targets; those that may lead out of the folder do not. */
TEST(symbolic_links_stay_in_their_folder)
{
	static const struct {
		const char *name, *target;
		bool stays;
	} cases[] = {
	        {"l", "x", true},           {"l", ".", true},
	        {"l", "./x//y/", true},     {"l", "..", false},
	        {"l", "../x", false},       {"l", "./../x", false},
	        {"l", "/", false},          {"l", "/etc", false},
	        {"l", "", false},           {"l", "x/..", false},
	        {"l", "x/../../y", false},  {"l", "..x/...", true},
	        {"a/l", "..", true},        {"a/l", "../x", true},
	        {"a/l", "../../x", false},  {"a/l", ".././x", true},
	        {"a/l", "..//../x", false}, {"a/l", "../x/..", false},
	        {"a/b/l", "../..", true},   {"a/b/l", "../../..", false},
	        {"a/b/l", "\n\x1b", true},
	};
	struct listed_file link = {.mode = 0777, .mtime = 7};
	struct file_list out, t = {.format = &format_raw,
	                           .folder = true,
	                           .tree = true,
	                           .links = &link,
	                           .nlinks = 1};
	char longest[PATH_MAX + 1];
	for (size_t i = 0; i < LENGTH(cases); i++) {
		link.name = (char *)cases[i].name;
		link.target = (char *)cases[i].target;
		assert_int_equal(path_link_stays(link.name, link.target), cases[i].stays);
		assert_int_equal(list_and_back(&t, &out), cases[i].stays ? 0 : -1);
		if (!cases[i].stays) {
			assert_int_equal(last.code, ERR_DISAGREE);
			continue;
		}
		assert_int_equal(out.nlinks, 1);
		assert_string_equal(out.links[0].name, link.name);
		assert_string_equal(out.links[0].target, link.target);
		assert_true(out.links[0].mtime == 7);
		file_list_release(&out);
	}
	memset(longest, 'x', PATH_MAX);
	longest[PATH_MAX] = '\0';
	link.target = longest;
	assert_int_equal(list_and_back(&t, &out), -1);
	longest[PATH_MAX - 1] = '\0';
	assert_int_equal(list_and_back(&t, &out), 0);
	file_list_release(&out);
	link.target = "x";
	t.tree = false;
	t.files = files;
	t.nfiles = 1;
	assert_int_equal(list_and_back(&t, &out), -1);
}

/* No name of a list leads through a link of it, and none is a link, too. */
TEST(nothing_lies_below_a_link)
{
	static char *const bad[] = {"a/b", "a/b/c", "a"}, *const good[] = {"a.b", "ab/c", "b/a"};
	struct listed_file one = {.mode = 0600};
	struct listed_file links[] = {{.name = "z", .target = "a"}, {.name = "a", .target = "b"}};
	const struct file_list tree = {
	        .format = &format_raw, .folder = true, .tree = true, .links = links, .nlinks = 2};
	for (size_t i = 0; i < LENGTH(bad) + LENGTH(good); i++) {
		const bool is_bad = i < LENGTH(bad);
		one.name = is_bad ? bad[i] : good[i - LENGTH(bad)];
		for (int kind = 0; kind < 3; kind++) {
			struct listed_file three[] = {links[0], links[1], one};
			struct file_list out, t = tree;
			three[2].target = "x";
			t.files = t.folders = &one;
			t.nfiles = kind == 0;
			t.nfolders = kind == 1;
			t.links = three;
			t.nlinks = kind == 2 ? 3 : 2;
			assert_int_equal(list_and_back(&t, &out), is_bad ? -1 : 0);
			if (!is_bad)
				file_list_release(&out);
			else if (i < 2)
				assert_true(last.code == ERR_DISAGREE &&
				            strstr(last.text, one.name));
			else
				assert_int_equal(last.code, ERR_INTEGRITY);
		}
	}
}

TEST(gathered_files_are_base_names)
{
	static char *const bad_names[] = {"", "..", "a/b", "/x"}, *bad_hosts[] = {"..", "a/b", ""};
	struct listed_file file = {.name = ".log", .bytes = 5, .mode = 0600, .mtime = 1};
	struct rank_files out, s = {.files = {.format = &format_raw,
	                                      .folder = true,
	                                      .tree = true,
	                                      .files = &file,
	                                      .nfiles = 1},
	                            .host = "node7"};
	for (int i = 0; i < 8; i++) {
		struct err err = {0};
		struct buf b;
		file.name = i < 4 ? bad_names[i] : ".log";
		if (i >= 4 && i < 7)
			snprintf(s.host, sizeof s.host, "%s", bad_hosts[i - 4]);
		else
			strcpy(s.host, "node7");
		buf_init(&b, 4096);
		rank_files_put(&b, &s);
		struct view v = view_of(b.data, b.len), w = v;
		assert_int_equal(rank_files_get(&v, &out, 1, &err), i == 7 ? 0 : -1);
		assert_int_equal(err.code, i == 7 ? 0 : i == 6 ? ERR_INTEGRITY : ERR_DISAGREE);
		if (i == 7) {
			assert_string_equal(out.host, "node7");
			assert_string_equal(out.files.files[0].name, ".log");
			rank_files_release(&out);
			assert_int_equal(rank_files_get(&w, &out, 2, &err), -1);
		}
		buf_release(&b);
	}
}

TEST(a_gathered_folder_comes_back_with_its_top_for_one_vector)
{
	struct sparse holes = {
	        .sparse = true, .range = (struct file_range[]){{4, 2}, {8, 1}}, .n = 2};
	struct listed_file its[] = {{.name = "a/.x", .bytes = 5},
	                            {.name = "a/b", .linked = true, .to = 0},
	                            {.name = "s", .bytes = 10, .data = holes}};
	struct listed_file of[] = {{.name = "", .mode = 0700, .mtime = -1}, {.name = "a"}};
	struct rank_files out, s = {.files = {.format = &format_raw,
	                                      .folder = true,
	                                      .tree = true,
	                                      .files = its,
	                                      .folders = of},
	                            .host = "node7"};
	static const struct {
		int nfiles, nfolders, n, right;
	} cases[] = {{3, 2, 1, true}, {0, 1, 1, true}, {3, 2, 2, false}, {0, 1, 0, false}};
	for (size_t i = 0; i < 4; i++) {
		struct err err = {0};
		struct buf b;
		s.files.nfiles = cases[i].nfiles;
		s.files.nfolders = cases[i].nfolders;
		buf_init(&b, 4096);
		rank_files_put(&b, &s);
		for (size_t cut = 0; cut < b.len; cut++) {
			struct view v = view_of(b.data, cut);
			assert_int_equal(rank_files_get(&v, &out, cases[i].n, &err), -1);
			err_clear(&err);
		}
		struct view v = view_of(b.data, b.len);
		int ret = rank_files_get(&v, &out, cases[i].n, &err);
		assert_int_equal(ret, cases[i].right ? 0 : -1);
		assert_int_equal(err.code, cases[i].right ? 0 : ERR_INTEGRITY);
		if (ret == 0) {
			assert_true(rank_files_is_folder(&out));
			assert_int_equal(out.files.folders[0].mode, 0700);
			assert_int_equal(out.files.nfiles, cases[i].nfiles);
		}
		if (i == 0) {
			assert_true(out.files.files[1].linked);
			assert_int_equal(listed_bytes(&out.files.files[2]), 3);
		}
		if (ret == 0)
			rank_files_release(&out);
		buf_release(&b);
	}
	struct err err = {0};
	struct buf b;
	s.files.nfolders = 1; /* not the top */
	s.files.folders = of + 1;
	buf_init(&b, 4096);
	rank_files_put(&b, &s);
	struct view v = view_of(b.data, b.len);
	assert_int_equal(rank_files_get(&v, &out, 1, &err), -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	buf_release(&b);
}

/* What remains of a rank's files, for a folder and for two single files. */
TEST(files_that_are_not_sent_come_back)
{
	for (int folder = 0; folder < 2; folder++) {
		struct listed_file its[9] = {{.bytes = 5}, {.bytes = 7}}, back[9],
		                   of = {.name = ""};
		struct file_list l = {.files = its, .folders = &of, .nfolders = folder};
		const int n = folder ? 1 : 2;
		struct buf b;
		l.nfiles = folder ? 9 : 2;
		its[1].equal = its[8].equal = true;
		memcpy(back, its, sizeof back);
		back[1].equal = back[8].equal = false;
		buf_init(&b, 100);
		file_list_put_equal(&b, &l, n);
		l.files = back;
		for (size_t cut = 0; cut <= b.len; cut++) {
			struct view v = view_of(b.data, cut);
			assert_int_equal(file_list_get_equal(&v, &l, n), cut == b.len);
		}
		assert_true(!back[0].equal && back[1].equal && !back[7].equal);
		assert_int_equal(back[8].equal, folder);
		assert_int_equal(file_list_bytes(&l, 0), 5);
		struct view v = view_of(b.data, b.len);
		b.data[0]++; /* more than there is */
		assert_false(file_list_get_equal(&v, &l, n));
		b.data[0]--;
		b.data[8 * n]--; /* other files */
		v = view_of(b.data, b.len);
		assert_false(file_list_get_equal(&v, &l, n));
		buf_release(&b);
	}
}

TEST(files_that_can_t_be)
{
	struct listed_file huge[] = {{.name = "a", .bytes = INT64_MAX}, {.name = "b", .bytes = 1}};
	struct file_list out, t = set;
	t.format = &zero;
	assert_int_equal(list_and_back(&t, &out), -1);
	t.format = &unknown;
	assert_int_equal(list_and_back(&t, &out), -1);
	t = set;
	t.folder = false; /* two, to one name */
	assert_int_equal(list_and_back(&t, &out), -1);
	t = set;
	t.nfiles = 0;
	assert_int_equal(list_and_back(&t, &out), -1);
	t = set;
	t.files = huge;
	assert_int_equal(list_and_back(&t, &out), -1);
}

TEST(weights_are_finite)
{
	static const double all[] = {0.25, 0, -1, INFINITY, NAN};
	for (size_t i = 0; i < LENGTH(all); i++)
		assert_int_equal(wire_is_weight(&all[i]), i < 2);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
