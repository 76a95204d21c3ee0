/*
 * --origin: the contributions of a merge are the differences of the inputs to a file that all ranks
 * have, and the result is added to it. Internal to lib/coll; see collective.h.
 *
 *   input - origin  ──►  what ties or dare keep of it  ──►  the executor: a joint operation
 *   output  ◄──  origin + scale * result
 */
#ifndef COLLCTL_COLL_FILES_ORIGIN_H
#define COLLCTL_COLL_FILES_ORIGIN_H

#include "lib/coll/files/inspect.h"
#include "lib/data/files/extents.h"

struct collective;
struct intent;

struct origin {
	struct inspection file; /* open if file.open; its tensors are those of input 0 */
	struct extents *places; /* [nvectors]: the bytes of the vectors' elements in it */
	/* ties: [nvectors][ninputs * ntensors of the vector]: the least magnitude that counts, as
	 * bits */
	uint64_t **least;
	uint64_t *keys;        /* dare: [ntensors], of random numbers */
	uint32_t first;        /* dare: the number of this rank's first contribution */
	uint8_t *read, *write; /* origin's elements: for the reading and for the writing thread */
};

/* Open it, check that it has the tensors of input 0, and compute its digest, which the ranks
 * compare. Nothing without request.origin. */
int origin_open(struct collective *, struct err *err);
void origin_fact(const struct collective *, struct intent *);
/* Once the vectors are laid out, before the first read: map the files; ties: find what counts,
 * which reads all inputs. */
int origin_prepare(struct collective *, struct err *err);
void origin_release(struct collective *);

/* For files beside the inputs, as the momentum (outer.h): compute the digest in a thread, unless it
 * is a dry run; read @n elements from element @pos of the @places on. */
int origin_digest(const struct collective *, struct inspection *, struct err *err);
int origin_read(const struct dataset *, const struct extents *places, enum dtype dtype, uint8_t *to,
                uint64_t pos, uint64_t n, struct err *err);

/* Make of @n elements @x of local input @input, from element @pos of vector @vector on, the
 * contribution @to, of the vector's wire type. On the reading thread. */
int origin_subtract(const struct collective *, int vector, int input, void *to, const void *x,
                    uint64_t pos, uint64_t n, struct err *err);
/* Make of @n elements @from of the result, of the wire type, elements @pos and on of this rank's
 * output @to. On the writing thread. */
int origin_add(const struct collective *, int vector, void *to, const void *from, uint64_t pos,
               uint64_t n, struct err *err);

#endif
