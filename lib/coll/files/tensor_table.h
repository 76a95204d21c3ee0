/*
 * The table of the tensors of a job (job_table). The ranks compare a digest of it; if digests
 * differ, the error names the first entry that differs. An entry is the tensor's name with its type
 * and shape, "bf16 (3, 4)", or with the digest of its elements, "digest 0123...".
 */
#ifndef COLLCTL_COLL_FILES_TENSOR_TABLE_H
#define COLLCTL_COLL_FILES_TENSOR_TABLE_H

#include "lib/data/dataset/dataset.h"
#include "lib/job/job.h"

struct tensor_entry {
	const struct tensor *tensor;
	int input, ninputs;    /* the input, of ninputs, if each is processed separately; ninputs
	                        * 0: one set of names */
	bool any_rows;         /* ranks may differ in the length of axis 0: "f32 (*, 4)" */
	bool as_stored;        /* arrays in Fortran and C order differ */
	const uint8_t *digest; /* of its elements; NULL: compare type and shape */
};

/* Fill entry @i. The entries of an input are together, in the order of the names' bytes. */
typedef void tensor_at(void *ctx, size_t i, struct tensor_entry *out);

/* The caller fills the first three members; the others are zero. */
struct tensor_table {
	size_t n;
	tensor_at *at;
	void *ctx;
	/* the page that was shown last, and its first entry */
	uint32_t page;
	size_t first;
};

/* As job_table (job.h) does. */
void tensor_table_show(struct tensor_table *, uint32_t page, struct buf *out);
/* The fact that says whether the ranks compare a table or, of one array, its type and shape. */
void tensor_content_fact(struct intent *, bool one_array);
/* Add the fact "tensors", a digest of the table, and name it as the intent's table. */
int tensor_table_fact(const struct tensor_table *, struct intent *, struct err *err);

#endif
