/* --delta: pieces as differences to an old version. See update.h. */
#include "lib/coll/files/update.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/offload.h"
#include "lib/base/path.h"
#include "lib/base/xxh3.h"
#include "lib/coll/collective.h"
#include "lib/data/coding/coding.h"
#include "lib/data/files/input.h"
#include "lib/data/files/spool.h"

#define HEAD  4 /* bytes: a coded piece's length */
#define SPOOL "the coded pieces"

_Static_assert(UPDATE_PIECE == CODING_PIECE, "a piece is coded as a whole");

/* ---- the spool ---- */

int update_read_coded(const struct update *u, void *buf, uint64_t pos, uint64_t n, struct err *err)
{
	return input_pread(u->spool, SPOOL, buf, n, pos, err);
}

int update_write_coded(const struct update *u, const void *buf, uint64_t pos, uint64_t n,
                       struct err *err)
{
	const uint8_t *from = buf;
	for (uint64_t done = 0; done < n;) {
		const ssize_t put =
		        io_retry(pwrite(u->spool, from + done, n - done, (off_t)(pos + done)));
		if (put <= 0)
			return err_errno(err, ERR_RESOURCE, "%s: cannot write to a file in %s",
			                 SPOOL, spool_folder());
		done += (uint64_t)put;
	}
	return 0;
}

int update_open_spool(struct update *u, struct err *err)
{
	if (u->spool < 0)
		u->spool = spool_open(err);
	return u->spool < 0 ? -1 : 0;
}

/* ---- two versions of a file ---- */

struct versions {
	struct collective *c;
	const struct dataset_file *in; /* at the root */
	int old;                       /* the old version; -1: none */
	uint64_t old_bytes;
	uint8_t *piece, *base, *coded; /* UPDATE_PIECE, UPDATE_PIECE, HEAD + CODING_ROOM of it */
	struct coder *coder;
};

static int make_versions(struct versions *v, bool zstd, struct err *err)
{
	v->piece = err_malloc(UPDATE_PIECE, "staging", err);
	v->base = err_malloc(UPDATE_PIECE, "staging", err);
	v->coded = err_malloc(HEAD + CODING_ROOM(UPDATE_PIECE), "staging", err);
	v->coder = coder_new(zstd, err);
	return v->piece && v->base && v->coded && v->coder ? 0 : -1;
}

static void free_versions(struct versions *v)
{
	free(v->piece);
	free(v->base);
	free(v->coded);
	coder_free(v->coder);
}

/* Read a piece that the ranks have compared: it has the digest @want. */
static int read_again(int fd, const char *path, const struct update_piece *p, const uint8_t *want,
                      uint8_t *buf, struct err *err)
{
	uint8_t digest[DIGEST_BYTES];
	if (update_digest(fd, path, p->at, p->n, buf, digest, err) < 0)
		return -1;
	return memcmp(digest, want, sizeof digest) == 0 ? 0 : update_changed(path, err);
}

/* ---- OLD, at the root ---- */

/* The file of OLD for the root's file number @f: OLD, or in the folder OLD. -1 if there is none, or
 * with *err. */
static int open_old(const struct collective *c, const char *old, int f, struct err *err)
{
	const struct file_list *l = &c->agreed.root_files;
	char *path = l->folder || l->tree ? path_join(old, l->files[f].name, err)
	                                  : err_strdup(old, "a path", err);
	struct stat st;
	int fd = path ? io_retry(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)) : -1;
	if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
		close(fd);
		fd = -1;
	}
	free(path);
	return fd;
}

int update_check_old(const struct collective *c, struct err *err)
{
	const char *old = c->request->delta;
	const struct file_list *l = &c->agreed.root_files;
	const bool folder = l->folder || l->tree;
	struct stat st;
	if (stat(old, &st))
		return err_errno(err, ERR_INPUT, "--delta %s: cannot examine the old version", old);
	if (folder != S_ISDIR(st.st_mode))
		return err_set(err, ERR_USAGE, "--delta %s: is %s: expected %s, as the input", old,
		               folder ? "no folder" : "a folder", folder ? "a folder" : "a file");
	return 0;
}

/* Call @fn for each piece of all files, with OLD's file open. */
static int each_version(struct versions *v, update_visit *fn, struct err *err)
{
	const struct collective *c = v->c;
	const uint64_t *first = c->transfer.update.first_piece;
	struct stat st;
	int ret = 0;
	for (int f = 0; f < c->agreed.root_files.nfiles && ret == 0; f++) {
		if (first[f] == first[f + 1])
			continue;
		v->in = files_listed_input(c, f);
		v->old = open_old(c, c->request->delta, f, err);
		v->old_bytes = v->old >= 0 && fstat(v->old, &st) == 0 ? (uint64_t)st.st_size : 0;
		ret = update_each_piece(c, f, fn, v, err);
		if (v->old >= 0)
			close(v->old);
	}
	return ret;
}

/* A piece that OLD does not have keeps the digest of zeros. */
static int add_old(void *ctx, const struct update_piece *p, struct err *err)
{
	const struct versions *v = ctx;
	if (p->at + p->n > v->old_bytes)
		return 0;
	return update_digest(v->old, v->c->request->delta, p->at, p->n, v->base,
	                     v->c->transfer.update.of_old + p->i * DIGEST_BYTES, err);
}

int update_digest_old(void *collective, struct err *err)
{
	struct collective *c = collective;
	struct versions v = {.c = c, .base = err_malloc(UPDATE_PIECE, "staging", err)};
	int ret = v.base ? each_version(&v, add_old, err) : -1;
	free(v.base);
	return ret;
}

void update_find_bases(struct collective *c)
{
	static const uint8_t none[DIGEST_BYTES];
	struct update *u = &c->transfer.update;
	for (uint64_t i = 0; i < u->npieces; i++) {
		const uint8_t *old = u->of_old + i * DIGEST_BYTES;
		const uint8_t *own = u->own + i * DIGEST_BYTES;
		if (memcmp(old, none, sizeof none) == 0 ||
		    (c->agreed.rank != c->agreed.root && memcmp(old, own, sizeof none) != 0))
			update_set_bit(u->lacks_base, i);
	}
}

/* ---- encoding ---- */

static int encode_piece(void *ctx, const struct update_piece *p, struct err *err)
{
	const struct versions *v = ctx;
	struct update *u = &v->c->transfer.update;
	const bool based = !update_bit(u->lacks_base, p->i);
	if (!update_bit(u->lacks_piece, p->i))
		return 0;
	if (read_again(v->in->fd, v->in->name, p, u->of_pieces + p->i * DIGEST_BYTES, v->piece,
	               err) < 0 ||
	    (based && read_again(v->old, v->c->request->delta, p, u->of_old + p->i * DIGEST_BYTES,
	                         v->base, err) < 0))
		return -1;
	const size_t n =
	        coding_encode(v->coder, v->piece, based ? v->base : NULL, p->n, 0, v->coded + HEAD);
	for (int i = 0; i < HEAD; i++)
		v->coded[i] = (uint8_t)(n >> 8 * i);
	if (update_write_coded(u, v->coded, u->coded_bytes, HEAD + n, err) < 0)
		return -1;
	u->coded_bytes += HEAD + n;
	return 0;
}

int update_encode(void *collective, struct err *err)
{
	struct collective *c = collective;
	struct update *u = &c->transfer.update;
	struct versions v = {.c = c};
	const bool zstd = !update_bit(u->lacks, 2 * (uint64_t)c->agreed.root_files.nfiles);
	int ret = make_versions(&v, zstd, err);
	if (ret == 0)
		ret = update_open_spool(u, err);
	if (ret == 0)
		ret = each_version(&v, encode_piece, err);
	free_versions(&v);
	return ret;
}

/* ---- decoding ---- */

struct decoding {
	struct versions v;
	uint64_t at; /* in the spool */
};

static int damaged(const struct collective *c, struct err *err)
{
	return err_rank(err, ERR_INTEGRITY, c->agreed.root,
	                "the stream of coded pieces is damaged");
}

/* The next coded piece of the spool, of @n bytes. *bytes: its length. */
static int next_coded(struct decoding *d, uint64_t n, size_t *bytes, struct err *err)
{
	const struct update *u = &d->v.c->transfer.update;
	uint32_t len = 0;
	if (u->coded_bytes - d->at < HEAD)
		return damaged(d->v.c, err);
	if (update_read_coded(u, d->v.coded, d->at, HEAD, err) < 0)
		return -1;
	for (int i = 0; i < HEAD; i++)
		len |= (uint32_t)d->v.coded[i] << 8 * i;
	d->at += HEAD;
	if (len == 0 || len > CODING_ROOM(n) || len > u->coded_bytes - d->at)
		return damaged(d->v.c, err);
	if (update_read_coded(u, d->v.coded, d->at, len, err) < 0)
		return -1;
	d->at += len;
	*bytes = len;
	return 0;
}

/* Decode a coded piece of @bytes to v->piece. */
static int decode(struct versions *v, const struct update_piece *p, size_t bytes, const char *path,
                  struct err *err)
{
	const struct update *u = &v->c->transfer.update;
	const int root = v->c->agreed.root;
	const bool based = !update_bit(u->lacks_base, p->i);
	struct err why = ERR_INIT;
	XXH128_canonical_t digest;
	if (based && read_again(v->old, path, p, u->of_old + p->i * DIGEST_BYTES, v->base, err) < 0)
		return -1;
	if (coding_decode(v->coder, v->coded, bytes, based ? v->base : NULL, v->piece, p->n, &why) <
	    0)
		return err_rank(err, why.code, why.code == ERR_INTEGRITY ? root : ERR_RANK_SELF,
		                "%s: %s", path, why.text);
	XXH128_canonicalFromHash(&digest, XXH3_128bits(v->piece, p->n));
	if (memcmp(digest.digest, u->of_pieces + p->i * DIGEST_BYTES, DIGEST_BYTES) == 0)
		return 0;
	return err_rank(err, ERR_INTEGRITY, root,
	                "%s: a coded piece gives other bytes than its digest says", path);
}

static int decode_piece(void *ctx, const struct update_piece *p, struct err *err)
{
	struct decoding *d = ctx;
	const struct update *u = &d->v.c->transfer.update;
	struct sink *sink = d->v.c->transfer.sink;
	const int file = files_place(d->v.c, 0, (size_t)p->f)->file;
	size_t bytes = 0;
	if (!update_bit(u->lacks_piece, p->i))
		return 0;
	if (offload_stopped(err) < 0)
		return -1;
	if (d->v.in) { /* the root has the piece */
		if (read_again(d->v.in->fd, d->v.in->name, p, u->of_pieces + p->i * DIGEST_BYTES,
		               d->v.piece, err) < 0)
			return -1;
		return sink_pwrite(sink, file, d->v.piece, p->n, p->at, err);
	}
	if (next_coded(d, p->n, &bytes, err) < 0)
		return -1;
	if (decode(&d->v, p, bytes, sink_path(sink, file), err) < 0)
		return -1;
	return sink_pwrite(sink, file, d->v.piece, p->n, p->at, err);
}

static int decode_all(struct decoding *d, struct err *err)
{
	struct collective *c = d->v.c;
	const uint64_t *first = c->transfer.update.first_piece;
	const bool root = c->agreed.rank == c->agreed.root;
	int ret = 0;
	for (int f = 0; f < c->agreed.root_files.nfiles && ret == 0; f++) {
		const int file = files_place(c, 0, (size_t)f)->file;
		if (first[f] == first[f + 1] || sink_fate(c->transfer.sink, file) == SINK_KEEP)
			continue; /* it is the root's input */
		d->v.in = root ? files_listed_input(c, f) : NULL;
		d->v.old = root ? -1 : sink_open_old(c->transfer.sink, file);
		ret = update_each_piece(c, f, decode_piece, d, err);
		if (d->v.old >= 0)
			close(d->v.old);
	}
	return ret == 0 && !root && d->at != c->transfer.update.coded_bytes ? damaged(c, err) : ret;
}

int update_decode(struct collective *c, struct err *err)
{
	struct decoding d = {.v = {.c = c}};
	if (!c->transfer.update.coded || !c->transfer.sink)
		return 0;
	int ret = make_versions(&d.v, true, err);
	if (ret == 0)
		ret = decode_all(&d, err);
	free_versions(&d.v);
	return ret;
}
