/*
 * plan --compare --svg: the predicted time of every algorithm against the size, by formula, both on
 * logarithmic scales.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cmd/draw/chart_svg.h"
#include "cmd/draw/svg.h"
#include "cmd/plan/plan.h"
#include "cmd/text/check_print.h"
#include "lib/base/units.h"

#define SIZES 25 /* powers of two: from 64 bytes to 1 GiB */
#define LEAST UINT64_C(64)

/* ---- the prices ---- */

/* The lines of all algorithms, in the order of the prices; each has room for SIZES points. */
static struct chart_line *lines_new(const struct planned *p)
{
	const size_t n = p->selection.nprices;
	struct chart_line *lines = calloc(n + 1, sizeof *lines);
	struct chart_point *points = calloc(n * SIZES + 1, sizeof *points);

	if (!lines || !points) {
		free(lines);
		free(points);
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		const struct coll_algorithm *alg = p->selection.prices[i].alg;

		lines[i] = (struct chart_line){.name = alg->name,
		                               .remark = ", which auto does not choose",
		                               .help = alg->help,
		                               .dashed = true,
		                               .points = points + i * SIZES};
	}
	lines[n].points = points; /* chart_svg sorts the others */
	return lines;
}

static void lines_free(struct chart_line *lines, size_t n)
{
	if (lines)
		free(lines[n].points);
	free(lines);
}

static void take_prices(struct chart_line *lines, int k, const struct selection *s)
{
	for (size_t i = 0; i < s->nprices; i++) {
		const struct select_price *price = &s->prices[i];
		struct chart_line *l = &lines[i];
		const double size = (double)(LEAST << k);

		if (price->verdict == SELECT_CANDIDATE) {
			l->dashed = false;
			l->remark = "";
		}
		if (price->verdict == SELECT_FALLS_BACK || price->formula <= 0)
			continue;
		l->points[l->n] = (struct chart_point){
		        .x = size,
		        .y = price->formula,
		        .joined = l->n && l->points[l->n - 1].x * 2 >= size,
		        .marked = price->alg == s->alg,
		};
		l->n++;
	}
}

static int read_prices(const struct planned *p, struct chart_line *lines, struct err *err)
{
	for (int k = 0; k < SIZES; k++) {
		struct select_args s = p->select;
		struct selection chosen = {0};
		int ret;

		s.bytes = LEAST << k;
		ret = select_all(&s, &chosen, err);
		if (ret == 0)
			take_prices(lines, k, &chosen);
		selection_release(&chosen);
		if (ret < 0)
			return -1;
	}
	return 0;
}

/* ---- drawing ---- */

/* "10 us", "1 ms", "100 s" */
static char *seconds_text(double s, char text[CHART_VALUE])
{
	if (s < 0.9995)
		return latency_text(s, text);
	snprintf(text, CHART_VALUE, s < 99.95 ? "%.3g s" : "%.0f s", s);
	return text;
}

static void put_choice(FILE *f, const struct chart_line *l, const struct chart_point *p)
{
	char size[UNITS_TEXT], time[CHART_VALUE];

	fprintf(f, "%s: auto takes %s, %s", size_text((uint64_t)p->x, size), l->name,
	        seconds_text(p->y, time));
}

static char *draw(const struct planned *p, struct chart_line *lines, size_t *len)
{
	char title[128], note[300], rates[256], hosts[PLAN_HOSTS];
	struct chart c = {.title = title,
	                  .note = note,
	                  .axis = "",
	                  .mark = "the choice of auto; dashed: never chosen by auto",
	                  .log = true,
	                  .value = seconds_text,
	                  .hover = put_choice,
	                  .lines = lines,
	                  .n = p->selection.nprices};

	snprintf(title, sizeof title, "%s of %d rank%s%s, %s: predicted time by size",
	         coll_name(p->kind), p->args.size, p->args.size == 1 ? "" : "s",
	         plan_hosts_words(p, hosts, sizeof hosts), dtype_name(p->select.dtype));
	snprintf(note, sizeof note, "by formula; %s", plan_rates_words(p, rates, sizeof rates));
	return chart_svg(&c, len);
}

int plan_compare_svg(const struct planned *p, struct err *err)
{
	struct chart_line *lines;
	char *svg = NULL;
	size_t len;
	int ret = -1;

	if (p->kind == COLL_BARRIER || p->args.size < 2)
		return err_set(err, ERR_USAGE,
		               "--compare --svg: %s has no time that depends on a size; remove "
		               "--svg",
		               p->kind == COLL_BARRIER ? "a barrier" : "one rank");
	lines = lines_new(p);
	if (lines && read_prices(p, lines, err) < 0)
		goto done;
	svg = lines ? draw(p, lines, &len) : NULL;
	ret = svg ? svg_write(p->o->svg, svg, len, err)
	          : err_nomem(err, "the picture of the prices", 0);
done:
	free(svg);
	lines_free(lines, p->selection.nprices);
	return ret;
}
