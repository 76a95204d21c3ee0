#include "lib/coll/files/ties.h"

#include <stdlib.h>

#include "lib/base/offload.h"
#include "lib/coll/collective.h"
#include "lib/data/kernels/delta.h"
#include "lib/data/kernels/kth.h"

/* Inputs whose differences are counted at a time, because each needs KTH_BUCKETS counts. */
#define RANKED  8
#define THREADS 4
/* A sample has KTH_SAMPLE elements in blocks of @SAMPLED. */
#define SAMPLED 256
#define MOST    (STAGING / sizeof(double)) /* elements that are read at once */

struct ranking {
	const struct collective *c;
	uint8_t *x, *origin; /* STAGING bytes each */
	uint8_t *d;          /* differences: KTH_SAMPLE elements */
	uint64_t *count;     /* [most * KTH_BUCKETS] */
	struct kth kth[RANKED];
	int begin, end,
	        most; /* the local inputs of this thread, of which it ranks so many at a time */
	int first, n; /* those that are ranked */
};

/* Read @n elements of the tensor @t of @d from element @at on. */
static int read_tensor(const struct dataset *d, const struct tensor *t, void *buf, uint64_t at,
                       size_t n, struct err *err)
{
	const size_t esize = dtype_size(t->dtype);
	if (offload_stopped(err) < 0)
		return -1;
	return dataset_read_native(d, t, buf, n * esize, at * esize, err);
}

static const struct tensor *tensor_of(const struct ranking *k, size_t index)
{
	return &k->c->transfer.origin.file.data.tensors[index];
}

static int read_origin(struct ranking *k, size_t index, uint64_t at, size_t n, struct err *err)
{
	return read_tensor(&k->c->transfer.origin.file.data, tensor_of(k, index), k->origin, at, n,
	                   err);
}

/* The differences of elements @at to @at + @n - 1 of tensor number @index of the @i-th of the
 * inputs to k->origin. */
static int take(struct ranking *k, int i, size_t index, uint8_t *to, uint64_t at, size_t n,
                struct err *err)
{
	const struct dataset *in = &k->c->transfer.inputs[k->first + i];
	const struct tensor *t = &in->tensors[index];
	if (read_tensor(in, t, k->x, at, n, err) < 0)
		return -1;
	delta_take(k->kth[i].dtype, to, t->dtype, k->x, k->origin, 1, n);
	return 0;
}

/* A sample from all parts of the tensor, or all elements if they are few. Returns its elements, or
 * 0 with *err. */
static size_t take_sample(struct ranking *k, int i, size_t index, struct err *err)
{
	const uint64_t count = tensor_of(k, index)->count;
	const bool all = count <= KTH_SAMPLE;
	const uint64_t blocks = KTH_SAMPLE / SAMPLED, stride = all ? MOST : count / blocks;
	const size_t wide = dtype_size(k->kth[i].dtype);
	size_t n = 0, len;
	for (uint64_t b = 0; n < (all ? count : KTH_SAMPLE); b++, n += len) {
		uint64_t at = b * stride;
		len = !all ? SAMPLED : count - at < MOST ? (size_t)(count - at) : MOST;
		if (!all) /* not in step with the rows of a matrix */
			at += (b * UINT64_C(0x9e3779b97f4a7c15) >> 32) % (stride - SAMPLED + 1);
		if (read_origin(k, index, at, len, err) < 0 ||
		    take(k, i, index, k->d + n * wide, at, len, err) < 0)
			return 0;
	}
	return n;
}

/* One pass over the differences of the inputs whose k-th is not found. */
static int pass(struct ranking *k, size_t index, struct err *err)
{
	const uint64_t count = tensor_of(k, index)->count;
	for (uint64_t at = 0, n; at < count; at += n) {
		n = count - at < MOST ? count - at : MOST;
		if (read_origin(k, index, at, n, err) < 0)
			return -1;
		for (int i = 0; i < k->n; i++) {
			if (k->kth[i].found)
				continue;
			if (take(k, i, index, k->d, at, n, err) < 0)
				return -1;
			kth_add(&k->kth[i], k->d, n);
		}
	}
	for (int i = 0; i < k->n; i++)
		if (!k->kth[i].found)
			kth_next(&k->kth[i]);
	return 0;
}

static bool all_found(const struct ranking *k)
{
	bool found = true;
	for (int i = 0; i < k->n; i++)
		found &= k->kth[i].found;
	return found;
}

/* least[i * stride]: the least magnitude that counts of the i-th input. */
static int rank_tensor(struct ranking *k, const struct vector *v, size_t index, uint64_t *least,
                       size_t stride, struct err *err)
{
	const uint64_t count = tensor_of(k, index)->count;
	if (!count)
		return 0;
	for (int i = 0; i < k->n; i++) {
		kth_init(&k->kth[i], v->wire, delta_kept(k->c->request->param.part, count), count,
		         k->count + (size_t)i * KTH_BUCKETS);
		const size_t n = take_sample(k, i, index, err);
		if (!n)
			return -1;
		kth_sample(&k->kth[i], k->d, n);
	}
	while (!all_found(k))
		if (pass(k, index, err) < 0)
			return -1;
	for (int i = 0; i < k->n; i++)
		least[(size_t)i * stride] = k->kth[i].value;
	return 0;
}

static int rank_vector(struct ranking *k, const struct vector *v, uint64_t *least, struct err *err)
{
	for (k->first = k->begin; k->first < k->end; k->first += k->n) {
		k->n = k->end - k->first < k->most ? k->end - k->first : k->most;
		for (size_t i = 0; i < v->ntensors; i++)
			if (rank_tensor(k, v, k->c->agreed.tensors[v->tensors[i]].index,
			                &least[(size_t)k->first * v->ntensors + i], v->ntensors,
			                err) < 0)
				return -1;
	}
	return 0;
}

/* The inputs of one thread. */
static int rank_all(void *ctx, struct err *err)
{
	struct ranking *k = ctx;
	const struct collective *c = k->c;
	for (int i = 0; i < c->agreed.nvectors; i++)
		if (vector_is_delta(&c->agreed.vectors[i], c->request) &&
		    rank_vector(k, &c->agreed.vectors[i], c->transfer.origin.least[i], err) < 0)
			return -1;
	return 0;
}

static int make_least(struct collective *c, struct err *err)
{
	for (int i = 0; i < c->agreed.nvectors; i++) {
		const struct vector *v = &c->agreed.vectors[i];
		uint64_t **least = &c->transfer.origin.least[i];
		if (!vector_is_delta(v, c->request))
			continue;
		*least = err_calloc((size_t)v->ninputs * v->ntensors + 1, sizeof **least,
		                    "the magnitudes", err);
		if (!*least)
			return -1;
	}
	return 0;
}

static int make_ranking(struct ranking *k, struct err *err)
{
	k->x = err_malloc(STAGING, "staging", err);
	k->origin = err_malloc(STAGING, "staging", err);
	k->d = err_malloc(KTH_SAMPLE * sizeof(double), "the magnitudes", err);
	k->count =
	        err_calloc((size_t)k->most * KTH_BUCKETS, sizeof *k->count, "the magnitudes", err);
	return k->x && k->origin && k->d && k->count ? 0 : -1;
}

/* Each of @n threads, this one among them, ranks some of the inputs. */
static int rank_in_threads(struct collective *c, struct ranking *k, int n, struct err *err)
{
	const int inputs = c->transfer.ninputs;
	int ret = make_least(c, err);
	for (int i = 0; i < n && ret == 0; i++) {
		k[i] = (struct ranking){.c = c,
		                        .begin = inputs * i / n,
		                        .end = inputs * (i + 1) / n,
		                        .most = RANKED / n};
		ret = make_ranking(&k[i], err);
	}
	if (ret == 0)
		ret = offload_share(n, rank_all, k, sizeof *k, err);
	for (int i = 0; i < n; i++) {
		free(k[i].x);
		free(k[i].origin);
		free(k[i].d);
		free(k[i].count);
	}
	return ret;
}

int ties_prepare(void *collective, struct err *err)
{
	struct collective *c = collective;
	const int inputs = c->transfer.ninputs, threads = collective_threads(c);
	int n = threads < THREADS ? threads : THREADS;
	struct ranking *k;
	n = n < inputs ? n : inputs;
	n = n > 1 ? n : 1;
	if (!(k = err_calloc((size_t)n, sizeof *k, "the threads", err)))
		return -1;
	const int ret = rank_in_threads(c, k, n, err);
	free(k);
	return ret;
}
