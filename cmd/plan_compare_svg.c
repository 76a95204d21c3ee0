/*
 * plan --compare --svg: the predicted time of every algorithm against the size, by formula, both on
 * logarithmic scales.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/check_print.h"
#include "cmd/plan.h"
#include "cmd/svg.h"
#include "lib/base/units.h"

#define SIZES    25 /* powers of two: from 64 bytes to 1 GiB */
#define LEAST    UINT64_C(64)
#define LEFT     64
#define TOP      76
#define WIDTH    560
#define HEIGHT   400
#define NAMES    32  /* pixels from the lines' ends to their names */
#define NAME_ROW 15  /* pixels from a name to the next one */
#define ROOM     210 /* pixels for the names */
#define COLOURS  12

static const char style[] =
        "  .l { fill: none; stroke-width: 1.8 } .no { stroke-dasharray: 5 4 }\n"
        "  .tick { stroke: #eee } .lead { fill: none; stroke-width: 0.8 }\n"
        "  .auto { fill: #fff; stroke-width: 1.8 }\n"
        "  .c0 { stroke: #1f6fb5 } .c1 { stroke: #d1600a } .c2 { stroke: #2a8a3e }\n"
        "  .c3 { stroke: #c4283b } .c4 { stroke: #7d55b8 } .c5 { stroke: #8a5a44 }\n"
        "  .c6 { stroke: #c24fa3 } .c7 { stroke: #0d8a94 } .c8 { stroke: #6b7a10 }\n"
        "  .c9 { stroke: #44546a } .c10 { stroke: #b58900 } .c11 { stroke: #00a36c }\n"
        "  @media (prefers-color-scheme: dark) {\n"
        "    .tick { stroke: #262a30 } .auto { fill: #16181c }\n"
        "    .c0 { stroke: #6fb1f5 } .c1 { stroke: #f59a4a } .c2 { stroke: #6fce84 }\n"
        "    .c3 { stroke: #ff7a86 } .c4 { stroke: #b99af0 } .c5 { stroke: #c79a84 }\n"
        "    .c6 { stroke: #f08ad2 } .c7 { stroke: #56d0da } .c8 { stroke: #c3d45a }\n"
        "    .c9 { stroke: #a9b8cc } .c10 { stroke: #ffd75a } .c11 { stroke: #3fe0a5 } }\n";

struct curve {
	const struct coll_algorithm *alg;
	int colour;
	bool candidate;        /* at some size */
	bool runs;             /* at some size, without falling back */
	double seconds[SIZES]; /* < 0: falls back to another */
	bool taken[SIZES];
	double name; /* y of its name */
	int last;    /* the last size that it has a time for */
};

struct curves {
	FILE *f;
	struct curve *v;
	size_t n;
	double least, most; /* log10 of seconds */
};

static double size_at(int k)
{
	return LEFT + (double)WIDTH * k / (SIZES - 1);
}

static double time_at(const struct curves *c, double seconds)
{
	return TOP + HEIGHT * (c->most - log10(seconds)) / (c->most - c->least);
}

/* ---- the prices ---- */

static void take_prices(struct curves *c, int k, const struct selection *s)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct select_price *price = &s->prices[i];
		struct curve *v = &c->v[i];

		v->alg = price->alg;
		v->candidate = v->candidate || price->verdict == SELECT_CANDIDATE;
		v->taken[k] = price->alg == s->alg;
		v->seconds[k] = -1;
		if (price->verdict == SELECT_FALLS_BACK || price->formula <= 0)
			continue;
		v->seconds[k] = price->formula;
		v->runs = true;
		v->last = k;
		c->least = fmin(c->least, log10(price->formula));
		c->most = fmax(c->most, log10(price->formula));
	}
}

static int read_prices(const struct planned *p, struct curves *c, struct err *err)
{
	for (int k = 0; k < SIZES; k++) {
		struct select_args s = p->select;
		struct selection chosen = {0};
		int ret;

		s.bytes = LEAST << k;
		ret = select_all(&s, &chosen, err);
		if (ret == 0)
			take_prices(c, k, &chosen);
		selection_release(&chosen);
		if (ret < 0)
			return -1;
	}
	return 0;
}

/* ---- the names ---- */

static int cmp_names(const void *pa, const void *pb)
{
	const struct curve *a = pa, *b = pb;

	if (a->runs != b->runs)
		return a->runs ? -1 : 1;
	if (a->name < b->name || a->name > b->name)
		return a->name < b->name ? -1 : 1;
	return strcmp(a->alg->name, b->alg->name);
}

/* Sort the curves by their ends, those that never run last; give each a colour, and its name a
 * place of its own: down from where its line ends, and up again if the last ones are too low. */
static void place_names(struct curves *c)
{
	size_t n = 0;
	double floor_ = TOP + HEIGHT + 4;

	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].runs)
			c->v[i].name = time_at(c, c->v[i].seconds[c->v[i].last]) + 4;
	qsort(c->v, c->n, sizeof *c->v, cmp_names);
	while (n < c->n && c->v[n].runs)
		n++;
	c->n = n;
	for (size_t i = 0; i < n; i++) {
		c->v[i].colour = (int)(i % COLOURS);
		if (i)
			c->v[i].name = fmax(c->v[i].name, c->v[i - 1].name + NAME_ROW);
	}
	for (size_t i = n; i--; floor_ = c->v[i].name - NAME_ROW)
		c->v[i].name = fmin(c->v[i].name, floor_);
}

/* ---- drawing ---- */

/* "10 us", "1 ms", "100 s" */
static const char *seconds_text(double s, char text[32])
{
	if (s < 0.9995)
		return check_latency_text(s, text);
	snprintf(text, 32, s < 99.95 ? "%.3g s" : "%.0f s", s);
	return text;
}

static void put_grid(const struct curves *c)
{
	char text[UNITS_TEXT];

	for (int k = 0; k < SIZES; k += 4)
		fprintf(c->f,
		        "<path class=\"tick\" d=\"M%.1f %dv%d\"/><text class=\"note\" x=\"%.1f\" "
		        "y=\"%d\" text-anchor=\"middle\">%s</text>\n",
		        size_at(k), TOP, HEIGHT, size_at(k), TOP + HEIGHT + 18,
		        size_text(LEAST << k, text));
	for (double power = c->least; power < c->most + 0.5; power++) {
		const double y = time_at(c, pow(10, power));

		fprintf(c->f,
		        "<path class=\"tick\" d=\"M%d %.1fh%d\"/><text class=\"note\" x=\"%d\" "
		        "y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
		        LEFT, y, WIDTH, LEFT - 8, y + 4, seconds_text(pow(10, power), text));
	}
}

static void put_line(const struct curves *c, const struct curve *v)
{
	bool down = false;

	fprintf(c->f, "<g><path class=\"l c%d%s\" d=\"", v->colour, v->candidate ? "" : " no");
	for (int k = 0; k < SIZES; k++) {
		if (v->seconds[k] > 0)
			fprintf(c->f, "%c%.1f %.1f", down ? 'L' : 'M', size_at(k),
			        time_at(c, v->seconds[k]));
		down = v->seconds[k] > 0;
	}
	fprintf(c->f, "\"/><path class=\"lead c%d\" d=\"M%.1f %.1fL%d %.1fh6\"/>", v->colour,
	        size_at(v->last), time_at(c, v->seconds[v->last]), LEFT + WIDTH + NAMES - 10,
	        v->name - 4);
	fprintf(c->f, "<text x=\"%d\" y=\"%.1f\">%s</text><title>%s%s: ", LEFT + WIDTH + NAMES,
	        v->name, v->alg->name, v->alg->name,
	        v->candidate ? "" : ", which auto does not choose");
	svg_text(c->f, v->alg->help);
	fputs("</title></g>\n", c->f);
}

static void put_choices(const struct curves *c)
{
	char size[UNITS_TEXT], time[32];

	for (size_t i = 0; i < c->n; i++)
		for (int k = 0; k < SIZES; k++) {
			const struct curve *v = &c->v[i];

			if (!v->taken[k] || v->seconds[k] <= 0)
				continue;
			fprintf(c->f,
			        "<circle class=\"auto c%d\" cx=\"%.1f\" cy=\"%.1f\" "
			        "r=\"4\"><title>%s: auto takes %s, %s</title></circle>\n",
			        v->colour, size_at(k), time_at(c, v->seconds[k]),
			        size_text(LEAST << k, size), v->alg->name,
			        seconds_text(v->seconds[k], time));
		}
}

static char *draw(const struct planned *p, struct curves *c, size_t *len)
{
	char *text = NULL, title[128], rates[256];

	c->f = open_memstream(&text, len);
	if (!c->f)
		return NULL;
	c->least = floor(c->least);
	c->most = c->most > c->least ? ceil(c->most) : c->least + 1;
	place_names(c);
	snprintf(title, sizeof title, "%s of %d ranks%s%s, %s: predicted time by size",
	         coll_name(p->kind), p->args.size, p->host ? " on hosts " : "",
	         p->host ? p->o->hosts : "", dtype_name(p->select.dtype));
	svg_begin(c->f, LEFT + WIDTH + ROOM, TOP + HEIGHT + 64, title, style);
	fprintf(c->f, "<text class=\"title\" x=\"%d\" y=\"24\">%s</text>\n", LEFT, title);
	fprintf(c->f, "<text class=\"note\" x=\"%d\" y=\"42\">by formula; ", LEFT);
	svg_text(c->f, plan_rates_words(p, rates, sizeof rates));
	fputs("</text>\n", c->f);
	put_grid(c);
	for (size_t i = 0; i < c->n; i++)
		put_line(c, &c->v[i]);
	put_choices(c);
	fprintf(c->f,
	        "<circle class=\"auto c9\" cx=\"%d\" cy=\"%d\" r=\"4\"/><text class=\"note\" "
	        "x=\"%d\" y=\"%d\">auto&#39;s choice; dashed: auto never takes it</text>\n",
	        LEFT + 4, TOP + HEIGHT + 42, LEFT + 14, TOP + HEIGHT + 46);
	svg_end(c->f, &text);
	return text;
}

int plan_compare_svg(const struct planned *p, struct err *err)
{
	struct curves c = {.n = p->selection.nprices, .least = INFINITY, .most = -INFINITY};
	char *svg = NULL;
	size_t len;
	int ret = -1;

	if (p->kind == COLL_BARRIER || p->args.size < 2)
		return err_set(err, ERR_USAGE,
		               "--compare --svg: %s has no time that depends on a size; remove "
		               "--svg",
		               p->kind == COLL_BARRIER ? "a barrier" : "one rank");
	c.v = calloc(c.n + 1, sizeof *c.v);
	if (c.v && read_prices(p, &c, err) < 0)
		goto done;
	svg = c.v ? draw(p, &c, &len) : NULL;
	ret = svg ? svg_write(p->o->svg, svg, len, err)
	          : err_nomem(err, "the picture of the prices", 0);
done:
	free(svg);
	free(c.v);
	return ret;
}
