#include "lib/exec/select.h"

#include <string.h>

/* Built-in rates, of machines with a 10 Gbit/s network and TLS. */
#define LATENCY    50e-6  /* of a round, seconds */
#define MESSAGE    5e-6   /* of each message: system calls, wake-ups, a handshake's share */
#define BYTE       0.9e-9 /* of a byte sent, seconds ... */
#define CROWD      0.05   /* ... dearer by this for each message that is under way at a time */
#define DIRECT_MAX 32     /* ranks up to which 16-bit floats prefer the one rounding of direct */

double select_price(const struct coll_algorithm *alg, const struct select_args *a)
{
	const struct coll_args args = {.size = a->size};
	const struct coll_cost c = coll_cost_of(alg, &args);
	double crowd = c.rounds > 0 ? c.messages / c.rounds : 0;
	return c.rounds * LATENCY + c.messages * MESSAGE +
	       c.sent * (double)a->bytes * BYTE * (1 + CROWD * crowd);
}

static bool is_16_bit_sum(const struct select_args *a)
{
	return (a->dtype == DTYPE_F16 || a->dtype == DTYPE_BF16) &&
	       (a->op == REDUCE_SUM || a->op == REDUCE_AVG);
}

static bool may_take(const struct coll_algorithm *alg, const struct select_args *a)
{
	if (alg->kind != a->kind || ((alg->flags & COLL_DIVERGENT) && !a->divergent))
		return false;
	return !a->ordered || (alg->flags & COLL_ORDERED);
}

const struct coll_algorithm *select_auto(const struct select_args *a)
{
	const struct coll_algorithm *best = NULL;
	double best_price = 0;
	if (a->kind == COLL_ALLREDUCE && is_16_bit_sum(a) && a->size <= DIRECT_MAX)
		return coll_find(COLL_ALLREDUCE, "direct");
	for (size_t i = 0; i < coll_algorithms_len; i++) {
		const struct coll_algorithm *alg = &coll_algorithms[i];
		if (!may_take(alg, a))
			continue;
		double price = select_price(alg, a);
		if (!best || price < best_price) {
			best = alg;
			best_price = price;
		}
	}
	return best;
}
