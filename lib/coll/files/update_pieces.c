/* --update and --resume: pieces of files, in the root's inputs, the old files and the parts of the
 * ranks. See update.h. */
#include "lib/coll/files/update.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/offload.h"
#include "lib/base/xxh3.h"
#include "lib/coll/collective.h"
#include "lib/data/files/input.h"

void update_hash(const void *buf, uint64_t n, uint8_t *digest)
{
	XXH128_canonical_t c;
	XXH128_canonicalFromHash(&c, XXH3_128bits(buf, n));
	memcpy(digest, c.digest, DIGEST_BYTES);
}

int update_digest(int fd, const char *path, uint64_t at, uint64_t n, uint8_t *buf, uint8_t *digest,
                  struct err *err)
{
	if (offload_stopped(err) < 0 || input_pread(fd, path, buf, n, at, err) < 0)
		return -1;
	update_hash(buf, n, digest);
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
	int file; /* in the sink */
	struct found {
		int fd; /* -1: there is none */
		uint64_t bytes;
	} old, part;
	uint8_t *buf;
};

/* Read a piece to o->buf. Sets @digest to zeros if @from does not have it. */
static void read_piece(const struct old_file *o, const struct found *from,
                       const struct update_piece *p, uint8_t *digest)
{
	struct err unread = ERR_INIT;
	if (from->fd < 0 || p->at + p->n > from->bytes ||
	    update_digest(from->fd, sink_path(o->c->transfer.sink, o->file), p->at, p->n, o->buf,
	                  digest, &unread) < 0)
		memset(digest, 0, DIGEST_BYTES);
}

static bool is_equal(const struct old_file *o, const struct update_piece *p, const uint8_t *digest)
{
	const uint8_t *want = o->c->transfer.update.of_pieces + p->i * DIGEST_BYTES;
	return memcmp(digest, want, DIGEST_BYTES) == 0;
}

/* Does another rank write the file? Then it answers for both, and writes all pieces. */
static bool is_elsewhere(const struct old_file *o)
{
	return sink_fate(o->c->transfer.sink, o->file) == SINK_LEAVE;
}

static int find_piece(void *ctx, const struct update_piece *p, struct err *err)
{
	const struct old_file *o = ctx;
	struct update *u = &o->c->transfer.update;
	uint8_t *own = u->own + p->i * DIGEST_BYTES, digest[DIGEST_BYTES];
	if (offload_stopped(err) < 0)
		return -1;
	read_piece(o, &o->part, p, digest);
	const bool in_part = is_equal(o, p, digest);
	if (in_part)
		update_set_bit(u->in_part, p->i);
	if (!in_part || o->c->request->delta) /* --delta compares it with OLD's */
		read_piece(o, &o->old, p, own);
	if (!in_part && !is_equal(o, p, own) && !is_elsewhere(o))
		update_set_bit(u->lacks_piece, p->i);
	return 0;
}

int update_check_in_place(const struct collective *c, int file, const struct update_piece *p,
                          uint8_t *buf, struct err *err)
{
	const uint8_t *want = c->transfer.update.of_pieces + p->i * DIGEST_BYTES;
	struct sink *sink = c->transfer.sink;
	uint8_t digest[DIGEST_BYTES];
	if (sink_pread(sink, file, buf, p->n, p->at, err) < 0)
		return -1;
	update_hash(buf, p->n, digest);
	if (memcmp(digest, want, sizeof digest) == 0)
		return 0;
	return err_set(err, ERR_INPUT,
	               "%s: its part has changed since the ranks compared their copies: run it "
	               "again",
	               sink_path(sink, file));
}

static int copy_piece(void *ctx, const struct update_piece *p, struct err *err)
{
	const struct old_file *o = ctx;
	const struct update *u = &o->c->transfer.update;
	struct sink *sink = o->c->transfer.sink;
	uint8_t digest[DIGEST_BYTES];
	if (offload_stopped(err) < 0)
		return -1;
	if (update_bit(u->lacks_piece, p->i) || is_elsewhere(o))
		return 0;
	if (update_bit(u->in_part, p->i))
		return update_check_in_place(o->c, o->file, p, o->buf, err);
	read_piece(o, &o->old, p, digest);
	if (is_equal(o, p, digest))
		return sink_pwrite(sink, o->file, o->buf, p->n, p->at, err);
	return update_changed(sink_path(sink, o->file), err);
}

static struct found found(int fd)
{
	struct stat st;
	return (struct found){fd, fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0};
}

/* Call @fn for each piece of all files that have pieces, with the old version open and, with
 * @parts, the part. An old version that has vanished counts as empty. */
static int each_old(struct collective *c, bool parts, update_visit *fn, struct err *err)
{
	struct old_file o = {.c = c, .buf = err_malloc(UPDATE_PIECE, "staging", err)};
	const uint64_t *first = c->transfer.update.first_piece;
	struct sink *sink = c->transfer.sink;
	int ret = o.buf ? 0 : -1;
	for (int f = 0; f < c->agreed.root_files.nfiles && sink; f++)
		for (int k = 0; k < c->transfer.copies && first[f] < first[f + 1] && ret == 0;
		     k++) {
			o.file = files_place(c, k, (size_t)f)->file;
			if (sink_fate(sink, o.file) == SINK_KEEP) /* the root's input */
				continue;
			o.old = found(update_takes_old(c) ? sink_open_old(sink, o.file) : -1);
			o.part = found(parts ? sink_open_part(sink, o.file) : -1);
			ret = update_each_piece(c, f, fn, &o, err);
			if (o.old.fd >= 0)
				close(o.old.fd);
		}
	free(o.buf);
	return ret;
}

int update_find_pieces(void *collective, struct err *err)
{
	return each_old(collective, true, find_piece, err);
}

int update_copy_pieces(void *collective, struct err *err)
{
	return each_old(collective, false, copy_piece, err);
}
