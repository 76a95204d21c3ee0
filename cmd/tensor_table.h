/*
 * The table of the tensors of a job (job_shows): the ranks compare a digest of it, and where that
 * differs the entry that does is named. An entry is a name and what the tensor is, "bf16 (3, 4)",
 * or what it holds, "digest 0123...".
 */
#ifndef COLLCTL_CMD_TENSOR_TABLE_H
#define COLLCTL_CMD_TENSOR_TABLE_H

#include "lib/data/dataset.h"
#include "lib/job/job.h"

struct tensor_entry {
	const struct tensor *tensor;
	int input, ninputs;    /* which of how many, where each is taken on its own; ninputs 0: one
	                        * set of names */
	bool any_rows;         /* the length of axis 0 is each rank's own: "f32 (*, 4)" */
	bool as_stored;        /* Fortran's order is a difference too */
	const uint8_t *digest; /* of what it holds; NULL: what it is counts */
};

/* Fill entry @i: those of each input together, in the order of the names' bytes. */
typedef void tensor_at(void *ctx, size_t i, struct tensor_entry *out);

/* To be zeroed but for these three. */
struct tensor_table {
	size_t n;
	tensor_at *at;
	void *ctx;
	/* the page that was shown last, and its first entry */
	uint32_t page;
	size_t first;
};

/* job_table, of a struct tensor_table. */
void tensor_table_show(void *table, uint32_t page, struct buf *out);
/* Of one array without a name there is no table, but its facts: a fact says which there are. */
void tensor_content_fact(struct intent *, bool one_array);
/* Make a digest of the table a fact, "tensors", and the intent's table. */
int tensor_table_fact(const struct tensor_table *, struct intent *, struct err *err);

#endif
