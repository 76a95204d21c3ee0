/*
 * The agreement: what the ranks of a collective have agreed on. vectors.c makes the vectors from
 * this rank's inputs or from the root's offer; agree.c completes them by rank 0's terms. Then the
 * agreement is constant. One thread until then; then any thread may read it.
 */
#ifndef COLLCTL_COLL_AGREEMENT_AGREEMENT_H
#define COLLCTL_COLL_AGREEMENT_AGREEMENT_H

#include "lib/coll/agreement/file_list.h"
#include "lib/coll/agreement/layout.h"
#include "lib/coll/request/request.h"
#include "lib/data/dataset/dataset.h"

/* The contents of the vectors. */
enum content {
	CONTENT_TENSORS, /* one vector per type and, with request.each, per input: its tensors of
	                    this type */
	CONTENT_ARRAYS,  /* one vector per input, which is one array */
	CONTENT_BYTES,   /* one vector: the bytes of all files, unchanged */
	CONTENT_PIECES,  /* one vector: the bytes of the pieces of tensors of all ranks */
};

/* A tensor of the job; the tensors are the same on all ranks. CONTENT_BYTES: a file.
 * CONTENT_PIECES: known after the exchange of tables, to ranks that write. */
struct vector_tensor {
	struct tensor
	        tensor; /* as in the output; the dataset, or the vector, owns name and shape */
	int input;      /* request.each: the index of its input */
	size_t index;   /* its index in the dataset */
	int vector;     /* the index of its vector */
	uint64_t at;    /* its offset in the vector, in elements */
	uint64_t block; /* the same in blocks, if the vector has them */
};

/* Consecutive tensors of one type. One schedule moves one vector. */
struct vector {
	enum coll_kind kind; /* the request's; but broadcast or scatter from rank 0 for an average
	                        of integers that takes rank 0's values */
	enum reduce_op op;
	int root;
	enum dtype dtype, wire; /* in the inputs; in the buffers and on lanes */
	enum dtype out;         /* in the outputs; known with the terms */
	struct array_info info; /* CONTENT_ARRAYS: the input's, or the root's input's if this rank
	                           has none; else a one-dimensional array of all elements */
	uint64_t blocks;   /* of codes (q8.h), which begin anew at each tensor: the elements of the
	                      schedules, with DTYPE_Q8 on lanes; 0: there are none */
	bool equal;        /* INTEGERS_EQUAL: compare received elements with this rank's input */
	bool stores_block; /* store only this rank's block of the received elements */
	bool defer_final;  /* as in struct exec_vector */
	int ninputs;       /* number of local inputs */
	const struct coll_algorithm *algorithm; /* the chosen algorithm */
	uint32_t windows;
	uint64_t *rows, *from; /* as in layout_make; malloced or NULL */
	struct vector_layout layout;
	int *ranks;        /* as in struct exec_vector; malloced */
	uint32_t *tensors; /* [ntensors], in the vector's order */
	size_t ntensors;
};

struct agreement {
	int rank, size, root; /* of the job */
	/* As in the plan, whose memory they are; all ranks until it is known. Layouts and schedules
	 * number the ranks that take part from 0 (agreement_number). */
	const int *host, *came;
	int ncame;
	int *host_came; /* [ncame]: their hosts, as in struct coll_args, if ranks are missing */
	enum content content;
	struct vector *vectors;
	int nvectors;
	struct vector_tensor *tensors; /* sorted by input, then by name */
	size_t ntensors;
	/* CONTENT_TENSORS with request.with_files: the files beside rank 0's tensors. They follow
	 * the tensors in `tensors`, and have the last vector, a broadcast of their bytes. */
	struct file_list beside;
	struct file_list root_files; /* CONTENT_BYTES */
	char **names; /* CONTENT_ARRAYS with request.each: base names of this rank's inputs; if the
	                 collective has a root, of the root's */
	struct rank_files *rank_files; /* [size]; at the root, when gathering files */
	bool weighted;                 /* some rank has a weight other than 1 */
	bool keeps_order; /* the same tensors are in Fortran order on all ranks; the outputs are,
	                     too */
	uint32_t piece;   /* the most bytes of a coded piece between hosts; 0: data are not coded
	                   */
	double divisor;   /* of an average: the sum of the weights of all inputs */
	int exponent;     /* weights and divisor are divided by 2 to the power of this */
	uint32_t *joint;  /* [ncame] of a joint operation: the numbers of inputs of the ranks; else
	                     NULL */
	uint32_t
	        *shares; /* [ncame]: of the ranks in vectors with COLL_WEIGHTED (fill.h); NULL: even
	                  */
	bool *dropped;   /* [nclaims]: another rank writes this output (claims.h) */
	uint32_t nclaims;
	bool clones; /* ranks of a host compare their outputs, to write them once (clones.h) */
};
void agreement_release(struct agreement *);

/* ---- came.c ---- */

/* The number of a rank among those that take part; -1: it is missing. */
int agreement_number(const struct agreement *, int rank);
/* The hosts of those that take part, as in struct coll_args. */
static inline const int *agreement_hosts(const struct agreement *a)
{
	return a->came ? a->host_came : a->host;
}
/* The plan is known: who takes part, and where, as in the plan. */
int agreement_gather(struct agreement *, const int *came, int ncame, const int *host,
                     struct err *err);
/* If ranks are missing, list the others as the vector's. */
int vector_list_ranks(struct vector *, const struct agreement *, struct err *err);

/* Does this rank read an input? Write an output? */
static inline bool agreement_reads(const struct agreement *a, const struct coll_request *r)
{
	return coll_reads(r->kind, a->rank, a->size, a->root);
}
static inline bool agreement_writes(const struct agreement *a, const struct coll_request *r)
{
	return coll_writes(r->kind, a->rank, a->size, a->root);
}
/* The number of tensors and of files beside them. */
static inline size_t agreement_entries(const struct agreement *a)
{
	return a->ntensors + (size_t)a->beside.nfiles;
}
/* Has vector @i files beside tensors? */
static inline bool agreement_is_beside(const struct agreement *a, int i)
{
	return a->beside.nfiles && i == a->nvectors - 1;
}
/* Do all ranks get the same bits? Once the algorithms are known. */
bool agreement_replicates(const struct agreement *, const struct coll_request *);
/* Consecutive blocks of one tensor. */
struct block_run {
	size_t i;       /* index of the tensor among the vector's */
	uint64_t n;     /* blocks */
	uint64_t at;    /* the element of the vector at which they begin */
	uint64_t count; /* elements */
};
/* The first blocks of [pos, pos + n) of a vector that has blocks: at most those of one tensor. */
struct block_run vector_block_run(const struct agreement *, const struct vector *, uint64_t pos,
                                  uint64_t n);
/* The element at which position @at of the vector's schedule begins: its own number, or that of the
 * first element of block @at. */
uint64_t vector_element(const struct agreement *, const struct vector *, uint64_t at);
/* Are the vector's contributions differences to request.origin? */
bool vector_is_delta(const struct vector *, const struct coll_request *);
/* Does @alg give the ranks results that differ in their bits? */
bool vector_diverges(const struct vector *, const struct coll_algorithm *alg);

/* ---- vectors.c ---- */

/* Make the vectors of the inputs @inputs[n], which must outlive the agreement. ERR_INPUT,
 * ERR_USAGE. */
int vectors_of_inputs(struct agreement *, const struct coll_request *, const struct dataset *inputs,
                      int n, struct err *err);
/* Make one vector of the bytes of a->root_files. */
int vectors_of_files(struct agreement *, const struct coll_request *, struct err *err);
/* Make the vector of the @bytes that this rank sends of a folder, in a gather. */
int vectors_of_folder(struct agreement *, const struct coll_request *, uint64_t bytes,
                      struct err *err);
/* Add the vector of a->beside, unless it has no files. */
int vectors_add_beside(struct agreement *, struct err *err);
/* Make @n vectors of arrays, without info, which the caller fills. */
int vectors_of_arrays(struct agreement *, int n, struct err *err);
/* Set the collective and the operation of a vector, whose dtype is set. @ninputs: this rank's
 * number of inputs. */
void vector_serve(struct vector *, const struct agreement *, const struct coll_request *,
                  int ninputs);

/* The parameters of the vector's layouts. */
struct layout_of vector_layout_of(const struct vector *, const struct agreement *,
                                  const struct coll_request *);

#endif
