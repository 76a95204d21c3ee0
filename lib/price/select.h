/*
 * Selection: the choice of `auto`. Candidates are the collective's algorithms that run on the
 * arguments without falling back to another, give all ranks identical bits and, with --order rank,
 * can reduce in rank order. The choice is:
 *
 * 1. sums of 16-bit floats that are sent as 16-bit floats, over at most SELECT_DIRECT_MAX ranks:
 *    `direct`, if the collective has it. It rounds once; the others round every partial sum that
 *    they send;
 * 2. else, if the tuning file has measurements of this collective, this number of ranks and this
 *    kind of connection at a size near this one (SELECT_NEAR): the fastest at the nearest size on a
 *    logarithmic scale;
 * 3. else the cheapest by the formula (lib/price/price.h).
 *
 * Rows that are names for other rows' steps with devices (COLL_DEVICES) are no candidates.
 *
 * For a barrier the choice is all_to_one: its links are those that the command uses without -a.
 *
 * The price of an algorithm depends on the bytes that it sends: it sends some types as wider ones
 * (select_wire). With --limit-rate the port out is no faster than that, and measurements do not
 * count, because they were made without the limit.
 *
 * A pure function of its arguments, so that a script gets the same bits every day.
 */
#ifndef COLLCTL_PRICE_SELECT_H
#define COLLCTL_PRICE_SELECT_H

#include "lib/base/err.h"
#include "lib/data/kernels/reduce.h"
#include "lib/price/price.h"

#define SELECT_DIRECT_MAX 32
#define SELECT_NEAR       2 /* powers of two: the farthest size at which a measurement is used */

/* One measurement of an algorithm. */
struct select_measured {
	const struct coll_algorithm *alg;
	int size;
	bool secure;
	bool memory;    /* all connections were memory lanes */
	uint64_t bytes; /* of coll_count() elements of the wire type */
	double seconds;
};

/* The contents of a tuning file (tuning.h). */
struct select_tuning {
	struct price_model rates;
	struct price_model memory; /* rates in memory; without `lends`: the file has none */
	struct select_measured *measured;
	size_t nmeasured;
};

struct select_args {
	enum coll_kind kind;
	int size;
	uint64_t bytes; /* S: of coll_count() elements of dtype */
	enum reduce_op op;
	enum dtype dtype; /* in the files */
	bool weighted;    /* an average with --weight */
	bool folds;       /* some rank has several inputs */
	bool ordered;     /* --order rank */
	bool divergent;   /* --allow-divergent */
	bool insecure;    /* --insecure */
	bool memory;      /* ranks of one host use memory lanes; several hosts: ignored */
	const int *host;  /* as in struct coll_args; NULL: unknown */
	/* With host: number of processors of each host, 0: one for each rank. Else their number if
	 * all ranks share a host, 0: several hosts. */
	int host_cpus;
	unsigned base, steps; /* as in struct coll_args */
	bool uneven;          /* alltoall: the ranks cut their arrays differently */
	uint64_t limit_rate;  /* bytes per second that the rank with the lowest --limit-rate sends;
	                       * 0: none has one */
	const struct select_tuning *tuning; /* NULL: the built-in rates, nothing measured */
};

/* The reason to exclude an algorithm. */
enum select_verdict {
	SELECT_CANDIDATE,
	SELECT_FALLS_BACK, /* falls back to another on these arguments */
	SELECT_UNORDERED,  /* cannot reduce in rank order */
	SELECT_DIVERGENT,  /* the ranks' results would differ in their bits */
};

struct select_price {
	const struct coll_algorithm *alg, *runs; /* runs: the fallback, else alg */
	enum select_verdict verdict;
	enum dtype wire;      /* the type that it sends */
	uint64_t bytes;       /* of coll_count() elements of that type */
	double formula;       /* seconds */
	double measured;      /* seconds; < 0: not measured */
	uint64_t measured_at; /* the measured size nearest to bytes */
};

/* The reason for the choice. */
enum select_reason {
	SELECT_BY_FORMULA,
	SELECT_BY_MEASUREMENT,
	SELECT_BY_ROUNDING,
	SELECT_BY_LINKS,
};

struct selection {
	const struct coll_algorithm *alg; /* NULL: no candidate */
	enum select_reason reason;
	uint64_t measured_at;        /* the measured size, if a measurement decided */
	struct select_price *prices; /* of every algorithm of the kind, in the table's order */
	size_t nprices;
};

/* The type of the sum: an average with weights, or of integers, is summed in a wider type and
 * rounded once. */
enum dtype select_summed(const struct select_args *);
/* The type that @alg sends. With --order rank, partial sums and sums of several local inputs are
 * sent as f64, so only the result is rounded. Otherwise 8- and 16-bit floats are sent as f32 if a
 * rank has several inputs. If the algorithm sends partial sums, averages of 16-bit floats and all
 * reductions of 8-bit floats are sent as f32 too; sums and products of 16-bit floats are rounded at
 * each step. */
enum dtype select_wire(const struct select_args *, const struct coll_algorithm *alg);

/* Choose, and record the reason. 0, or -1: out of memory. The caller releases the selection in
 * either case. */
int select_all(const struct select_args *, struct selection *, struct err *err);
void selection_release(struct selection *);

/* Only the choice; *alg NULL: no candidate. 0, or -1: out of memory. */
int select_auto(const struct select_args *, const struct coll_algorithm **alg, struct err *err);

/* Do the ranks of @a send to each other through memory, as far as is known? */
bool select_in_memory(const struct select_args *a);

/* The price model for @a: the tuning file's rates, or the built-in rates for this placement of
 * ranks; without the cost of TLS if @a is insecure; with its limit. */
struct price_model select_model(const struct select_args *a);

#endif
