/* The picture of `check`: two heat maps, with the numbers as texts that show when one points there.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/draw/svg.h"
#include "cmd/text/check_print.h"
#include "lib/base/units.h"

#define MARGIN 56
#define MAP    420 /* pixels of a map's side, about */
#define LEGEND 400 /* pixels that a map has at least: its legend needs room */

static const char style[] =
        "  .fails { fill: #c22 } .none { fill: #bbb } .cross { stroke: #fff; stroke-width: 1.5 }\n"
        "  rect.slow { stroke: #c22; stroke-width: 2 }\n"
        "  @media (prefers-color-scheme: dark) { .none { fill: #444 } }\n";

/* From a good link (1: as good as the median or better) to a bad one (0: a tenth of it). */
static void put_colour(FILE *f, double good)
{
	/* Of one hue that darkens: it is read without telling red from green. */
	static const int bad[3] = {0xd9, 0xe8, 0xf5}, best[3] = {0x08, 0x45, 0x94};
	int rgb[3];
	for (int i = 0; i < 3; i++)
		rgb[i] = bad[i] + (int)lround(good * (best[i] - bad[i]));
	fprintf(f, "#%02x%02x%02x", (unsigned)rgb[0], (unsigned)rgb[1], (unsigned)rgb[2]);
}

static double goodness(double times_median)
{
	const double good = 1 + log10(times_median);
	return good > 1 ? 1 : good < 0 ? 0 : good;
}

static void put_tooltip(FILE *f, const struct check_view *v, int from, int to)
{
	const struct link_cell *c = link_cell(v->links, from, to);
	const struct link_fault *fault = link_matrix_fault(v->links, from, to);
	const int sender = link_rank(v->links, from), receiver = link_rank(v->links, to);
	char x[32];
	fprintf(f, "<title>rank %d ", sender);
	svg_text(f, v->host(v->ctx, sender));
	fprintf(f, " to rank %d ", receiver);
	svg_text(f, v->host(v->ctx, receiver));
	fprintf(f, ": %s", c->rate > 0 ? bit_rate_text(c->rate, x) : "");
	if (c->median > 0)
		fprintf(f, ", round trip %s", latency_text(c->median, x));
	if (c->connect > 0)
		fprintf(f, ", connect %s", latency_text(c->connect, x));
	if (c->handshake > 0)
		fprintf(f, ", TLS handshake %s", latency_text(c->handshake, x));
	if (fault) {
		fputs(" ", f);
		svg_text(f, fault->why);
	}
	fputs("</title>", f);
}

/* The figure in the cell, "9.41G" or "142u", where there is room. */
static void put_figure(FILE *f, bool rate, double value, double good, double x, double y,
                       double side)
{
	char text[32];
	const char *unit = rate ? bit_rate_text(value, text) : latency_text(value, text);
	const size_t digits = strcspn(unit, " ");
	if (side >= 36)
		fprintf(f,
		        "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" "
		        "style=\"font-size: 11px; fill: %s\">%.*s%c</text>",
		        x + side / 2, y + side / 2 + 4, good > 0.4 ? "#fff" : "#222", (int)digits,
		        unit, unit[digits + 1]);
}

static void put_cell(FILE *f, const struct check_view *v, int from, int to, bool rate, double x,
                     double y, double side)
{
	const struct link_matrix *m = v->links;
	const struct link_cell *c = link_cell(m, from, to);
	const double value = rate ? c->rate : c->median;
	const bool fails = !link_carries(c);
	const double gap = side > 6 ? 1 : 0.25;
	fprintf(f, "<g><rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"", x, y,
	        side - gap, side - gap);
	if (fails) {
		fputs(" class=\"fails\"/>", f);
		fprintf(f, "<path class=\"cross\" d=\"M%.2f %.2fl%.2f %.2fm0 %.2fl%.2f %.2f\"/>",
		        x + side / 4, y + side / 4, side / 2, side / 2, -side / 2, -side / 2,
		        side / 2);
	} else if (value <= 0) {
		fputs(" class=\"none\"/>", f);
	} else {
		fprintf(f, "%s fill=\"", c->state == LINK_SLOW ? " class=\"slow\"" : "");
		const double good = goodness(rate ? value / m->rate : m->median / value);
		put_colour(f, good);
		fputs("\"/>", f);
		put_figure(f, rate, value, good, x, y, side);
	}
	put_tooltip(f, v, from, to);
	fputs("</g>\n", f);
}

/* The numbers along a side: all, or every so many where there is no room. */
static void put_numbers(FILE *f, const struct link_matrix *m, double left, double top, double side)
{
	const int every = side >= 18 ? 1 : side >= 9 ? 4 : side >= 4 ? 8 : 64;
	for (int r = 0; r < m->size; r += every) {
		const int rank = link_rank(m, r);
		const double at = ((double)r + 0.5) * side;
		fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%d</text>\n",
		        left + at, top - 6, rank);
		fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%d</text>\n", left - 6,
		        top + at + 4, rank);
	}
}

static void put_legend(FILE *f, double left, double top, bool rate, double median)
{
	char text[32];
	for (int i = 0; i < 40; i++) {
		fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"3\" height=\"10\" fill=\"",
		        left + 3 * i, top);
		put_colour(f, i / 39.0);
		fputs("\"/>\n", f);
	}
	const char *best = rate ? bit_rate_text(median, text) : latency_text(median, text);
	fprintf(f,
	        "<text class=\"note\" x=\"%.1f\" y=\"%.1f\">%s to median (%s) or "
	        "better</text>\n",
	        left + 128, top + 9, rate ? "median/10" : "10 x median", median > 0 ? best : "?");
	fprintf(f,
	        "<rect class=\"fails\" x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\"/>"
	        "<text class=\"note\" x=\"%.1f\" y=\"%.1f\">fails</text>\n",
	        left, top + 16, left + 14, top + 25);
}

static void put_map(FILE *f, const struct check_view *v, bool rate, double left, double top,
                    double side)
{
	const int size = v->links->size;
	fprintf(f,
	        "<text class=\"title\" x=\"%.1f\" y=\"%.1f\">%s</text>\n"
	        "<text class=\"note\" x=\"%.1f\" y=\"%.1f\">row: from rank, column: to "
	        "rank</text>\n",
	        left, top - 44, rate ? "Bandwidth" : "Round trip", left, top - 26);
	put_numbers(f, v->links, left, top, side);
	for (int from = 0; from < size; from++)
		for (int to = 0; to < size; to++)
			if (from != to)
				put_cell(f, v, from, to, rate, left + to * side, top + from * side,
				         side);
	put_legend(f, left, top + size * side + 14, rate, rate ? v->links->rate : v->links->median);
}

char *check_svg(const struct check_view *v, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);
	const double side = MAP / (v->links->size < 8 ? 8.0 : (double)v->links->size);
	const double map = fmax(side * v->links->size, LEGEND);
	const double width = 2 * map + 3 * MARGIN, height = side * v->links->size + 2 * MARGIN + 48;
	char title[96], of[32] = "";
	if (!f)
		return NULL;
	if (v->links->came)
		snprintf(of, sizeof of, "%d of ", v->links->size);
	snprintf(title, sizeof title, "collctl check: %s%d ranks over %s", of, v->links->all,
	         v->insecure ? "plain TCP" : "TLS");
	svg_begin(f, width, height, title, style);
	put_map(f, v, true, MARGIN, MARGIN + 16, side);
	put_map(f, v, false, 2 * MARGIN + map, MARGIN + 16, side);
	svg_end(f, &text);
	return text;
}
