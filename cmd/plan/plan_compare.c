/*
 * plan --compare: the prices of every algorithm of a collective, by formula and simulated.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/plan/plan.h"
#include "cmd/text/columns.h"
#include "cmd/text/explain.h"
#include "lib/price/cost.h"

/* The most steps of all algorithms together that are simulated, the fastest by formula first: some
 * seconds of work. */
#define COMPARED_STEPS_MAX (SIMULATE_STEPS_MAX / 8 * 3)

struct line {
	const struct select_price *price;
	struct coll_cost cost;
	struct simulation simulated;
	bool is_simulated;
	char why[SIMULATE_TEXT]; /* the reason if it is not */
};

/* Compares by price; algorithms that fall back to another come last. */
static int cmp_lines(const void *pa, const void *pb)
{
	const struct select_price *a = ((const struct line *)pa)->price;
	const struct select_price *b = ((const struct line *)pb)->price;
	const bool other_a = a->verdict == SELECT_FALLS_BACK;
	const bool other_b = b->verdict == SELECT_FALLS_BACK;

	if (other_a != other_b)
		return other_a - other_b;
	if (a->formula < b->formula || a->formula > b->formula)
		return a->formula < b->formula ? -1 : 1;
	return a < b ? -1 : a > b; /* in the table's order */
}

static void fill(const struct planned *p, const struct select_price *price, struct line *line)
{
	const struct coll_args args = plan_args(p, price->runs);

	line->price = price;
	line->cost = coll_cost_on(price->alg, &args, p->model.ports);
}

/* Simulate the algorithm if its schedules have at most *left steps, which are then subtracted. */
static void simulate(const struct planned *p, struct line *line, uint64_t *left)
{
	const struct coll_algorithm *alg = line->price->alg;
	const struct coll_args args = plan_args(p, line->price->runs);
	uint64_t steps;

	if (!simulate_estimate(alg, &args, &steps, line->why))
		return;
	if (steps > *left && steps < SIMULATE_STEPS_MAX) {
		snprintf(line->why, sizeof line->why,
		         "too many steps in all, %" PRIu64 " here; plan -a %s -r 0 simulates it",
		         steps, alg->name);
		return;
	}
	line->is_simulated =
	        simulate_algorithm(&p->model, alg, &args, (unsigned)dtype_size(line->price->wire),
	                           &line->simulated, line->why);
	if (line->is_simulated)
		*left -= steps;
}

/* ---- as text ---- */

enum { NAME, STEPS, MESSAGES, SENT, LEAVES, FORMULA, SIMULATED, MEASURED, REMARK, COLUMNS };

static const struct table_column all_columns[COLUMNS] = {
        [NAME] = {.head = "algorithm", .width = 20},
        [STEPS] = {.head = "steps", .width = 8, .gap = 1, .right = true},
        [MESSAGES] = {.head = "messages", .width = 10, .gap = 1, .right = true},
        [SENT] = {.head = "bytes sent", .width = 16, .gap = 1, .right = true},
        [LEAVES] = {.over = "out of", .head = "a host", .width = 16, .gap = 1, .right = true},
        [FORMULA] = {.over = "formula",
                     .head = "(ms)",
                     .width = 12,
                     .gap = 1,
                     .right = true,
                     .begins = true},
        [SIMULATED] = {.over = "simulated", .head = "(ms)", .width = 12, .gap = 1, .right = true},
        [MEASURED] = {.over = "measured", .head = "(ms)", .width = 12, .gap = 2, .right = true},
        [REMARK] = {.gap = 2, .begins = true},
};

/* The columns that a plan has, and a row of them. */
struct prices_table {
	const struct planned *p;
	struct table_column columns[COLUMNS];
	struct table table;
	int chosen[COLUMNS];
	struct table_cell row[COLUMNS];
	char number[COLUMNS][32], remark[96];
};

static void choose_columns(struct prices_table *t)
{
	const struct planned *p = t->p;
	int n = 0;

	for (int i = 0; i < COLUMNS; i++) {
		if ((i == LEAVES && !p->host) ||
		    (i == MEASURED && p->selection.reason != SELECT_BY_MEASUREMENT))
			continue;
		t->chosen[n] = i;
		t->columns[n++] = all_columns[i];
	}
	t->table = (struct table){.columns = t->columns, .n = n};
}

/* "-" for a negative number, which is not known. */
static void write_number(struct prices_table *t, int column, int decimals, double x)
{
	char *text = t->number[column];

	if (x < 0)
		strcpy(text, "-");
	else
		snprintf(text, sizeof t->number[column], "%.*f", decimals, x);
}

static void fill_row(struct prices_table *t, const struct line *l)
{
	const struct selection *s = &t->p->selection;
	const struct select_price *price = l->price;
	const double bytes = (double)price->bytes;
	const enum terminal_style style = price->alg == s->alg ? TERMINAL_CHOSEN : TERMINAL_PLAIN;

	write_number(t, STEPS, 0, l->cost.rounds);
	write_number(t, MESSAGES, 0, l->cost.messages);
	write_number(t, SENT, 0, l->cost.sent * bytes);
	write_number(t, LEAVES, 0, l->cost.leaves * bytes);
	write_number(t, FORMULA, 3, price->formula * 1e3);
	write_number(t, SIMULATED, 3, l->is_simulated ? l->simulated.seconds * 1e3 : -1);
	write_number(t, MEASURED, 3, price->measured * 1e3);
	price_remark(s, price, t->remark, sizeof t->remark);
	for (int i = 0; i < t->table.n; i++) {
		const int c = t->chosen[i];
		const char *text = c == NAME     ? price->alg->name
		                   : c == REMARK ? t->remark
		                                 : t->number[c];

		t->row[i] = (struct table_cell){text, style};
	}
}

static void print_table(const struct planned *p, const struct line *lines, size_t n)
{
	struct prices_table t = {.p = p};

	choose_columns(&t);
	for (size_t i = 0; i < n; i++) {
		fill_row(&t, &lines[i]);
		table_widen(&t.table, t.row);
	}
	table_fit(&t.table);
	table_heading(&t.table);
	for (size_t i = 0; i < n; i++) {
		fill_row(&t, &lines[i]);
		table_row(&t.table, t.row);
		if (!lines[i].is_simulated)
			printf("%-20s   not simulated: %s\n", "", lines[i].why);
	}
}

static void print_text(const struct planned *p, const struct line *lines, size_t n)
{
	char rates[256];

	printf("%s of %d rank%s, %" PRIu64 " bytes of %s; %s\n", coll_name(p->kind), p->args.size,
	       p->args.size == 1 ? "" : "s", p->select.bytes, dtype_name(p->select.dtype),
	       plan_rates_words(p, rates, sizeof rates));
	print_table(p, lines, n);
	puts("steps: messages in sequence; messages and bytes: of the rank that sends most");
	if (p->args.devices)
		printf("simulated with %d device%s a rank; the formula leaves devices out\n",
		       p->args.devices, p->args.devices == 1 ? "" : "s");
	if (p->selection.reason == SELECT_BY_MEASUREMENT)
		printf("measured with %" PRIu64 " bytes\n", p->selection.measured_at);
}

/* ---- as JSON ---- */

static json_t *json_line(const struct planned *p, const struct line *l)
{
	const struct selection *s = &p->selection;
	const struct select_price *price = l->price;
	const double bytes = (double)price->bytes;
	char remark[96];

	price_remark(s, price, remark, sizeof remark);
	return json_pack(
	        "{s:s, s:s, s:s, s:b, s:b, s:s, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o}",
	        "algorithm", price->alg->name, "runs", price->runs->name, "wire",
	        dtype_name(price->wire), "candidate", price->verdict == SELECT_CANDIDATE, "taken",
	        price->alg == s->alg, "remark", remark, "steps", l->cost.rounds, "messages",
	        l->cost.messages, "bytes_sent", l->cost.sent * bytes, "bytes_received",
	        l->cost.received * bytes, "formula", price->formula, "simulated",
	        l->is_simulated ? json_real(l->simulated.seconds) : json_null(), "not_simulated",
	        l->is_simulated ? json_null() : json_string(l->why), "measured",
	        price->measured >= 0 ? json_real(price->measured) : json_null());
}

static int print_json(const struct planned *p, const struct line *lines, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_line(p, &lines[i]));
	return report_json(json_pack(
	        "{s:s, s:b, s:s, s:i, s:i, s:I, s:I, s:s, s:s, s:b, s:o, s:o, s:n}", "command",
	        "plan", "ok", 1, "collective", coll_name(p->kind), "size", p->args.size, "root",
	        p->args.root, "count", (json_int_t)coll_count(&p->args), "bytes",
	        (json_int_t)p->select.bytes, "op", reduce_op_name(p->select.op), "dtype",
	        dtype_name(p->select.dtype), "insecure", (int)p->select.insecure, "algorithm",
	        p->selection.alg ? json_string(p->selection.alg->name) : json_null(), "algorithms",
	        list, "error"));
}

int plan_compare(const struct planned *p, struct err *err)
{
	const size_t n = p->selection.nprices;
	struct line *lines = err_calloc(n + 1, sizeof *lines, "the prices", err);
	uint64_t left = COMPARED_STEPS_MAX;
	int code = 0;

	if (!lines)
		return -1;
	for (size_t i = 0; i < n; i++)
		fill(p, &p->selection.prices[i], &lines[i]);
	qsort(lines, n, sizeof *lines, cmp_lines);
	for (size_t i = 0; i < n; i++)
		simulate(p, &lines[i], &left);
	if (p->o->json)
		code = print_json(p, lines, n);
	else
		print_text(p, lines, n);
	free(lines);
	return code;
}
