/*
 * --delta, and compressed pieces: the root's pieces become coded pieces in the spool, and those
 * become pieces of the outputs, on several threads. Each takes the next piece, in the order of the
 * stream, and an encoder waits with its coded piece until those before it have their places. See
 * update.h.
 */
#include "lib/coll/files/update.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/offload.h"
#include "lib/coll/collective.h"

#define HEAD          4 /* bytes: a coded piece's length */
#define THREADS       8
#define THREAD_MEMORY (8u << 20) /* about what one needs */

_Static_assert(UPDATE_PIECE == CODING_PIECE, "a piece is coded as a whole");

/* What the threads share; the lock protects what is below it. */
struct work {
	struct collective *c;
	bool encodes, zstd;
	int nthreads;
	pthread_cond_t turn[THREADS]; /* of piece number k of the stream: turn[k % nthreads] */
	pthread_mutex_t lock;
	bool failed;
	int f; /* the next piece: number @i, or the first of file @f */
	uint64_t i;
	uint64_t taken, placed;      /* pieces of the first stream */
	uint64_t at[UPDATE_STREAMS]; /* bytes of the streams that are taken */
};

/* A thread, with its part of the file that it works on. */
struct worker {
	struct work *w;
	int f;                         /* -1: none */
	const struct dataset_file *in; /* the root's; NULL: this is another rank */
	int in_fd;                     /* dataset_file_open; -1: none */
	int old;                       /* the old version; -1: none */
	struct err no_in, no_old;      /* why they are not open */
	uint8_t *piece, *base;         /* UPDATE_PIECE */
	uint8_t *coded, *whole;        /* HEAD + CODING_ROOM of it */
	struct coder *coder;
};

/* A piece that a thread has taken. */
struct taken {
	struct update_piece p;
	uint64_t number; /* in the first stream */
	/* Where its coded piece is, without the head */
	enum update_stream stream;
	uint64_t at, bytes;
};

/* ---- the pieces, in order ---- */

/* Is nothing of file @f to do? */
static bool skips(const struct work *w, int f)
{
	return !w->encodes &&
	       sink_fate(w->c->transfer.sink, files_place(w->c, 0, (size_t)f)->file) == SINK_KEEP;
}

/* The next piece that somebody lacks. */
static bool next_piece(struct work *w, struct update_piece *p)
{
	const struct update *u = &w->c->transfer.update;
	for (; w->f < w->c->agreed.root_files.nfiles; w->f++) {
		const uint64_t first = u->first_piece[w->f];
		if (w->i < first)
			w->i = first;
		for (; w->i < u->first_piece[w->f + 1] && !skips(w, w->f); w->i++)
			if (update_bit(u->lacks_piece, w->i)) {
				*p = update_piece_of(w->c, w->f, w->i++);
				return true;
			}
	}
	return false;
}

static int damaged(const struct collective *c, struct err *err)
{
	return err_rank(err, ERR_INTEGRITY, c->agreed.root,
	                "the stream of coded pieces is damaged");
}

/* Of a piece that a rank lacks, does another one have OLD's? Does one lack it? */
static bool some_have_base(const struct update *u, uint64_t i)
{
	return update_bit(u->bases, 2 * i + 1);
}
static bool some_lack_base(const struct update *u, uint64_t i)
{
	return update_bit(u->bases, 2 * i);
}

/* Where is the next coded piece of the stream, of a piece of @n bytes, and how is it coded? */
static int find_next(struct work *w, enum update_stream stream, uint64_t n, struct taken *t,
                     enum coding *coding, struct err *err)
{
	const struct update *u = &w->c->transfer.update;
	const uint64_t left = u->coded_bytes[stream] - w->at[stream];
	uint8_t head[HEAD + 1];
	if (left < sizeof head)
		return damaged(w->c, err);
	if (update_read_coded(u, stream, head, w->at[stream], sizeof head, err) < 0)
		return -1;
	*t = (struct taken){t->p, t->number, stream, w->at[stream] + HEAD, get_u32(head)};
	*coding = coding_of(head + HEAD);
	if (*coding >= CODINGS || t->bytes == 0 || t->bytes > CODING_ROOM(n) ||
	    t->bytes > left - HEAD)
		return damaged(w->c, err);
	w->at[stream] += HEAD + t->bytes;
	return 0;
}

/* The second stream has what is a difference in the first, if a rank lacks the base. */
static int find_coded(struct work *w, struct taken *t, struct err *err)
{
	const struct collective *c = w->c;
	const struct update *u = &c->transfer.update;
	struct taken first, whole = *t;
	enum coding coding, other;
	if (find_next(w, UPDATE_TO_ALL, t->p.n, t, &coding, err) < 0)
		return -1;
	w->c->transfer.update.coded_as[coding]++;
	first = *t;
	const bool differs = coding_has_base(coding);
	const bool needs =
	        differs && update_bit(u->own_lacks, t->p.i) && !update_bit(u->own_base, t->p.i);
	const bool both =
	        differs && some_lack_base(u, t->p.i) && update_lacks_old(c, c->agreed.rank);
	if (both && find_next(w, UPDATE_WHOLE, t->p.n, &whole, &other, err) < 0)
		return -1;
	if (needs && !both)
		return damaged(c, err);
	*t = needs ? whole : first;
	return 0;
}

static int take_locked(struct work *w, struct taken *t, struct err *err)
{
	if (w->failed)
		return 0;
	if (!next_piece(w, &t->p))
		return 0;
	t->number = w->taken++;
	return !w->encodes && !collective_is_root(w->c) && find_coded(w, t, err) < 0 ? -1 : 1;
}

/* 1: *t is the next piece; 0: there is none, or another thread has failed. */
static int take(struct work *w, struct taken *t, struct err *err)
{
	if (offload_stopped(err) < 0)
		return -1;
	pthread_mutex_lock(&w->lock);
	const int ret = take_locked(w, t, err);
	pthread_mutex_unlock(&w->lock);
	return ret;
}

/* Another thread may wait for a piece of this one. */
static void fail(struct work *w)
{
	pthread_mutex_lock(&w->lock);
	w->failed = true;
	for (int k = 0; k < w->nthreads; k++)
		pthread_cond_signal(&w->turn[k]);
	pthread_mutex_unlock(&w->lock);
}

/* ---- a piece and its base ---- */

static void close_file(struct worker *k)
{
	if (k->f >= 0 && k->old >= 0)
		close(k->old);
	if (k->f >= 0 && k->in)
		dataset_file_close(k->in, k->in_fd);
	k->f = -1;
}

/* The old version of file @f. */
static int open_old(struct worker *k, int f)
{
	const struct collective *c = k->w->c;
	if (k->w->encodes)
		return c->request->delta ? update_open_old(c, f, &k->no_old) : -1;
	if (k->in) /* the root has all pieces */
		return -1;
	return sink_open_old(c->transfer.sink, files_place(c, 0, (size_t)f)->file, &k->no_old);
}

/* If the input cannot be opened, its first piece cannot be read. */
static void open_file(struct worker *k, int f)
{
	if (k->f == f)
		return;
	close_file(k);
	k->f = f;
	err_clear(&k->no_in);
	err_clear(&k->no_old);
	k->in = files_listed_input(k->w->c, f);
	k->in_fd = k->in ? dataset_file_open(k->in, &k->no_in) : -1;
	k->old = open_old(k, f);
}

/* Read a piece that the ranks have compared: it has the digest @want. */
static int read_again(int fd, const struct err *why, const char *path, const struct update_piece *p,
                      const uint8_t *want, uint8_t *buf, struct err *err)
{
	uint8_t digest[DIGEST_BYTES];
	if (fd < 0)
		return update_not_opened(path, why, err);
	if (update_digest(fd, path, p->at, p->n, buf, digest, err) < 0)
		return -1;
	return memcmp(digest, want, sizeof digest) == 0 ? 0 : update_changed(path, err);
}

/* From the root's input, or from the old version, which has this piece. */
static int read_piece(struct worker *k, const struct update_piece *p, const char *path,
                      struct err *err)
{
	return read_again(k->in ? k->in_fd : k->old, k->in ? &k->no_in : &k->no_old,
	                  k->in ? k->in->name : path, p,
	                  k->w->c->transfer.update.of_pieces + p->i * DIGEST_BYTES, k->piece, err);
}

static int read_base(struct worker *k, const struct update_piece *p, const char *path,
                     struct err *err)
{
	const struct update *u = &k->w->c->transfer.update;
	uint8_t digest[DIGEST_BYTES];
	if (k->old < 0)
		return update_not_opened(path, &k->no_old, err);
	if (update_read_base(u, k->old, path, p, k->base, digest, err) < 0)
		return -1;
	return memcmp(digest, u->of_old + p->i * DIGEST_BYTES, sizeof digest) == 0
	               ? 0
	               : update_changed(path, err);
}

/* ---- encoding ---- */

/* Give the coded piece, of @n bytes in each stream, its places. False: another thread has failed.
 */
static bool place(struct work *w, const struct taken *t, const size_t *n, enum coding coding,
                  uint64_t *at)
{
	pthread_mutex_lock(&w->lock);
	while (w->placed < t->number && !w->failed)
		pthread_cond_wait(&w->turn[t->number % (uint64_t)w->nthreads], &w->lock);
	const bool ok = !w->failed;
	for (int s = 0; s < UPDATE_STREAMS; s++) {
		at[s] = w->at[s];
		w->at[s] += n[s];
	}
	w->c->transfer.update.coded_as[coding]++;
	w->placed++;
	pthread_cond_signal(&w->turn[w->placed % (uint64_t)w->nthreads]);
	pthread_mutex_unlock(&w->lock);
	return ok;
}

/* Code the piece into @to, with its head. Returns the bytes. */
static size_t code(struct worker *k, const struct taken *t, bool based, uint8_t *to)
{
	const unsigned width = update_width(&k->w->c->transfer.update, &t->p);
	const size_t n =
	        coding_encode(k->coder, k->piece, based ? k->base : NULL, t->p.n, width, to + HEAD);
	put_u32(to, (uint32_t)n);
	return HEAD + n;
}

static int encode(struct worker *k, const struct taken *t, struct err *err)
{
	struct update *u = &k->w->c->transfer.update;
	const bool based = some_have_base(u, t->p.i);
	size_t n[UPDATE_STREAMS] = {0};
	uint64_t at[UPDATE_STREAMS];
	uint8_t *first = k->coded;
	if (read_piece(k, &t->p, NULL, err) < 0 ||
	    (based && read_base(k, &t->p, k->w->c->request->delta, err) < 0))
		return -1;
	n[UPDATE_TO_ALL] = code(k, t, based, first);
	if (some_lack_base(u, t->p.i) && coding_has_base(coding_of(first + HEAD)))
		n[UPDATE_WHOLE] = code(k, t, false, k->whole);
	/* A difference that is hardly smaller is not worth two transfers. */
	if (n[UPDATE_WHOLE] && n[UPDATE_TO_ALL] > n[UPDATE_WHOLE] / 2) {
		first = k->whole;
		n[UPDATE_TO_ALL] = n[UPDATE_WHOLE];
		n[UPDATE_WHOLE] = 0;
	}
	atomic_fetch_add(&u->compared, t->p.n);
	if (!place(k->w, t, n, coding_of(first + HEAD), at))
		return 0;
	if (update_write_coded(u, UPDATE_TO_ALL, first, at[UPDATE_TO_ALL], n[UPDATE_TO_ALL], err) <
	    0)
		return -1;
	return update_write_coded(u, UPDATE_WHOLE, k->whole, at[UPDATE_WHOLE], n[UPDATE_WHOLE],
	                          err);
}

/* ---- decoding ---- */

/* The coded piece to k->piece. */
static int decode_coded(struct worker *k, const struct taken *t, const char *path, struct err *err)
{
	const struct update *u = &k->w->c->transfer.update;
	const int root = k->w->c->agreed.root;
	struct err why = ERR_INIT;
	uint8_t digest[DIGEST_BYTES];
	if (update_read_coded(u, t->stream, k->coded, t->at, t->bytes, err) < 0)
		return -1;
	const bool based = t->stream == UPDATE_TO_ALL && coding_has_base(coding_of(k->coded));
	if (based && read_base(k, &t->p, path, err) < 0)
		return -1;
	if (coding_decode(k->coder, k->coded, t->bytes, based ? k->base : NULL, k->piece, t->p.n,
	                  &why) < 0)
		return err_rank(err, why.code, why.code == ERR_INTEGRITY ? root : ERR_RANK_SELF,
		                "%s: %s", path, why.text);
	update_hash(k->piece, t->p.n, digest);
	if (memcmp(digest, u->of_pieces + t->p.i * DIGEST_BYTES, DIGEST_BYTES) == 0)
		return 0;
	return err_rank(err, ERR_INTEGRITY, root,
	                "%s: a coded piece gives other bytes than its digest says", path);
}

static int decode(struct worker *k, const struct taken *t, struct err *err)
{
	struct collective *c = k->w->c;
	struct sink *sink = c->transfer.sink;
	const int file = files_place(c, 0, (size_t)t->p.f)->file;
	const bool has = k->in || !update_bit(c->transfer.update.own_lacks, t->p.i);
	if (sink_fate(sink, file) == SINK_LEAVE) /* another rank writes it */
		return 0;
	if (update_bit(c->transfer.update.in_part, t->p.i))
		return update_check_in_place(c, file, &t->p, k->piece, err);
	if (has ? read_piece(k, &t->p, sink_path(sink, file), err) < 0
	        : decode_coded(k, t, sink_path(sink, file), err) < 0)
		return -1;
	return sink_pwrite(sink, file, k->piece, t->p.n, t->p.at, err);
}

/* ---- threads ---- */

static int make_worker(struct worker *k, struct err *err)
{
	k->piece = err_malloc(UPDATE_PIECE, "staging", err);
	k->base = err_malloc(UPDATE_PIECE, "staging", err);
	k->coded = err_malloc(HEAD + CODING_ROOM(UPDATE_PIECE), "staging", err);
	k->whole = err_malloc(HEAD + CODING_ROOM(UPDATE_PIECE), "staging", err);
	k->coder = coder_new(k->w->zstd, err);
	return k->piece && k->base && k->coded && k->whole && k->coder ? 0 : -1;
}

static void release_worker(struct worker *k)
{
	close_file(k);
	free(k->piece);
	free(k->base);
	free(k->coded);
	free(k->whole);
	coder_free(k->coder);
}

static int run_worker(void *ctx, struct err *err)
{
	struct worker *k = ctx;
	struct taken t = {0};
	int ret = make_worker(k, err);
	int got = ret == 0 ? take(k->w, &t, err) : -1;
	while (got > 0) {
		open_file(k, t.p.f);
		got = (k->w->encodes ? encode : decode)(k, &t, err) < 0 ? -1 : take(k->w, &t, err);
	}
	release_worker(k);
	if (got < 0)
		fail(k->w);
	return got;
}

static int count_threads(const struct collective *c)
{
	const uint64_t room = c->life->plan.memory / THREAD_MEMORY;
	const uint64_t pieces = c->transfer.update.npieces;
	uint64_t n = (uint64_t)collective_threads(c);
	n = n < THREADS ? n : THREADS;
	n = n < room ? n : room;
	n = n < pieces ? n : pieces;
	return n ? (int)n : 1;
}

/* Work on all pieces. */
static int run(struct work *w, struct err *err)
{
	struct worker workers[THREADS];
	w->nthreads = count_threads(w->c);
	pthread_mutex_init(&w->lock, NULL);
	for (int k = 0; k < w->nthreads; k++) {
		pthread_cond_init(&w->turn[k], NULL);
		workers[k] = (struct worker){.w = w, .f = -1};
	}
	const int ret = offload_share(w->nthreads, run_worker, workers, sizeof *workers, err);
	for (int k = 0; k < w->nthreads; k++)
		pthread_cond_destroy(&w->turn[k]);
	pthread_mutex_destroy(&w->lock);
	return ret;
}

int update_encode(void *collective, struct err *err)
{
	struct collective *c = collective;
	struct update *u = &c->transfer.update;
	struct work w = {.c = c, .encodes = true};
	w.zstd = !update_bit(u->lacks, 2 * (uint64_t)c->agreed.root_files.nfiles);
	if (update_open_spool(u, UPDATE_TO_ALL, err) < 0 ||
	    update_open_spool(u, UPDATE_WHOLE, err) < 0 || run(&w, err) < 0)
		return -1;
	memcpy(u->coded_bytes, w.at, sizeof u->coded_bytes);
	return 0;
}

int update_decode(struct collective *c, struct err *err)
{
	const struct update *u = &c->transfer.update;
	struct work w = {.c = c, .zstd = true};
	if (!u->coded || !c->transfer.sink)
		return 0;
	if (run(&w, err) < 0)
		return -1;
	if (collective_is_root(c) || (w.at[UPDATE_TO_ALL] == u->coded_bytes[UPDATE_TO_ALL] &&
	                              (w.at[UPDATE_WHOLE] == u->coded_bytes[UPDATE_WHOLE] ||
	                               !update_lacks_old(c, c->agreed.rank))))
		return 0;
	return damaged(c, err);
}
