/*
 * Do the ranks agree? Compare the values that they give for a fact. The majority counts as right,
 * on a tie the value of the lowest rank; the first rank that differs from it is blamed.
 */
#ifndef COLLCTL_JOB_COORDINATOR_COMPARE_FACTS_H
#define COLLCTL_JOB_COORDINATOR_COMPARE_FACTS_H

#include "lib/job/proto.h"
#include "lib/job/tables.h"

struct disagreement {
	struct err err;   /* the failure; its rank is blamed */
	int with;         /* the lowest rank of the majority with a table to show, if the blamed
	                   * rank has one too; -1: there are no tables to compare */
	bool of_results;  /* found in the vote, not in the intents */
	char head[200];   /* the beginning of a message that names an entry */
	char most[140];   /* the majority: "ranks 0, 2-5" */
	char others[140]; /* the other ranks that differ, likewise; "": none */
	bool single, single_other; /* most, others name one rank */
};

/* Do all ranks that have a fact give the same value? If not, fill @d with the first fact on which
 * they differ: ERR_DISAGREE. */
bool agree_on_facts(const struct intent *const *intents, int size, struct disagreement *d);
/* Do all votes with a digest have the same digest? If not: ERR_INTEGRITY. */
bool agree_on_results(const struct vote *votes, int size, struct disagreement *d);

/* The failure that names the entry in which the tables of d->err.rank and d->with differ first.
 * @noun: what an entry is, "tensor". */
void disagreement_name(const struct disagreement *d, const char *noun,
                       const struct table_difference *entry, struct err *err);

#endif
