/*
 * What the ranks of a bench tell the coordinator, and its answer: as for a collective, the
 * coordinator alone chooses by what all know of their links. The intent's details are a *link*
 * (offer.h), the plan's are the shares (terms.h), and the names of the chosen algorithms, each a
 * string, to the end.
 */
#include "lib/coll/bench/bench.h"

#include <stdlib.h>

#include "algorithms/table.h"
#include "lib/base/fields.h"
#include "lib/coll/agreement/offer.h"
#include "lib/coll/agreement/terms.h"
#include "lib/sched/placement.h"

int bench_network(struct network *n, const int *host, int size, const struct intent *const *intents,
                  bool tuned, struct err *err)
{
	if (network_init(n, hosts_or_ranks(host, size), tuned, err) < 0)
		return -1;
	for (int r = 0; r < size; r++) {
		struct network_found link;
		struct err why = ERR_INIT;

		if (message_get_all(&network_found_message, &link, intents[r]->details, &why) < 0)
			return err_rank(err, why.code, r, "%s", why.text);
		network_add(n, host_of_rank(host, r), &link);
	}
	return 0;
}

void bench_terms_put(struct buf *out, const struct bench_terms *t, int size)
{
	shares_put(out, t->shares, size);
	for (size_t i = 0; i < t->n; i++)
		buf_put_str(out, t->chosen[i]->name);
}

int bench_terms_get(struct view v, enum coll_kind kind, int size, struct bench_terms *t,
                    struct err *err)
{
	char name[64];

	if (shares_get(&v, size, &t->shares, err) < 0)
		return -1;
	while (view_left(&v)) {
		view_str(&v, name, sizeof name);
		const struct coll_algorithm *alg = coll_find(kind, name);
		if (v.failed)
			return malformed(err, "ROSTER", "algorithm");
		if (!alg)
			return err_set(err, ERR_DISAGREE,
			               "chose algorithm %s, which this rank does not know", name);
		if (bench_terms_add(t, alg, err) < 0)
			return -1;
	}
	return 0;
}

int bench_terms_add(struct bench_terms *t, const struct coll_algorithm *alg, struct err *err)
{
	const struct coll_algorithm **grown =
	        err_grow(t->chosen, t->n, sizeof *grown, "the algorithms", err);

	if (!grown)
		return -1;
	t->chosen = grown;
	t->chosen[t->n++] = alg;
	return 0;
}

void bench_terms_release(struct bench_terms *t)
{
	free(t->shares);
	free(t->chosen);
	*t = (struct bench_terms){0};
}
