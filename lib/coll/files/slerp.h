/*
 * --op slerp:T: a weighted sum of two contributions, in which each tensor has its own weights. They
 * depend on the angle between both, so the data move twice: first divided by their lengths, for the
 * angle, and then with the weights. Internal to lib/coll; see collective.h.
 *
 *   input / length  ──►  the executor: sum  ──►  squares  ──►  angle, weights
 *   input * weight  ──►  the executor: sum  ──►  output
 */
#ifndef COLLCTL_COLL_FILES_SLERP_H
#define COLLCTL_COLL_FILES_SLERP_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"

struct collective;
struct vector;

struct slerp_sum {
	double squares;  /* |u + v|^2 */
	uint8_t lengthy; /* contributions with a length above 0 */
};

struct slerp_tensor {
	double lengths[2];    /* of this rank's contributions; 0: not known here, or 0 */
	struct slerp_sum sum; /* as far as this rank has and stores it, and then of all ranks */
	double weights[2];
};

struct slerp {
	bool measuring; /* the data move for the angle */
	int answered;   /* on the coordinator: ranks that have the answer of the round */
	struct slerp_tensor *tensors; /* [ntensors of the job] */
	struct slerp_sum *all;        /* likewise, on the coordinator: the sums of the round */
};

/* Is @v of the collective interpolated? */
bool slerp_applies(const struct collective *, const struct vector *);
/* Once the vectors are laid out: compute the lengths, for which all inputs are read. Nothing
 * without --op slerp. */
int slerp_prepare(struct collective *, struct err *err);
/* Move the data for the angles, once all ranks are connected, and compute the weights. */
int slerp_measure(struct collective *, struct err *err);
/* job_collect and job_answer of the round in slerp_measure. */
bool slerp_exchanges(const struct collective *);
int slerp_take(struct collective *, struct view part, struct err *err);
void slerp_answer(struct collective *, struct buf *out);
void slerp_release(struct collective *);

/* Make of @n elements @x of local input @input, from element @pos of vector @vector on, what the
 * executor adds: @to, of the vector's wire type. On the reading thread. */
void slerp_weigh(const struct collective *, int vector, int input, void *to, const void *x,
                 uint64_t pos, uint64_t n);
/* Take @n elements of the sum, of the wire type, from element @pos of this rank's output on;
 * @divided: by the divisor. On the writing thread, while slerp.measuring. */
void slerp_store(struct collective *, int vector, const void *sum, uint64_t pos, uint64_t n,
                 bool divided);

#endif
