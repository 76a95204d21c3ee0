#include "lib/coll/files/inspect.h"

#include <stdlib.h>

#include "lib/coll/agreement/piece_table.h"

#define PIECE DIGEST_PIECE /* a multiple of every element size */

int inspect_open(struct inspection *in, const char *path, const struct input_source *from,
                 struct err *err)
{
	if (inputs_open(&in->data, path, from, err) < 0)
		return -1;
	in->open = true;
	return inputs_select(&in->data, from, err);
}

/* ---- pieces ---- */

static int add_hole(void *ctx, const struct tensor *whole, const uint64_t *first,
                    const uint64_t *size, struct err *err)
{
	struct inspection *in = ctx;
	struct inspect_hole *h = vec_push(&in->holes);
	if (!h)
		return err_nomem(err, "the pieces", sizeof *h);
	*h = (struct inspect_hole){.name = err_strdup(whole->name, "a name", err),
	                           .ndim = whole->ndim};
	for (int i = 0; i < whole->ndim; i++) {
		h->first[i] = first[i];
		h->size[i] = size[i];
	}
	return h->name ? 0 : -1;
}

/* Fill in->holes. */
static int find_holes(struct inspection *in, struct err *err)
{
	const size_t n = in->data.ntensors;
	struct piece_table table = {0};
	struct buf b;
	buf_init(&b, SIZE_MAX);
	const struct tensor **v = err_calloc(n + 1, sizeof *v, "the pieces", err);
	for (size_t i = 0; v && i < n; i++)
		v[i] = &in->data.tensors[i];
	if (v)
		qsort(v, n, sizeof *v, piece_table_order);
	int ret = v ? piece_table_put(&b, v, n, err) : -1;
	if (ret == 0 && b.failed)
		ret = err_nomem(err, "the pieces", b.len);
	if (ret == 0)
		ret = piece_table_init(&table, 1, UINT64_MAX, err);
	if (ret == 0)
		ret = piece_table_add(&table, 0, view_of(b.data, b.len), err);
	if (ret == 0)
		ret = piece_table_holes(&table, add_hole, in, err);
	piece_table_release(&table);
	buf_release(&b);
	free(v);
	return ret;
}

/* Forget the parts that only say that their tensors exist, and empty ones. */
static void drop_empty(struct dataset *d)
{
	size_t kept = 0;
	for (size_t i = 0; i < d->ntensors; i++)
		if (piece_has_elements(&d->tensors[i]))
			d->tensors[kept++] = d->tensors[i];
	d->ntensors = kept;
}

int inspect_open_pieces(struct inspection *in, const char *path, const struct input_source *from,
                        struct err *err)
{
	struct err why = ERR_INIT, ignored = ERR_INIT;
	struct input_source parts = *from;
	parts.parts = true;
	if (inspect_open(in, path, from, &why) == 0)
		return 0;
	inspect_release(in);
	if (why.code == ERR_INPUT && path_is_folder(path) &&
	    inspect_open(in, path, &parts, &ignored) == 0 && find_holes(in, &ignored) == 0 &&
	    in->holes.n) {
		drop_empty(&in->data);
		return 0;
	}
	return err_pass(err, &why);
}

void inspect_release(struct inspection *in)
{
	for (size_t i = 0; i < in->holes.n; i++)
		free(in->holes.v[i].name);
	free(in->holes.v);
	in->holes.v = NULL;
	in->holes.n = in->holes.cap = 0;
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
		if (dataset_read_native(&in->data, t, r->buf, n, at, err) < 0)
			return -1;
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
	struct digest *digest;

	for (size_t i = 0; tensors && i < d->ntensors; i++)
		tensors[i] = &d->tensors[i];
	digest = tensors ? digest_new(tensors, d->ntensors) : NULL;
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
