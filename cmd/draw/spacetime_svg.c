/* The space-time diagram. See spacetime_svg.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/draw/spacetime_svg.h"
#include "cmd/draw/svg.h"
#include "cmd/text/check_print.h"
#include "lib/base/units.h"

#define LEFT   44 /* of texts; the numbers of the time end here */
#define RIGHT  40
#define TOP    100 /* of the time 0 */
#define BOTTOM 72
#define ROUND  64 /* pixels of a message's height, about */

static const char style[] =
        "  .rank { stroke: #ccc } .tick { stroke: #eee } .host { fill: #f2f4f8 }\n"
        "  .m, .a { fill: none; stroke: #2a6fbb; marker-end: url(#m) }\n"
        "  .a { stroke: #cc6a11; marker-end: url(#a) } .hm { fill: #2a6fbb } .ha, .r { fill: "
        "#cc6a11 }\n"
        "  .c { fill: #999 } .m:hover, .a:hover { stroke: #c0c; stroke-opacity: 1; stroke-width: 4 "
        "}\n"
        "  @media (prefers-color-scheme: dark) {\n"
        "    .rank { stroke: #50545c } .tick { stroke: #262a30 } .host { fill: #20242b }\n"
        "    .m { stroke: #6fb1f5 } .a { stroke: #f2a04e } .hm { fill: #6fb1f5 }\n"
        "    .ha, .r { fill: #f2a04e } .m:hover, .a:hover { stroke: #f6f } }\n";

struct drawing {
	FILE *f;
	const struct spacetime_view *v;
	double lane, scale, height; /* pixels between ranks, of a second, of all seconds */
	double last;                /* seconds */
	uint64_t most;              /* bytes of the longest message */
	double widest, head;        /* its stroke; the length of an arrow's head */
};

static bool is_message(const struct spacetime_event *e)
{
	return e->kind == SPACETIME_MESSAGE || e->kind == SPACETIME_ADDED;
}

static double lane_at(const struct drawing *d, int rank)
{
	return LEFT + (d->lane < 40 ? 20 : d->lane / 2) + d->lane * rank;
}

static double time_at(const struct drawing *d, double seconds)
{
	return TOP + seconds * d->scale;
}

/* ---- layout ---- */

/* The messages in sequence: of the rank that sends or receives most. NULL memory counts as one. */
static unsigned sequence(const struct spacetime_view *v)
{
	unsigned *n = calloc(2 * (size_t)v->size, sizeof *n), most = 1;

	for (size_t i = 0; n && i < v->nevents; i++) {
		const struct spacetime_event *e = &v->events[i];

		if (!is_message(e))
			continue;
		n[2 * e->rank]++;
		n[2 * e->peer + 1]++;
		most = n[2 * e->rank] > most ? n[2 * e->rank] : most;
		most = n[2 * e->peer + 1] > most ? n[2 * e->peer + 1] : most;
	}
	free(n);
	return most;
}

static void lay_out(struct drawing *d)
{
	const struct spacetime_view *v = d->v;
	const double rounds = sequence(v), wanted = ROUND * rounds;

	d->lane = v->size <= 8 ? 84 : 672.0 / v->size;
	d->lane = d->lane < 15 ? 15 : d->lane;
	for (size_t i = 0; i < v->nevents; i++) {
		const struct spacetime_event *e = &v->events[i];

		d->last = e->end > d->last ? e->end : d->last;
		if (is_message(e) && e->bytes > d->most)
			d->most = e->bytes;
	}
	d->height = wanted < 240 ? 240 : wanted > 2400 ? 2400 : wanted;
	d->scale = d->last > 0 ? d->height / d->last : 0;
	d->widest = d->lane < 26 ? 1.3 : d->lane / 20;
	d->head = fmin(6 + d->lane / 16, fmax(3, 0.5 * d->height / rounds));
}

/* ---- the ground ---- */

static int host_end(const struct spacetime_view *v, int rank)
{
	int end = rank + 1;

	while (end < v->size && v->host[end] == v->host[rank])
		end++;
	return end;
}

/* A block behind the ranks of each host. */
static void put_hosts(const struct drawing *d)
{
	const struct spacetime_view *v = d->v;

	for (int r = 0, end; v->host && r < v->size; r = end) {
		end = host_end(v, r);
		if (v->host[r] < 0) /* the ranks are missing */
			continue;
		fprintf(d->f,
		        "<g><rect class=\"host\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
		        "height=\"%.1f\" rx=\"4\"/><title>host %d</title>",
		        lane_at(d, r) - d->lane * 0.46, TOP - 44, d->lane * (end - r - 0.08),
		        d->height + 58, v->host[r]);
		if (d->lane * (end - r) >= 52)
			fprintf(d->f,
			        "<text class=\"note\" x=\"%.1f\" y=\"%d\" "
			        "text-anchor=\"middle\">host %d</text>",
			        (lane_at(d, r) + lane_at(d, end - 1)) / 2, TOP - 29, v->host[r]);
		fputs("</g>\n", d->f);
	}
}

/* Seconds between ticks: 1, 2 or 5 times a power of ten, some eight in all. */
static double tick_step(double last, double height)
{
	const double least = last / (height / 60);
	const double power = pow(10, floor(log10(least)));

	return power * (least <= power ? 1 : least <= 2 * power ? 2 : least <= 5 * power ? 5 : 10);
}

static void put_times(const struct drawing *d)
{
	const double step = d->last > 0 ? tick_step(d->last, d->height) : 1;
	const bool us = d->last < 9.995e-4, s = d->last >= 10;

	fprintf(d->f, "<text class=\"note\" x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n",
	        LEFT, TOP - 12,
	        us  ? "us"
	        : s ? "s"
	            : "ms");
	for (int i = 0; i * step <= d->last; i++) {
		const double y = time_at(d, i * step);

		fprintf(d->f,
		        "<path class=\"tick\" d=\"M%d %.1fH%.1f\"/><text class=\"note\" x=\"%d\" "
		        "y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n",
		        LEFT + 6, y, lane_at(d, d->v->size - 1) + 14, LEFT, y + 4,
		        i * step *
		                (us  ? 1e6
		                 : s ? 1
		                     : 1e3));
	}
}

static void put_ranks(const struct drawing *d)
{
	for (int r = 0; r < d->v->size; r++) {
		const double x = lane_at(d, r);
		char number[16] = "";

		if (d->lane >= 20 || r % 2 == 0) /* else there is no room */
			snprintf(number, sizeof number, "%d", r);
		fprintf(d->f,
		        "<path class=\"rank\" d=\"M%.1f %dV%.1f\"/><text x=\"%.1f\" y=\"%d\" "
		        "text-anchor=\"middle\">%s</text>\n",
		        x, TOP - 6, TOP + d->height + 6, x, TOP - 12, number);
	}
}

/* ---- the events ---- */

static void put_times_of(const struct drawing *d, const struct spacetime_event *e)
{
	char start[32], end[32];

	fprintf(d->f, ", %s to %s</title>", latency_text(e->start, start),
	        latency_text(e->end, end));
}

static double radius(const struct drawing *d)
{
	return d->lane < 24 ? 2 : 3.5;
}

static double stroke_of(const struct drawing *d, const struct spacetime_event *e)
{
	const double part = d->most ? (double)e->bytes / (double)d->most : 1;

	return fmax(0.7, d->widest * sqrt(part));
}

/* hypot() would need glibc 2.35. */
static double length_of(double dx, double dy)
{
	return sqrt(dx * dx + dy * dy);
}

/* How much of the ground shows through the messages: more where they would cover most of it. */
static double opacity(const struct drawing *d)
{
	const double area = d->lane * d->v->size * d->height;
	double ink = 0;

	for (size_t i = 0; i < d->v->nevents; i++) {
		const struct spacetime_event *e = &d->v->events[i];

		if (is_message(e))
			ink += stroke_of(d, e) * length_of(d->lane * (e->peer - e->rank),
			                                   d->scale * (e->end - e->start));
	}
	return ink <= area / 3 ? 1 : fmax(0.2, area / 3 / ink);
}

/* An arrow that ends before the mark of what the receiver does. */
static void put_message(const struct drawing *d, const struct spacetime_event *e)
{
	const double x = lane_at(d, e->rank), y = time_at(d, e->start);
	const double dx = lane_at(d, e->peer) - x, dy = time_at(d, e->end) - y;
	const double len = length_of(dx, dy),
	             back = d->head + (e->kind == SPACETIME_ADDED ? radius(d) : 0);
	const double part = len > 1.5 * back ? 1 - back / len : 0.33;

	fprintf(d->f,
	        "<path class=\"%s\" d=\"M%.1f %.1fl%.1f %.1f\" stroke-width=\"%.2g\"><title>"
	        "rank %d to rank %d: %" PRIu64 " bytes",
	        e->kind == SPACETIME_ADDED ? "a" : "m", x, y, dx * part, dy * part, stroke_of(d, e),
	        e->rank, e->peer, e->bytes);
	put_times_of(d, e);
	fputs("</path>\n", d->f);
	if (e->kind == SPACETIME_ADDED)
		fprintf(d->f, "<circle class=\"r\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>\n", x + dx,
		        y + dy, radius(d));
}

/* A bar on the rank's line. */
static void put_step(const struct drawing *d, const struct spacetime_event *e)
{
	const bool adds = e->kind == SPACETIME_REDUCE;
	const double wide = 1.3 * radius(d), tall = (e->end - e->start) * d->scale;

	fprintf(d->f,
	        "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>"
	        "rank %d %s %" PRIu64 " bytes",
	        adds ? "r" : "c", lane_at(d, e->rank) - wide / 2, time_at(d, e->start), wide,
	        tall < 2 ? 2 : tall, e->rank, adds ? "adds" : "copies", e->bytes);
	put_times_of(d, e);
	fputs("</rect>\n", d->f);
}

static void put_heads(const struct drawing *d)
{
	fputs("<defs>", d->f);
	for (const char *c = "ma"; *c; c++)
		fprintf(d->f,
		        "<marker id=\"%c\" viewBox=\"0 0 8 8\" refX=\"0\" refY=\"4\" "
		        "markerWidth=\"%.1f\" markerHeight=\"%.1f\" orient=\"auto\" "
		        "preserveAspectRatio=\"none\" "
		        "markerUnits=\"userSpaceOnUse\"><path class=\"h%c\" "
		        "d=\"M0 0.5L8 4L0 7.5z\"/></marker>",
		        *c, d->head, d->head * 0.8, *c);
	fputs("</defs>\n", d->f);
}

/* ---- the legend ---- */

static bool has(const struct spacetime_view *v, enum spacetime_kind kind)
{
	for (size_t i = 0; i < v->nevents; i++)
		if (v->events[i].kind == kind)
			return true;
	return false;
}

static void put_legend(const struct drawing *d)
{
	static const char *const words[] = {"message", "message, added at its end", "addition",
	                                    "copy"};
	static const char *const classes[] = {"m", "a", "r", "c"};
	static const int room[] = {96, 190, 84, 60};
	const double y = TOP + d->height + 32;
	char size[UNITS_TEXT];
	int x = LEFT;

	for (int k = 0; k <= SPACETIME_COPY; k++) {
		if (!has(d->v, (enum spacetime_kind)k))
			continue;
		if (k <= SPACETIME_ADDED)
			fprintf(d->f, "<path class=\"%s\" stroke-width=\"2\" d=\"M%d %.1fh%.1f\"/>",
			        classes[k], x, y - 4, 24 - d->head);
		else
			fprintf(d->f,
			        "<rect class=\"%s\" x=\"%d\" y=\"%.1f\" width=\"7\" "
			        "height=\"10\"/>",
			        classes[k], x + 14, y - 9);
		fprintf(d->f, "<text class=\"note\" x=\"%d\" y=\"%.1f\">%s</text>\n", x + 30, y,
		        words[k]);
		x += room[k];
	}
	fprintf(d->f, "<text class=\"note\" x=\"%d\" y=\"%.1f\">", LEFT, y + 18);
	if (d->most)
		fprintf(d->f, "width: bytes of a message, at most %s</text>\n",
		        size_text(d->most, size));
	else
		fputs("no messages</text>\n", d->f);
}

char *spacetime_svg(const struct spacetime_view *v, size_t *len)
{
	char *text = NULL;
	struct drawing d = {.f = open_memstream(&text, len), .v = v};
	double width;

	if (!d.f)
		return NULL;
	lay_out(&d);
	width = lane_at(&d, v->size - 1) + RIGHT;
	svg_begin(d.f, width < 520 ? 520 : width, TOP + d.height + BOTTOM, v->title, style);
	put_heads(&d);
	fprintf(d.f, "<text class=\"title\" x=\"%d\" y=\"24\">", LEFT);
	svg_text(d.f, v->title);
	fprintf(d.f, "</text>\n<text class=\"note\" x=\"%d\" y=\"42\">", LEFT);
	svg_text(d.f, v->note);
	fputs("</text>\n", d.f);
	put_hosts(&d);
	put_times(&d);
	put_ranks(&d);
	for (size_t i = 0; i < v->nevents; i++) /* below the messages */
		if (!is_message(&v->events[i]))
			put_step(&d, &v->events[i]);
	fprintf(d.f, "<g stroke-opacity=\"%.2g\">\n", opacity(&d));
	for (size_t i = 0; i < v->nevents; i++)
		if (is_message(&v->events[i]))
			put_message(&d, &v->events[i]);
	fputs("</g>\n", d.f);
	put_legend(&d);
	svg_end(d.f, &text);
	return text;
}
