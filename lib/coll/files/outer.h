/*
 * --outer: the result of a merge is a step of an optimiser, whose momentum is a file beside the
 * output. It is read if it exists, and replaced in the same commit. Internal to lib/coll; see
 * collective.h.
 *
 * Source: Douillard et al., DiLoCo: Distributed low-communication training of language models,
 * 2023.
 */
#ifndef COLLCTL_COLL_FILES_OUTER_H
#define COLLCTL_COLL_FILES_OUTER_H

#include "lib/coll/files/inspect.h"
#include "lib/data/files/extents.h"
#include "lib/data/files/sink.h"

struct collective;
struct intent;

struct outer_state {
	struct inspection file;   /* open if the file exists */
	struct extents *in, *out; /* [nvectors]: the momentum of the vectors' elements, in the file
	                             and in the sink */
	uint8_t *buf;             /* STAGING bytes, of the writing thread */
};

/* At ranks that write: open the file, if it exists, check that it has the floats of input 0, and
 * compute its digest. Nothing without request.outer. */
int outer_open(struct collective *, struct err *err);
/* The ranks' momenta must be equal, if all ranks write. */
void outer_fact(const struct collective *, struct intent *);
/* Add the file to the sink, after the output. */
int outer_name(struct collective *, struct err *err);
void outer_release(struct collective *);

/* As origin_add, for a step of the optimiser; @origin: its elements, @by: the factor of @from. Also
 * writes the new momentum. */
int outer_step(const struct collective *, int vector, void *to, const void *origin,
               const void *from, double by, uint64_t pos, uint64_t n, struct err *err);

#endif
