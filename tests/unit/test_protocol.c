/* The tables of fields, as they are and as lib/net/PROTOCOL.md has them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/fields.h"
#include "tests/fuzz/message_tables.h"
#include "tests/unit/unit.h"

static const char *name_of(const struct message *m)
{
	for (size_t i = 0; i < TABLES; i++)
		if (tables[i].message == m)
			return tables[i].name;
	fail_msg("PROTOCOL.md has no table of %s", m->name);
	return "";
}

/* "u32, 1 to 64" */
static void describe(const struct message_field *f, char *text, size_t cap)
{
	char bounds[64] = "";
	if (f->least && f->most)
		snprintf(bounds, sizeof bounds, ", %" PRIu64 " to %" PRIu64, f->least, f->most);
	else if (f->least)
		snprintf(bounds, sizeof bounds, ", at least %" PRIu64, f->least);
	else if (f->kind == WIRE_U8 && f->most == 1)
		snprintf(bounds, sizeof bounds, ", 0 or 1");
	else if (f->most)
		snprintf(bounds, sizeof bounds, ", at most %" PRIu64, f->most);
	switch (f->kind) {
	case WIRE_TEXT:
		snprintf(text, cap, "str, at most %zu bytes", f->size - 1);
		break;
	case WIRE_HOST:
		snprintf(text, cap, "str, a *host*");
		break;
	case WIRE_BYTES:
		snprintf(text, cap, "%zu bytes", f->size);
		break;
	case WIRE_SPAN:
		snprintf(text, cap, "u32 length%s, and bytes", bounds);
		break;
	case WIRE_PART:
		snprintf(text, cap, "*%s*", name_of(f->part));
		break;
	case WIRE_LIST:
		snprintf(text, cap, "*%s*, `%s` times", name_of(f->part), f[-1].name);
		break;
	default:
		snprintf(text, cap, "u%d%s%s", 8 * (int)f->kind, bounds,
		         f->none ? ", or 2^32-1: none" : "");
	}
}

/* The next line of @f that begins with "| TABLE | `"; false: none is left. */
static bool next_row(FILE *f, const char *table, char *line, int cap)
{
	char start[64];
	int n = snprintf(start, sizeof start, "| %s | `", table);
	while (fgets(line, cap, f))
		if (strncmp(line, start, (size_t)n) == 0)
			return true;
	return false;
}

TEST(the_document_has_the_fields)
{
	FILE *f = fopen("lib/net/PROTOCOL.md", "r");
	char line[4096], row[512], type[256];
	int wrong = 0;
	assert_non_null(f);
	for (size_t i = 0; i < TABLES; i++) {
		rewind(f);
		for (const struct message_field *x = tables[i].message->fields; x->name; x++) {
			describe(x, type, sizeof type);
			snprintf(row, sizeof row, "| %s | `%s` | %s | ", tables[i].name, x->name,
			         type);
			if (next_row(f, tables[i].name, line, sizeof line) &&
			    strncmp(line, row, strlen(row)) == 0)
				continue;
			print_error("PROTOCOL.md lacks: %s\n", row);
			wrong++;
		}
		if (next_row(f, tables[i].name, line, sizeof line)) {
			print_error("PROTOCOL.md has too much: %s", line);
			wrong++;
		}
	}
	fclose(f);
	assert_int_equal(wrong, 0);
}

/* What the codec takes for granted: a member has room for its number, or is of the struct that its
 * kind demands. */
TEST(members_have_the_size_of_their_kind)
{
	for (size_t i = 0; i < TABLES; i++)
		for (const struct message_field *x = tables[i].message->fields; x->name; x++) {
			const size_t size = x->size;
			assert_in_range(x->at + size, 1, tables[i].message->size);
			if (x->kind == WIRE_SPAN)
				assert_int_equal(size, sizeof(struct view));
			else if (x->kind == WIRE_HOST)
				assert_int_equal(size, HOST_NAME);
			else if (x->kind == WIRE_PART)
				assert_int_equal(size, x->part->size);
			else if (x->kind == WIRE_LIST)
				assert_true(x[-1].size == sizeof(int) &&
				            x[-1].most == size / x->part->size);
			else if (x->kind <= WIRE_U64)
				assert_in_range(size, x->none ? sizeof(int) : (size_t)x->kind,
				                sizeof(uint64_t));
		}
}

/* ---- the codec ---- */

struct part {
	uint8_t low;
	char text[4];
};
static MESSAGE(part, "PART", FIELD(U8, part, low, .least = 2, .most = 3), FIELD(TEXT, part, text));

struct whole {
	int n;
	struct part list[2], one;
	int rank;
	uint64_t number;
	struct view span;
	bool flag;
};
static bool is_even(const void *member)
{
	return *(const uint64_t *)member % 2 == 0;
}
static MESSAGE(whole, "WHOLE", FIELD(U8, whole, n, .most = 2),
               FIELD(LIST, whole, list, .part = &part_message),
               FIELD(PART, whole, one, .part = &part_message), FIELD(RANK_OR_NONE, whole, rank),
               FIELD(U16, whole, number, .fits = is_even), FIELD(SPAN, whole, span, .most = 3),
               FIELD(BOOL, whole, flag));

static const struct whole example = {
        .n = 1, .list = {{2, "a"}}, .one = {3, "bcd"}, .rank = -1, .number = 0x1234};

/* Encode @w and decode it, and compare the error, if there is one, with @why. */
static void expect(const struct whole *w, const char *why)
{
	struct whole back;
	struct err err = {0};
	struct buf b;
	char text[64];
	buf_init(&b, 1000);
	message_put(&whole_message, w, &b);
	const int ret = message_get_all(&whole_message, &back, view_of(b.data, b.len), &err);
	snprintf(text, sizeof text, "a malformed WHOLE message (%s)", why);
	assert_int_equal(ret, *why ? -1 : 0);
	assert_string_equal(err.text, *why ? text : "");
	assert_int_equal(err.code, *why ? ERR_INTEGRITY : 0);
	assert_in_range(back.n, 0, 2);
	for (size_t n = 0; !*why && n <= b.len + 1; n++) {
		err_clear(&err);
		buf_put_u8(&b, 0);
		b.len--;
		assert_int_equal(message_get_all(&whole_message, &back, view_of(b.data, n), &err),
		                 n == b.len ? 0 : -1);
		assert_true(n <= b.len || strstr(err.text, "(its end)"));
	}
	buf_release(&b);
}

TEST(fields_come_back)
{
	static const uint8_t bytes[] = "\1\2\1\0a\3\3\0bcd\xff\xff\xff\xff\x34\x12\2\0\0\0xy\1";
	struct whole w = example, back;
	struct err err = {0};
	struct buf b;
	w.span = view_of("xy", 2);
	w.flag = true;
	buf_init(&b, 1000);
	message_put(&whole_message, &w, &b);
	assert_int_equal(b.len, sizeof bytes - 1);
	assert_memory_equal(b.data, bytes, b.len);
	struct view v = view_of(b.data, b.len);
	memset(&back, 0xff, sizeof back);
	assert_int_equal(message_get(&whole_message, &back, &v, &err), 0);
	assert_int_equal(view_left(&v), 0);
	assert_true(back.n == 1 && back.list[0].low == 2 && back.list[1].low == 0);
	assert_string_equal(back.one.text, "bcd");
	assert_true(back.rank == -1 && back.number == 0x1234 && back.flag);
	assert_int_equal(view_left(&back.span), 2);
	assert_memory_equal(back.span.p, "xy", 2);
	buf_release(&b);
	expect(&w, "");
}

TEST(bounds_name_the_field)
{
	struct whole w = example;
	w.list[0].low = 4;
	expect(&w, "low");
	w = example;
	w.one.low = 1;
	expect(&w, "low");
	w = example;
	w.rank = JOB_MAX_SIZE;
	expect(&w, "rank");
	w.rank = -2;
	expect(&w, "rank");
	w = example;
	w.number = 3;
	expect(&w, "number");
	w = example;
	w.span = view_of("1234", 4);
	expect(&w, "span");
}

/* More elements than the list has room for: none is stored. */
TEST(a_count_is_bounded)
{
	static const uint8_t three[] = "\3\2\0\0\2\0\0\2\0\0";
	struct whole back;
	struct err err = {0};
	assert_int_equal(message_get_all(&whole_message, &back, view_of(three, sizeof three), &err),
	                 -1);
	assert_string_equal(err.text, "a malformed WHOLE message (n)");
	assert_int_equal(back.n, 0);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
