/* Fits the rates of the price model to the measurements. */
#include <math.h>
#include <stdlib.h>

#include "lib/coll/bench.h"

#define STEP_MAX 2.0  /* factor of the first tries */
#define STEP_MIN 1.01 /* ... and of the last */

#define INERTIA 0.01 /* weight of the built-in rates: unmeasured rates stay near them */

static double square(double x)
{
	return x * x;
}

/* The closed-form cost of a measured case; zero on lack of memory. */
static struct coll_cost cost_of(const struct select_measured *k)
{
	struct coll_args args = {.size = k->size, .ninputs = 1, .noutputs = 1, .esize = 1};
	uint64_t *off = calloc((size_t)k->size + 1, sizeof *off);
	struct coll_cost cost = {0};

	if (off) {
		coll_split(k->bytes, k->size, off);
		args.off = off;
		cost = coll_cost_of(k->alg, &args);
	}
	free(off);
	return cost;
}

/* The mean of the squared logarithm of prediction over measurement, plus a penalty for the distance
 * of the rates from the built-in ones. */
static double misfit(const struct select_tuning *t, const struct coll_cost *costs,
                     const struct price_model *m)
{
	const struct price_model *d = &price_default;
	double sum = 0, drift = square(log(m->latency / d->latency)) +
	                        square(log(m->message / d->message)) +
	                        square(log(m->egress / d->egress)) +
	                        square(log(m->copy / d->copy)) + square(log(m->tls / d->tls));
	for (size_t i = 0; i < t->nmeasured; i++) {
		const struct select_measured *k = &t->measured[i];
		const struct price_model placed = price_placed(m, !k->secure);
		double price = price_formula(&placed, &costs[i], (double)k->bytes);
		sum += price > 0 ? square(log(price / k->seconds)) : 0;
	}
	return sum / (double)(t->nmeasured + 1) + INERTIA * drift;
}

/* Try @rate multiplied and divided by @factor, and keep the better. True: improved. Both ports have
 * one rate, because the measurements do not distinguish them. */
static bool improve(const struct select_tuning *t, const struct coll_cost *costs,
                    struct price_model *m, double *rate, double factor, double *best)
{
	const struct price_model before = *m;
	const double tries[2] = {*rate * factor, *rate / factor};
	struct price_model keep = before;
	bool better = false;
	for (int i = 0; i < 2; i++) {
		*m = before;
		*rate = tries[i];
		m->ingress = m->egress;
		const double now = misfit(t, costs, m);
		if (now < *best) {
			*best = now;
			keep = *m;
			better = true;
		}
	}
	*m = keep;
	return better;
}

void bench_fit(struct select_tuning *t)
{
	struct price_model *m = &t->rates;
	double *const rates[] = {&m->latency, &m->message, &m->egress, &m->copy, &m->tls};
	struct coll_cost *costs = calloc(t->nmeasured + 1, sizeof *costs);
	*m = price_default;
	if (!costs)
		return;
	for (size_t i = 0; i < t->nmeasured; i++)
		costs[i] = cost_of(&t->measured[i]);
	double best = misfit(t, costs, m);
	for (double factor = STEP_MAX; factor > STEP_MIN; factor = sqrt(factor)) {
		bool better = true;
		for (int round = 0; better && round < 50; round++) {
			better = false;
			for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
				better |= improve(t, costs, m, rates[i], factor, &best);
		}
	}
	free(costs);
}
