/*
 * The offer: a rank's own data in the agreement, in addition to the facts that must be the same on
 * all ranks (the details of INTENT, lib/net/PROTOCOL.md). Pure: bytes in, bytes out.
 */
#ifndef COLLCTL_COLL_AGREEMENT_OFFER_H
#define COLLCTL_COLL_AGREEMENT_OFFER_H

#include "lib/coll/agreement/file_list.h"

/* The order of a rank whose local inputs differ in their order. */
#define OFFER_ORDER_MIXED UINT64_MAX

enum offer_has { OFFER_NOTHING, OFFER_ARRAYS, OFFER_FILES };

struct offered_array {
	char *name; /* base name; NULL: offers of this job have no names */
	struct array_info info;
	uint64_t *counts; /* [size] rows of each rank; NULL: as even as possible */
};

/* The content that only this rank knows. */
struct offer_content {
	enum offer_has has;
	struct offered_array *arrays; /* OFFER_ARRAYS: [narrays] */
	uint32_t narrays;
	struct rank_files *gathered; /* gather --raw-file: one per array; else NULL */
	struct file_list files;      /* OFFER_FILES */
};

struct offer {
	double weights; /* of an average: their sum over this rank's inputs */
	bool weighted;  /* some of them is not 1 */
	uint64_t order; /* hash of the tensors in Fortran order; 0: none */
	uint64_t reads; /* a hash of the files that it reads; 0: not known, or of no interest */
	uint64_t limit_rate; /* bytes per second; 0: none */
	struct view claims;  /* the outputs that it writes, encoded (claims.h) */
	struct view bytes;   /* after decoding: the encoded content */
	struct offer_content content;
};

extern const struct message offer_message; /* up to its content */

/* The form of all offers of a job. */
struct offer_form {
	int size;      /* ranks */
	bool names;    /* arrays have names */
	bool gathered; /* a list of gathered files follows */
};

void offer_put(struct buf *, const struct offer *, const struct offer_form *);
/* Decode all of @v. The views point into @v. ERR_INTEGRITY if malformed. The caller releases the
 * offer in either case. */
int offer_get(struct view v, const struct offer_form *, struct offer *, struct err *err);
void offer_release(struct offer *);

/* Decode only the content; rank 0 forwards the root's. The caller releases it in either case. */
int offer_content_get(struct view v, const struct offer_form *, struct offer_content *,
                      struct err *err);
void offer_content_release(struct offer_content *);

#endif
