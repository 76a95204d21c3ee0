/*
 * The table of a job's tensors (job_table). The ranks compare a digest of it; if the digests
 * differ, the error names the first entry that differs. An entry is a tensor's name, and as its
 * value the type and shape, "bf16 (3, 4)", or the digest of its elements, "digest 0123...". One
 * thread.
 */
#ifndef COLLCTL_COLL_FILES_TENSOR_TABLE_H
#define COLLCTL_COLL_FILES_TENSOR_TABLE_H

#include "lib/data/dataset/dataset.h"
#include "lib/job/job.h"

struct tensor_entry {
	const struct tensor *tensor;
	int input, ninputs; /* if inputs are processed separately: its input, of ninputs; ninputs 0:
	                       all tensors have different names */
	bool any_rows;      /* the length of axis 0 is not compared: "f32 (*, 4)" */
	bool as_stored;     /* Fortran order and C order are different */
	const uint8_t *digest; /* the value is this digest; NULL: type and shape */
};

/* Fill entry @i. Entries are sorted by input, then by the bytes of the names. */
typedef void tensor_at(void *ctx, size_t i, struct tensor_entry *out);

/* The caller fills the first three members; the others are zero. */
struct tensor_table {
	size_t n;
	tensor_at *at;
	void *ctx;
	/* the last page that was shown, and the index of its first entry */
	uint32_t page;
	size_t first;
};

/* As job_table (job.h). */
void tensor_table_show(struct tensor_table *, uint32_t page, struct buf *out);
/* Add the fact that says whether the rank has a table or one array. */
void tensor_content_fact(struct intent *, bool one_array);
/* Add the fact "tensors", the digest of the table, and set intent.table to it. ERR_RESOURCE. */
int tensor_table_fact(const struct tensor_table *, struct intent *, struct err *err);

#endif
