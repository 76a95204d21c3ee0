#include "lib/coll/files/gather_update.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/offload.h"
#include "lib/coll/collective.h"

static bool wanted(const struct collective *c)
{
	return request_gathers_files(c->request) && c->request->update;
}

/* ---- digests ---- */

/* This rank's. In a thread. */
static int digest_own(void *ctx, struct err *err)
{
	struct collective *c = ctx;
	const struct file_list *l = &c->transfer.gives;
	uint8_t *buf = err_malloc(UPDATE_PIECE, "staging", err);
	int ret = buf ? 0 : -1;
	for (int f = 0; ret == 0 && f < l->nfiles; f++) {
		const struct dataset_file *in = files_listed_input(c, f);
		if (!l->files[f].linked)
			ret = update_digest_input(
			        &c->transfer.update, in, in->path, buf,
			        c->transfer.gather_update.digests + (size_t)f * DIGEST_BYTES, err);
	}
	free(buf);
	return ret;
}

static size_t files_of_all(const struct rank_files *of, int size)
{
	size_t n = 0;
	for (int r = 0; r < size; r++)
		n += (size_t)of[r].files.nfiles;
	return n;
}

/* ---- rounds ---- */

bool gather_update_exchanges(const struct collective *c)
{
	return wanted(c) && c->agreed.size > 1 && c->transfer.gather_update.round != GATHER_OVER;
}

/* The first round, once; the coordinator's own part may come after others'. */
static void begin(struct collective *c)
{
	struct gather_update *u = &c->transfer.gather_update;
	if (u->round == GATHER_DIGESTS && !c->request->checksum)
		u->round = GATHER_EQUAL;
}

/* On the coordinator: the files of all ranks. */
static struct rank_files *lists_of(const struct collective *c)
{
	return c->agreed.rank_files ? c->agreed.rank_files : c->planner.gathered;
}

static int take_digests(struct collective *c, int rank, struct view part, struct err *err)
{
	const struct rank_files *of = lists_of(c);
	struct buf *said = &c->transfer.gather_update.said;
	const size_t all = files_of_all(of, c->agreed.size) * DIGEST_BYTES,
	             at = files_of_all(of, rank) * DIGEST_BYTES, n = view_left(&part);
	if (n != (size_t)of[rank].files.nfiles * DIGEST_BYTES)
		return malformed(err, "ROUND", "files");
	if (all > JOB_ROUND_MAX) {
		err_set(err, ERR_RESOURCE,
		        "--checksum: the digests of the %zu files of all ranks do not fit a "
		        "message of %u bytes: gather fewer at a time (--include)",
		        all / DIGEST_BYTES, JOB_ROUND_MAX);
		err->rank = c->agreed.rank;
		return -1;
	}
	if (!said->len && all) { /* the first */
		buf_init(said, JOB_ROUND_MAX);
		if (!buf_room(said, all))
			return err_nomem(err, "the digests of the files", all);
		said->len = all;
	}
	if (n)
		memcpy(said->data + at, part.p, n);
	return 0;
}

int gather_update_take(struct collective *c, int rank, struct view part, struct err *err)
{
	struct buf *said = &c->transfer.gather_update.said;
	begin(c);
	if (c->transfer.gather_update.round == GATHER_DIGESTS)
		return take_digests(c, rank, part, err);
	if (rank != c->agreed.root)
		return view_left(&part) ? malformed(err, "ROUND", "files") : 0;
	buf_init(said, JOB_ROUND_MAX);
	buf_put(said, part.p, view_left(&part));
	if (said->failed)
		return err_nomem(err, "the files", view_left(&part));
	bool right = true;
	for (int r = 0; r < c->agreed.size && right; r++)
		right = file_list_get_equal(&part, &lists_of(c)[r].files, c->agreed.nvectors);
	return right && !view_left(&part) ? 0 : malformed(err, "ROUND", "files");
}

void gather_update_answer(struct collective *c, int rank, struct buf *out)
{
	struct gather_update *u = &c->transfer.gather_update;
	if (u->said.len && (u->round == GATHER_EQUAL || rank == c->agreed.root))
		buf_put(out, u->said.data, u->said.len);
	if (++u->told < c->agreed.size)
		return;
	u->told = 0;
	u->round++;
	buf_release(&u->said);
}

static int exchange_digests(struct collective *c, struct err *err)
{
	struct gather_update *u = &c->transfer.gather_update;
	const size_t own = (size_t)c->transfer.gives.nfiles;
	const size_t all =
	        collective_is_root(c) ? files_of_all(c->agreed.rank_files, c->agreed.size) : own;
	struct view answer;
	struct buf b;
	if (!(u->digests = err_calloc(all + 1, DIGEST_BYTES, "the digests of the files", err)) ||
	    job_run_in_thread(c->life->job, digest_own, c, err) < 0)
		return -1;
	if (c->agreed.size == 1)
		return 0;
	buf_init(&b, JOB_ROUND_MAX);
	if (own)
		buf_put(&b, u->digests, own * DIGEST_BYTES);
	if (coll_await_round(c->life, &b, "the files", &answer, err) < 0)
		return -1;
	if (!collective_is_root(c))
		return 0;
	if (view_left(&answer) != all * DIGEST_BYTES)
		return update_malformed_answer(c, err);
	if (all)
		memcpy(u->digests, answer.p, all * DIGEST_BYTES);
	return 0;
}

/* ---- what the root has ---- */

static int keep(struct gather_update *u, struct sink *sink, int file, const struct stat *was,
                struct err *err)
{
	struct gather_kept *kept =
	        err_grow(u->kept, u->nkept, sizeof *kept, "the files that are left", err);
	if (!kept)
		return -1;
	u->kept = kept;
	kept[u->nkept++] = (struct gather_kept){file, *was};
	u->kept_bytes += sink_size(sink, file);
	sink_keep(sink, file);
	return 0;
}

/* Compare the output @file with @want. */
static int compare(struct collective *c, struct listed_file *want, int file, const uint8_t *digest,
                   struct beneath *last, uint8_t *buf, struct err *err)
{
	struct sink *sink = c->transfer.sink;
	struct stat was;
	if (want->linked)
		return 0;
	if (sink_fate(sink, file) == SINK_KEEP) { /* the root's own file */
		want->equal = true;
		return 0;
	}
	want->equal = update_is_copy(c, want, file, digest, last, &was, buf);
	return want->equal ? keep(&c->transfer.gather_update, sink, file, &was, err) : 0;
}

/* At the root, in a thread. */
static int compare_all(void *ctx, struct err *err)
{
	struct collective *c = ctx;
	const struct gather_update *u = &c->transfer.gather_update;
	uint8_t *buf = err_malloc(UPDATE_PIECE, "staging", err);
	struct beneath last = BENEATH_INIT;
	int ret = buf ? 0 : -1;
	size_t n = 0;
	for (int r = 0; r < c->agreed.size; r++) {
		struct rank_files *of = &c->agreed.rank_files[r];
		for (int f = 0; ret == 0 && f < of->files.nfiles; f++, n++)
			if ((ret = offload_stopped(err)) == 0)
				ret = compare(c, &of->files.files[f], gathered_file(c, r, f),
				              u->digests ? u->digests + n * DIGEST_BYTES : NULL,
				              &last, buf, err);
	}
	beneath_release(&last);
	free(buf);
	return ret;
}

/* Take the answer: how much each rank sends, and which of its files this rank does not send. */
static int take_equal(struct collective *c, struct view v, struct err *err)
{
	struct agreement *a = &c->agreed;
	bool right = true;
	for (int r = 0; r < a->size && right; r++) {
		struct view its = v;
		for (int i = 0; i < a->nvectors; i++) {
			const uint64_t bytes = view_u64(&v);
			right &= bytes <= a->vectors[i].rows[r];
			a->vectors[i].rows[r] = bytes;
		}
		view_bytes(&v, (view_u32(&v) + (size_t)7) / 8);
		right &= !v.failed && (r != a->rank ||
		                       file_list_get_equal(&its, &c->transfer.gives, a->nvectors));
	}
	return right && !view_left(&v) ? 0 : update_malformed_answer(c, err);
}

static int lay_out(struct collective *c, struct err *err)
{
	for (int i = 0; i < c->agreed.nvectors; i++) {
		struct vector *v = &c->agreed.vectors[i];
		v->info.count = v->info.shape[0] = v->rows[c->agreed.rank];
		if (agree_layout(c, v, err) < 0)
			return -1;
	}
	agree_describe_outputs(c);
	return 0;
}

static int exchange_equal(struct collective *c, struct err *err)
{
	struct buf b;
	struct view answer;
	int ret = 0;
	buf_init(&b, JOB_ROUND_MAX);
	if (collective_is_root(c)) {
		ret = job_run_in_thread(c->life->job, compare_all, c, err);
		if (ret == 0)
			for (int r = 0; r < c->agreed.size; r++)
				file_list_put_equal(&b, &c->agreed.rank_files[r].files,
				                    c->agreed.nvectors);
	}
	if (ret == 0 && c->agreed.size == 1)
		ret = take_equal(c, view_of(b.data, b.len), err);
	if (ret < 0 || c->agreed.size == 1) {
		buf_release(&b);
		return ret;
	}
	return coll_await_round(c->life, &b, "the files", &answer, err) < 0
	               ? -1
	               : take_equal(c, answer, err);
}

static void note(const struct collective *c)
{
	const size_t n = c->transfer.gather_update.nkept;
	if (n)
		coll_note(c->life, 0, "%zu of %zu files are as the ranks': not sent", n,
		          files_of_all(c->agreed.rank_files, c->agreed.size));
}

static int agree(struct collective *c, struct err *err)
{
	begin(c);
	if ((c->request->checksum && exchange_digests(c, err) < 0) || exchange_equal(c, err) < 0 ||
	    lay_out(c, err) < 0)
		return -1;
	if (collective_is_root(c))
		note(c);
	return 0;
}

int gather_update_agree(struct collective *c, struct err *err)
{
	struct digest_cache *cache = &c->transfer.update.cache;
	if (!wanted(c))
		return 0;
	if (collective_is_root(c) && !c->transfer.split)
		return err_set(err, ERR_USAGE,
		               "--update: %s is one file for all ranks: put {rank} into -o, or "
		               "name a folder",
		               c->transfer.output);
	progress_compare(c);
	cache->fd = -1;
	if (c->request->checksum && !c->request->no_digest_cache)
		digest_cache_open(cache);
	const int ret = agree(c, err);
	digest_cache_close(cache);
	return ret;
}

int gather_update_check(const struct collective *c, struct err *err)
{
	const struct gather_update *u = &c->transfer.gather_update;
	struct beneath last = BENEATH_INIT;
	int ret = 0;
	for (size_t i = 0; i < u->nkept && ret == 0; i++)
		ret = update_check_left(c->transfer.sink, u->kept[i].file, &last, &u->kept[i].was,
		                        err);
	beneath_release(&last);
	return ret;
}

void gather_update_release(struct collective *c)
{
	struct gather_update *u = &c->transfer.gather_update;
	buf_release(&u->said);
	free(u->digests);
	free(u->kept);
}
