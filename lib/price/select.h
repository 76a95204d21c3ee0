/*
 * Selection: the choice of `auto`. A candidate is an algorithm of the collective that does not fall
 * back to another for the arguments, that runs joint operations if the operation is one, that gives
 * all ranks identical bits (unless --allow-divergent), that reduces in rank order with --order
 * rank, and that is not for other links (COLL_UNEVEN). The choice is:
 *
 * 1. sums of 16-bit floats that are sent as 16-bit floats, over at most SELECT_DIRECT_MAX ranks:
 *    `direct`, if the collective has it, or `weighted` where that is cheaper. They round once; the
 *    others round every partial sum that they send;
 * 2. else, if the tuning file has measurements of this collective, this number of ranks and this
 *    kind of connection at a size near this one (SELECT_NEAR): the fastest at the nearest size on a
 *    logarithmic scale;
 * 3. else the cheapest by the formula (lib/price/price.h).
 *
 * Algorithms with COLL_DEVICES are no candidates. For a barrier the choice is all_to_one, whose
 * links are those that the command uses without -a.
 *
 * The price of an algorithm depends on the type that it sends, which may be wider (select_wire).
 * With --limit-rate, the port out of a host is at most as fast as the limit, and measurements are
 * ignored, because they were made without it.
 *
 * Pure functions of their arguments, so the same command always gives the same bits. Any thread.
 */
#ifndef COLLCTL_PRICE_SELECT_H
#define COLLCTL_PRICE_SELECT_H

#include "lib/base/err.h"
#include "lib/base/host_name.h"
#include "lib/data/kernels/reduce.h"
#include "lib/price/network.h"
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

/* What `check` has measured of a host. */
struct tuned_host {
	char name[HOST_NAME];
	struct price_port port;
};

/* The contents of a tuning file (tuning.h), which releases it. */
struct select_tuning {
	struct price_model rates;
	struct price_model memory; /* rates through shared memory; valid if its `lends` is true */
	struct select_measured *measured;
	size_t nmeasured;
	struct tuned_host *hosts; /* sorted by name; the names differ */
	size_t nhosts;
	double *trips; /* [nhosts * nhosts]: s, of round trips; 0: not known. NULL: none is */
};

struct select_args {
	enum coll_kind kind;
	int size;
	uint64_t bytes; /* S: of coll_count() elements of dtype */
	enum reduce_op op;
	enum dtype dtype;      /* in the inputs */
	enum dtype out;        /* in the outputs; DTYPE_NONE: dtype */
	bool blocks;           /* the elements are blocks of codes (q8.h) on lanes */
	bool weighted;         /* an average with --weight */
	bool folds;            /* some rank has several inputs */
	const uint32_t *joint; /* as in struct coll_args: of a joint operation */
	bool origin;           /* contributions are differences to --origin */
	bool ordered;          /* --order rank */
	bool divergent;        /* --allow-divergent */
	bool insecure;         /* --insecure */
	bool memory;           /* if all ranks are on one host: they use memory lanes */
	const int *host;       /* as in struct coll_args; NULL: unknown */
	/* If host is not NULL: the number of processors of each host; 0: one for each rank. Else:
	 * the number of processors if all ranks are on one host; 0: they are on several. */
	int host_cpus;
	unsigned base, steps; /* as in struct coll_args */
	bool uneven;          /* alltoall: the ranks divide their arrays differently */
	int root;
	/* Settled, of all hosts (each rank, if host is NULL; one, if all ranks share it); NULL:
	 * nothing is known. */
	const struct network *network;
	const struct select_tuning *tuning; /* NULL: the built-in rates, nothing measured */
};

/* Is an algorithm a candidate? If not, why? */
enum select_verdict {
	SELECT_CANDIDATE,
	SELECT_FALLS_BACK, /* falls back to another on these arguments */
	SELECT_FOLDS,      /* folds pairs, and the operation is joint */
	SELECT_UNORDERED,  /* cannot reduce in rank order */
	SELECT_DIVERGENT,  /* the ranks' results would differ in their bits */
	SELECT_EVEN,       /* is for links that differ, and none do */
};

struct select_price {
	const struct coll_algorithm *alg, *runs; /* runs: what alg resolves to (coll_resolve) */
	enum select_verdict verdict;
	enum dtype wire;      /* the type that it sends */
	uint64_t bytes;       /* of coll_count() elements of that type */
	double formula;       /* seconds */
	double measured;      /* seconds; < 0: not measured */
	uint64_t measured_at; /* the measured size nearest to bytes */
};

/* The reason for the choice: rule 3, 2 or 1 above, or that of a barrier; or the caller of
 * select_all has replaced the choice, because the user has named an algorithm. */
enum select_reason {
	SELECT_BY_FORMULA,
	SELECT_BY_MEASUREMENT,
	SELECT_BY_ROUNDING,
	SELECT_BY_LINKS,
	SELECT_BY_NAME,
};

struct selection {
	const struct coll_algorithm *alg; /* NULL: no candidate */
	enum select_reason reason;
	uint64_t measured_at;        /* the measured size, if a measurement decided */
	struct select_price *prices; /* of every algorithm of the kind, in the table's order */
	size_t nprices;
};

/* The type that @alg sends.
 * - With --order rank: partial sums, and sums of several local inputs, are sent as f64, so that
 *   only the result is rounded.
 * - Else, if a rank has several inputs: 8- and 16-bit floats are sent as f32.
 * - Else, if the algorithm sends partial sums: averages of 16-bit floats and all reductions of
 *   8-bit floats are sent as f32; sums and products of 16-bit floats are rounded at each step. */
enum dtype select_wire(const struct select_args *, const struct coll_algorithm *alg);

/* Choose, with the prices of all algorithms and the reason. ERR_RESOURCE. The caller releases the
 * selection in either case. */
int select_all(const struct select_args *, struct selection *, struct err *err);
void selection_release(struct selection *);
/* The price of @alg; NULL: it has none, because it needs a device. */
const struct select_price *selection_price(const struct selection *, const struct coll_algorithm *);

/* Only the choice; *alg NULL: there is no candidate. ERR_RESOURCE. */
int select_auto(const struct select_args *, const struct coll_algorithm **alg, struct err *err);

/* Do all ranks of @a send through shared memory, as far as is known? */
bool select_in_memory(const struct select_args *a);

/* The price model for @a: the rates of the tuning file or the built-in ones, for this placement of
 * ranks and --insecure, with those of the network. It borrows the network's ports. */
struct price_model select_model(const struct select_args *a);

#endif
