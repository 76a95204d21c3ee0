/* The heat map of traffic. See heat_svg.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/draw/heat_svg.h"
#include "cmd/draw/svg.h"
#include "lib/base/units.h"

#define LEFT 64
#define TOP  96
#define MAP  640 /* pixels of a side */

/* The most ranks on a side. */
#define SIDE_MAX 256
/* A map of more cells with messages is drawn coarser. */
#define CELLS_MOST 16384

struct map {
	const struct heat_view *view;
	int side, group;            /* cells on a side; ranks in a row of cells */
	uint64_t *bytes, *messages; /* [side * side]: from, to */
	size_t used;                /* cells with messages */
};

/* The colour is one, and the more bytes, the less of the ground shows: it is read on both grounds.
 */
static const char style[] =
        "  .cell { fill: #08519c } .map { fill: none; stroke: #bbb } .host { fill: #e9edf3 }\n"
        "  .cell:hover { stroke: #c0c }\n"
        "  @media (prefers-color-scheme: dark) {\n"
        "    .cell { fill: #8cc4ff } .map { stroke: #555 } .host { fill: #262b33 } }\n";

static double goodness(uint64_t bytes, uint64_t most)
{
	const double part = 1 + log10((double)bytes / (double)most) / 3;

	return part < 0 ? 0.15 : 0.15 + 0.85 * part;
}

static void put_ranks(FILE *f, const struct map *v, int cell)
{
	const int first = cell * v->group, end = first + v->group;
	const int last = (end < v->view->size ? end : v->view->size) - 1;

	fprintf(f, first == last ? "rank %d" : "ranks %d to %d", first, last);
}

/* A block on the diagonal for the ranks of each host that has several. */
static void put_hosts(FILE *f, const struct map *v)
{
	const double pixel = (double)MAP / v->view->size;

	for (int r = 0, end; v->view->host && r < v->view->size; r = end) {
		for (end = r + 1; end < v->view->size && v->view->host[end] == v->view->host[r];
		     end++)
			;
		if (end - r > 1)
			fprintf(f,
			        "<rect class=\"host\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
			        "height=\"%.1f\"><title>host %d: ranks %d to %d</title></rect>\n",
			        LEFT + r * pixel, TOP + r * pixel, (end - r) * pixel,
			        (end - r) * pixel, v->view->host[r], r, end - 1);
	}
}

static void put_cells(FILE *f, const struct map *v, uint64_t most)
{
	const double side = (double)MAP * v->group / v->view->size;

	for (int i = 0; i < v->side * v->side; i++) {
		const int from = i / v->side, to = i % v->side;

		if (!v->messages[i])
			continue;
		fprintf(f,
		        "<rect class=\"cell\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
		        "height=\"%.2f\" fill-opacity=\"%.2f\"><title>",
		        LEFT + to * side, TOP + from * side, side, side,
		        goodness(v->bytes[i], most));
		put_ranks(f, v, from);
		fputs(" to ", f);
		put_ranks(f, v, to);
		fprintf(f, ": %" PRIu64 " bytes, %" PRIu64 " message%s</title></rect>\n",
		        v->bytes[i], v->messages[i], v->messages[i] == 1 ? "" : "s");
	}
}

static void put_numbers(FILE *f, const struct map *v)
{
	int every = 1;

	while (every * 32 < v->view->size)
		every *= 2;
	every *= 2;
	for (int r = 0; r < v->view->size; r += every) {
		const double at = (r + 0.5) * MAP / v->view->size;

		fprintf(f,
		        "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>"
		        "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d</text>\n",
		        LEFT + at, TOP - 6, r, LEFT - 6, TOP + at + 4, r);
	}
}

static void put_legend(FILE *f, const struct map *v, uint64_t most)
{
	const int y = TOP + MAP + 16;
	char size[UNITS_TEXT];

	for (int i = 0; i < 40; i++)
		fprintf(f,
		        "<rect class=\"cell\" x=\"%d\" y=\"%d\" width=\"3\" height=\"10\" "
		        "fill-opacity=\"%.2f\"/>\n",
		        LEFT + 3 * i, y, 0.15 + 0.85 * i / 39);
	fprintf(f,
	        "<text class=\"note\" x=\"%d\" y=\"%d\">from 1/1000 (or less) of the maximum to "
	        "the maximum: %s</text>\n",
	        LEFT + 128, y + 9, size_text(most, size));
	if (v->group > 1)
		fprintf(f,
		        "<text class=\"note\" x=\"%d\" y=\"%d\">a cell is %d ranks to %d "
		        "ranks</text>\n",
		        LEFT + 128, y + 26, v->group, v->group);
}

static char *draw(const struct map *v, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);
	uint64_t most = 1;

	if (!f)
		return NULL;
	for (int i = 0; i < v->side * v->side; i++)
		most = v->bytes[i] > most ? v->bytes[i] : most;
	svg_begin(f, LEFT + MAP + 40, TOP + MAP + 56, v->view->title, style);
	fprintf(f, "<text class=\"title\" x=\"%d\" y=\"24\">", LEFT);
	svg_text(f, v->view->title);
	fprintf(f, "</text>\n<text class=\"note\" x=\"%d\" y=\"42\">", LEFT);
	svg_text(f, v->view->note);
	fprintf(f,
	        "</text>\n<text class=\"note\" x=\"%d\" y=\"60\">row: from rank, column: to "
	        "rank</text>\n",
	        LEFT);
	put_hosts(f, v);
	put_cells(f, v, most);
	fprintf(f, "<rect class=\"map\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT,
	        TOP, MAP, MAP);
	put_numbers(f, v);
	put_legend(f, v, most);
	svg_end(f, &text);
	return text;
}

static void add(void *cells, int from, int to, uint64_t bytes)
{
	struct map *m = cells;
	const size_t at = (size_t)(from / m->group) * (size_t)m->side + (size_t)(to / m->group);

	m->bytes[at] += bytes;
	m->used += m->messages[at]++ == 0;
}

char *heat_svg(const struct heat_view *view, heat_each *each, const void *ctx, size_t *len)
{
	const size_t most = (size_t)SIDE_MAX * SIDE_MAX;
	struct map m = {.view = view,
	                .group = (view->size + SIDE_MAX - 1) / SIDE_MAX,
	                .bytes = calloc(most, sizeof *m.bytes),
	                .messages = calloc(most, sizeof *m.messages)};
	char *svg = NULL;

	for (; m.bytes && m.messages; m.group *= 2) {
		m.side = (view->size + m.group - 1) / m.group;
		m.used = 0;
		memset(m.bytes, 0, most * sizeof *m.bytes);
		memset(m.messages, 0, most * sizeof *m.messages);
		each(ctx, add, &m);
		if (m.used <= CELLS_MOST) {
			svg = draw(&m, len);
			break;
		}
	}
	free(m.bytes);
	free(m.messages);
	return svg;
}
