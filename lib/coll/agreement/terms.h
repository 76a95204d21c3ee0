/*
 * The terms: rank 0's answer to each rank in the agreement (the details of its plan,
 * lib/net/PROTOCOL.md). Pure: bytes in, bytes out.
 */
#ifndef COLLCTL_COLL_AGREEMENT_TERMS_H
#define COLLCTL_COLL_AGREEMENT_TERMS_H

#include "lib/coll/agreement/file_list.h"
#include "lib/data/dtype.h"

/* How a vector runs. */
struct vector_terms {
	char algorithm[32];
	enum dtype wire;
	uint32_t windows; /* >= 1 */
	uint64_t *rows;   /* [size] of every rank's array. NULL: all have rows_each, or this job's
	                   * terms have no rows */
	uint64_t rows_each;
	uint64_t *from; /* [size] alltoall: rows from each rank; NULL: all cut alike */
};

struct terms {
	double divisor; /* for an average: the sum of the weights of all inputs */
	bool weighted;  /* some weight is not 1 */
	bool keeps_order;
	bool *dropped;    /* [terms_form.nclaims]: true if another rank writes this output */
	struct view root; /* the root's offer (offer_content_get), or empty */
	struct vector_terms *vectors;
	uint32_t nvectors;
	struct rank_files *gathered; /* [size], for the root if it gathers files; else NULL */
};

extern const struct message terms_message;        /* up to dropped */
extern const struct message vector_terms_message; /* up to its rows */

/* The form of one rank's terms. */
struct terms_form {
	int size;         /* ranks */
	uint32_t nclaims; /* number of outputs that the rank claimed */
	bool rows;        /* arrays are joined: their numbers of rows may differ */
	bool from;        /* alltoall: ranks may cut their arrays differently */
	bool gathered;
};

void terms_put(struct buf *, const struct terms *, const struct terms_form *);
/* Decode all of @v. The view points into @v. ERR_INTEGRITY if malformed. The caller releases the
 * terms in either case. */
int terms_get(struct view v, const struct terms_form *, struct terms *, struct err *err);
void terms_release(struct terms *, const struct terms_form *);

#endif
