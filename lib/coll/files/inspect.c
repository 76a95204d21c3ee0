#include "lib/coll/files/inspect.h"

#include <stdlib.h>

#define PIECE DIGEST_PIECE /* a multiple of every element size */

int inspect_open(struct inspection *in, const char *path, const struct input_source *from,
                 struct err *err)
{
	if (inputs_open(&in->data, path, from, err) < 0)
		return -1;
	in->open = true;
	return inputs_select(&in->data, from, err);
}

void inspect_release(struct inspection *in)
{
	if (in->open)
		dataset_close(&in->data);
	in->open = false;
	free(in->digests);
	free(in->stats);
	in->digests = NULL;
	in->stats = NULL;
}

/* ---- reading ---- */

struct reading {
	struct inspection *in;
	struct digest *digest;
	uint8_t *buf;
	int (*step)(void *ctx, struct err *err);
	void *ctx;
};

static int read_tensor(struct reading *r, size_t i, uint64_t base, struct err *err)
{
	struct inspection *in = r->in;
	const struct tensor *t = &in->data.tensors[i];
	struct stats *stats = in->stats && dtype_has_arithmetic(t->dtype) ? &in->stats[i] : NULL;

	for (uint64_t at = 0, n; at < t->bytes; at += n) {
		n = t->bytes - at < PIECE ? t->bytes - at : PIECE;
		if (dataset_read(&in->data, t, r->buf, n, at, err) < 0)
			return -1;
		if (t->swapped)
			dataset_swap(t->dtype, r->buf, n / dtype_size(t->dtype));
		digest_update(r->digest, base + at, r->buf, n);
		if (stats)
			stats_add(stats, t->dtype, r->buf, n / dtype_size(t->dtype));
		in->moved += n;
		if (r->step(r->ctx, err) < 0)
			return -1;
	}
	return 0;
}

static int read_tensors(struct reading *r, struct err *err)
{
	const struct dataset *d = &r->in->data;
	uint64_t base = 0;

	for (size_t i = 0; i < d->ntensors; i++) {
		if (read_tensor(r, i, base, err) < 0)
			return -1;
		base += d->tensors[i].bytes;
	}
	/* Every piece came in order, so nothing is read back. */
	if (digest_final(r->digest, NULL, NULL, r->in->digests, err) < 0)
		return -1;
	return dataset_unchanged(d, err);
}

/* Combine the tensors' digests. */
static int join_digests(struct inspection *in, struct err *err)
{
	const struct dataset *d = &in->data;
	const char **names;
	int ret;

	names = calloc(d->ntensors + 1, sizeof *names);
	for (size_t i = 0; names && i < d->ntensors; i++)
		names[i] = d->tensors[i].name;
	ret = names ? digest_names(names, in->digests, d->ntensors, in->digest) : -1;
	free(names);
	return ret < 0 ? err_nomem(err, "the digest", d->ntensors * sizeof *names) : 0;
}

static struct digest *start_digest(const struct dataset *d)
{
	const struct tensor **tensors = calloc(d->ntensors + 1, sizeof *tensors);
	const uint64_t start = 0;
	struct digest *digest;

	for (size_t i = 0; tensors && i < d->ntensors; i++)
		tensors[i] = &d->tensors[i];
	digest = tensors ? digest_new(tensors, d->ntensors, &start, 1) : NULL;
	free(tensors);
	return digest;
}

static int start_stats(struct inspection *in, struct err *err)
{
	size_t n = in->data.ntensors;

	if (!(in->stats = err_calloc(n + 1, sizeof *in->stats, "the statistics", err)))
		return -1;
	for (size_t i = 0; i < n; i++) {
		stats_init(&in->stats[i]);
		if (!dtype_has_arithmetic(in->data.tensors[i].dtype))
			in->stats[i].count = in->data.tensors[i].count;
	}
	return 0;
}

int inspect_read(struct inspection *in, bool stats, int (*step)(void *ctx, struct err *err),
                 void *ctx, struct err *err)
{
	struct reading r = {.in = in, .step = step, .ctx = ctx};
	int ret = -1;

	if (stats && start_stats(in, err) < 0)
		return -1;
	in->digests = calloc(in->data.ntensors + 1, sizeof *in->digests);
	r.digest = start_digest(&in->data);
	r.buf = malloc(PIECE);
	if (!in->digests || !r.digest || !r.buf)
		err_nomem(err, "reading", PIECE);
	else if (read_tensors(&r, err) == 0)
		ret = join_digests(in, err);
	digest_free(r.digest);
	free(r.buf);
	return ret;
}
