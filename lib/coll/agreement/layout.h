/*
 * Layout: which elements of a vector each rank reads and writes. Pure arithmetic; any thread. A row
 * is one index of axis 0 of an array. Lengths of blocks are elements.
 */
#ifndef COLLCTL_COLL_AGREEMENT_LAYOUT_H
#define COLLCTL_COLL_AGREEMENT_LAYOUT_H

#include "lib/coll/request/request.h"
#include "lib/data/formats/array.h"

/* One rank's part of a vector. */
struct vector_layout {
	struct coll_args args;    /* its off and recv_off are those below */
	uint64_t *off, *recv_off; /* [size + 1] */
	struct array_info out;    /* of an array: this rank's output, if it has one */
};

/* The parameters that the layouts of all ranks share. They must outlive only the call. */
struct layout_of {
	const struct coll_request *request;
	int size;
	enum coll_kind kind; /* as in struct vector */
	int root;
	int ninputs;           /* number of inputs of this rank that are reduced locally */
	const uint32_t *joint; /* as in struct coll_args */
	bool stores;           /* the result is stored or compared */
	const struct array_info *array;
	uint64_t blocks; /* CUT_ELEMENTS: as in struct vector */
	const int *host; /* as in struct coll_args */
	/* CUT_ELEMENTS: the shares by which the elements are cut (fill.h); NULL: even. */
	const uint32_t *shares;
};

/*
 * Compute the layout of @rank. @rows[size]: the number of rows of each rank's block (CUT_ROWS) or
 * array (CUT_JOINED); of an alltoall, the rows that @rank sends to each rank; NULL for
 * CUT_ELEMENTS. @from[size]: of an alltoall, the rows that @rank receives from each rank; NULL: all
 * ranks divide their arrays in the same way. *l must be zeroed, or have another rank's layout of
 * the same vector. ERR_RESOURCE: also if the result is too large.
 */
int layout_make(struct vector_layout *l, const struct layout_of *, int rank, const uint64_t *rows,
                const uint64_t *from, struct err *err);
void layout_release(struct vector_layout *);

/* Divide @rows among @size ranks into @out[size]: by @counts[size], or as evenly as possible if
 * NULL. */
void layout_cut_rows(uint64_t rows, const uint64_t *counts, int size, uint64_t *out);
/* Rank @j's number of rows in this division. */
uint64_t layout_cut_at(uint64_t rows, const uint64_t *counts, int size, int j);

#endif
