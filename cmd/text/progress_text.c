#include "cmd/text/progress_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cmd/text/report.h"
#include "cmd/text/terminal.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/base/units.h"

#define SMOOTHING  3.0 /* seconds after which a sample's weight is half */
#define BAR_LEAST  8   /* cells; a shorter bar is not shown */
#define BAR_MOST   30
#define BETWEEN    2   /* blanks between fields */
#define FIELD_TEXT 320 /* the names of the joined ranks are the longest field */

/* ---- the rate ---- */

void meter_start(struct meter *m, int64_t at)
{
	*m = (struct meter){.at = at, .started = true};
}

void meter_add(struct meter *m, int64_t at, uint64_t moved)
{
	if (!m->at || moved < m->moved || (moved == 0 && !m->started)) {
		*m = (struct meter){.at = at, .moved = moved};
		return;
	}
	double seconds = (double)(at - m->at) / (double)NS_PER_SEC;
	if (seconds <= 0)
		return;
	double share = seconds / (SMOOTHING + seconds);
	m->sum += share * ((double)(moved - m->moved) / seconds - m->sum);
	m->weight += share * (1 - m->weight);
	m->at = at;
	m->moved = moved;
}

double meter_rate(const struct meter *m)
{
	return m->weight > 0 ? m->sum / m->weight : -1;
}

double meter_left(const struct meter *m)
{
	const double rate = meter_rate(m);

	return rate > 0 ? (METER_WHOLE - (double)m->moved) / rate : 0;
}

/* The disk works at the same time as the other stages, but later. What it has to store takes as
 * long as calls have waited for it so far, on average of all bytes. Once the other stages are done,
 * all bytes are waited for. */
static double store_left(const struct coll_progress *f, bool last)
{
	const struct pipeline_part *store = &f->pipeline.part[PIPELINE_STORE];
	const double seconds = (double)f->waited_ns / (double)NS_PER_SEC;

	if (!f->waited || store->done >= store->total)
		return 0;
	return (double)(store->total - store->done) * seconds /
	       (double)(last ? f->waited : store->done);
}

/* The part that the stages from @first to @last have done. */
static double done_by(const struct pipeline *p, enum pipeline_stage first, enum pipeline_stage last)
{
	struct pipeline some = *p;

	for (int k = 0; k < PIPELINE_STAGES; k++)
		if (k < (int)first || k > (int)last)
			some.part[k].total = 0;
	return pipeline_done(&some);
}

static double sample(struct meter *m, int64_t at, double done)
{
	meter_add(m, at, (uint64_t)(done * METER_WHOLE));
	return meter_left(m);
}

double files_left(struct files_meters *m, const struct coll_progress *f, int64_t at)
{
	const struct pipeline *p = &f->pipeline;
	const double done = done_by(p, PIPELINE_READ, PIPELINE_WRITE);
	double left = sample(&m->early, at, done);

	if (done_by(p, PIPELINE_READ, PIPELINE_MOVE) >= 1)
		left = sample(&m->late, at, done_by(p, PIPELINE_WRITE, PIPELINE_WRITE));
	return fmax(left, store_left(f, done >= 1));
}

/* Remaining seconds for all ranks; negative: unknown. */
static double time_left(const struct progress_now *now, double rate)
{
	double left = -1;

	if (now->total && now->moved >= now->total)
		left = 0;
	else if (now->files_left > 0)
		left = now->files_left;
	else if (now->total && rate > 0 && (rate >= 1 || now->counts))
		left = (double)(now->total - now->moved) / rate;
	return left >= 0 && now->slowest_left > left ? now->slowest_left : left;
}

static double fraction(const struct progress_now *now)
{
	return now->moved < now->total ? (double)now->moved / (double)now->total : 1;
}

/* ---- the fields of the line ---- */

enum field { WHAT, BAR, PERCENT, AMOUNT, SKIPPED, RATE, LEFT, DOING, SLOWEST, FIELDS };

static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

/* The unit in which @bytes is a number below 1024, and its size in *@scale. */
static const char *unit_of(double bytes, double *scale)
{
	size_t u = 0;

	*scale = 1;
	for (; bytes / *scale >= 1023.5 && u + 1 < sizeof units / sizeof *units; u++)
		*scale *= 1024;
	return units[u];
}

static int decimals(double x, double scale, double whole_from)
{
	return scale > 1 && x < whole_from ? 1 : 0;
}

static void amount_text(char *buf, const struct progress_now *now)
{
	double scale, total = (double)now->total;
	const double moved = (double)(now->comparing ? now->files->compared : now->moved);

	if (now->counts) {
		if (now->total)
			snprintf(buf, FIELD_TEXT, "%.0f of %.0f", moved, total);
		return;
	}
	const char *unit = unit_of(total > moved ? total : moved, &scale);
	int digits = decimals(total / scale, scale, 100);

	if (now->total)
		snprintf(buf, FIELD_TEXT, "%.*f of %.*f %s", digits, moved / scale, digits,
		         total / scale, unit);
	else if (moved > 0)
		snprintf(buf, FIELD_TEXT, "%.*f %s", decimals(moved / scale, scale, 100),
		         moved / scale, unit);
}

static void skipped_text(char *buf, uint64_t bytes)
{
	double scale, amount = (double)bytes;
	const char *unit = unit_of(amount, &scale);

	snprintf(buf, FIELD_TEXT, "%.*f %s skipped", decimals(amount / scale, scale, 100),
	         amount / scale, unit);
}

static void rate_text(char *buf, double rate)
{
	double scale;
	const char *unit = unit_of(rate, &scale);

	if (rate >= 0)
		snprintf(buf, FIELD_TEXT, "%.*f %s/s", decimals(rate / scale, scale, 10),
		         rate / scale, unit);
}

/* Like duration_text, but with seconds that do not flicker. */
static void left_text(char *buf, double seconds)
{
	char text[UNITS_TEXT];

	if (seconds <= 0)
		return;
	if (seconds < 59.5)
		snprintf(text, sizeof text, seconds < 9.95 ? "%.1f s" : "%.0f s", seconds);
	else
		duration_text(fmax(seconds, 60), text);
	snprintf(buf, FIELD_TEXT, "%s left", text);
}

/* "3 of 4 joined, missing: rank 2", "2 of 4 joined: nodea, nodeb". Returns @buf. */
static char *joined_text(const struct joined *j, char *buf, size_t cap)
{
	const bool several = strpbrk(j->names, ",-") != NULL;

	if (j->here == j->size || !*j->names)
		snprintf(buf, cap, "%u of %u joined", j->here, j->size);
	else if (j->by_host)
		snprintf(buf, cap, "%u of %u joined: %s", j->here, j->size, j->names);
	else
		snprintf(buf, cap, "%u of %u joined, missing: rank%s %s", j->here, j->size,
		         several ? "s" : "", j->names);
	return buf;
}

/* Names of hosts come from peers: they may have any bytes. */
static void names_field(char *field, const struct joined *j)
{
	char text[FIELD_TEXT];

	text_escape(field, FIELD_TEXT, joined_text(j, text, sizeof text));
}

static void fill_fields(char field[FIELDS][FIELD_TEXT], const char *what,
                        const struct progress_now *now, double rate)
{
	memset(field, 0, FIELDS * sizeof *field);
	snprintf(field[WHAT], FIELD_TEXT, "%s", what);
	if (now->total)
		snprintf(field[PERCENT], FIELD_TEXT, "%d%%", (int)(100 * fraction(now)));
	amount_text(field[AMOUNT], now);
	if (now->files && now->files->skipped)
		skipped_text(field[SKIPPED], now->files->skipped);
	if (now->moved && !now->counts)
		rate_text(field[RATE], rate);
	left_text(field[LEFT], time_left(now, rate));
	if (now->joined && !now->comparing)
		names_field(field[DOING], now->joined);
	else
		snprintf(field[DOING], FIELD_TEXT, "%s",
		         now->comparing ? "comparing files" : now->doing);
	if (now->slowest >= 0)
		snprintf(field[SLOWEST], FIELD_TEXT, "slowest: rank %d (%.0f%%)", now->slowest,
		         floor(100 * now->slowest_done));
}

/* ---- layout ---- */

/* Columns of all fields and the blanks between them. */
static int columns(char field[FIELDS][FIELD_TEXT])
{
	int sum = 0;

	for (int i = 0; i < FIELDS; i++)
		if (*field[i])
			sum += (sum ? BETWEEN : 0) + terminal_columns(field[i]);
	return sum;
}

/* The cells of a bar that fits next to the fields in @width columns; 0: none fits. */
static int bar_cells(char field[FIELDS][FIELD_TEXT], int width)
{
	int cells = width - columns(field) - BETWEEN - 2;

	if (!*field[PERCENT] || cells < BAR_LEAST)
		return 0;
	return cells < BAR_MOST ? cells : BAR_MOST;
}

static void draw_bar(char *buf, int cells, double done)
{
	int full = (int)(done * cells);

	*buf++ = '[';
	memset(buf, '#', (size_t)full);
	memset(buf + full, '.', (size_t)(cells - full));
	memcpy(buf + cells, "]", 2);
}

/* Drop fields until the rest fits in @width columns. Keep the bar as long as it is more useful than
 * the fields that would make room for it. */
static void fit(char field[FIELDS][FIELD_TEXT], int width, const struct progress_now *now)
{
	/* "run" is less useful than the remaining time; any other phase is more useful. */
	const enum field before_bar[] = {*field[LEFT] ? DOING : SLOWEST, SKIPPED, WHAT};
	static const enum field after_bar[] = {SLOWEST, SKIPPED, AMOUNT, WHAT, RATE, LEFT, DOING};
	const bool bar = *field[PERCENT];
	int cells = bar_cells(field, width);

	for (size_t i = 0; bar && !cells && i < sizeof before_bar / sizeof *before_bar; i++) {
		*field[before_bar[i]] = '\0';
		cells = bar_cells(field, width);
	}
	for (size_t i = 0; columns(field) > width && i < sizeof after_bar / sizeof *after_bar; i++)
		*field[after_bar[i]] = '\0';
	if (columns(field) == 0 && now->joined) { /* truncate it */
		names_field(field[DOING], now->joined);
		terminal_cut(field[DOING], width);
	}
	cells = bar_cells(field, width);
	if (cells)
		draw_bar(field[BAR], cells, fraction(now));
}

char *progress_line(char *buf, size_t cap, int width, const char *what,
                    const struct progress_now *now, double rate)
{
	char field[FIELDS][FIELD_TEXT];
	size_t at = 0;

	fill_fields(field, what, now, rate);
	if (width > 0)
		fit(field, width - 1, now);
	if (cap)
		*buf = '\0';
	for (int i = 0; i < FIELDS && at < cap; i++)
		if (*field[i])
			at += (size_t)snprintf(buf + at, cap - at, "%s%s", at ? "  " : "",
			                       field[i]);
	return buf;
}

/* ---- JSON ---- */

static json_t *real_or_null(double x)
{
	return x >= 0 && isfinite(x) ? json_measured(x) : json_null();
}

static json_t *bytes_json(const struct coll_progress *f)
{
	const struct pipeline_part *part = f->pipeline.part;

	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "compared", (json_int_t)f->compared,
	                 "skipped", (json_int_t)f->skipped, "read",
	                 (json_int_t)part[PIPELINE_READ].done, "sent", (json_int_t)f->sent,
	                 "received", (json_int_t)f->received, "written",
	                 (json_int_t)part[PIPELINE_WRITE].done, "stored",
	                 (json_int_t)part[PIPELINE_STORE].done);
}

json_t *progress_json(const struct progress_now *now, double rate)
{
	json_t *slowest = now->slowest < 0 ? json_null()
	                                   : json_pack("{s:i, s:o}", "rank", now->slowest, "done",
	                                               json_measured(now->slowest_done));

	char names[FIELD_TEXT];
	json_t *object = json_pack("{s:{s:o, s:s, s:I, s:o, s:o, s:o, s:o}}", "progress", "rank",
	                           now->rank < 0 ? json_null() : json_integer(now->rank), "phase",
	                           now->phase, "moved", (json_int_t)now->moved, "total",
	                           now->total ? json_integer((json_int_t)now->total) : json_null(),
	                           "rate", real_or_null(now->counts ? -1 : rate), "left",
	                           real_or_null(time_left(now, rate)), "slowest", slowest);
	if (now->joined && object)
		json_object_set_new(
		        json_object_get(object, "progress"), "joined",
		        json_pack("{s:i, s:i, s:s}", "here", (int)now->joined->here, "size",
		                  (int)now->joined->size,
		                  now->joined->by_host ? "hosts" : "missing",
		                  text_escape(names, sizeof names, now->joined->names)));
	if (now->files && object)
		json_object_set_new(json_object_get(object, "progress"), "bytes",
		                    bytes_json(now->files));
	return object;
}
