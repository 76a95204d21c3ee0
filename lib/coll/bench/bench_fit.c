/* Fits the rates of the price model to the measurements. */
#include <math.h>
#include <stdlib.h>

#include "lib/coll/bench/bench.h"
#include "lib/price/cost.h"

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

/* What is fitted: the rates @rate of @model, from the rows of one kind of connection. */
struct fit {
	const struct select_tuning *tuning;
	const struct coll_cost *costs;
	bool memory; /* of rows in memory, else of the others */
	struct price_model base, model;
	double *rate[5]; /* of model */
	size_t nrates;
};

/* The mean of the squared logarithm of prediction over measurement, plus a penalty for the distance
 * of the rates from the built-in ones. */
static double misfit(const struct fit *f)
{
	double sum = 0, drift = 0;
	size_t rows = 0;
	for (size_t i = 0; i < f->nrates; i++) {
		const size_t at = (size_t)((const char *)f->rate[i] - (const char *)&f->model);
		const double *base = (const double *)(const void *)((const char *)&f->base + at);
		drift += square(log(*f->rate[i] / *base));
	}
	for (size_t i = 0; i < f->tuning->nmeasured; i++) {
		const struct select_measured *k = &f->tuning->measured[i];
		if (k->memory != f->memory)
			continue;
		const struct price_model placed = price_placed(&f->model, f->memory || !k->secure);
		double price = price_formula(&placed, &f->costs[i], (double)k->bytes);
		sum += price > 0 ? square(log(price / k->seconds)) : 0;
		rows++;
	}
	return sum / (double)(rows + 1) + INERTIA * drift;
}

/* The rates that the measurements do not distinguish are the same. */
static void equate(struct fit *f)
{
	f->model.ingress = f->model.egress;
	if (f->memory)
		f->model.inside = f->model.latency;
}

/* Try a rate multiplied and divided by @factor, and keep the better. True: improved. */
static bool improve(struct fit *f, double *rate, double factor, double *best)
{
	const struct price_model before = f->model;
	const double tries[2] = {*rate * factor, *rate / factor};
	struct price_model keep = before;
	bool better = false;
	for (int i = 0; i < 2; i++) {
		f->model = before;
		*rate = tries[i];
		equate(f);
		const double now = misfit(f);
		if (now < *best) {
			*best = now;
			keep = f->model;
			better = true;
		}
	}
	f->model = keep;
	return better;
}

static void fit(struct fit *f)
{
	double best = misfit(f);
	for (double factor = STEP_MAX; factor > STEP_MIN; factor = sqrt(factor)) {
		bool better = true;
		for (int round = 0; better && round < 50; round++) {
			better = false;
			for (size_t i = 0; i < f->nrates; i++)
				better |= improve(f, f->rate[i], factor, &best);
		}
	}
}

static bool has_rows(const struct select_tuning *t, bool memory)
{
	for (size_t i = 0; i < t->nmeasured; i++)
		if (t->measured[i].memory == memory)
			return true;
	return false;
}

void bench_fit(struct select_tuning *t)
{
	struct coll_cost *costs = calloc(t->nmeasured + 1, sizeof *costs);
	const struct price_model base = price_with_devices(&price_default, &t->rates);
	struct fit f = {.tuning = t, .costs = costs, .base = base, .model = base};
	struct fit in = {.tuning = t, .costs = costs, .memory = true};

	in.base = in.model = price_in_memory(&base, 1, 1);
	t->rates = f.base;
	t->memory = in.base;
	t->memory.lends = has_rows(t, true);
	if (!costs)
		return;
	for (size_t i = 0; i < t->nmeasured; i++)
		costs[i] = cost_of(&t->measured[i]);
	double *const rates[] = {&f.model.latency, &f.model.message, &f.model.egress, &f.model.copy,
	                         &f.model.tls};
	double *const memory[] = {&in.model.latency, &in.model.turn, &in.model.copy,
	                          &in.model.reduce};
	for (f.nrates = 0; f.nrates < 5; f.nrates++)
		f.rate[f.nrates] = rates[f.nrates];
	for (in.nrates = 0; in.nrates < 4; in.nrates++)
		in.rate[in.nrates] = memory[in.nrates];
	if (has_rows(t, false)) {
		fit(&f);
		t->rates = f.model;
	}
	if (t->memory.lends) {
		fit(&in);
		t->memory = in.model;
	}
	free(costs);
}
