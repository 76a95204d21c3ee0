/*
 * Do the ranks agree? What they say of a thing is compared. Most are taken to be right, on a tie
 * those with the lowest rank, and the first who differs from them is blamed.
 */
#ifndef COLLCTL_JOB_AGREE_H
#define COLLCTL_JOB_AGREE_H

#include "lib/job/proto.h"
#include "lib/job/tables.h"

struct disagreement {
	struct err err;   /* the failure; its rank is who is blamed */
	int with;         /* the lowest who is with most and can show its table, as who is blamed
	                   * can; -1: there are no tables to compare */
	bool of_results;  /* by the vote */
	char head[200];   /* what an entry's name is put behind, and whose table it is in */
	char most[140];   /* "ranks 0, 2-5" */
	char others[140]; /* the further dissenters, likewise; "": none */
	bool single, single_other; /* these are one rank */
};

/* Do all ranks that have a fact say the same of it? If not, fill @d with the first fact in order of
 * which they don't: ERR_DISAGREE. */
bool agree_on_facts(const struct intent *const *intents, int size, struct disagreement *d);
/* Do all that voted with a digest have the same? If not: ERR_INTEGRITY. */
bool agree_on_results(const struct vote *votes, int size, struct disagreement *d);

/* The failure that names the entry in which the tables of d->err.rank and d->with differ first.
 * @noun: what an entry is, "tensor". */
void disagreement_name(const struct disagreement *d, const char *noun,
                       const struct table_difference *entry, struct err *err);

#endif
