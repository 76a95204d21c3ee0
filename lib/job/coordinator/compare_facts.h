/*
 * Do the ranks agree? Compares the values that they give for each fact. The value of the majority
 * is right; on a tie, that of the lowest rank. The lowest rank with another value is blamed. Pure.
 */
#ifndef COLLCTL_JOB_COORDINATOR_COMPARE_FACTS_H
#define COLLCTL_JOB_COORDINATOR_COMPARE_FACTS_H

#include "lib/job/proto.h"
#include "lib/job/tables.h"

struct disagreement {
	struct err err; /* the failure; its rank is blamed */
	int with; /* the lowest rank of the majority that has a table, if the blamed rank has one,
	             too; -1: there are no tables to compare */
	bool of_results;           /* found in the vote, not in the intents */
	char head[200];            /* the beginning of a message that names an entry */
	char most[140];            /* the majority: "ranks 0, 2-5" */
	char others[140];          /* the ranks besides the blamed one that differ; "": none */
	bool single, single_other; /* most is one rank; others is one rank */
};

/* Do all ranks that have a fact give the same value? @intents[size]; NULL: the rank is missing. If
 * not, fill @d with the first fact on which they differ; d->err has ERR_DISAGREE. */
bool agree_on_facts(const struct intent *const *intents, int size, struct disagreement *d);
/* Do all votes that have a digest have the same one? If not, fill @d; d->err has ERR_INTEGRITY. */
bool agree_on_results(const struct vote *votes, int size, struct disagreement *d);

/* Set *err to the failure with the name of @entry, the first in which the tables of d->err.rank and
 * d->with differ. @noun: the word for an entry, "tensor". */
void disagreement_name(const struct disagreement *d, const char *noun,
                       const struct table_difference *entry, struct err *err);

#endif
