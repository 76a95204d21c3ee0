/* The picture of `bench`: bus bandwidth against size, a line for each algorithm. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/draw/chart_svg.h"
#include "cmd/text/bench_print.h"
#include "lib/base/units.h"

#define LOG_FROM 30 /* a logarithmic scale if the values differ by this factor */
#define NAME     64

/*
 * A row belongs to the line of its algorithm. An algorithm that was measured again at the same size
 * (`-a direct,auto`) has one more line, "direct (2)". A line has a gap at the sizes that were
 * measured with other algorithms only.
 */
struct group {
	const struct coll_algorithm *alg;
	uint64_t step; /* of its last row */
	size_t n;      /* rows */
	char name[NAME];
};

/* Where a row is in the picture. */
struct place {
	bool drawn;
	size_t group;
	uint64_t step; /* sizes have consecutive numbers, from 1 on */
};

struct picture {
	struct place *places; /* [rows] */
	struct group *groups; /* room for a group for each row, as the next two */
	struct chart_line *lines;
	struct chart_point *points;
	size_t n; /* groups */
};

/* ---- the lines ---- */

/* The group of a row: the first of its algorithm that has no row of this size yet. */
static size_t find_group(struct picture *p, const struct bench_row *row, uint64_t step)
{
	struct group *new = &p->groups[p->n];
	int repeat = 1;

	for (size_t i = 0; i < p->n; i++) {
		if (p->groups[i].alg == row->algorithm && p->groups[i].step != step)
			return i;
		repeat += p->groups[i].alg == row->algorithm;
	}
	*new = (struct group){.alg = row->algorithm};
	snprintf(new->name, sizeof new->name, repeat > 1 ? "%s (%d)" : "%s", row->algorithm->name,
	         repeat);
	return p->n++;
}

static void place_rows(struct picture *p, const struct bench_row *rows, size_t n)
{
	uint64_t step = 0, size = 0;

	for (size_t i = 0; i < n; i++) {
		struct place *at = &p->places[i];

		at->drawn = rows[i].size > 0 && rows[i].busbw > 0;
		if (!at->drawn)
			continue;
		step += rows[i].size != size;
		size = rows[i].size;
		at->step = step;
		at->group = find_group(p, &rows[i], step);
		p->groups[at->group].step = step;
		p->groups[at->group].n++;
	}
}

static void add_point(struct chart_line *line, const struct bench_row *row, bool joined)
{
	line->points[line->n++] = (struct chart_point){.x = (double)row->size,
	                                               .y = row->busbw / 1e9,
	                                               .joined = joined,
	                                               .marked = true,
	                                               .of = row};
}

static void make_lines(struct picture *p, const struct bench_row *rows, size_t n)
{
	struct chart_point *points = p->points;

	for (size_t i = 0; i < p->n; i++) {
		struct group *g = &p->groups[i];

		p->lines[i] = (struct chart_line){
		        .name = g->name, .remark = "", .help = g->alg->help, .points = points};
		points += g->n;
	}
	for (size_t i = 0; i < n; i++) {
		const struct place *at = &p->places[i];
		struct group *g = &p->groups[at->group];

		if (!at->drawn)
			continue;
		add_point(&p->lines[at->group], &rows[i], g->step + 1 == at->step);
		g->step = at->step;
	}
}

/* Do the drawn values differ so much that the small ones would lie on the axis? */
static bool is_wide(const struct bench_row *rows, const struct place *places, size_t n)
{
	double least = INFINITY, most = 0;

	for (size_t i = 0; i < n; i++)
		if (places[i].drawn) {
			least = fmin(least, rows[i].busbw);
			most = fmax(most, rows[i].busbw);
		}
	return most > LOG_FROM * least;
}

/* ---- texts ---- */

static char *value_text(double gigabytes, char text[CHART_VALUE])
{
	snprintf(text, CHART_VALUE, "%.6g", gigabytes);
	return text;
}

/* "1.0 MiB by ring_chunked: median 1.2 ms, algbw 0.874 GB/s, busbw 1.31 GB/s" */
static void put_row(FILE *f, const struct chart_line *line, const struct chart_point *p)
{
	const struct bench_row *row = p->of;
	char size[UNITS_TEXT], time[32];

	fprintf(f, "%s by %s: median %s, algbw %.3g GB/s, busbw %.3g GB/s",
	        size_text(row->size, size), line->name, latency_text(row->p50, time),
	        row->algbw / 1e9, row->busbw / 1e9);
	if (row->wrong)
		fprintf(f, ", %" PRIu64 " wrong elements", row->wrong);
}

static char *draw(const struct bench_head *h, const struct bench_row *rows, size_t n,
                  struct picture *p, size_t *len)
{
	const bool has_op = strcmp(h->op, "none") != 0;
	char title[160], note[160];
	struct chart c = {.title = title,
	                  .note = note,
	                  .axis = "bus bandwidth (GB/s)",
	                  .mark = "a row of the table: point to it for its figures",
	                  .value = value_text,
	                  .hover = put_row,
	                  .lines = p->lines};

	place_rows(p, rows, n);
	make_lines(p, rows, n);
	c.n = p->n;
	c.log = is_wide(rows, p->places, n);
	snprintf(title, sizeof title, "%s of %d rank%s, %s%s%s, %s: bus bandwidth by size",
	         h->collective, h->size, h->size == 1 ? "" : "s", has_op ? h->op : "",
	         has_op ? " of " : "", dtype_name(h->dtype), bench_way(h));
	snprintf(note, sizeof note,
	         "from the median of %d iteration%s, each timed on its slowest rank; GB = 10^9 "
	         "bytes",
	         h->iters, h->iters == 1 ? "" : "s");
	return chart_svg(&c, len);
}

char *bench_svg(const struct bench_head *h, const struct bench_row *rows, size_t n, size_t *len)
{
	struct picture p = {.places = calloc(n + 1, sizeof *p.places),
	                    .groups = calloc(n + 1, sizeof *p.groups),
	                    .lines = calloc(n + 1, sizeof *p.lines),
	                    .points = calloc(n + 1, sizeof *p.points)};
	char *svg = p.places && p.groups && p.lines && p.points ? draw(h, rows, n, &p, len) : NULL;

	free(p.places);
	free(p.groups);
	free(p.lines);
	free(p.points);
	return svg;
}
