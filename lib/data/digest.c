/*
 * Every piece has a slot for its hash. A run hashes the piece that it is in as the bytes come, in a
 * state of its own, or in one go where a call brings the whole piece. A piece that no run had from
 * its first byte to its last in order, above all one that lies in two runs, is read back at the
 * end.
 */
#include "lib/data/digest.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

/* The vector length of the machine rather than of the build, where the library has it. */
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#define XXH_DISPATCH_DISABLE_REPLACE
#include <xxh_x86dispatch.h>
#pragma weak XXH3_128bits_dispatch
#pragma weak XXH3_128bits_update_dispatch
#define DISPATCHED(fn) (fn##_dispatch ? fn##_dispatch : (fn))
#else
#define DISPATCHED(fn) (fn)
#endif

struct run {
	uint64_t start, end;
	uint64_t next; /* where the state stands: in a piece that it had from its beginning */
	bool live;     /* the state stands somewhere */
	XXH3_state_t *state;
};

struct piece {
	bool known;
	XXH128_canonical_t hash;
};

struct digest {
	uint64_t bytes;
	size_t npieces, nruns;
	struct piece *pieces;
	struct run *runs;
	XXH3_state_t *whole;
	char prefix[ARRAY_SHAPE_TEXT + 32];
};

static XXH128_hash_t hash_bytes(const void *buf, size_t bytes)
{
	return DISPATCHED(XXH3_128bits)(buf, bytes);
}

static void hash_update(XXH3_state_t *state, const void *buf, size_t bytes)
{
	DISPATCHED(XXH3_128bits_update)(state, buf, bytes);
}

struct digest *digest_new(const struct array_info *info, const uint64_t *starts, size_t nruns)
{
	char shape[ARRAY_SHAPE_TEXT];
	struct digest *d = calloc(1, sizeof *d);
	if (!d)
		return NULL;
	d->bytes = array_bytes(info);
	d->npieces = (size_t)(d->bytes / DIGEST_PIECE + (d->bytes % DIGEST_PIECE != 0));
	d->nruns = nruns;
	d->pieces = calloc(d->npieces + 1, sizeof *d->pieces);
	d->runs = calloc(nruns + 1, sizeof *d->runs);
	d->whole = XXH3_createState();
	if (!d->pieces || !d->runs || !d->whole)
		goto fail;
	for (size_t i = 0; i < nruns; i++) {
		d->runs[i].start = starts[i];
		d->runs[i].end = i + 1 < nruns ? starts[i + 1] : d->bytes;
		d->runs[i].state = XXH3_createState();
		if (!d->runs[i].state)
			goto fail;
	}
	snprintf(d->prefix, sizeof d->prefix, "%s %s\n", dtype_name(info->dtype),
	         array_shape_text(info, shape));
	return d;
fail:
	digest_free(d);
	return NULL;
}

void digest_free(struct digest *d)
{
	if (!d)
		return;
	for (size_t i = 0; d->runs && i < d->nruns; i++)
		XXH3_freeState(d->runs[i].state);
	XXH3_freeState(d->whole);
	free(d->runs);
	free(d->pieces);
	free(d);
}

static uint64_t piece_end(const struct digest *d, uint64_t piece)
{
	uint64_t end = (piece + 1) * DIGEST_PIECE;
	return end < d->bytes ? end : d->bytes;
}

/* Some bytes of one piece, all in run @r. */
static void update_piece(struct digest *d, struct run *r, uint64_t pos, const void *buf,
                         size_t bytes)
{
	uint64_t k = pos / DIGEST_PIECE, start = k * DIGEST_PIECE, end = piece_end(d, k);
	struct piece *p = &d->pieces[k];
	/* The slot of a straddling piece is no one run's: leave it alone. */
	if (start < r->start || end > r->end)
		return;
	p->known = false;
	if (pos == start && bytes == end - start) {
		XXH128_canonicalFromHash(&p->hash, hash_bytes(buf, bytes));
		p->known = true;
		r->live = false;
		return;
	}
	if (pos == start)
		XXH3_128bits_reset(r->state);
	else if (!r->live || pos != r->next)
		return;
	hash_update(r->state, buf, bytes);
	r->live = true;
	r->next = pos + bytes;
	if (r->next == end) {
		XXH128_canonicalFromHash(&p->hash, XXH3_128bits_digest(r->state));
		p->known = true;
		r->live = false;
	}
}

/* The run that holds the byte at @pos: the last that begins there or before. */
static struct run *run_at(struct digest *d, uint64_t pos)
{
	size_t lo = 0, hi = d->nruns;
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;
		if (d->runs[mid].start <= pos)
			lo = mid;
		else
			hi = mid;
	}
	return &d->runs[lo];
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void digest_update(struct digest *d, uint64_t pos, const void *buf, size_t bytes)
{
	const char *p = buf;
	if (!d->nruns)
		return;
	while (bytes && pos < d->bytes) {
		struct run *r = run_at(d, pos);
		uint64_t end = min_u64(piece_end(d, pos / DIGEST_PIECE), r->end);
		size_t n = (size_t)min_u64(bytes, end - pos);
		update_piece(d, r, pos, p, n);
		p += n;
		pos += n;
		bytes -= n;
	}
}

static int read_back(struct digest *d,
                     int (*pread_fn)(void *ctx, void *buf, size_t bytes, uint64_t pos,
                                     struct err *),
                     void *ctx, struct err *err)
{
	void *buf = NULL;
	int ret = -1;
	for (size_t k = 0; k < d->npieces; k++) {
		uint64_t start = k * (uint64_t)DIGEST_PIECE;
		size_t n = (size_t)(piece_end(d, k) - start);
		if (d->pieces[k].known)
			continue;
		if (!buf && !(buf = malloc(DIGEST_PIECE))) {
			err_nomem(err, "a piece to digest", DIGEST_PIECE);
			goto out;
		}
		if (pread_fn(ctx, buf, n, start, err))
			goto out;
		XXH128_canonicalFromHash(&d->pieces[k].hash, hash_bytes(buf, n));
		d->pieces[k].known = true;
	}
	ret = 0;
out:
	free(buf);
	return ret;
}

int digest_final(struct digest *d,
                 int (*pread_fn)(void *ctx, void *buf, size_t bytes, uint64_t pos, struct err *),
                 void *ctx, uint8_t out[DIGEST_BYTES], struct err *err)
{
	XXH3_state_t *state = d->whole;
	XXH128_canonical_t hash;
	if (read_back(d, pread_fn, ctx, err))
		return -1;
	XXH3_128bits_reset(state);
	hash_update(state, d->prefix, strlen(d->prefix));
	for (size_t k = 0; k < d->npieces; k++)
		hash_update(state, d->pieces[k].hash.digest, DIGEST_BYTES);
	XXH128_canonicalFromHash(&hash, XXH3_128bits_digest(state));
	memcpy(out, hash.digest, DIGEST_BYTES);
	return 0;
}

char *digest_text(const uint8_t d[DIGEST_BYTES], char text[DIGEST_TEXT])
{
	for (size_t i = 0; i < DIGEST_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", d[i]);
	return text;
}
