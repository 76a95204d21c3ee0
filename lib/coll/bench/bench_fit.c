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
	struct coll_args args = {.size = k->size, .ninputs = 1, .stores = true, .esize = 1};
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

/* The rates that are fitted. */
enum rate { LATENCY, MESSAGE, EGRESS, COPY, TLS, REDUCE, TURN };
static const enum rate connection_rates[] = {LATENCY, MESSAGE, EGRESS, COPY, TLS};
static const enum rate memory_rates[] = {LATENCY, TURN, COPY, REDUCE};
#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* What is fitted: the @rates of @model, from the rows of one kind of connection. */
struct fit {
	const struct select_tuning *tuning;
	const struct coll_cost *costs;
	bool memory; /* of rows in memory, else of the others */
	struct price_model base, model;
	const enum rate *rates;
	size_t nrates;
};

static double *rate_of(struct price_model *m, enum rate rate)
{
	switch (rate) {
	case LATENCY:
		return &m->latency;
	case MESSAGE:
		return &m->message;
	case EGRESS:
		return &m->egress;
	case COPY:
		return &m->copy;
	case TLS:
		return &m->tls;
	case REDUCE:
		return &m->reduce;
	case TURN:
		break;
	}
	return &m->turn;
}

/* The mean of the squared logarithm of prediction over measurement, plus a penalty for the distance
 * of the rates from the built-in ones. */
static double misfit(struct fit *f)
{
	double sum = 0, drift = 0;
	size_t rows = 0;
	for (size_t i = 0; i < f->nrates; i++)
		drift += square(
		        log(*rate_of(&f->model, f->rates[i]) / *rate_of(&f->base, f->rates[i])));
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
static bool improve(struct fit *f, enum rate rate, double factor, double *best)
{
	const struct price_model before = f->model;
	const double old = *rate_of(&f->model, rate);
	const double tries[2] = {old * factor, old / factor};
	struct price_model keep = before;
	bool better = false;
	for (int i = 0; i < 2; i++) {
		f->model = before;
		*rate_of(&f->model, rate) = tries[i];
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
				better |= improve(f, f->rates[i], factor, &best);
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
	const struct price_model base_in = price_in_memory(&base, 1, 1);
	struct fit f = {.tuning = t,
	                .costs = costs,
	                .base = base,
	                .model = base,
	                .rates = connection_rates,
	                .nrates = LENGTH(connection_rates)};
	struct fit in = {.tuning = t,
	                 .costs = costs,
	                 .memory = true,
	                 .base = base_in,
	                 .model = base_in,
	                 .rates = memory_rates,
	                 .nrates = LENGTH(memory_rates)};

	t->rates = f.base;
	t->memory = in.base;
	t->memory.lends = has_rows(t, true);
	if (!costs)
		return;
	for (size_t i = 0; i < t->nmeasured; i++)
		costs[i] = cost_of(&t->measured[i]);
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
