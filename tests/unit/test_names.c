/* A corpus of hostile names, through every decoder that takes a name from a peer or a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/host_name.h"
#include "lib/base/path.h"
#include "lib/base/text.h"
#include "lib/coll/agreement/agree_wire.h"
#include "lib/coll/agreement/file_list.h"
#include "lib/coll/request/paths.h"
#include "lib/data/formats/shard_index.h"
#include "lib/job/proto.h"
#include "tests/unit/unit.h"

#define RLO  "\342\200\256" /* letters after it run to the left */
#define LRM  "\342\200\216"
#define ALM  "\330\234"
#define LRI  "\342\201\246"
#define LINE "\342\200\250"
#define C1   "\302\233" /* CSI */
#define N64  "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
#define N255 N64 N64 N64 "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"

/* In which places is a name accepted? */
enum { NOWHERE, TREE = 1, PLAIN = 2, HOST = 4 };

#define N(name, where)                       \
	{                                    \
		name, sizeof name - 1, where \
	}
static const struct {
	const char *name;
	size_t len;
	int accepted;
} corpus[] = {
        N("", NOWHERE),
        N(".", NOWHERE),
        N("..", NOWHERE),
        N("/", NOWHERE),
        N("../up", NOWHERE),
        N("a/../../b", NOWHERE),
        N("/etc/passwd", NOWHERE),
        N("a//b", NOWHERE),
        N("a/", NOWHERE),
        N("./a", NOWHERE),
        N("a/.", NOWHERE),
        N("a/b", TREE),
        N(".profile", TREE),
        N(".ssh/authorized_keys", TREE),
        N("...", TREE),
        N("a\nb", TREE),
        N("a\033[2Jb", TREE),
        N("a\177", TREE),
        N("a" C1 "2J", TREE),
        N("a\233", TREE), /* C1, not as UTF-8 */
        N("a" RLO "yp.b", TREE),
        N("a" LRM, TREE),
        N("a" ALM, TREE),
        N("a" LRI, TREE),
        N("a" LINE "b", TREE),
        N("a\0b", NOWHERE),
        N("\0", NOWHERE),
        N("..\0a", NOWHERE),
        N("-o", TREE | PLAIN),
        N("-", TREE | PLAIN),
        N("_x", TREE | PLAIN),
        N("a b", TREE | PLAIN),
        N("\303\251", TREE | PLAIN),
        N("\351", TREE | PLAIN), /* Latin-1 */
        N("(none)", TREE | PLAIN),
        N("{host}", TREE | PLAIN),
        N("a\\b", TREE | PLAIN),
        N("~", TREE | PLAIN),
        N("a:b", TREE | PLAIN),
        N("node-7.example_2", TREE | PLAIN | HOST),
        N("7", TREE | PLAIN | HOST),
        N("a..b", TREE | PLAIN | HOST),
        N(N64, TREE | PLAIN | HOST),
        N(N64 "n", TREE | PLAIN),
        N(N255, TREE | PLAIN),
        N(N255 "n", NOWHERE),
        N(N255 "/" N255, TREE),
};
#undef N
#define NAMES LENGTH(corpus)

static void put_name(struct buf *b, size_t i)
{
	buf_put_u16(b, (uint16_t)corpus[i].len);
	buf_put(b, corpus[i].name, corpus[i].len);
}

/* The error of a name that is refused has no byte that a terminal would obey. */
static void check_result(size_t i, int ret, bool accepted, const struct err *err)
{
	if ((ret == 0) != accepted)
		fail_msg("name %zu ('%s'): %d, not %d: %s", i, corpus[i].name, ret == 0, accepted,
		         err->text);
	if (ret == 0)
		return;
	assert_true(err->code == ERR_DISAGREE || err->code == ERR_INTEGRITY ||
	            err->code == ERR_INPUT);
	assert_true(text_is_clean(err->text));
	/* a name with NUL is malformed */
	assert_true(err->code != ERR_INTEGRITY || !*corpus[i].name ||
	            strlen(corpus[i].name) != corpus[i].len);
}

TEST(hosts_from_peers)
{
	for (size_t i = 0; i < NAMES; i++)
		for (int kind = 0; kind < 5; kind++) {
			struct err err = {0};
			struct presence p;
			struct welcome w;
			struct rank_place place;
			struct buf b;
			/* of a host that is not known */
			const bool ok = corpus[i].accepted & HOST || !corpus[i].len;
			int ret = 0;
			buf_init(&b, 4096);
			if (kind < 2) { /* PRESENT: its own host, the root's */
				static const uint8_t id[HOST_ID];
				if (kind == 0)
					put_name(&b, i);
				else
					buf_put_str(&b, "a");
				buf_put_str(&b, "192.0.2.1");
				buf_put(&b, id, sizeof id);
				buf_put_str(&b, "");
				buf_put_str(&b, "");
				buf_put_u8(&b, 0);
				buf_put_u8(&b, 0);
				if (kind == 1)
					put_name(&b, i);
				else
					buf_put_str(&b, "");
				buf_put_u32(&b, 0); /* its age */
				ret = presence_decode(&p, view_of(b.data, b.len), &err);
			} else if (kind == 2) { /* WELCOME */
				buf_put_u32(&b, 1);
				buf_put_u32(&b, 0);
				buf_put_u32(&b, 0);
				put_name(&b, i);
				ret = welcome_decode(&w, view_of(b.data, b.len), &err);
			} else if (kind == 3) { /* ROSTER, PLACES */
				buf_put_u32(&b, 1);
				static const uint8_t key[TLS_KEY_BYTES];
				buf_put_str(&b, ":1");
				put_name(&b, i);
				buf_put(&b, key, sizeof key);
				struct view v = view_of(b.data, b.len);
				ret = rank_place_decode(&place, &v, &err);
			} else { /* a gathered file's */
				struct rank_files s;
				struct listed_file file = {.name = "x"};
				const struct file_list list = {.format = &format_raw,
				                               .folder = true,
				                               .tree = true,
				                               .files = &file,
				                               .nfiles = 1};
				put_name(&b, i);
				file_list_put(&b, &list);
				struct view v = view_of(b.data, b.len);
				ret = rank_files_get(&v, &s, 1, &err);
				if (ret == 0)
					rank_files_release(&s);
				check_result(i, ret, corpus[i].accepted & HOST, &err);
				buf_release(&b);
				continue;
			}
			check_result(i, ret, ok, &err);
			buf_release(&b);
		}
}

/* The host in an error is left out if it could do harm: the failure itself counts. */
TEST(hosts_of_errors)
{
	for (size_t i = 0; i < NAMES; i++) {
		struct err err;
		enum phase phase;
		struct buf b;
		buf_init(&b, 4096);
		buf_put_u16(&b, ERR_INPUT);
		buf_put_u32(&b, 1);
		buf_put_u8(&b, PHASE_RUN);
		buf_put_str(&b, "x: is missing");
		put_name(&b, i);
		buf_put_u16(&b, 1);
		struct view v = view_of(b.data, b.len);
		assert_int_equal(err_decode(&err, &phase, &v), 0);
		assert_string_equal(err.text, "x: is missing");
		assert_true(host_name_or_address(err.host));
		assert_true(!(corpus[i].accepted & HOST) || strcmp(err.host, corpus[i].name) == 0);
		buf_release(&b);
	}
	assert_true(host_name_or_address("fe80::1%eth0") && !host_name_or_address("a b"));
}

/* Whatever a host calls itself, its ranks may join, and its name stays one component. */
TEST(own_hosts_are_mapped)
{
	static const char *const want[][2] = {
	        {"node-7.example", "node-7.example"},
	        {"(none)", "host_none_"},
	        {".ssh", "host.ssh"},
	        {"..", "host.."},
	        {"-o", "host-o"},
	        {"", "host"},
	        {"a/../b", "a_.._b"},
	        {"n\303\266de", "n__de"},
	        {N255, N64},
	};
	char name[HOST_NAME];
	for (size_t i = 0; i < LENGTH(want); i++) {
		host_name_make(name, want[i][0]);
		assert_string_equal(name, want[i][1]);
	}
	for (size_t i = 0; i < NAMES; i++) {
		host_name_make(name, corpus[i].name);
		assert_true(host_name_is_right(name) && path_is_plain(name));
	}
	host_name_own(name);
	assert_true(host_name_is_right(name));
}

/* The entry of a list, with this name. */
static void put_entry(struct buf *b, size_t i)
{
	buf_put_u16(b, 0);
	put_name(b, i);
	buf_put_u16(b, 0644);
	buf_put_u64(b, 0);
}

static void put_list(struct buf *b, size_t i, int names)
{
	buf_put_u8(b, format_raw.number);
	buf_put_u8(b, (uint8_t)names);
	buf_put_u32(b, 0);
	buf_put_u32(b, 1);
	put_entry(b, i);
	buf_put_u64(b, 5);
	buf_put_u32(b, 0);
}

TEST(files_from_peers)
{
	for (size_t i = 0; i < NAMES; i++)
		for (int names = 1; names <= 2; names++) {
			struct err err = {0};
			struct file_list list;
			struct buf b;
			buf_init(&b, 4096);
			put_list(&b, i, names);
			struct view v = view_of(b.data, b.len);
			int ret = file_list_get(&v, &list, &err);
			check_result(i, ret, corpus[i].accepted & (names == 1 ? PLAIN : TREE),
			             &err);
			if (ret == 0)
				file_list_release(&list);
			buf_release(&b);
		}
}

/* The root looks at a hidden name again if it is to be the name of an output. */
TEST(gathered_files_from_peers)
{
	for (size_t i = 0; i < NAMES; i++) {
		struct err err = {0};
		struct rank_files s;
		struct buf b;
		buf_init(&b, 4096);
		buf_put_str(&b, "node");
		put_list(&b, i, 2);
		struct view v = view_of(b.data, b.len);
		int ret = rank_files_get(&v, &s, 1, &err);
		check_result(i, ret, corpus[i].accepted & TREE && !strchr(corpus[i].name, '/'),
		             &err);
		if (ret == 0)
			rank_files_release(&s);
		buf_release(&b);
	}
}

/* Names in a gathered folder are as those of a broadcast one. */
TEST(gathered_folders_from_peers)
{
	for (size_t i = 0; i < NAMES; i++)
		for (int kind = 0; kind < 3; kind++) { /* of a file, a folder, a symbolic link */
			struct err err = {0};
			struct rank_files s;
			struct buf b;
			buf_init(&b, 4096);
			buf_put_str(&b, "node");
			buf_put_u8(&b, format_raw.number);
			buf_put_u8(&b, 2);
			buf_put_u32(&b, kind == 1 ? 2 : 1);
			buf_put_u16(&b, 0);
			buf_put_str(&b, "");
			buf_put_u16(&b, 0755);
			buf_put_u64(&b, 0);
			if (kind == 1)
				put_entry(&b, i);
			buf_put_u32(&b, kind == 0);
			if (kind == 0) {
				put_entry(&b, i);
				buf_put_u64(&b, 5);
			}
			buf_put_u32(&b, kind == 2);
			if (kind == 2) {
				put_entry(&b, i);
				buf_put_str(&b, "x");
			}
			struct view v = view_of(b.data, b.len);
			int ret = rank_files_get(&v, &s, 1, &err);
			check_result(i, ret, corpus[i].accepted & TREE, &err);
			if (ret == 0)
				rank_files_release(&s);
			buf_release(&b);
		}
}

TEST(arrays_from_peers)
{
	for (size_t i = 0; i < NAMES; i++) {
		struct err err = {0};
		struct buf b;
		char *name = NULL;
		buf_init(&b, 4096);
		put_name(&b, i);
		struct view v = view_of(b.data, b.len);
		int ret = wire_get_name(&v, &name, &err);
		check_result(i, ret, corpus[i].accepted & PLAIN, &err);
		assert_true(ret ? !name : strcmp(name, corpus[i].name) == 0);
		free(name);
		buf_release(&b);
	}
}

/* The names of a set's files, in its index. */
TEST(files_of_an_index)
{
	for (size_t i = 0; i < NAMES; i++) {
		struct err err = {0};
		struct shard_index x;
		char text[4096];
		size_t n = (size_t)sprintf(text, "{\"weight_map\": {\"a\": \"");
		for (size_t k = 0; k < corpus[i].len; k++) {
			const unsigned char c = (unsigned char)corpus[i].name[k];
			n += (size_t)sprintf(text + n, c < 0x20 || c == '\\' ? "\\u%04x" : "%c", c);
		}
		n += (size_t)sprintf(text + n, "\"}}");
		int ret = shard_index_parse(&x, text, n, &err);
		/* JSON has neither NUL here nor Latin-1 */
		const bool text_ok = strcmp(corpus[i].name, "\351") != 0;
		if ((ret == 0) != (corpus[i].accepted & PLAIN && text_ok))
			fail_msg("index, name %zu ('%s'): %d: %s", i, corpus[i].name, ret,
			         err.text);
		assert_int_equal(err.code, ret ? ERR_INPUT : 0);
		if (ret == 0)
			shard_index_release(&x);
	}
}

TEST(characters)
{
	static const char *const bad[] = {
	        "\300\257", "\340\200\257", "\355\240\200",     "\364\220\200\200",
	        "\342\202", "\200",         "\370\210\200\200", "",
	};
	static const uint32_t hidden[] = {0x1b,   0x7f,   0x80,   0x9f,   0x61c,  0x200e, 0x200f,
	                                  0x2028, 0x2029, 0x202a, 0x202e, 0x2066, 0x2069},
	                      shown[] = {' ', '~', 0xa0, 0xe9, 0x200d, 0x2030, 0x206a, 0x1f600};
	char text[32];
	uint32_t c;
	for (size_t i = 0; i < LENGTH(bad); i++)
		assert_int_equal(text_char(bad[i], &c), 0);
	assert_int_equal(text_char("a", &c), 1);
	assert_int_equal(text_char("\342\202\254 5", &c), 3);
	assert_int_equal(c, 0x20ac);
	assert_int_equal(text_char("\364\217\277\277", &c), 4);
	assert_int_equal(c, 0x10ffff);
	for (size_t i = 0; i < LENGTH(hidden); i++)
		assert_false(text_is_printable(hidden[i]));
	for (size_t i = 0; i < LENGTH(shown); i++)
		assert_true(text_is_printable(shown[i]));
	assert_true(text_is_clean("\303\251 \351") && !text_is_clean("a\233"));
	assert_string_equal(text_escape(text, sizeof text, "a\n" RLO "\351\303\251"),
	                    "a\\x0a\\xe2\\x80\\xae\\xe9\303\251");
	assert_string_equal(text_escape(text, 6, "a\n\n"), "a\\x0a");
}

/* A string of a message, in an error's text or a table. */
TEST(strings_from_peers)
{
	for (size_t i = 0; i < NAMES; i++)
		for (size_t cap = 1; cap < 300; cap += cap < 20 ? 1 : 70) {
			char out[300];
			struct buf b;
			buf_init(&b, 4096);
			put_name(&b, i);
			uint8_t *exact = malloc(b.len); /* for a sanitizer to see its end */
			assert_non_null(exact);
			memcpy(exact, b.data, b.len);
			struct view v = view_of(exact, b.len);
			view_str(&v, out, cap);
			assert_true(strlen(out) < cap && text_is_clean(out) && !v.failed);
			free(exact);
			buf_release(&b);
		}
}

TEST(the_user_s_part_of_a_path)
{
	static const struct {
		const char *path;
		size_t own;
	} cases[] = {
	        {"out", 3},
	        {"{host}", 0},
	        {"logs/{host}.log", 5},
	        {"/{host}/x", 1},
	        {"a/{rank}/x{host}", 9},
	        {"a/{{host}}/x", 12},
	        {"a/{host}/{host}", 2},
	        {"{{host}}-{host}", 0},
	        {"a/{size}", 8},
	        {"", 0},
	        {"{hos", 4},
	        {"a/{{host}/x", 2},
	};
	for (size_t i = 0; i < LENGTH(cases); i++)
		assert_int_equal(paths_before_host(cases[i].path), cases[i].own);
}

TEST(test_lines)
{
	static const char *const none[] = {NULL, ""};
	const char *text = "a\n\nbc", *line;
	int len;
	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		const char *at = none[i];
		assert_null(text_line(&at, &len));
	}
	static const char *const lines[] = {"a", "", "bc"};
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		assert_non_null(line = text_line(&text, &len));
		assert_int_equal(len, strlen(lines[i]));
		assert_memory_equal(line, lines[i], (size_t)len);
	}
	assert_null(text_line(&text, &len));
}

int main(void)
{
	return unit_run(NULL, NULL);
}
