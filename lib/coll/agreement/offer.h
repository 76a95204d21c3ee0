/*
 * The offer: what only this rank knows and rank 0 needs, in addition to the facts that all ranks
 * must agree on. It is the details of INTENT (lib/net/PROTOCOL.md). Pure functions; encoders and
 * decoders as in agree_wire.h.
 */
#ifndef COLLCTL_COLL_AGREEMENT_OFFER_H
#define COLLCTL_COLL_AGREEMENT_OFFER_H

#include "lib/coll/agreement/file_list.h"
#include "lib/price/network.h"

/* offer.order if the rank's local inputs differ in their order (C or Fortran). */
#define OFFER_ORDER_MIXED UINT64_MAX

enum offer_has { OFFER_NOTHING, OFFER_ARRAYS, OFFER_FILES };

struct offered_array {
	char *name; /* base name; NULL: without offer_form.names */
	struct array_info info;
	uint64_t *counts; /* [size] rows of each rank; NULL: as evenly as possible */
};

/* What the rank reads. */
struct offer_content {
	enum offer_has has;
	struct offered_array *arrays; /* OFFER_ARRAYS: [narrays] */
	uint32_t narrays;
	struct rank_files
	        *gathered;      /* with offer_form.gathered: its files, one per array; else NULL */
	struct file_list files; /* OFFER_FILES */
};

struct offer {
	double weights; /* of an average: the sum of the weights of this rank's inputs */
	bool weighted;  /* a weight is not 1 */
	uint64_t order; /* hash of the tensors that are in Fortran order; 0: there are none */
	uint64_t reads; /* hash of the identities of the files that it reads; 0: not known, or not
	                   needed */
	bool codes;     /* it can code pieces (coded.h); false if the request has no use for that */
	struct network_found link; /* of its host, and its own limit */
	struct view claims;        /* its outputs, encoded (claims.h) */
	struct view bytes;         /* after decoding: the encoded content */
	struct offer_content content;
};

extern const struct message offer_message;         /* up to its content */
extern const struct message network_found_message; /* a part of it */

/* Which parts the offers of a job have; the same for all ranks. */
struct offer_form {
	int size;      /* ranks */
	bool names;    /* arrays have names */
	bool gathered; /* the content has `gathered` (gather --raw-file) */
};

void offer_put(struct buf *, const struct offer *, const struct offer_form *);
/* Decode all of @v, into which the offer's views point. ERR_INTEGRITY. The caller releases the
 * offer in either case. */
int offer_get(struct view v, const struct offer_form *, struct offer *, struct err *err);
void offer_release(struct offer *);

/* Decode only the content, which other ranks get from the root's offer. The caller releases it in
 * either case. */
int offer_content_get(struct view v, const struct offer_form *, struct offer_content *,
                      struct err *err);
void offer_content_release(struct offer_content *);

#endif
