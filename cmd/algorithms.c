/*
 * algorithms: the registry, as a table or as JSON.
 */
#include <stdio.h>
#include <string.h>

#include "algorithms/table.h"
#include "cmd/commands.h"
#include "cmd/text/columns.h"
#include "lib/sched/sched.h"

static bool is_wanted(const struct coll_algorithm *alg, const char *collective)
{
	return !collective || !strcmp(coll_name(alg->kind), collective);
}

static int print_json(const char *collective)
{
	json_t *list = json_array();

	for (size_t i = 0; i < coll_algorithms_len; i++) {
		const struct coll_algorithm *a = coll_algorithms[i];

		if (is_wanted(a, collective))
			json_array_append_new(
			        list,
			        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b}", "collective",
			                  coll_name(a->kind), "algorithm", a->name, "help", a->help,
			                  "steps", a->steps, "bytes", a->bytes, "restrictions",
			                  a->restrictions, "source", a->source, "joint",
			                  !!(a->flags & COLL_JOINT)));
	}
	return report_json(list);
}

#define REMARKS 17 /* their column */

enum { COLLECTIVE, ALGORITHM, STEPS, BYTES, COLUMNS };

static void fill_cells(const struct coll_algorithm *a, struct table_cell cells[COLUMNS])
{
	cells[COLLECTIVE] = (struct table_cell){.text = coll_name(a->kind)};
	cells[ALGORITHM] = (struct table_cell){.text = a->name};
	cells[STEPS] = (struct table_cell){.text = a->steps};
	cells[BYTES] = (struct table_cell){.text = a->bytes};
}

static void print_algorithm(const struct table *t, const struct coll_algorithm *a)
{
	struct table_cell cells[COLUMNS];

	fill_cells(a, cells);
	table_row(t, cells);
	table_remark(t, REMARKS, a->help);
	if (*a->restrictions)
		table_remark(t, REMARKS, a->restrictions);
	if ((a->flags & COLL_JOINT) && !*a->restrictions)
		table_remark(t, REMARKS, "also median, trimmed:F, ties:D and dare:D,SEED");
	table_remark(t, REMARKS, a->source);
}

static void print_text(const char *collective)
{
	struct table_column columns[COLUMNS] = {
	        [COLLECTIVE] = {.head = "collective", .width = 14},
	        [ALGORITHM] = {.head = "algorithm", .width = 20, .gap = 1},
	        [STEPS] = {.head = "steps", .width = 34, .gap = 1, .begins = true},
	        [BYTES] = {.head = "bytes sent", .width = 10, .gap = 1},
	};
	struct table t = {.columns = columns, .n = COLUMNS};
	struct table_cell cells[COLUMNS];

	for (size_t i = 0; i < coll_algorithms_len; i++) {
		fill_cells(coll_algorithms[i], cells);
		if (is_wanted(coll_algorithms[i], collective))
			table_widen(&t, cells);
	}
	table_fit(&t);
	table_heading(&t);
	for (size_t i = 0; i < coll_algorithms_len; i++)
		if (is_wanted(coll_algorithms[i], collective))
			print_algorithm(&t, coll_algorithms[i]);
	printf("\nSteps and bytes are those of one rank.\n"
	       "P: ranks, S: bytes of a rank's array, b: bytes of a rank's block, k: --base,\n"
	       "   q = ceil(log2 P), L = floor(log2 P)\n");
}

int cmd_algorithms(const struct command *cmd, struct options *o, int argc, char **argv)
{
	const char *collective = argc > 1 ? argv[1] : NULL;
	struct err err = ERR_INIT;
	enum coll_kind kind;

	if (collective && coll_by_name(collective, &kind)) {
		err_set(&err, ERR_USAGE, "%s: unknown collective", collective);
		return report_failure(cmd->name, o->json, &err);
	}
	if (o->json)
		return print_json(collective);
	print_text(collective);
	return 0;
}
