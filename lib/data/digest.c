/*
 * Every piece has a slot for its hash. The pieces of all tensors are consecutive, and no piece has
 * bytes of two tensors. A piece whose bytes arrive at once is hashed in one call; one that arrives
 * in parts has a state from the first part to the last.
 */
#include "lib/data/digest.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/hex.h"
#include "lib/base/xxh3.h"

#define STATES_MOST 4096 /* each has some 600 bytes */

struct piece {
	uint64_t start;      /* the piece ends where the next one starts */
	XXH3_state_t *state; /* of its first bytes; NULL: none */
	uint32_t hashed;     /* those bytes */
	uint32_t added;      /* bytes that were added in any order, perhaps some of them twice */
	bool known;          /* and not added to since */
	XXH128_canonical_t hash;
};

struct part {
	enum dtype dtype;
	int ndim;
	const uint64_t *shape;
	bool fortran;
	size_t end; /* end of its pieces: the first piece of the next tensor */
};

struct digest {
	uint64_t bytes;
	size_t nparts, npieces;
	struct part *parts;   /* the tensors */
	uint64_t *shapes;     /* of all tensors */
	struct piece *pieces; /* [npieces + 1]: the last is the end */
	size_t last;          /* the piece of the last bytes that were added */
	int nstates;          /* of all pieces */
	XXH3_state_t *whole;
};

/* Count the tensors' bytes and pieces into d->bytes and d->npieces, and their dimensions into
 * *dims. -1: too many. */
static int count(struct digest *d, const struct tensor *const *tensors, size_t *dims)
{
	*dims = 0;
	for (size_t i = 0; i < d->nparts; i++) {
		uint64_t bytes = tensors[i]->bytes;
		d->npieces += (size_t)(bytes / DIGEST_PIECE + (bytes % DIGEST_PIECE != 0));
		*dims += (size_t)tensors[i]->ndim;
		if (__builtin_add_overflow(d->bytes, bytes, &d->bytes))
			return -1;
	}
	return 0;
}

/* Copy the tensors' types and shapes, and divide them into pieces. */
static void cut(struct digest *d, const struct tensor *const *tensors)
{
	uint64_t *shape = d->shapes, at = 0;
	size_t k = 0;
	for (size_t i = 0; i < d->nparts; i++) {
		const struct tensor *t = tensors[i];
		for (uint64_t done = 0; done < t->bytes; done += DIGEST_PIECE)
			d->pieces[k++].start = at + done;
		at += t->bytes;
		d->parts[i] = (struct part){t->dtype, t->ndim, shape, t->fortran, k};
		for (int j = 0; j < t->ndim; j++)
			*shape++ = t->shape[j];
	}
	d->pieces[k].start = at;
}

struct digest *digest_new(const struct tensor *const *tensors, size_t n)
{
	size_t dims;
	struct digest *d = calloc(1, sizeof *d);
	if (!d)
		return NULL;
	d->nparts = n;
	if (count(d, tensors, &dims))
		goto fail;
	d->parts = calloc(n + 1, sizeof *d->parts);
	d->shapes = calloc(dims + 1, sizeof *d->shapes);
	d->pieces = calloc(d->npieces + 1, sizeof *d->pieces);
	d->whole = XXH3_createState();
	if (!d->parts || !d->shapes || !d->pieces || !d->whole)
		goto fail;
	cut(d, tensors);
	return d;
fail:
	digest_free(d);
	return NULL;
}

/* Forget the bytes that have arrived of piece @p. */
static void forget(struct digest *d, struct piece *p)
{
	if (p->state)
		d->nstates--;
	XXH3_freeState(p->state);
	p->state = NULL;
	p->hashed = p->added = 0;
}

void digest_free(struct digest *d)
{
	if (!d)
		return;
	if (d->pieces)
		digest_go_back(d);
	XXH3_freeState(d->whole);
	free(d->pieces);
	free(d->shapes);
	free(d->parts);
	free(d);
}

static void set_hash(struct digest *d, struct piece *p, XXH128_hash_t hash)
{
	XXH128_canonicalFromHash(&p->hash, hash);
	p->known = true;
	forget(d, p);
}

static bool make_state(struct digest *d, struct piece *p)
{
	if (d->nstates == STATES_MOST || !(p->state = XXH3_createState()))
		return false;
	d->nstates++;
	XXH3_128bits_reset(p->state);
	return true;
}

static uint64_t size_of(const struct piece *p)
{
	return p[1].start - p->start;
}

/* Hash the bytes of piece @p that follow those that are hashed. */
static void hash_next(struct digest *d, struct piece *p, const void *buf, size_t bytes)
{
	if (bytes == size_of(p)) {
		set_hash(d, p, XXH3_128bits(buf, bytes));
		return;
	}
	if (!p->state && !make_state(d, p))
		return;
	XXH3_128bits_update(p->state, buf, bytes);
	p->hashed += (uint32_t)bytes;
	if (p->hashed == size_of(p))
		set_hash(d, p, XXH3_128bits_digest(p->state));
}

/* Add bytes of piece @p, from its byte @at on. */
static void update_piece(struct digest *d, struct piece *p, uint64_t at, const void *buf,
                         size_t bytes)
{
	p->known = false;
	if (at < p->hashed)
		forget(d, p);
	p->added += (uint32_t)bytes;
	if (at == p->hashed)
		hash_next(d, p, buf, bytes);
}

static bool holds(const struct piece *p, uint64_t pos)
{
	return p[0].start <= pos && pos < p[1].start;
}

/* The piece that contains byte @pos: often that of the last call or the next. */
static size_t piece_at(const struct digest *d, uint64_t pos)
{
	size_t lo = 0, hi = d->npieces;
	for (size_t k = d->last; k < hi && k <= d->last + 1; k++)
		if (holds(&d->pieces[k], pos))
			return k;
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;
		if (d->pieces[mid].start <= pos)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

void digest_update(struct digest *d, uint64_t pos, const void *buf, size_t bytes)
{
	const uint8_t *from = buf;
	if (!bytes || pos >= d->bytes)
		return;
	for (size_t k = piece_at(d, pos); bytes && k < d->npieces; k++) {
		struct piece *p = &d->pieces[k];
		const uint64_t left = p[1].start - pos;
		const size_t n = bytes < left ? bytes : (size_t)left;
		update_piece(d, p, pos - p->start, from, n);
		d->last = k;
		from += n;
		pos += n;
		bytes -= n;
	}
}

void digest_go_back(struct digest *d)
{
	for (size_t k = 0; k < d->npieces; k++)
		forget(d, &d->pieces[k]);
}

/* Read back what is not hashed of piece @p, which has a state or fits into @cap bytes. */
static int read_back(struct digest *d, struct piece *p, void *buf, size_t cap,
                     digest_pread *pread_fn, void *ctx, struct err *err)
{
	while (!p->known) {
		const uint64_t left = size_of(p) - p->hashed;
		const size_t n = left < cap ? (size_t)left : cap;
		if (pread_fn(ctx, buf, n, p->start + p->hashed, err) < 0)
			return -1;
		hash_next(d, p, buf, n);
	}
	return 0;
}

int digest_settle(struct digest *d, uint64_t pos, size_t bytes, void *buf, size_t cap,
                  digest_pread *pread_fn, void *ctx, struct err *err)
{
	const uint64_t end = pos + bytes;
	if (!bytes || pos >= d->bytes)
		return 0;
	for (size_t k = piece_at(d, pos); k < d->npieces && d->pieces[k].start < end; k++) {
		struct piece *p = &d->pieces[k];
		if (p->known || p->added < size_of(p))
			continue;
		if (!p->state && size_of(p) > cap && !make_state(d, p))
			continue;
		if (read_back(d, p, buf, cap, pread_fn, ctx, err) < 0)
			return -1;
	}
	return 0;
}

static int read_back_all(struct digest *d, digest_pread *pread_fn, void *ctx, struct err *err)
{
	void *buf = NULL;
	int ret = 0;
	for (size_t k = 0; ret == 0 && k < d->npieces; k++) {
		if (d->pieces[k].known)
			continue;
		if (!buf && !(buf = err_malloc(DIGEST_PIECE, "a piece to digest", err)))
			return -1;
		ret = read_back(d, &d->pieces[k], buf, DIGEST_PIECE, pread_fn, ctx, err);
	}
	free(buf);
	return ret;
}

/* "f32 (3, 4)\n", "f32 (3, 4) F\n" */
static void hash_description(XXH3_state_t *state, const struct part *part)
{
	char shape[ARRAY_SHAPE_TEXT], text[ARRAY_SHAPE_TEXT + 32];
	const struct tensor t = {.dtype = part->dtype, .ndim = part->ndim, .shape = part->shape};
	struct buf b; /* snprintf would take longer than the hash of a small tensor */
	buf_init_fixed(&b, text, sizeof text);
	buf_put_text(&b, dtype_name(part->dtype));
	buf_put_text(&b, " ");
	buf_put_text(&b, tensor_shape_text(&t, shape));
	buf_put_text(&b, part->fortran ? " F\n" : "\n");
	XXH3_128bits_update(state, text, b.len);
}

static void hash_finish(XXH3_state_t *state, uint8_t out[DIGEST_BYTES])
{
	XXH128_canonical_t hash;
	XXH128_canonicalFromHash(&hash, XXH3_128bits_digest(state));
	memcpy(out, hash.digest, DIGEST_BYTES);
}

int digest_final(struct digest *d, digest_pread *pread_fn, void *ctx, uint8_t (*out)[DIGEST_BYTES],
                 struct err *err)
{
	size_t k = 0;
	if (read_back_all(d, pread_fn, ctx, err) < 0)
		return -1;
	for (size_t i = 0; i < d->nparts; i++) {
		XXH3_128bits_reset(d->whole);
		hash_description(d->whole, &d->parts[i]);
		for (; k < d->parts[i].end; k++)
			XXH3_128bits_update(d->whole, d->pieces[k].hash.digest, DIGEST_BYTES);
		hash_finish(d->whole, out[i]);
	}
	return 0;
}

int digest_names(const char *const *names, const uint8_t (*digests)[DIGEST_BYTES], size_t n,
                 uint8_t out[DIGEST_BYTES])
{
	XXH3_state_t *state;
	if (n == 1 && !*names[0]) {
		memcpy(out, digests[0], DIGEST_BYTES);
		return 0;
	}
	state = XXH3_createState();
	if (!state)
		return -1;
	XXH3_128bits_reset(state);
	for (size_t i = 0; i < n; i++) {
		XXH3_128bits_update(state, names[i], strlen(names[i]) + 1);
		XXH3_128bits_update(state, digests[i], DIGEST_BYTES);
	}
	hash_finish(state, out);
	XXH3_freeState(state);
	return 0;
}

char *digest_text(const uint8_t d[DIGEST_BYTES], char text[DIGEST_TEXT])
{
	return hex_text(d, DIGEST_BYTES, text);
}
