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

int update_not_opened(const char *path, const struct err *why, struct err *err)
{
	return why->code == ERR_RESOURCE ? err_set(err, why->code, "%s", why->text)
	                                 : update_changed(path, err);
}

/* ---- the root's files ---- */

struct hashing {
	struct collective *c;
	struct update_source in;
	uint8_t *buf;
};

static int add_digest(void *ctx, const struct update_piece *p, struct err *err)
{
	const struct hashing *h = ctx;
	struct update *u = &h->c->transfer.update;
	return update_digest_once(u, &h->in, p->at, p->n, h->buf,
	                          u->of_pieces + p->i * DIGEST_BYTES, err);
}

int update_digest_pieces(void *collective, struct err *err)
{
	struct collective *c = collective;
	struct hashing h = {.c = c, .buf = err_malloc(UPDATE_PIECE, "staging", err)};
	int ret = h.buf ? 0 : -1;
	const uint64_t *first = c->transfer.update.first_piece;
	for (int f = 0; f < c->agreed.root_files.nfiles && ret == 0; f++) {
		if (first[f] == first[f + 1])
			continue;
		const struct dataset_file *in = files_listed_input(c, f);
		const int fd = dataset_file_open(in, err);
		h.in = update_source_of(&c->transfer.update, fd, in->name);
		ret = fd < 0 ? -1 : update_each_piece(c, f, add_digest, &h, err);
		dataset_file_close(in, fd);
	}
	free(h.buf);
	return ret;
}

/* ---- this rank's old files ---- */

struct old_file {
	struct collective *c;
	int file; /* in the sink */
	struct found {
		struct update_source in;
		uint64_t bytes;
	} old, part;
	struct err no_old; /* why the old version is not open */
	uint8_t *buf;
};

/* The digest of a piece of @from; zeros if @from does not have it. */
static void find_digest(const struct old_file *o, const struct found *from,
                        const struct update_piece *p, uint8_t *digest)
{
	struct err unread = ERR_INIT;
	if (from->in.fd < 0 || p->at + p->n > from->bytes ||
	    update_digest_once(&o->c->transfer.update, &from->in, p->at, p->n, o->buf, digest,
	                       &unread) < 0)
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
	find_digest(o, &o->part, p, digest);
	const bool in_part = is_equal(o, p, digest);
	if (in_part)
		update_set_bit(u->in_part, p->i);
	if (!in_part || o->c->request->delta) /* --delta compares it with OLD's */
		find_digest(o, &o->old, p, own);
	if (!in_part && !is_equal(o, p, own) && !is_elsewhere(o))
		update_set_bit(u->lacks_piece, p->i);
	return 0;
}

int update_check_in_place(struct collective *c, int file, const struct update_piece *p,
                          uint8_t *buf, struct err *err)
{
	const uint8_t *want = c->transfer.update.of_pieces + p->i * DIGEST_BYTES;
	struct sink *sink = c->transfer.sink;
	uint8_t digest[DIGEST_BYTES];
	if (sink_pread(sink, file, buf, p->n, p->at, err) < 0)
		return -1;
	update_hash(buf, p->n, digest);
	atomic_fetch_add(&c->transfer.update.checked, p->n);
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
	struct err why = ERR_INIT;
	if (offload_stopped(err) < 0)
		return -1;
	if (update_bit(u->lacks_piece, p->i) || is_elsewhere(o))
		return 0;
	if (update_bit(u->in_part, p->i))
		return update_check_in_place(o->c, o->file, p, o->buf, err);
	if (o->old.in.fd < 0)
		return update_not_opened(sink_path(sink, o->file), &o->no_old, err);
	if (p->at + p->n <= o->old.bytes &&
	    update_digest(o->old.in.fd, o->old.in.path, p->at, p->n, o->buf, digest, &why) == 0 &&
	    is_equal(o, p, digest))
		return sink_pwrite(sink, o->file, o->buf, p->n, p->at, err);
	return update_changed(sink_path(sink, o->file), err);
}

static struct found found(const struct old_file *o, int fd)
{
	const char *path = sink_path(o->c->transfer.sink, o->file);
	struct stat st;
	return (struct found){.in = update_source_of(&o->c->transfer.update, fd, path),
	                      .bytes = fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0};
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
			err_clear(&o.no_old);
			o.old = found(&o, update_takes_old(c)
			                          ? sink_open_old(sink, o.file, &o.no_old)
			                          : -1);
			o.part = found(&o, parts ? sink_open_part(sink, o.file) : -1);
			ret = update_each_piece(c, f, fn, &o, err);
			if (o.old.in.fd >= 0)
				close(o.old.in.fd);
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
