#include "lib/coll/files/update.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/offload.h"
#include "lib/base/xxh3.h"
#include "lib/coll/collective.h"
#include "lib/data/files/input.h"

#define DIGESTS_MOST 65000 /* digests in a round: fewer than JOB_ROUND_MAX bytes */

enum round { ROUND_DIGESTS = 1, ROUND_LACKS };

/* ---- the digests of files ---- */

/* The digest of the first @bytes of @fd, unless it has fewer. */
static int digest_file(int fd, const char *path, uint64_t bytes, uint8_t *buf,
                       uint8_t digest[DIGEST_BYTES], struct err *err)
{
	XXH3_state_t *state = XXH3_createState();
	int ret = state ? 0 : err_nomem(err, "a digest", 0);
	if (ret == 0)
		XXH3_128bits_reset(state);
	for (uint64_t at = 0, n; ret == 0 && at < bytes; at += n) {
		n = bytes - at < STAGING ? bytes - at : STAGING;
		ret = offload_stopped(err);
		if (ret == 0)
			ret = input_pread(fd, path, buf, n, at, err);
		if (ret == 0)
			XXH3_128bits_update(state, buf, n);
	}
	if (ret == 0) {
		XXH128_canonical_t c;
		XXH128_canonicalFromHash(&c, XXH3_128bits_digest(state));
		memcpy(digest, c.digest, DIGEST_BYTES);
	}
	XXH3_freeState(state);
	return ret;
}

/* At the root. */
static int digest_inputs(void *ctx, struct err *err)
{
	struct collective *c = ctx;
	struct buf *digests = &c->transfer.update.digests;
	uint8_t *buf = err_malloc(STAGING, "staging", err), digest[DIGEST_BYTES];
	int ret = buf ? 0 : -1;
	for (int k = 0; k < c->transfer.ninputs && ret == 0; k++) {
		const struct dataset *d = &c->transfer.inputs[k];
		for (int f = 0; f < d->nfiles && ret == 0; f++) {
			const struct dataset_file *in = &d->files[f];
			if (in->unpacked)
				continue;
			ret = digest_file(in->fd, in->name, in->size, buf, digest, err);
			buf_put(digests, digest, sizeof digest);
		}
	}
	free(buf);
	if (ret == 0 && digests->failed)
		ret = err_nomem(err, "the digests of the files", digests->len);
	return ret;
}

/* ---- what this rank lacks ---- */

/* Is the old file at the output's path as the root's file @f? */
static bool is_equal(const struct collective *c, int f, int fd, uint8_t *buf)
{
	const struct listed_file *want = &c->agreed.root_files.files[f];
	const struct sink_attributes as = files_attributes(c, want);
	const struct buf *digests = &c->transfer.update.digests;
	uint8_t digest[DIGEST_BYTES];
	struct err ignored = ERR_INIT;
	struct stat st;
	if (want->mode == MODE_NONE || fstat(fd, &st) || (uint64_t)st.st_size != want->bytes ||
	    (as.has_mode && (st.st_mode & 0777) != (as.mode & 0777)))
		return false;
	if (!c->request->checksum)
		return st.st_mtim.tv_sec == as.modified.tv_sec &&
		       st.st_mtim.tv_nsec == as.modified.tv_nsec;
	return digest_file(fd, want->name, want->bytes, buf, digest, &ignored) == 0 &&
	       memcmp(digest, digests->data + (size_t)f * DIGEST_BYTES, DIGEST_BYTES) == 0;
}

static bool has_file(const struct collective *c, int f, uint8_t *buf)
{
	const int copies = c->transfer.copies;
	for (int k = 0; k < copies; k++) {
		const struct place *to = files_place(c, k, (size_t)f);
		const int fd = sink_open_old(c->transfer.sink, to->file);
		const bool equal = fd >= 0 && is_equal(c, f, fd, buf);
		if (fd >= 0)
			close(fd);
		if (!equal)
			return false;
	}
	return true;
}

static int find_lacks(void *ctx, struct err *err)
{
	struct collective *c = ctx;
	uint8_t *buf = err_malloc(STAGING, "staging", err);
	int ret = buf ? 0 : -1;
	for (int f = 0; f < c->agreed.root_files.nfiles && ret == 0 && c->transfer.sink; f++) {
		ret = offload_stopped(err);
		if (ret == 0 && !has_file(c, f, buf))
			c->transfer.update.lacks[f / 8] |= (uint8_t)(1 << f % 8);
	}
	free(buf);
	return ret;
}

/* ---- rounds ---- */

static size_t lacks_bytes(const struct collective *c)
{
	return ((size_t)c->agreed.root_files.nfiles + 7) / 8;
}

bool update_exchanges(const struct collective *c)
{
	return c->transfer.update.exchanging;
}

int update_take(struct collective *c, int rank, struct view part, struct err *err)
{
	struct update *u = &c->transfer.update;
	const uint8_t round = view_u8(&part);
	const size_t n = view_left(&part), want = lacks_bytes(c);
	const uint8_t *p = view_bytes(&part, n);
	if (round == ROUND_DIGESTS && (n == 0 || rank == c->agreed.root)) {
		if (n)
			u->answer.len = 0;
		if (n)
			buf_put(&u->answer, p, n);
	} else if (round == ROUND_LACKS && n == want) {
		if (u->round != ROUND_LACKS) /* the first part */
			u->answer.len = 0;
		for (size_t i = 0; i < n && i < u->answer.len; i++)
			u->answer.data[i] |= p[i];
		if (!u->answer.len)
			buf_put(&u->answer, p, n);
	} else {
		return malformed(err, "ROUND", "files");
	}
	u->round = round;
	return u->answer.failed ? err_nomem(err, "the files", n) : 0;
}

void update_answer(struct collective *c, struct buf *out)
{
	const struct buf *answer = &c->transfer.update.answer;
	if (answer->len)
		buf_put(out, answer->data, answer->len);
}

static int send_round(struct collective *c, enum round round, const uint8_t *part, size_t n,
                      struct view *answer, struct err *err)
{
	struct buf b;
	buf_init(&b, JOB_ROUND_MAX);
	buf_put_u8(&b, (uint8_t)round);
	if (n)
		buf_put(&b, part, n);
	int ret = b.failed ? err_nomem(err, "the files", n)
	                   : job_round(c->life->job, &b, answer, err);
	buf_release(&b);
	return ret;
}

/* The root's digests to all ranks. */
static int exchange_digests(struct collective *c, struct err *err)
{
	struct buf *digests = &c->transfer.update.digests;
	const size_t all = (size_t)c->agreed.root_files.nfiles * DIGEST_BYTES;
	const bool root = c->agreed.rank == c->agreed.root;
	if (root && job_run_in_thread(c->life->job, digest_inputs, c, err) < 0)
		return -1;
	for (size_t at = 0, n; at < all; at += n) {
		struct view answer;
		n = all - at < DIGESTS_MOST * DIGEST_BYTES ? all - at : DIGESTS_MOST * DIGEST_BYTES;
		if (send_round(c, ROUND_DIGESTS, root ? digests->data + at : NULL, root ? n : 0,
		               &answer, err) < 0)
			return -1;
		if (view_left(&answer) != n)
			return err_rank(err, ERR_INTEGRITY, job_coordinator(c->life->job),
			                "a malformed ANSWER message (files)");
		if (!root)
			buf_put(digests, answer.p, n);
	}
	return digests->failed ? err_nomem(err, "the digests of the files", all) : 0;
}

static int exchange(struct collective *c, struct err *err)
{
	struct update *u = &c->transfer.update;
	const size_t n = lacks_bytes(c);
	struct view answer;
	if (c->request->checksum && exchange_digests(c, err) < 0)
		return -1;
	if (job_run_in_thread(c->life->job, find_lacks, c, err) < 0 ||
	    send_round(c, ROUND_LACKS, u->lacks, n, &answer, err) < 0)
		return -1;
	if (view_left(&answer) != n)
		return err_rank(err, ERR_INTEGRITY, job_coordinator(c->life->job),
		                "a malformed ANSWER message (files)");
	memcpy(u->lacks, answer.p, n);
	return 0;
}

/* ---- what is left ---- */

static void keep(struct collective *c, int f)
{
	struct tensor *t = &c->agreed.tensors[f].tensor;
	for (int k = 0; c->transfer.sink && k < c->transfer.copies; k++)
		sink_keep(c->transfer.sink, files_place(c, k, (size_t)f)->file);
	t->count = t->bytes = 0;
}

static int shrink(struct collective *c, struct err *err)
{
	struct update *u = &c->transfer.update;
	struct agreement *a = &c->agreed;
	struct vector *v = &a->vectors[0];
	uint64_t at = 0;
	for (int f = 0; f < a->root_files.nfiles; f++) {
		if (!(u->lacks[f / 8] >> f % 8 & 1)) {
			keep(c, f);
			u->nequal++;
		}
		a->tensors[f].at = at;
		at += a->tensors[f].tensor.bytes;
	}
	if (!u->nequal)
		return 0;
	coll_note(c->life, a->rank == 0 ? 0 : 1, "%zu of %d files are as the root's: not sent",
	          u->nequal, a->root_files.nfiles);
	v->info.count = v->info.shape[0] = at;
	return agree_layout(c, v, err);
}

int update_agree(struct collective *c, struct err *err)
{
	struct update *u = &c->transfer.update;
	if (!c->request->update || c->agreed.size == 1)
		return 0;
	buf_init(&u->answer, JOB_ROUND_MAX);
	buf_init(&u->digests, FILE_LIST_NAMES_MAX * DIGEST_BYTES);
	if (!(u->lacks = err_calloc(lacks_bytes(c) + 1, 1, "the files", err)))
		return -1;
	u->exchanging = true;
	job_caller_watches(c->life->job, true);
	int ret = exchange(c, err);
	job_caller_watches(c->life->job, false);
	u->exchanging = false;
	return ret == 0 ? shrink(c, err) : -1;
}

void update_release(struct collective *c)
{
	struct update *u = &c->transfer.update;
	free(u->lacks);
	buf_release(&u->answer);
	buf_release(&u->digests);
}
