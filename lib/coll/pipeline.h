/*
 * How far a rank is with its data: bytes that are through each stage, weighted by the time that a
 * byte is predicted to take there. The stages work at the same time on different parts of the data.
 * Pure functions.
 */
#ifndef COLLCTL_COLL_PIPELINE_H
#define COLLCTL_COLL_PIPELINE_H

#include <stdint.h>

enum pipeline_stage {
	PIPELINE_READ,  /* from the inputs */
	PIPELINE_MOVE,  /* sent to and received from other ranks, and reduced */
	PIPELINE_WRITE, /* to the outputs */
	PIPELINE_STORE, /* on disk, unless --no-sync */
	PIPELINE_STAGES
};

struct pipeline {
	struct pipeline_part {
		uint64_t done, total; /* bytes. `total` may be an estimate */
		uint32_t weight;      /* of a byte, 1 to PIPELINE_HEAVIEST */
	} part[PIPELINE_STAGES];
};
#define PIPELINE_HEAVIEST 256

/* Set the weights, in proportion to the predicted @seconds of a byte in each stage; none is 0, so
 * that each byte counts. Without predictions, zeros, all are 1. */
void pipeline_weigh(struct pipeline *, const double seconds[PIPELINE_STAGES]);

/* The weighted bytes: *@done of *@total, which is never exceeded. *@done grows with the bytes of
 * each stage. */
void pipeline_count(const struct pipeline *, uint64_t *done, uint64_t *total);

/* The part that is done, 0 to 1; 1 if there is nothing to do. */
double pipeline_done(const struct pipeline *);

/* All is done. */
void pipeline_complete(struct pipeline *);

#endif
