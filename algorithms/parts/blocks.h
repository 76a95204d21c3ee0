/*
 * Shared by several algorithms: the arithmetic of ranks and blocks; the fold, which reduces any
 * number of ranks to a power of two; and phases, such as a reduce-scatter, which is also the first
 * half of an allreduce.
 *
 * A phase appends the steps of one rank, a->rank, to its builder @b ("I" and "the rank" below). All
 * offsets and lengths are elements. The builder keeps errors (sched.h). The .c files name the
 * sources.
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

/* The radix of bruck: --base, default 2, at most the size. */
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

/* Blocks @first to @first + @count - 1, modulo the size, as two ranges; one of them may be empty.
 * Sender and receiver get the same division. */
static inline void block_runs(const struct coll_args *a, int first, int count, struct range run[2])
{
	const int end = first + count < a->size ? first + count : a->size;

	run[0] = (struct range){a->off[first], a->off[end] - a->off[first]};
	run[1] = (struct range){0, a->off[first + count - end]};
}

/* Make later steps that use the element at @at wait until the element at @done is written, by
 * copies that add a data dependency. The value at @at does not change. @spare is one element of
 * scratch. */
static inline void wait_for(struct sched_builder *b, struct sched_span at, struct sched_span done,
                            struct sched_span spare)
{
	sched_copy(b, spare, at, 1, 0);
	sched_copy(b, at, done, 1, 0);
	sched_copy(b, at, spare, 1, 0);
}

/*
 * The fold (fold.c): let 2^L be the largest power of two not above the size, and x = size - 2^L.
 * The first 2x ranks form pairs (0, 1), (2, 3), ...; the even rank of a pair sends its vector to
 * the odd one. The odd ranks of pairs and the ranks from 2x on are the 2^L core ranks; they
 * continue.
 */
struct fold {
	int core;  /* 2^L */
	int extra; /* x */
	int id;    /* my number among the core ranks; -1: I am none, and wait for the result */
};

/* Reduce the range @r of the output buffers to the core ranks. */
struct fold fold_in(struct sched_builder *b, const struct coll_args *a, struct range r);
/* Send the result in @r to the ranks that wait. */
void fold_out(struct sched_builder *b, const struct coll_args *a, struct range r,
              const struct fold *f);
/* The rank with number @id among the core ranks. */
int fold_rank(const struct fold *f, int id);

/*
 * Phases on the work area: element i of the whole vector is at @work + i (sched_work). A
 * reduce-scatter folds the rank's inputs into @work. Afterwards the rank's own block there is
 * complete, and the other blocks are undefined. An allgather needs the rank's own block in @work;
 * afterwards all blocks are complete.
 */

/* Fold the range @r of the inputs, which hold the whole vector, into the work area. */
static inline void work_fold(struct sched_builder *b, struct sched_span work, struct range r)
{
	sched_fold_inputs(b, span_add(work, r.off), r.off, r.len);
}

/* Begin an allgather: copy the rank's input to its block of the work area, which is returned. */
static inline struct sched_span work_gather_own(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = sched_work(b);
	const struct range own = block_range(a, a->rank);

	sched_fold_inputs(b, span_add(work, own.off), 0, own.len);
	return work;
}

/* End a reduce-scatter: copy the rank's block from the work area to the output. */
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

/* Receive the range @r and add it to the elements in the work area. */
static inline void work_add(struct sched_builder *b, int peer, struct sched_span work,
                            struct range r)
{
	const struct sched_span at = span_add(work, r.off);

	sched_recv_reduce(b, peer, at, at, r.len, 0);
}

/*
 * Vector halving among the 2^dim ranks of a cube (halving.c): the vector is halved dim times, and
 * each rank ends with one of the 2^dim pieces (halving_piece).
 */
struct cube {
	int dim, id;       /* this rank has number id of 0 .. 2^dim - 1 */
	int pairs, offset; /* the rank with number i is 2i + 1 for i < pairs, else i + offset */
};

static inline int cube_rank(const struct cube *c, int id)
{
	return id < c->pairs ? 2 * id + 1 : id + c->offset;
}

/* Piece @i of 2^depth pieces of the vector, depth <= L = floor(log2 P). The pieces at depth L have
 * ceil(n / 2^L) elements, but fewer or none at the end of the vector. */
struct range halving_piece(const struct coll_args *a, int depth, unsigned i);
/* The low @bits bits of @x in reverse order. In a cube of 2^bits ranks, number x ends with the
 * piece of this index. */
unsigned bit_reverse(unsigned x, int bits);

/* Unlike other reduce-scatters, does not fold the inputs: earlier steps may have reduced into the
 * work area. */
void halving_reduce_scatter(struct sched_builder *b, const struct coll_args *a,
                            struct sched_span work, const struct cube *c);
void halving_allgather(struct sched_builder *b, const struct coll_args *a, struct sched_span work,
                       const struct cube *c);

/*
 * Binary blocks (halving_doubling.c): the ranks are divided into groups whose sizes are the powers
 * of two in the binary representation of the size. Rank r of the largest group, 0 .. 2^L-1, ends
 * halving_doubling_reduce with the complete piece bit_reverse(r, L) of 2^L. halving_doubling_return
 * begins with this piece and completes the vector on all ranks.
 */
void halving_doubling_reduce(struct sched_builder *b, const struct coll_args *a,
                             struct sched_span work);
void halving_doubling_return(struct sched_builder *b, const struct coll_args *a,
                             struct sched_span work);

/* The number of sends of the rank that sends most, in halving_doubling_reduce and, with @back, in
 * halving_doubling_return. */
double halving_doubling_messages(const struct coll_args *a, bool back);

/* direct.c. Receive @len elements from every other rank, reduce them and @mine in rank order in the
 * wider type, apply the operation's final function, and store them at @result. */
void direct_sum(struct sched_builder *b, const struct coll_args *a, struct sched_span mine,
                uint64_t len, struct sched_span result);
/* A reduce-scatter whose block is computed by direct_sum. It is complete at @result, not in
 * @work. */
void direct_reduce_scatter(struct sched_builder *b, const struct coll_args *a,
                           struct sched_span work, struct sched_span result);
void direct_allgather(struct sched_builder *b, const struct coll_args *a, struct sched_span work);

/* direct.c: add rank @q's contribution to @acc; this rank's is at @mine. @first: it is the first
 * one. */
void direct_add(struct sched_builder *b, const struct coll_args *a, int q, bool first,
                struct sched_span acc, struct sched_span mine, uint64_t len);
/* direct.c: the two phases, also of a joint operation; and their cost, if the largest block is
 * @part of the vector. */
void direct_allreduce(struct sched_builder *b, const struct coll_args *a);
void direct_allreduce_cost(const struct coll_args *a, double part, struct coll_cost *c);

/* direct.c, for joint operations (COLL_JOINT). Send the range @r of each of my inputs to @peer, as
 * it is; receive the range @r of all contributions into scratch, and join them to @result; both,
 * for the blocks of a reduce-scatter. */
void joint_send(struct sched_builder *b, const struct coll_args *a, int peer, struct range r);
void joint_take(struct sched_builder *b, const struct coll_args *a, struct range r,
                struct sched_span result);
void joint_reduce_scatter(struct sched_builder *b, const struct coll_args *a,
                          struct sched_span result);

/* The numbers of inputs: of all ranks together; of the rank with least and of the rank with most,
 * of which rank @without (-1: none) is none. */
struct joint_load {
	double all, least, most;
};
struct joint_load joint_load_of(const struct coll_args *a, int without);

/* ring.c. Each block is sent in @pieces messages. The rank sends block @first first, and receives
 * block @first + 1 (modulo the size) last. After the reduce-scatter, block @first + 1 is complete.
 * The allgather needs block @first. */
void ring_reduce_scatter(struct sched_builder *b, const struct coll_args *a, struct sched_span work,
                         int first, int pieces);
void ring_allgather(struct sched_builder *b, const struct coll_args *a, struct sched_span work,
                    int first, int pieces);

#endif
