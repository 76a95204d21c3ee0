/* --update: pieces of files, in the root's inputs and in the old files of the ranks. See update.h.
 */
#include "lib/coll/files/update.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/offload.h"
#include "lib/base/xxh3.h"
#include "lib/coll/collective.h"
#include "lib/data/files/input.h"

int update_digest(int fd, const char *path, uint64_t at, uint64_t n, uint8_t *buf, uint8_t *digest,
                  struct err *err)
{
	XXH128_canonical_t c;
	if (offload_stopped(err) < 0 || input_pread(fd, path, buf, n, at, err) < 0)
		return -1;
	XXH128_canonicalFromHash(&c, XXH3_128bits(buf, n));
	memcpy(digest, c.digest, DIGEST_BYTES);
	return 0;
}

struct update_piece update_piece_of(const struct collective *c, int f, uint64_t i)
{
	const uint64_t bytes = c->agreed.root_files.files[f].bytes;
	const uint64_t at = (i - c->transfer.update.first_piece[f]) * UPDATE_PIECE;
	return (struct update_piece){.f = f,
	                             .i = i,
	                             .at = at,
	                             .n = bytes - at < UPDATE_PIECE ? bytes - at : UPDATE_PIECE};
}

int update_each_piece(const struct collective *c, int f, update_visit *fn, void *ctx,
                      struct err *err)
{
	const uint64_t *first = c->transfer.update.first_piece;
	for (uint64_t i = first[f]; i < first[f + 1]; i++) {
		const struct update_piece p = update_piece_of(c, f, i);
		if (fn(ctx, &p, err) < 0)
			return -1;
	}
	return 0;
}

int update_changed(const char *path, struct err *err)
{
	return err_set(err, ERR_INPUT,
	               "%s: has changed since the ranks compared their copies: run it again", path);
}

/* ---- the root's files ---- */

struct hashing {
	struct collective *c;
	const struct dataset_file *in;
	uint8_t *buf;
};

static int add_digest(void *ctx, const struct update_piece *p, struct err *err)
{
	const struct hashing *h = ctx;
	return update_digest(h->in->fd, h->in->name, p->at, p->n, h->buf,
	                     h->c->transfer.update.of_pieces + p->i * DIGEST_BYTES, err);
}

int update_digest_pieces(void *collective, struct err *err)
{
	struct collective *c = collective;
	struct hashing h = {c, NULL, err_malloc(UPDATE_PIECE, "staging", err)};
	int ret = h.buf ? 0 : -1;
	for (int f = 0; f < c->agreed.root_files.nfiles && ret == 0; f++) {
		h.in = files_listed_input(c, f);
		ret = update_each_piece(c, f, add_digest, &h, err);
	}
	free(h.buf);
	return ret;
}

/* ---- this rank's old files ---- */

struct old_file {
	struct collective *c;
	int fd, file; /* in the sink */
	uint64_t bytes;
	uint8_t *buf;
};

static bool is_equal(const struct old_file *o, const struct update_piece *p, struct err *err)
{
	const uint8_t *want = o->c->transfer.update.of_pieces + p->i * DIGEST_BYTES;
	uint8_t digest[DIGEST_BYTES];
	return p->at + p->n <= o->bytes &&
	       update_digest(o->fd, sink_path(o->c->transfer.sink, o->file), p->at, p->n, o->buf,
	                     digest, err) == 0 &&
	       memcmp(digest, want, sizeof digest) == 0;
}

static int find_piece(void *ctx, const struct update_piece *p, struct err *err)
{
	const struct old_file *o = ctx;
	struct update *u = &o->c->transfer.update;
	uint8_t *own = u->own + p->i * DIGEST_BYTES;
	struct err unread = ERR_INIT;
	if (offload_stopped(err) < 0)
		return -1;
	if (p->at + p->n > o->bytes || update_digest(o->fd, sink_path(o->c->transfer.sink, o->file),
	                                             p->at, p->n, o->buf, own, &unread) < 0)
		memset(own, 0, DIGEST_BYTES);
	if (memcmp(own, u->of_pieces + p->i * DIGEST_BYTES, DIGEST_BYTES) != 0)
		update_set_bit(u->lacks_piece, p->i);
	return 0;
}

static int copy_piece(void *ctx, const struct update_piece *p, struct err *err)
{
	const struct old_file *o = ctx;
	struct sink *sink = o->c->transfer.sink;
	struct err why = ERR_INIT;
	if (offload_stopped(err) < 0)
		return -1;
	if (update_bit(o->c->transfer.update.lacks_piece, p->i))
		return 0;
	if (is_equal(o, p, &why))
		return sink_pwrite(sink, o->file, o->buf, p->n, p->at, err);
	return update_changed(sink_path(sink, o->file), err);
}

/* Call @fn for each piece of all files that have pieces, with the old version open. An old version
 * that has vanished counts as empty. */
static int each_old(struct collective *c, update_visit *fn, struct err *err)
{
	struct old_file o = {.c = c, .buf = err_malloc(UPDATE_PIECE, "staging", err)};
	const uint64_t *first = c->transfer.update.first_piece;
	struct stat st;
	int ret = o.buf ? 0 : -1;
	for (int f = 0; f < c->agreed.root_files.nfiles && c->transfer.sink; f++)
		for (int k = 0; k < c->transfer.copies && first[f] < first[f + 1] && ret == 0;
		     k++) {
			o.file = files_place(c, k, (size_t)f)->file;
			if (sink_fate(c->transfer.sink, o.file) == SINK_KEEP) /* the root's input */
				continue;
			o.fd = sink_open_old(c->transfer.sink, o.file);
			o.bytes = o.fd >= 0 && fstat(o.fd, &st) == 0 ? (uint64_t)st.st_size : 0;
			ret = update_each_piece(c, f, fn, &o, err);
			if (o.fd >= 0)
				close(o.fd);
		}
	free(o.buf);
	return ret;
}

int update_find_pieces(void *collective, struct err *err)
{
	return each_old(collective, find_piece, err);
}

int update_copy_pieces(void *collective, struct err *err)
{
	return each_old(collective, copy_piece, err);
}
