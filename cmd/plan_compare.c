/*
 * plan --compare: the prices of every algorithm of a collective, by formula and simulated.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/plan.h"
#include "cmd/result.h"

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
	line->price = price;
	line->cost = coll_cost_of(price->alg, &p->args);
}

/* Simulate the algorithm if its schedules have at most *left steps, which are then subtracted. */
static void simulate(const struct planned *p, struct line *line, uint64_t *left)
{
	const struct coll_algorithm *alg = line->price->alg;
	uint64_t steps;

	if (!simulate_estimate(alg, &p->args, &steps, line->why))
		return;
	if (steps > *left && steps < SIMULATE_STEPS_MAX) {
		snprintf(line->why, sizeof line->why,
		         "too many steps in all, %" PRIu64 " here; plan -a %s -r 0 simulates it",
		         steps, alg->name);
		return;
	}
	line->is_simulated = simulate_algorithm(&p->model, alg, &p->args,
	                                        (unsigned)dtype_size(line->price->wire),
	                                        &line->simulated, line->why);
	if (line->is_simulated)
		*left -= steps;
}

/* ---- as text ---- */

static void print_line(const struct planned *p, const struct line *l)
{
	const struct selection *s = &p->selection;
	const struct select_price *price = l->price;
	char simulated[24] = "-", measured[24] = "", leaves[32] = "", remark[96];
	const double bytes = l->cost.sent * (double)price->bytes;

	if (l->is_simulated)
		snprintf(simulated, sizeof simulated, "%.3f", l->simulated.seconds * 1e3);
	if (s->reason == SELECT_BY_MEASUREMENT)
		snprintf(measured, sizeof measured, "  %12s", "-");
	if (price->measured >= 0)
		snprintf(measured, sizeof measured, "  %12.3f", price->measured * 1e3);
	price_remark(s, price, remark, sizeof remark);
	if (p->host)
		snprintf(leaves, sizeof leaves, " %16.0f", l->cost.leaves * (double)price->bytes);
	printf("%-20s %8.0f %10.0f %16.0f%s %12.3f %12s%s%s%s\n", price->alg->name, l->cost.rounds,
	       l->cost.messages, bytes, leaves, price->formula * 1e3, simulated, measured,
	       *remark ? "  " : "", remark);
	if (!l->is_simulated)
		printf("%-20s   not simulated: %s\n", "", l->why);
}

static void print_text(const struct planned *p, const struct line *lines, size_t n)
{
	const bool measured = p->selection.reason == SELECT_BY_MEASUREMENT;
	char rates[256];

	printf("%s of %d ranks, %" PRIu64 " bytes of %s; %s\n", coll_name(p->kind), p->args.size,
	       p->select.bytes, dtype_name(p->select.dtype),
	       plan_rates_words(p, rates, sizeof rates));
	printf("%-20s %8s %10s %16s%s %12s %12s%s\n", "", "", "", "",
	       p->host ? "           out of" : "", "formula", "simulated",
	       measured ? "      measured" : "");
	printf("%-20s %8s %10s %16s%s %12s %12s%s\n", "algorithm", "steps", "messages",
	       "bytes sent", p->host ? "           a host" : "", "(ms)", "(ms)",
	       measured ? "          (ms)" : "");
	for (size_t i = 0; i < n; i++)
		print_line(p, &lines[i]);
	puts("steps: messages in sequence; messages and bytes: of the rank that sends most");
	if (measured)
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
	return report_json(
	        json_pack("{s:s, s:i, s:i, s:I, s:I, s:s, s:s, s:b, s:o, s:o}", "collective",
	                  coll_name(p->kind), "size", p->args.size, "root", p->args.root, "count",
	                  (json_int_t)coll_count(&p->args), "bytes", (json_int_t)p->select.bytes,
	                  "op", reduce_op_name(p->select.op), "dtype", dtype_name(p->select.dtype),
	                  "insecure", (int)p->select.insecure, "algorithm",
	                  p->selection.alg ? json_string(p->selection.alg->name) : json_null(),
	                  "algorithms", list));
}

int plan_compare(const struct planned *p, struct err *err)
{
	const size_t n = p->selection.nprices;
	struct line *lines = calloc(n + 1, sizeof *lines);
	uint64_t left = COMPARED_STEPS_MAX;
	int code = 0;

	if (!lines)
		return err_nomem(err, "the prices", (n + 1) * sizeof *lines);
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
