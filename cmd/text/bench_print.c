#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/text/bench_print.h"
#include "cmd/commands.h"
#include "cmd/text/columns.h"
#include "cmd/text/result.h"
#include "lib/base/json.h"
#include "lib/coll/result_json.h"

/* The columns of the table; "time (us)" stands above all times. */
enum { SIZE, COUNT, TYPE, OP, ALGORITHM, MIN, P50, P99, ALGBW, BUSBW, WRONG, COLUMNS };

static const struct table_column all_columns[COLUMNS] = {
        [SIZE] = {.over = "size", .head = "(B)", .width = 12, .right = true},
        [COUNT] = {.over = "count", .head = "(elements)", .width = 12, .gap = 1, .right = true},
        [TYPE] = {.over = "type", .width = 6, .gap = 1, .right = true},
        [OP] = {.over = "op", .width = 5, .gap = 1, .right = true},
        [ALGORITHM] = {.over = "algorithm", .width = 20, .gap = 2},
        [MIN] = {.head = "min", .width = 10, .gap = 1, .right = true, .begins = true},
        [P50] = {.over = "time (us)", .head = "p50", .width = 10, .gap = 1, .right = true},
        [P99] = {.head = "p99", .width = 10, .gap = 1, .right = true},
        [ALGBW] = {.over = "algbw",
                   .head = "(GB/s)",
                   .width = 9,
                   .gap = 1,
                   .right = true,
                   .begins = true},
        [BUSBW] = {.over = "busbw", .head = "(GB/s)", .width = 9, .gap = 1, .right = true},
        [WRONG] = {.over = "#wrong", .width = 7, .gap = 1, .right = true},
};

struct bench_table {
	struct table_column columns[COLUMNS];
	struct table table;
};

/* For the terminal's present width, which may change between two rows. */
static void make_table(struct bench_table *t)
{
	memcpy(t->columns, all_columns, sizeof t->columns);
	t->table = (struct table){.columns = t->columns, .n = COLUMNS, .mark = '#'};
	table_fit(&t->table);
}

const char *bench_way(const struct bench_head *h)
{
	if (h->memory_lanes && h->tcp_lanes)
		return h->insecure ? "memory and plain TCP" : "memory and TLS";
	return h->memory_lanes ? "memory" : h->insecure ? "plain TCP" : "TLS";
}

void bench_print_head(const struct bench_head *h, enum bench_form form)
{
	struct bench_table t;

	if (form == BENCH_CSV)
		puts("size,count,type,op,algorithm,min_us,p50_us,p99_us,algbw,busbw,wrong");
	if (form == BENCH_TABLE)
		printf("# %s of %d rank%s, %s, %d iterations after %d for warm-up\n%s# time of an "
		       "iteration on the slowest rank; %s\n# bandwidths computed from p50; "
		       "GB = 10^9 bytes\n#\n",
		       h->collective, h->size, h->size == 1 ? "" : "s", bench_way(h), h->iters,
		       h->warmup, h->barrier_auto ? "# " BARRIER_AUTO "\n" : "",
		       h->barrier ? "a barrier before each iteration"
		                  : "no barrier between iterations");
	if (form == BENCH_TABLE) {
		make_table(&t);
		table_heading(&t.table);
	}
	fflush(stdout);
}

static void print_cells(const struct bench_head *h, const struct bench_row *r, const char *wrong)
{
	char text[COLUMNS][32];
	struct bench_table t;
	struct table_cell cells[COLUMNS] = {{NULL, TERMINAL_PLAIN}};

	for (int i = 0; i < COLUMNS; i++)
		cells[i].text = text[i];
	snprintf(text[SIZE], sizeof text[SIZE], "%" PRIu64, r->size);
	snprintf(text[COUNT], sizeof text[COUNT], "%" PRIu64, r->count);
	cells[TYPE].text = dtype_name(h->dtype);
	cells[OP].text = h->op;
	cells[ALGORITHM].text = r->algorithm->name;
	snprintf(text[MIN], sizeof text[MIN], "%.1f", r->min * 1e6);
	snprintf(text[P50], sizeof text[P50], "%.1f", r->p50 * 1e6);
	snprintf(text[P99], sizeof text[P99], "%.1f", r->p99 * 1e6);
	snprintf(text[ALGBW], sizeof text[ALGBW], "%.3f", r->algbw / 1e9);
	snprintf(text[BUSBW], sizeof text[BUSBW], "%.3f", r->busbw / 1e9);
	cells[WRONG] = (struct table_cell){wrong, r->wrong ? TERMINAL_BAD : TERMINAL_PLAIN};
	make_table(&t);
	table_row(&t.table, cells);
}

void bench_print_row(const struct bench_head *h, const struct bench_row *r, enum bench_form form)
{
	char wrong[24] = "N/A";
	if (form == BENCH_CSV)
		wrong[0] = '\0';
	if (r->checked)
		snprintf(wrong, sizeof wrong, "%" PRIu64, r->wrong);
	if (form == BENCH_CSV)
		printf("%" PRIu64 ",%" PRIu64 ",%s,%s,%s,%.3f,%.3f,%.3f,%.6f,%.6f,%s\n", r->size,
		       r->count, dtype_name(h->dtype), h->op, r->algorithm->name, r->min * 1e6,
		       r->p50 * 1e6, r->p99 * 1e6, r->algbw / 1e9, r->busbw / 1e9, wrong);
	if (form == BENCH_TABLE)
		print_cells(h, r, wrong);
	fflush(stdout);
}

json_t *bench_row_json(const struct bench_head *h, const struct bench_row *r)
{
	json_t *j = json_pack("{s:I, s:I, s:s, s:s, s:s, s:{s:o, s:o, s:o}}", "size",
	                      (json_int_t)r->size, "count", (json_int_t)r->count, "type",
	                      dtype_name(h->dtype), "op", h->op, "algorithm", r->algorithm->name,
	                      "seconds", "min", json_measured(r->min), "p50", json_measured(r->p50),
	                      "p99", json_measured(r->p99));
	result_json_bandwidths(j, r->algbw, r->busbw);
	json_object_set_new(j, "wrong",
	                    r->checked ? json_integer((json_int_t)r->wrong) : json_null());
	return j;
}
