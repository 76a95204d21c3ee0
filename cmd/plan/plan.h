/*
 * plan: plan.c builds the schedules, plan_print.c prints them, plan_compare.c prints the prices of
 * all algorithms, plan_svg.c and plan_compare_svg.c draw.
 */
#ifndef COLLCTL_CMD_PLAN_PLAN_H
#define COLLCTL_CMD_PLAN_PLAN_H

#include "cmd/options/options.h"
#include "lib/price/select.h"
#include "lib/price/simulate.h"
#include "lib/price/traffic.h"
#include "lib/proof/verifier.h"

struct planned {
	const struct options *o;
	/* the problem */
	enum coll_kind kind;
	struct coll_args args;
	uint64_t *off;
	uint32_t *joint; /* of a joint operation: one input of each rank; else NULL */
	int *host;       /* --hosts: of each rank; else NULL */
	int *one_host;   /* [size], zeros: --host-cpus without --hosts; else NULL */
	uint64_t item;   /* bytes of an element */
	struct select_tuning tuning;
	struct network network; /* --rates; else without hosts */
	uint32_t *shares;       /* [size] for algorithms with COLL_WEIGHTED */
	uint64_t *weighted_off; /* [size + 1]: args.off by these */
	struct select_args select;
	struct price_model model;
	struct selection selection;
	/* the algorithm (not with --compare) */
	const struct coll_algorithm *alg, *runs; /* runs: what alg resolves to (coll_resolve) */
	enum dtype wire;                         /* the type that it sends */
	struct coll_cost cost;
	double formula;        /* seconds */
	struct sched **scheds; /* [size]; NULL: not built */
	bool alone; /* only the schedule of --rank is built, because there are too many; the members
	               below are not set */
	char why[SIMULATE_TEXT];
	struct sched_figures figures;
	struct traffic traffic; /* with --hosts */
	struct simulation simulated;
	bool verified;
};

/* Read --hosts: the host of each rank, malloced even if it fails, and their number. */
int plan_hosts(const char *text, int **host, int *size, struct err *err);

/* The arguments of @runs: the blocks are even or, with COLL_WEIGHTED, by the rates of the hosts. */
struct coll_args plan_args(const struct planned *, const struct coll_algorithm *runs);

/* "TLS, rates of tuning.json": the basis of the prices. */
const char *plan_rates_words(const struct planned *, char *text, size_t cap);

#define PLAN_HOSTS 64
/* A part of a title: " on hosts 4x4"; " on 64 hosts" if --hosts is long; "" if it is not given.
 * PLAN_HOSTS bytes suffice. Returns @text. */
char *plan_hosts_words(const struct planned *, char *text, size_t cap);

/* The most ranks whose steps are printed as text if no rank is given. */
#define PLAN_STEPS_RANKS 16

/* @rank -1: the steps of all ranks, or none if there are more than PLAN_STEPS_RANKS. */
void plan_print_text(const struct planned *, int rank);
/* Returns the exit code. */
int plan_print_json(const struct planned *, int rank);

/* Draw the finished plan, all ranks of it, into the file of --svg. */
int plan_svg(const struct planned *, struct err *err);
/* --compare: draw the predicted time against the size, a line for each algorithm. */
int plan_compare_svg(const struct planned *, struct err *err);

/* Price every algorithm of the collective, and print. Returns the exit code, or -1: out of memory.
 */
int plan_compare(const struct planned *, struct err *err);

#endif
