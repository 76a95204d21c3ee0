/*
 * Shared by several algorithms: the arithmetic of ranks and blocks, the fold that reduces any
 * number of ranks to a power of two, and phases such as a reduce-scatter, which is also half of an
 * allreduce.
 */
#ifndef COLLCTL_ALGORITHMS_PARTS_BLOCKS_H
#define COLLCTL_ALGORITHMS_PARTS_BLOCKS_H

#include "lib/sched/sched.h"

/* floor(log2 n) and ceil(log2 n) for n >= 1. */
static inline int log2_floor(int n)
{
	int k = 0;

	while (n >> (k + 1))
		k++;
	return k;
}

static inline int log2_ceil(int n)
{
	return n > 1 ? log2_floor(n - 1) + 1 : 0;
}

/* @rank + @d modulo the size, for any @d > -size. */
static inline int rank_add(const struct coll_args *a, int rank, int d)
{
	return (int)(((int64_t)rank + d + a->size) % a->size);
}

/* bruck's k: --base, default 2; a base above the size has the effect of the size. */
static inline int bruck_base(const struct coll_args *a)
{
	if (a->base < 2)
		return 2;
	return a->base < (unsigned)a->size ? (int)a->base : a->size;
}

/* Elements [off, off + len) of the collective. */
struct range {
	uint64_t off, len;
};

static inline struct range block_range(const struct coll_args *a, int j)
{
	return (struct range){a->off[j], a->off[j + 1] - a->off[j]};
}

static inline struct range whole_range(const struct coll_args *a)
{
	return (struct range){0, a->off[a->size]};
}

/* The @count blocks from @first on, modulo the size, as two ranges, of which one may be empty.
 * Sender and receiver divide them in the same way. */
static inline void block_runs(const struct coll_args *a, int first, int count, struct range run[2])
{
	const int end = first + count < a->size ? first + count : a->size;

	run[0] = (struct range){a->off[first], a->off[end] - a->off[first]};
	run[1] = (struct range){0, a->off[first + count - end]};
}

/* Order steps without a data dependency: later steps that use the element at @at wait for the
 * element at @done. @spare is one element of scratch. */
static inline void wait_for(struct sched_builder *b, struct sched_span at, struct sched_span done,
                            struct sched_span spare)
{
	sched_copy(b, spare, at, 1, 0);
	sched_copy(b, at, done, 1, 0);
	sched_copy(b, at, spare, 1, 0);
}

/*
 * The fold (fold.c): let 2^L be the largest power of two not above the size and x = size - 2^L. The
 * first 2x ranks form pairs, and each even one sends its vector to the odd one above it.
 */
struct fold {
	int core;  /* 2^L ranks continue */
	int extra; /* x */
	int id;    /* my number among them, or -1: I have sent my vector and wait */
};

/* Reduce the output buffers' @r onto the core ranks. */
struct fold fold_in(struct sched_builder *b, const struct coll_args *a, struct range r);
/* Return the result to the ranks that wait. */
void fold_out(struct sched_builder *b, const struct coll_args *a, struct range r,
              const struct fold *f);
/* The rank with number @id among the core ranks. */
int fold_rank(const struct fold *f, int id);

/*
 * Phases. They work on the whole vector, whose element 0 is at @work (sched_work). A reduce-scatter
 * folds the rank's inputs into @work and leaves the rank's block complete in its place there; the
 * other blocks are undefined afterwards. An allgather begins with the rank's block in its place and
 * completes the others.
 */

/* Fold @r of the inputs, which hold the whole vector, into its place. */
static inline void work_fold(struct sched_builder *b, struct sched_span work, struct range r)
{
	sched_fold_inputs(b, span_add(work, r.off), r.off, r.len);
}

/* Begin an allgather: copy the rank's input to its place. Returns the work area. */
static inline struct sched_span work_gather_own(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = sched_work(b);
	const struct range own = block_range(a, a->rank);

	sched_fold_inputs(b, span_add(work, own.off), 0, own.len);
	return work;
}

/* End a reduce-scatter: copy the rank's block from its place to the output. */
static inline void work_scatter_own(struct sched_builder *b, const struct coll_args *a,
                                    struct sched_span work)
{
	const struct range own = block_range(a, a->rank);

	sched_copy(b, sched_out(b, 0), span_add(work, own.off), own.len, 0);
}

static inline void work_send(struct sched_builder *b, int peer, struct sched_span work,
                             struct range r)
{
	sched_send(b, peer, span_add(work, r.off), r.len);
}

static inline void work_recv(struct sched_builder *b, int peer, struct sched_span work,
                             struct range r)
{
	sched_recv(b, peer, span_add(work, r.off), r.len);
}

/* Receive @r and add it to the elements in its place. */
static inline void work_add(struct sched_builder *b, int peer, struct sched_span work,
                            struct range r)
{
	const struct sched_span at = span_add(work, r.off);

	sched_recv_reduce(b, peer, at, at, r.len, 0);
}

/*
 * Vector halving among the 2^dim ranks of a cube (halving.c): the vector is halved dim times
 * (halving_piece), and each rank ends with one piece.
 */
struct cube {
	int dim, id;       /* this rank is number id, of 2^dim */
	int pairs, offset; /* number i is rank 2i + 1 for i < pairs, else i + offset */
};

static inline int cube_rank(const struct cube *c, int id)
{
	return id < c->pairs ? 2 * id + 1 : id + c->offset;
}

/* Piece @i of 2^depth pieces of the vector, depth <= L = floor(log2 P). The smallest pieces have
 * ceil(n / 2^L) elements, except at the end of the vector. */
struct range halving_piece(const struct coll_args *a, int depth, unsigned i);
/* The low @bits bits of @x in reverse order: number x of a cube of 2^bits ranks ends with that
 * piece. */
unsigned bit_reverse(unsigned x, int bits);

/* Does not fold the inputs, because earlier steps may have added to the vector. */
void halving_reduce_scatter(struct sched_builder *b, const struct coll_args *a,
                            struct sched_span work, const struct cube *c);
void halving_allgather(struct sched_builder *b, const struct coll_args *a, struct sched_span work,
                       const struct cube *c);

/*
 * Binary blocks (halving_doubling.c). Rank r of the largest block, 0 .. 2^L-1, ends with the
 * complete piece bit_reverse(r, L) of 2^L; the reverse phase begins with it.
 */
void halving_doubling_reduce(struct sched_builder *b, const struct coll_args *a,
                             struct sched_span work);
void halving_doubling_return(struct sched_builder *b, const struct coll_args *a,
                             struct sched_span work);

/* The number of sends of the rank that sends most, with or without the reverse phase. */
double halving_doubling_messages(const struct coll_args *a, bool back);

/* direct.c. @result <- the sum of @mine and the contributions that every rank sends me, added in
 * rank order in the wider type, with the operation's final function. */
void direct_sum(struct sched_builder *b, const struct coll_args *a, struct sched_span mine,
                uint64_t len, struct sched_span result);
/* The complete block is such a sum, at @result, not in its place. */
void direct_reduce_scatter(struct sched_builder *b, const struct coll_args *a,
                           struct sched_span work, struct sched_span result);
void direct_allgather(struct sched_builder *b, const struct coll_args *a, struct sched_span work);

/* ring.c. @pieces: the number of messages per block. The rank first sends block @first and last
 * receives block first + 1. After a reduce-scatter block first + 1 is complete; before an allgather
 * the rank has block @first. */
void ring_reduce_scatter(struct sched_builder *b, const struct coll_args *a, struct sched_span work,
                         int first, int pieces);
void ring_allgather(struct sched_builder *b, const struct coll_args *a, struct sched_span work,
                    int first, int pieces);

#endif
