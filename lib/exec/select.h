/*
 * Selection: what `auto` takes. Of the algorithms of the collective that serve the arguments as
 * they are and keep identical bits, and with --order rank can add in rank order:
 *
 * 1. sums of 16-bit floats that travel as such, over at most SELECT_DIRECT_MAX ranks: `direct`, if
 *    the collective has it. It rounds once, the others round every partial sum that they send;
 * 2. else, where the tuning file has measurements of this collective, this number of ranks and this
 *    kind of connection at a size near to this one (SELECT_NEAR): the fastest at the nearest, on a
 *    logarithmic scale;
 * 3. else the cheapest by the formula (algorithms/price.h).
 *
 * For a barrier it is all_to_one, whose links are those that the command uses without -a.
 *
 * An algorithm is priced by the bytes that it sends: some types travel wider than they are in the
 * files (select_wire).
 *
 * A pure function of its arguments, so that a script gets the same bits every day.
 */
#ifndef COLLCTL_EXEC_SELECT_H
#define COLLCTL_EXEC_SELECT_H

#include "algorithms/price.h"
#include "lib/base/err.h"
#include "lib/data/reduce.h"

#define SELECT_DIRECT_MAX 32
#define SELECT_NEAR       2 /* powers of two: a measurement speaks for sizes so far from its own */

/* One measurement of an algorithm. */
struct select_measured {
	const struct coll_algorithm *alg;
	int size;
	bool secure;
	uint64_t bytes; /* of coll_count() elements of the type that travels */
	double seconds;
};

/* What a tuning file holds (cmd/tuning.h). */
struct select_tuning {
	struct price_model rates;
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
	int host_cpus; /* all ranks share a host with so many processors; 0: there is a network */
	unsigned base, steps;               /* as in struct coll_args */
	bool uneven;                        /* alltoall: the ranks cut their arrays differently */
	const struct select_tuning *tuning; /* NULL: the built-in rates, nothing measured */
};

/* Why an algorithm may not be taken. */
enum select_verdict {
	SELECT_CANDIDATE,
	SELECT_FALLS_BACK, /* on these arguments it is another one */
	SELECT_UNORDERED,  /* can't add in rank order */
	SELECT_DIVERGENT,  /* bits would differ between the ranks */
};

struct select_price {
	const struct coll_algorithm *alg, *runs; /* runs: what it falls back to, else alg */
	enum select_verdict verdict;
	enum dtype wire;      /* what it sends */
	uint64_t bytes;       /* of coll_count() elements of that */
	double formula;       /* seconds */
	double measured;      /* seconds; < 0: not measured */
	uint64_t measured_at; /* the size, nearest to bytes, that was measured */
};

/* Why the chosen one was taken. */
enum select_reason {
	SELECT_BY_FORMULA,
	SELECT_BY_MEASUREMENT,
	SELECT_BY_ROUNDING,
	SELECT_BY_LINKS,
};

struct selection {
	const struct coll_algorithm *alg; /* NULL: none serves this */
	enum select_reason reason;
	uint64_t measured_at; /* the measured size of the chosen one, if it is by measurement */
	struct select_price *prices; /* of every algorithm of the kind, in the table's order */
	size_t nprices;
};

/* The type in which contributions are added: an average with weights, or of integers, is summed in
 * a wider type and rounded once. */
enum dtype select_summed(const struct select_args *);
/* The type that @alg sends. In rank order nothing is rounded on the way: partial sums, and those of
 * several local inputs, travel in f64. Otherwise 8- and 16-bit floats travel in f32 if a rank has
 * several inputs. Averages of 16-bit floats, and all reductions of 8-bit floats, travel in f32 too
 * if the algorithm sends partial sums; sums and products of 16-bit floats are rounded there. */
enum dtype select_wire(const struct select_args *, const struct coll_algorithm *alg);

/* Choose, and say what for. 0, or -1: out of memory. Release it in either case. */
int select_all(const struct select_args *, struct selection *, struct err *err);
void selection_release(struct selection *);

/* The choice alone; NULL: none serves this, or out of memory. */
const struct coll_algorithm *select_auto(const struct select_args *);

/* The model that prices @a: the tuning file's rates, which are those of this placement, or the
 * built-in ones for it; without TLS where it is --insecure. */
struct price_model select_model(const struct select_args *a);

#endif
