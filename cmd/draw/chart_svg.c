/* The chart of lines. See chart_svg.h. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/draw/chart_svg.h"
#include "cmd/draw/svg.h"
#include "lib/base/units.h"

#define LEFT     64
#define TOP      76
#define WIDTH    560
#define HEIGHT   400 /* at least: the names need room */
#define NAMES    32  /* pixels from the lines' ends to their names */
#define NAME_ROW 15  /* pixels from a name to the next one */
#define ROOM     210 /* pixels for the names */
#define COLOURS  16
#define SIZES    8 /* the most steps of a scale's texts */
#define VALUES   6

static const char style[] =
        "  .l { fill: none; stroke-width: 1.8 } .no { stroke-dasharray: 5 4 }\n"
        "  .tick { stroke: #eee } .lead { fill: none; stroke-width: 0.8 }\n"
        "  .mark { fill: #fff; stroke-width: 1.8 }\n"
        "  .c0 { stroke: #1f6fb5 } .c1 { stroke: #d1600a } .c2 { stroke: #2a8a3e }\n"
        "  .c3 { stroke: #c4283b } .c4 { stroke: #7d55b8 } .c5 { stroke: #8a5a44 }\n"
        "  .c6 { stroke: #c24fa3 } .c7 { stroke: #0d8a94 } .c8 { stroke: #6b7a10 }\n"
        "  .c9 { stroke: #44546a } .c10 { stroke: #b58900 } .c11 { stroke: #00a36c }\n"
        "  .c12 { stroke: #3b3fc4 } .c13 { stroke: #e0577f } .c14 { stroke: #5f9be0 }\n"
        "  .c15 { stroke: #111 }\n"
        "  @media (prefers-color-scheme: dark) {\n"
        "    .tick { stroke: #262a30 } .mark { fill: #16181c }\n"
        "    .c0 { stroke: #6fb1f5 } .c1 { stroke: #f59a4a } .c2 { stroke: #6fce84 }\n"
        "    .c3 { stroke: #ff7a86 } .c4 { stroke: #b99af0 } .c5 { stroke: #c79a84 }\n"
        "    .c6 { stroke: #f08ad2 } .c7 { stroke: #56d0da } .c8 { stroke: #c3d45a }\n"
        "    .c9 { stroke: #a9b8cc } .c10 { stroke: #ffd75a } .c11 { stroke: #3fe0a5 }\n"
        "    .c12 { stroke: #8f93ff } .c13 { stroke: #ffb0c8 } .c14 { stroke: #3d7fd0 }\n"
        "    .c15 { stroke: #fff } }\n";

/* What the scales cover, in their own measure: the binary logarithm of a size; a value, or its
 * decimal logarithm. */
struct scales {
	double left, right;
	double least, most, step; /* step: from a text to the next */
	int height;
};

static double x_of(const struct scales *s, double size)
{
	return LEFT + WIDTH * (log2(size) - s->left) / (s->right - s->left);
}

static double y_of(const struct chart *c, const struct scales *s, double value)
{
	const double up = ((c->log ? log10(value) : value) - s->least) / (s->most - s->least);

	return TOP + s->height * (1 - up);
}

/* ---- scales ---- */

/* The least of 1, 2, 5, 10, 20 ... times a power of ten that is enough for @range in VALUES steps.
 */
static double round_step(double range)
{
	const double power = pow(10, floor(log10(range / VALUES)));
	const double steps = range / VALUES / power;

	return power * (steps <= 1 ? 1 : steps <= 2 ? 2 : steps <= 5 ? 5 : 10);
}

static void lay_out(const struct chart *c, struct scales *s)
{
	size_t drawn = 0;
	double least = INFINITY, most = 0;

	*s = (struct scales){.left = INFINITY, .right = -INFINITY};
	for (size_t i = 0; i < c->n; i++) {
		drawn += c->lines[i].n > 0;
		for (size_t k = 0; k < c->lines[i].n; k++) {
			const struct chart_point *p = &c->lines[i].points[k];

			s->left = fmin(s->left, log2(p->x));
			s->right = fmax(s->right, log2(p->x));
			least = fmin(least, p->y);
			most = fmax(most, p->y);
		}
	}
	if (!drawn)
		s->left = s->right = log2(1024), least = most = 1;
	if (s->right - s->left < 0.01) { /* one size: in the middle */
		s->left -= 1;
		s->right += 1;
	}
	s->step = c->log ? 1 : round_step(most);
	s->least = c->log ? floor(log10(least)) : 0;
	s->most = c->log ? fmax(ceil(log10(most)), s->least + 1) : s->step * ceil(most / s->step);
	s->height = drawn * NAME_ROW > HEIGHT ? (int)drawn * NAME_ROW : HEIGHT;
}

/* ---- the names ---- */

static int cmp_names(const void *pa, const void *pb)
{
	const struct chart_line *a = pa, *b = pb;

	if (!a->n || !b->n)
		return (a->n == 0) - (b->n == 0);
	if (a->at < b->at || a->at > b->at)
		return a->at < b->at ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* Sort the lines by their ends, those that are not drawn last, and forget those; give each a
 * colour, and its name a place: down from where its line ends, and up again if the last ones are
 * too low. */
static void place_names(struct chart *c, const struct scales *s)
{
	size_t n = 0;
	double lowest = TOP + s->height + 4;

	for (size_t i = 0; i < c->n; i++) {
		struct chart_line *l = &c->lines[i];

		if (l->n)
			l->at = y_of(c, s, l->points[l->n - 1].y) + 4;
	}
	qsort(c->lines, c->n, sizeof *c->lines, cmp_names);
	while (n < c->n && c->lines[n].n)
		n++;
	c->n = n;
	for (size_t i = 0; i < n; i++) {
		c->lines[i].colour = (int)(i % COLOURS);
		if (i)
			c->lines[i].at = fmax(c->lines[i].at, c->lines[i - 1].at + NAME_ROW);
	}
	for (size_t i = n; i--; lowest = c->lines[i].at - NAME_ROW)
		c->lines[i].at = fmin(c->lines[i].at, lowest);
}

/* ---- drawing ---- */

static void put_sizes(FILE *f, const struct scales *s)
{
	const int first = (int)ceil(s->left - 0.001), last = (int)floor(s->right + 0.001);
	int every = 1;
	char text[UNITS_TEXT];

	while ((last - first) / every > SIZES)
		every *= 2;
	for (int k = first < 0 ? 0 : first; k <= last && k < 64; k += every) {
		const double x = x_of(s, ldexp(1, k));

		fprintf(f,
		        "<path class=\"tick\" d=\"M%.1f %dv%d\"/><text class=\"note\" x=\"%.1f\" "
		        "y=\"%d\" text-anchor=\"middle\">%s</text>\n",
		        x, TOP, s->height, x, TOP + s->height + 18,
		        size_text(UINT64_C(1) << k, text));
	}
}

static void put_values(FILE *f, const struct chart *c, const struct scales *s)
{
	char text[CHART_VALUE];

	for (double at = s->least; at < s->most + s->step / 2; at += s->step) {
		const double value = c->log ? pow(10, at) : at, y = y_of(c, s, value);

		fprintf(f,
		        "<path class=\"tick\" d=\"M%d %.1fh%d\"/><text class=\"note\" x=\"%d\" "
		        "y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
		        LEFT, y, WIDTH, LEFT - 8, y + 4, c->value(value, text));
	}
}

static void put_line(FILE *f, const struct chart *c, const struct scales *s,
                     const struct chart_line *l)
{
	const struct chart_point *last = &l->points[l->n - 1];

	fprintf(f, "<g><path class=\"l c%d%s\" d=\"", l->colour, l->dashed ? " no" : "");
	for (size_t k = 0; k < l->n; k++)
		fprintf(f, "%c%.1f %.1f", k && l->points[k].joined ? 'L' : 'M',
		        x_of(s, l->points[k].x), y_of(c, s, l->points[k].y));
	fprintf(f, "\"/><path class=\"lead c%d\" d=\"M%.1f %.1fL%d %.1fh6\"/>", l->colour,
	        x_of(s, last->x), y_of(c, s, last->y), LEFT + WIDTH + NAMES - 10, l->at - 4);
	fprintf(f, "<text x=\"%d\" y=\"%.1f\">", LEFT + WIDTH + NAMES, l->at);
	svg_text(f, l->name);
	fputs("</text><title>", f);
	svg_text(f, l->name);
	svg_text(f, l->remark);
	fputs(": ", f);
	svg_text(f, l->help);
	fputs("</title></g>\n", f);
}

static void put_marks(FILE *f, const struct chart *c, const struct scales *s,
                      const struct chart_line *l)
{
	for (size_t k = 0; k < l->n; k++) {
		const struct chart_point *p = &l->points[k];

		if (!p->marked)
			continue;
		fprintf(f, "<circle class=\"mark c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>",
		        l->colour, x_of(s, p->x), y_of(c, s, p->y));
		c->hover(f, l, p);
		fputs("</title></circle>\n", f);
	}
}

static void put_heading(FILE *f, const struct chart *c)
{
	fprintf(f, "<text class=\"title\" x=\"%d\" y=\"24\">", LEFT);
	svg_text(f, c->title);
	fprintf(f, "</text>\n<text class=\"note\" x=\"%d\" y=\"42\">", LEFT);
	svg_text(f, c->note);
	fprintf(f, "</text>\n<text class=\"note\" x=\"%d\" y=\"%d\">%s</text>\n", LEFT, TOP - 12,
	        c->axis);
}

static void put_key(FILE *f, const char *mark, int y)
{
	fprintf(f,
	        "<circle class=\"mark c9\" cx=\"%d\" cy=\"%d\" r=\"4\"/><text class=\"note\" "
	        "x=\"%d\" y=\"%d\">",
	        LEFT + 4, y + 42, LEFT + 14, y + 46);
	svg_text(f, mark);
	fputs("</text>\n", f);
}

char *chart_svg(struct chart *c, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);
	struct scales s;

	if (!f)
		return NULL;
	lay_out(c, &s);
	place_names(c, &s);
	svg_begin(f, LEFT + WIDTH + ROOM, TOP + s.height + 64, c->title, style);
	put_heading(f, c);
	put_sizes(f, &s);
	put_values(f, c, &s);
	for (size_t i = 0; i < c->n; i++)
		put_line(f, c, &s, &c->lines[i]);
	for (size_t i = 0; i < c->n; i++)
		put_marks(f, c, &s, &c->lines[i]);
	put_key(f, c->mark, TOP + s.height);
	svg_end(f, &text);
	return text;
}
