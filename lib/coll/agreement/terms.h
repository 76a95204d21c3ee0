/*
 * The terms: rank 0's answer to a rank's offer. They are the details of its plan
 * (lib/net/PROTOCOL.md). Pure functions; encoders and decoders as in agree_wire.h.
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
	uint64_t *rows;   /* [size] rows of each rank's array; NULL: all have rows_each, or there is
	                     no terms_form.rows */
	uint64_t rows_each;
	uint64_t *from; /* [size] of an alltoall: the rows from each rank; NULL: all divide in the
	                   same way */
};

struct terms {
	double divisor; /* as in struct agreement, as the next members */
	bool weighted;
	bool keeps_order;
	uint32_t piece;   /* as in struct agreement */
	bool clones;      /* as in struct agreement */
	bool *dropped;    /* [terms_form.nclaims] */
	struct view root; /* the root's offer (offer_content_get), or empty */
	struct vector_terms *vectors;
	uint32_t nvectors;
	/* With terms_form.joint, [size]: the numbers of inputs of the ranks; NULL: all have
	 * inputs_each. Each is at least 1, and their sum at most JOINT_MOST (joint.h). */
	uint64_t *inputs;
	uint64_t inputs_each;
	uint32_t *shares; /* [size], FILL_ALL in all (fill.h); NULL: no algorithm needs them */
	struct rank_files *gathered; /* [size], for the root if it gathers files; else NULL */
};

extern const struct message terms_message;        /* up to dropped */
extern const struct message vector_terms_message; /* up to its rows */

/* Which parts one rank's terms have. */
struct terms_form {
	int size;         /* ranks */
	uint32_t nclaims; /* number of outputs that the rank claimed */
	bool rows;        /* arrays are joined, so their numbers of rows may differ */
	bool from;        /* alltoall: ranks may divide their arrays differently */
	bool gathered;    /* of the root, if it gathers files */
	bool joint;       /* the operation is joint */
};

void terms_put(struct buf *, const struct terms *, const struct terms_form *);
/* Decode all of @v, into which terms.root points. ERR_INTEGRITY. The caller releases the terms in
 * either case. */
int terms_get(struct view v, const struct terms_form *, struct terms *, struct err *err);
/* The shares in terms, which a bench sends, too. *shares: malloced, or NULL: there are none. */
void shares_put(struct buf *, const uint32_t *shares, int size);
int shares_get(struct view *, int size, uint32_t **shares, struct err *err);
void terms_release(struct terms *, const struct terms_form *);

#endif
