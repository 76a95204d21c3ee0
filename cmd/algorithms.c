/*
 * algorithms: the registry, as a table or as JSON.
 */
#include <stdio.h>
#include <string.h>

#include "algorithms/sched.h"
#include "cmd/commands.h"

/* The names of those of @kind that have @flags, after what @names holds. */
static void list_names(enum coll_kind kind, unsigned flags, char *names, size_t cap)
{
	size_t n = strlen(names);

	for (size_t i = 0; i < coll_algorithms_len; i++) {
		const struct coll_algorithm *a = &coll_algorithms[i];

		if (a->kind == kind && (a->flags & flags) == flags && n < cap)
			n += (size_t)snprintf(names + n, cap - n, "%s%s", n ? ", " : "", a->name);
	}
}

int algorithm_named(enum coll_kind kind, const char *name, const struct coll_algorithm **out,
                    struct err *err)
{
	char names[256] = "auto";

	*out = coll_find(kind, name);
	if (*out || !strcmp(name, "auto"))
		return 0;
	list_names(kind, 0, names, sizeof names);
	return err_set(err, ERR_USAGE, "--algorithm: %s has no algorithm '%s'; expected one of %s",
	               coll_name(kind), name, names);
}

int algorithm_orders(const struct coll_algorithm *alg, struct err *err)
{
	char names[256] = "";

	if (alg->flags & COLL_ORDERED)
		return 0;
	list_names(alg->kind, COLL_ORDERED, names, sizeof names);
	return err_set(err, ERR_USAGE,
	               "--algorithm %s can't add in rank order: take one that can (%s), or leave "
	               "--order rank out",
	               alg->name, names);
}

int operation_named(enum coll_kind kind, const char *name, enum reduce_op *out, struct err *err)
{
	if (reduce_op_by_name(name, out) < 0)
		return err_set(err, ERR_USAGE, "--op: '%s' is no operation", name);
	if ((kind == COLL_SCAN || kind == COLL_EXSCAN) && *out == REDUCE_AVG)
		return err_set(err, ERR_USAGE,
		               "--op avg is not defined for %s, whose ranks have different numbers "
		               "of terms: take sum",
		               coll_name(kind));
	return 0;
}

int options_fit(const struct options *o, enum coll_kind kind, int size, struct err *err)
{
	if (o->root >= size)
		return err_set(err, ERR_USAGE, "--root %d: the ranks of %d are 0 to %d", o->root,
		               size, size - 1);
	if (kind == COLL_EXCHANGE && size % (1 << o->steps))
		return err_set(err, ERR_USAGE,
		               "--steps %d: %d, two to that power, does not divide the %d ranks",
		               o->steps, 1 << o->steps, size);
	return 0;
}

static bool is_wanted(const struct coll_algorithm *alg, const char *collective)
{
	return !collective || !strcmp(coll_name(alg->kind), collective);
}

static int print_json(const char *collective)
{
	json_t *list = json_array();

	for (size_t i = 0; i < coll_algorithms_len; i++) {
		const struct coll_algorithm *a = &coll_algorithms[i];

		if (is_wanted(a, collective))
			json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}",
			                                      "collective", coll_name(a->kind),
			                                      "algorithm", a->name, "help", a->help,
			                                      "steps", a->steps, "bytes", a->bytes,
			                                      "restrictions", a->restrictions,
			                                      "source", a->source));
	}
	return report_json(list);
}

static void print_text(const char *collective)
{
	printf("%-14s %-20s %-34s %s\n", "collective", "algorithm", "steps", "bytes sent");
	for (size_t i = 0; i < coll_algorithms_len; i++) {
		const struct coll_algorithm *a = &coll_algorithms[i];

		if (!is_wanted(a, collective))
			continue;
		printf("%-14s %-20s %-34s %s\n", coll_name(a->kind), a->name, a->steps, a->bytes);
		printf("%-14s   %s\n", "", a->help);
		if (*a->restrictions)
			printf("%-14s   %s\n", "", a->restrictions);
		printf("%-14s   %s\n", "", a->source);
	}
	printf("\nper rank; P ranks, S bytes of a rank's array, q = ceil(log2 P), L = floor(log2 "
	       "P)\n");
}

int cmd_algorithms(const struct command *cmd, struct options *o, int argc, char **argv)
{
	const char *collective = argc > 1 ? argv[1] : NULL;
	struct err err = {.rank = ERR_RANK_SELF};
	enum coll_kind kind;

	if (collective && coll_by_name(collective, &kind)) {
		err_set(&err, ERR_USAGE, "%s: unknown collective", collective);
		return report_failure(cmd->name, o->json, &err, -1, "start");
	}
	if (o->json)
		return print_json(collective);
	print_text(collective);
	return 0;
}
