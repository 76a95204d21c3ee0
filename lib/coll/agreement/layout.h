/*
 * Layout: which elements of a vector each rank reads and writes. Pure arithmetic.
 *
 * Rows are elements of axis 0.
 */
#ifndef COLLCTL_COLL_AGREEMENT_LAYOUT_H
#define COLLCTL_COLL_AGREEMENT_LAYOUT_H

#include "lib/coll/request/request.h"
#include "lib/data/formats/array.h"

/* One rank's part of a vector. */
struct vector_layout {
	struct coll_args args; /* off and recv_off are the layout's */
	uint64_t *off, *recv_off;
	struct array_info out; /* of an array: this rank's output, if any */
};

/* The parameters of every rank's layout. */
struct layout_of {
	const struct coll_request *request;
	int size;
	enum coll_kind kind; /* the vector's collective: the request's or, for an average of
	                        integers, broadcast or scatter */
	int root;
	int ninputs; /* number of inputs of this rank that are reduced locally */
	bool stores; /* the result is stored or compared */
	const struct array_info *array;
	const int *host; /* as in struct coll_args */
};

/*
 * Lay out @rank's part. @rows: the rows of every rank's block (CUT_ROWS) or array (CUT_JOINED); for
 * alltoall, the rows that @rank sends to each rank; NULL for CUT_ELEMENTS. @from: for alltoall, the
 * rows that @rank receives from each rank; NULL: all ranks cut their arrays alike. *l must be
 * zeroed or hold another rank's layout. ERR_RESOURCE: too large.
 */
int layout_make(struct vector_layout *l, const struct layout_of *, int rank, const uint64_t *rows,
                const uint64_t *from, struct err *err);
void layout_release(struct vector_layout *);

/* Divide @rows among @size ranks by @counts, or as evenly as possible if NULL. */
void layout_cut_rows(uint64_t rows, const uint64_t *counts, int size, uint64_t *out);
/* Rank @j's part of it. */
uint64_t layout_cut_at(uint64_t rows, const uint64_t *counts, int size, int j);

#endif
