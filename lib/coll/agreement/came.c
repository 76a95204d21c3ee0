/* The ranks that take part (--min-ranks): layouts and schedules number them without gaps. */
#include <stdlib.h>
#include <string.h>

#include "lib/coll/agreement/agreement.h"
#include "lib/job/host_groups.h"
#include "lib/job/ranks.h"

int agreement_number(const struct agreement *a, int rank)
{
	return ranks_find(a->came, a->ncame, rank);
}

/* The hosts of those that take part, as in struct coll_args. */
static int list_hosts(struct agreement *a, struct err *err)
{
	bool alone = true;
	if (!(a->host_came = host_groups_of(a->host, a->came, a->ncame, err)))
		return -1;
	for (int k = 0; k < a->ncame; k++)
		alone &= a->host_came[k] == k;
	if (alone) {
		free(a->host_came);
		a->host_came = NULL;
	}
	return 0;
}

int agreement_gather(struct agreement *a, const int *came, int ncame, const int *host,
                     struct err *err)
{
	free(a->host_came);
	a->host_came = NULL;
	a->host = host;
	a->came = came;
	a->ncame = came ? ncame : a->size;
	return came ? list_hosts(a, err) : 0;
}

int vector_list_ranks(struct vector *v, const struct agreement *a, struct err *err)
{
	if (!a->came || v->ranks)
		return 0;
	const size_t n = (size_t)a->ncame;
	if (!(v->ranks = err_calloc(n, sizeof *v->ranks, "the ranks", err)))
		return -1;
	memcpy(v->ranks, a->came, n * sizeof *v->ranks);
	return 0;
}
