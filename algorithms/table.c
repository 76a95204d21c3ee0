/*
 * The algorithms: rows.h lists them, each page exports its row. Dispatch, help, plan, tests and
 * selection read this table.
 */
#include <string.h>

#include "algorithms/table.h"

#define ALGORITHM(name) extern const struct coll_algorithm name;
#include "algorithms/rows.h"
#undef ALGORITHM

#define ALGORITHM(name) &name,
const struct coll_algorithm *const coll_algorithms[] = {
#include "algorithms/rows.h"
};
#undef ALGORITHM
const size_t coll_algorithms_len = sizeof(coll_algorithms) / sizeof(coll_algorithms[0]);

const struct coll_algorithm *coll_resolve(const struct coll_algorithm *alg,
                                          const struct coll_args *args)
{
	const char *other;

	while (alg->falls_back && (other = alg->falls_back(args)))
		alg = coll_find(alg->kind, other);
	return alg;
}

const struct coll_algorithm *coll_find(enum coll_kind kind, const char *name)
{
	for (size_t i = 0; i < coll_algorithms_len; i++)
		if (coll_algorithms[i]->kind == kind && !strcmp(coll_algorithms[i]->name, name))
			return coll_algorithms[i];
	return NULL;
}

struct sched *coll_build(const struct coll_algorithm *alg, const struct coll_args *args,
                         enum sched_error *error)
{
	*error = sched_check_args(alg->kind, args);
	return *error ? NULL : sched_build(coll_resolve(alg, args), args, error);
}

struct sched *coll_emit(const struct coll_algorithm *alg, const struct coll_args *args,
                        enum sched_error *error)
{
	*error = sched_check_args(alg->kind, args);
	return *error ? NULL : sched_emit(coll_resolve(alg, args), args, error);
}
