/* Two tables compared: what is named, where pages end, and pages that are none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/job/ctl.h"
#include "lib/job/proto.h"
#include "lib/job/tables.h"
#include "tests/unit/unit.h"

/* A table of @n entries "tensor 0000000" to their values, but for some. */
struct made {
	int n;
	int changed, missing, extra; /* an entry with another value, left out, doubled; -1: none */
};

static void put_entry(struct buf *b, const struct made *m, int i, const char *more)
{
	char name[64], value[64];
	snprintf(name, sizeof name, "tensor %07d%s", i, more);
	snprintf(value, sizeof value, "%s (%d, 4)", i == m->changed ? "f64" : "f32", i);
	table_put(b, name, value);
}

/* As a rank cuts it: a page ends with the entry that reaches TABLE_PAGE. */
static void put_page(const struct made *m, uint32_t page, struct buf *out)
{
	struct buf b;
	uint32_t at = 0;
	buf_init(&b, TABLE_PAGE_MAX);
	for (int i = 0; i < m->n && at <= page; i++) {
		for (int twice = 0; twice < 2; twice++) {
			if (i == m->missing || (twice && i != m->extra))
				continue;
			put_entry(at == page ? out : &b, m, i, twice ? "+" : "");
			if ((at == page ? out : &b)->len >= TABLE_PAGE) {
				at++;
				b.len = 0;
			}
		}
	}
	assert_false(b.failed || out->failed);
	buf_release(&b);
}

/* A page in memory of its own, so that a sanitizer sees a read behind it. */
static enum tables_state take(struct tables *t, int rank, uint32_t page, const void *p, size_t n,
                              struct table_difference *out, struct err *err)
{
	uint8_t *copy = malloc(n + 1);
	assert_non_null(copy);
	if (n)
		memcpy(copy, p, n);
	enum tables_state s = tables_take(t, rank, page, view_of(copy, n), out, err);
	free(copy);
	return s;
}

/* Compare to the end. *pages: how many it took. */
static enum tables_state compare(const struct made *a, const struct made *b,
                                 struct table_difference *out, uint32_t *pages)
{
	enum tables_state s = TABLES_NEXT;
	struct err err = {0};
	struct tables t;
	tables_begin(&t, 5, 0);
	for (*pages = 0; s == TABLES_NEXT; ++*pages) {
		struct buf of_a, of_b;
		buf_init(&of_a, TABLE_PAGE_MAX);
		buf_init(&of_b, TABLE_PAGE_MAX);
		put_page(a, t.page, &of_a);
		put_page(b, t.page, &of_b);
		assert_int_equal(t.page, *pages);
		bool first = *pages % 2; /* whose comes first does not matter */
		s = take(&t, first ? 5 : 0, t.page, first ? of_a.data : of_b.data,
		         first ? of_a.len : of_b.len, out, &err);
		assert_int_equal(s, TABLES_WAIT);
		s = take(&t, first ? 0 : 5, t.page, first ? of_b.data : of_a.data,
		         first ? of_b.len : of_a.len, out, &err);
		buf_release(&of_a);
		buf_release(&of_b);
	}
	assert_int_equal(err.code, 0);
	tables_release(&t);
	tables_release(&t);
	return s;
}

static const struct made plain = {20000, -1, -1, -1};

/* How many entries the first page has. */
static int per_page(void)
{
	int n = 0;
	struct buf b;
	buf_init(&b, TABLE_PAGE_MAX);
	put_page(&plain, 0, &b);
	struct view v = view_of(b.data, b.len);
	for (; view_left(&v); n++)
		for (int i = 0; i < 2; i++)
			(void)view_bytes(&v, view_u16(&v));
	assert_false(v.failed);
	buf_release(&b);
	return n;
}

TEST(tables_that_are_the_same)
{
	static const struct made empty = {0, -1, -1, -1};
	struct table_difference d;
	uint32_t pages;
	assert_int_equal(compare(&plain, &plain, &d, &pages), TABLES_SAME);
	assert_int_equal(pages, 20000 / per_page() + 2); /* the last is empty */
	assert_int_equal(compare(&empty, &empty, &d, &pages), TABLES_SAME);
	assert_int_equal(pages, 1);
}

/* At the beginning, on both sides of a page's border, and at the end. */
TEST(the_entry_is_named)
{
	int border = per_page();
	const int at[] = {0,          1,          border - 2,  border - 1, border,
	                  border + 1, 2 * border, plain.n - 2, plain.n - 1};
	for (size_t i = 0; i < LENGTH(at); i++) {
		struct made a = plain, b = plain;
		struct table_difference d;
		char name[64], value[64], other[64];
		uint32_t pages;
		snprintf(name, sizeof name, "tensor %07d", at[i]);
		snprintf(value, sizeof value, "f64 (%d, 4)", at[i]);
		snprintf(other, sizeof other, "f32 (%d, 4)", at[i]);
		a.changed = at[i];
		assert_int_equal(compare(&a, &b, &d, &pages), TABLES_DIFFER);
		assert_int_equal(d.kind, TABLE_DIFFERS);
		assert_string_equal(d.name, name);
		assert_string_equal(d.value, value);
		assert_string_equal(d.other, other);
		assert_int_equal(pages, at[i] / border + 1);
		a.changed = -1;
		a.missing = at[i];
		assert_int_equal(compare(&a, &b, &d, &pages), TABLES_DIFFER);
		assert_int_equal(d.kind, TABLE_MISSING);
		assert_string_equal(d.name, name);
		assert_int_equal(compare(&b, &a, &d, &pages), TABLES_DIFFER);
		assert_int_equal(d.kind, TABLE_EXTRA);
		assert_string_equal(d.name, name);
		a.missing = -1;
		a.extra = at[i];
		assert_int_equal(compare(&a, &b, &d, &pages), TABLES_DIFFER);
		assert_int_equal(d.kind, TABLE_EXTRA);
		snprintf(name, sizeof name, "tensor %07d+", at[i]);
		assert_string_equal(d.name, name);
	}
}

/* A table that ends with its first page, and one that goes on. */
TEST(a_table_that_ends_at_a_border)
{
	struct made a = plain;
	struct table_difference d;
	uint32_t pages;
	char name[64];
	a.n = per_page();
	snprintf(name, sizeof name, "tensor %07d", a.n);
	assert_int_equal(compare(&a, &plain, &d, &pages), TABLES_DIFFER);
	assert_int_equal(pages, 2);
	assert_int_equal(d.kind, TABLE_MISSING);
	assert_string_equal(d.name, name);
	assert_int_equal(compare(&plain, &a, &d, &pages), TABLES_DIFFER);
	assert_int_equal(d.kind, TABLE_EXTRA);
	assert_string_equal(d.name, name);
}

/* The longest entries: a page of them fits a message; names are cut for people, not for us. */
TEST(the_longest_names)
{
	static char name[UINT16_MAX + 1], value[UINT16_MAX + 1];
	struct table_difference d;
	struct err err = {0};
	struct buf b;
	struct tables t;
	memset(name, 'n', UINT16_MAX);
	memset(value, 'v', UINT16_MAX);
	buf_init(&b, TABLE_PAGE_MAX);
	table_put(&b, "", "");
	while (b.len < TABLE_PAGE)
		table_put(&b, name, value);
	assert_false(b.failed);
	assert_true(4 + TABLE_PAGE_MAX <= CTL_BODY_MAX);
	tables_begin(&t, 2, 1);
	assert_int_equal(take(&t, 2, 0, b.data, b.len, &d, &err), TABLES_WAIT);
	b.data[b.len - 1] = '\n';
	assert_int_equal(take(&t, 1, 0, b.data, b.len, &d, &err), TABLES_DIFFER);
	assert_int_equal(d.kind, TABLE_DIFFERS);
	assert_int_equal(strlen(d.name), sizeof d.name - 1);
	assert_string_equal(d.name + sizeof d.name - 6, "nn...");
	assert_string_equal(d.other, d.value); /* the difference is behind the cut */
	tables_release(&t);
	buf_release(&b);
}

TEST(texts_are_escaped)
{
	struct table_difference d;
	struct err err = {0};
	struct tables t;
	tables_begin(&t, 0, 1);
	assert_int_equal(take(&t, 0, 0, "\2\0a\x1b\1\0x", 7, &d, &err), TABLES_WAIT);
	assert_int_equal(take(&t, 1, 0, "\2\0a\x1b\1\0\n", 7, &d, &err), TABLES_DIFFER);
	assert_string_equal(d.name, "a\\x1b");
	assert_string_equal(d.value, "x");
	assert_string_equal(d.other, "\\x0a");
	tables_release(&t);
}

TEST(pages_that_are_none)
{
	struct made m = {3, -1, -1, -1};
	struct table_difference d;
	struct buf b;
	struct tables t;
	struct err err;
	buf_init(&b, 2 * TABLE_PAGE_MAX);
	put_page(&m, 0, &b);
	size_t entry = b.len / 3;
	for (size_t n = 0; n <= b.len; n++) { /* cut */
		enum tables_state want = n % entry ? TABLES_BAD : TABLES_WAIT;
		err = (struct err){0};
		tables_begin(&t, 1, 2);
		assert_int_equal(take(&t, 2, 0, b.data, n, &d, &err), want);
		if (want == TABLES_BAD) {
			assert_int_equal(err.code, ERR_INTEGRITY);
			assert_int_equal(err.rank, 2);
		}
		tables_release(&t);
	}
	err = (struct err){0}; /* not in order */
	tables_begin(&t, 1, 2);
	put_page(&m, 0, &b);
	assert_int_equal(take(&t, 1, 0, b.data, b.len, &d, &err), TABLES_BAD);
	err = (struct err){0}; /* more than a page */
	b.len = 0;
	put_page(&plain, 0, &b);
	assert_int_equal(take(&t, 1, 0, b.data, b.len, &d, &err), TABLES_WAIT);
	put_entry(&b, &plain, 9999999, "");
	assert_int_equal(take(&t, 2, 0, b.data, b.len, &d, &err), TABLES_BAD);
	assert_int_equal(err.code, ERR_INTEGRITY);
	tables_release(&t);
	buf_release(&b);
}

/* Twice, of another number, of another rank. */
TEST(pages_that_nobody_asked_for)
{
	struct table_difference d;
	struct tables t;
	struct err err = {0};
	tables_begin(&t, 1, 2);
	assert_int_equal(take(&t, 1, 1, "", 0, &d, &err), TABLES_BAD);
	assert_int_equal(err.rank, 1);
	assert_int_equal(take(&t, 3, 0, "", 0, &d, &err), TABLES_BAD);
	assert_int_equal(take(&t, 1, 0, "", 0, &d, &err), TABLES_WAIT);
	err = (struct err){0};
	assert_int_equal(take(&t, 1, 0, "", 0, &d, &err), TABLES_BAD);
	assert_int_equal(err.code, ERR_INTEGRITY);
	assert_int_equal(take(&t, 2, 0, "", 0, &d, &err), TABLES_SAME);
	tables_release(&t);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
