#include "lib/job/tables.h"

#include <string.h>

#include "lib/job/proto.h"

struct entry {
	struct view name, value;
};

/* A string of the wire format as a view of its bytes. */
static struct view view_text(struct view *v)
{
	size_t len = view_u16(v);
	const uint8_t *p = view_bytes(v, len);
	return p ? view_of(p, len) : (struct view){0};
}

/* False: no entry is left, or *page is malformed. */
static bool next_entry(struct view *page, struct entry *e)
{
	if (!view_left(page))
		return false;
	e->name = view_text(page);
	e->value = view_text(page);
	return !page->failed;
}

/* As memcmp; a prefix comes first. */
static int order(struct view a, struct view b)
{
	size_t na = view_left(&a), nb = view_left(&b), n = na < nb ? na : nb;
	int diff = n ? memcmp(a.p, b.p, n) : 0;
	return diff ? diff : (na > nb) - (na < nb);
}

/* Is the page a list of entries in the order of their names, with none after the one that fills
 * it? */
static bool well_formed(struct view page)
{
	const uint8_t *start = page.p;
	struct entry last = {0}, e;
	while ((size_t)(page.p - start) < TABLE_PAGE && next_entry(&page, &e)) {
		if (last.name.p && order(last.name, e.name) > 0)
			return false;
		last = e;
	}
	return !page.failed && !view_left(&page);
}

/* As view_str, with an ellipsis where the text is cut. */
static void show(struct view text, char *out, size_t cap)
{
	size_t n = view_left(&text), end;
	bool cut = n >= cap;
	uint8_t str[2 + 128] = {0};
	if (n > sizeof str - 2)
		n = sizeof str - 2;
	str[0] = (uint8_t)n;
	if (n)
		memcpy(str + 2, text.p, n);
	struct view v = view_of(str, 2 + n);
	view_str(&v, out, cut ? cap - 3 : cap);
	end = strlen(out);
	if (cut)
		memcpy(out + end, "...", 4);
}

/* Find the first entry in which two different pages differ. */
static void find(struct view a, struct view b, struct table_difference *out)
{
	struct entry ea = {0}, eb = {0};
	bool more_a, more_b;
	int diff;
	do {
		more_a = next_entry(&a, &ea);
		more_b = next_entry(&b, &eb);
		diff = more_a && more_b ? order(ea.name, eb.name) : more_b - more_a;
	} while (more_a && diff == 0 && order(ea.value, eb.value) == 0);
	out->kind = diff == 0 ? TABLE_DIFFERS : diff > 0 ? TABLE_MISSING : TABLE_EXTRA;
	show(diff > 0 ? eb.name : ea.name, out->name, sizeof out->name);
	show(ea.value, out->value, sizeof out->value);
	show(eb.value, out->other, sizeof out->other);
}

static struct view page_of(const struct tables *t, int side)
{
	const struct buf *b = &t->have[side];
	return b->len ? view_of(b->data, b->len) : view_of("", 0);
}

static enum tables_state compare(struct tables *t, struct table_difference *out)
{
	struct view a = page_of(t, 0), b = page_of(t, 1);
	if (order(a, b) != 0) {
		find(a, b, out);
		return TABLES_DIFFER;
	}
	bool over = !view_left(&a);
	t->page++;
	t->came[0] = t->came[1] = false;
	return over ? TABLES_SAME : TABLES_NEXT;
}

void tables_begin(struct tables *t, int first, int second)
{
	*t = (struct tables){.rank = {first, second}};
	for (int side = 0; side < 2; side++)
		buf_init(&t->have[side], TABLE_PAGE_MAX);
}

enum tables_state tables_take(struct tables *t, int rank, uint32_t page, struct view entries,
                              struct table_difference *out, struct err *err)
{
	int side = rank == t->rank[0] ? 0 : 1;
	if (rank != t->rank[side] || page != t->page || t->came[side]) {
		err_rank(err, ERR_INTEGRITY, rank,
		         "sent page %u of its table, which was not requested", page);
		return TABLES_BAD;
	}
	if (!well_formed(entries)) {
		err_rank(err, ERR_INTEGRITY, rank, "sent a malformed page %u of its table", page);
		return TABLES_BAD;
	}
	struct buf *have = &t->have[side];
	have->len = 0;
	buf_put(have, entries.p, view_left(&entries));
	if (have->failed) {
		err_nomem(err, "a page of a table", view_left(&entries));
		return TABLES_BAD;
	}
	t->came[side] = true;
	return t->came[0] && t->came[1] ? compare(t, out) : TABLES_WAIT;
}

void tables_release(struct tables *t)
{
	for (int side = 0; side < 2; side++)
		buf_release(&t->have[side]);
}
