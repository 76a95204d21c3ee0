/* Tables on stdout. See columns.h. */
#include "cmd/text/columns.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CELL_TEXT 4096

/* ---- the widths ---- */

static int total(const struct table *t)
{
	int sum = 0;

	for (int i = 0; i < t->n; i++)
		sum += t->columns[i].gap + t->columns[i].width;
	return sum;
}

void table_widen(struct table *t, const struct table_cell *cells)
{
	for (int i = 0; i < t->n; i++) {
		struct table_column *c = &t->columns[i];
		const int width = cells[i].text ? terminal_columns(cells[i].text) : 0;

		c->used = width > c->used ? width : c->used;
		c->width = width > c->width ? width : c->width;
	}
}

/* Make @c narrower, by @excess columns at most, but not narrower than @least. */
static void narrow(struct table_column *c, int excess, int least)
{
	if (excess > 0 && c->width > least)
		c->width = c->width - excess > least ? c->width - excess : least;
}

/* The width that @c needs for its texts and its heading. */
static int needed(const struct table_column *c)
{
	const int over = c->over ? terminal_columns(c->over) : 0;
	const int head = c->head ? terminal_columns(c->head) : 0;
	const int heading = over > head ? over : head;

	if (!c->used)
		return c->width;
	return c->used > heading ? c->used : heading;
}

void table_fit(struct table *t)
{
	t->room = terminal_width(STDOUT_FILENO);
	t->broken = false;
	if (!t->room)
		return;
	for (int i = 0; i < t->n; i++)
		narrow(&t->columns[i], total(t) - t->room, needed(&t->columns[i]));
	int least = total(t);
	for (int i = 0; i < t->n; i++)
		if (t->columns[i].least && t->columns[i].width > t->columns[i].least)
			least -= t->columns[i].width - t->columns[i].least;
	t->broken = least > t->room;
	for (int i = 0; i < t->n; i++) {
		struct table_column *c = &t->columns[i];

		if (c->least)
			narrow(c, t->broken ? c->gap + c->width - t->room : total(t) - t->room,
			       c->least);
	}
}

/* ---- rows ---- */

/* A line of a row: blanks come before a text, never at the end. */
struct line {
	int blanks;
	bool begun;
	char mark;
};

static void put(struct line *l, const char *text, enum terminal_style style)
{
	const bool marked = !l->begun && l->mark && l->blanks > 0;

	if (!*text)
		return;
	if (marked)
		putchar(l->mark);
	printf("%*s%s%s%s", l->blanks - marked, "", terminal_begin(STDOUT_FILENO, style), text,
	       terminal_end(STDOUT_FILENO, style));
	l->blanks = 0;
	l->begun = true;
}

static void put_cell(struct line *l, const struct table_column *c, const struct table_cell *cell,
                     int gap)
{
	char text[CELL_TEXT];
	const char *whole = cell->text ? cell->text : "";
	const int shown = terminal_columns(whole);
	const bool cut = c->least && shown > c->width;
	const int pad = c->width > shown ? c->width - shown : 0;

	l->blanks += gap + (c->right ? pad : 0);
	put(l, cut ? terminal_shorten(text, sizeof text, whole, c->width) : whole, cell->style);
	l->blanks += c->right ? 0 : pad;
}

/* Blanks before a column: at the beginning of a line only before one that is not a number. */
static int gap_of(const struct table_column *c, bool begins)
{
	return begins && c->right ? 0 : c->gap;
}

/* Columns of the group that begins at @i, on a line where @at are taken. */
static int group_width(const struct table *t, int i, int at)
{
	int sum = gap_of(&t->columns[i], at == 0) + t->columns[i].width;

	while (++i < t->n && !t->columns[i].begins)
		sum += t->columns[i].gap + t->columns[i].width;
	return sum;
}

/* Does column @i not fit into the line, of which @at columns are taken? */
static bool is_full(const struct table *t, int i, int at)
{
	const struct table_column *c = &t->columns[i];

	return t->broken && (at + c->gap + c->width > t->room ||
	                     (c->begins && at + group_width(t, i, at) > t->room));
}

/* The column after those that share a line with column @first. */
static int line_end(const struct table *t, int first)
{
	int i = first, at = 0;

	do {
		at += gap_of(&t->columns[i], i > 0 && i == first) + t->columns[i].width;
		i++;
	} while (i < t->n && !is_full(t, i, at));
	return i;
}

static void put_line(const struct table *t, const struct table_cell *cells, int first, int end,
                     char mark)
{
	struct line l = {.mark = mark};

	for (int i = first; i < end; i++)
		put_cell(&l, &t->columns[i], &cells[i],
		         gap_of(&t->columns[i], i > 0 && i == first));
	if (l.begun)
		putchar('\n');
}

void table_row(const struct table *t, const struct table_cell *cells)
{
	for (int i = 0, end; i < t->n; i = end) {
		end = line_end(t, i);
		put_line(t, cells, i, end, '\0');
	}
}

void table_remark(const struct table *t, int indent, const char *text)
{
	const int start = t->room && indent > t->room / 2 ? 2 : indent;

	printf("%*s", start, "");
	terminal_wrap(stdout, text, start, t->room, NULL);
	putchar('\n');
}

void table_heading(const struct table *t)
{
	struct table_cell over[TABLE_COLUMNS], head[TABLE_COLUMNS];

	for (int i = 0; i < t->n; i++) {
		over[i] = (struct table_cell){.text = t->columns[i].over};
		head[i] = (struct table_cell){.text = t->columns[i].head};
	}
	for (int i = 0, end; i < t->n; i = end) {
		end = line_end(t, i);
		put_line(t, over, i, end, t->mark);
		put_line(t, head, i, end, t->mark);
	}
}
