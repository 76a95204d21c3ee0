#include "lib/coll/files/update.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/offload.h"
#include "lib/base/units.h"
#include "lib/base/xxh3.h"
#include "lib/coll/collective.h"
#include "lib/data/files/input.h"
#include "lib/job/ranks.h"

#define ROUND_BYTES 1040000u /* of a part, and of an answer: digests of 65,000 files or pieces */

_Static_assert(ROUND_BYTES % DIGEST_BYTES == 0 && ROUND_BYTES + 16 < JOB_ROUND_MAX,
               "a round has whole digests");

enum round {
	ROUND_DIGESTS = 1,
	ROUND_LACKS,
	ROUND_PIECES,
	ROUND_LACKS_PIECES,
	ROUND_OLD,
	ROUND_MOVES,
	ROUND_BASES,
	ROUND_LENGTHS,
	ROUND_CODES,
};

/* ---- the digests of files ---- */

/* At the root. */
static int digest_inputs(void *ctx, struct err *err)
{
	struct collective *c = ctx;
	struct update *u = &c->transfer.update;
	uint8_t *digest = u->of_files, *buf = err_malloc(UPDATE_PIECE, "staging", err);
	int ret = buf ? 0 : -1;
	for (int f = 0; f < c->agreed.root_files.nfiles && ret == 0; f++, digest += DIGEST_BYTES) {
		const struct dataset_file *in = files_listed_input(c, f);
		ret = update_digest_input(u, in, in->name, buf, digest, err);
	}
	free(buf);
	return ret;
}

/* ---- what this rank lacks ---- */

/* Has the old file of the output @file this digest? *st: the attributes of the file that was read.
 */
static bool has_digest(struct collective *c, const struct listed_file *want, int file,
                       const uint8_t *digest, struct stat *st, uint8_t *buf)
{
	const int fd = sink_open_old(c->transfer.sink, file, NULL);
	const struct update_source source = update_source_of(&c->transfer.update, fd, want->name);
	uint8_t own[DIGEST_BYTES];
	struct err ignored = ERR_INIT;
	const bool same = fd >= 0 && fstat(fd, st) == 0 && (uint64_t)st->st_size == want->bytes &&
	                  update_digest_file(&c->transfer.update, &source, want->bytes, buf, own,
	                                     &ignored) == 0 &&
	                  memcmp(own, digest, DIGEST_BYTES) == 0;
	if (fd >= 0)
		close(fd);
	return same;
}

bool update_is_copy(struct collective *c, const struct listed_file *want, int file,
                    const uint8_t *digest, struct beneath *last, struct stat *st, uint8_t *buf)
{
	const struct sink_attributes as = files_attributes(c, want);
	if (want->mode == MODE_NONE || sink_stat_old(c->transfer.sink, file, last, st, NULL) ||
	    (uint64_t)st->st_size != want->bytes ||
	    (as.has_mode && (st->st_mode & 0777) != (as.mode & 0777)))
		return false;
	if (c->request->checksum)
		return has_digest(c, want, file, digest, st, buf);
	return st->st_mtim.tv_sec == as.modified.tv_sec &&
	       st->st_mtim.tv_nsec == as.modified.tv_nsec;
}

/* Is the old file at the path of the sink's file @file as the root's file @f? */
static bool is_equal(struct collective *c, int f, int file, struct beneath *last, uint8_t *buf)
{
	const struct listed_file *want = &c->agreed.root_files.files[f];
	const uint8_t *of_files = c->transfer.update.of_files;
	struct stat *seen = &c->transfer.update.seen[f];
	if (sink_fate(c->transfer.sink, file) == SINK_KEEP) /* it is the root's input */
		return want->mode != MODE_NONE &&
		       sink_stat_old(c->transfer.sink, file, last, seen, NULL) == 0;
	return update_takes_old(c) &&
	       update_is_copy(c, want, file, of_files ? of_files + (size_t)f * DIGEST_BYTES : NULL,
	                      last, seen, buf);
}

/* Is there an old version of the output @file that can be read? */
static bool has_old(const struct collective *c, int file)
{
	const int fd = update_takes_old(c) ? sink_open_old(c->transfer.sink, file, NULL) : -1;
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void find_old(struct collective *c, int f, struct beneath *last, uint8_t *buf)
{
	uint8_t *lacks = c->transfer.update.lacks;
	for (int k = 0; k < c->transfer.copies; k++) {
		const int file = files_place(c, k, (size_t)f)->file;
		const enum sink_fate fate = sink_fate(c->transfer.sink, file);
		const bool equal = is_equal(c, f, file, last, buf);
		const bool old = equal || fate == SINK_KEEP || has_old(c, file);
		/* Also if there is an old version: the commit removes a part that is not needed. */
		const bool part = sink_open_part(c->transfer.sink, file) >= 0;
		/* If another rank writes the file, it answers for both. */
		if (!old && !part && fate != SINK_LEAVE)
			update_set_bit(lacks, 2 * (uint64_t)f + 1);
		if (!equal)
			update_set_bit(lacks, 2 * (uint64_t)f);
	}
}

static int find_lacks(void *ctx, struct err *err)
{
	struct collective *c = ctx;
	uint8_t *buf = err_malloc(UPDATE_PIECE, "staging", err);
	struct beneath last = BENEATH_INIT;
	int ret = buf ? 0 : -1;
	for (int f = 0; f < c->agreed.root_files.nfiles && ret == 0 && c->transfer.sink; f++) {
		ret = offload_stopped(err);
		if (ret == 0 && !c->agreed.root_files.files[f].linked)
			find_old(c, f, &last, buf);
	}
	beneath_release(&last);
	if (c->request->delta ? !coding_library() : c->request->update && !update_can_decode(c))
		update_set_bit(c->transfer.update.lacks, 2 * (uint64_t)c->agreed.root_files.nfiles);
	free(buf);
	return ret;
}

/* ---- rounds ---- */

bool update_takes_old(const struct collective *c)
{
	return c->request->update || c->request->delta;
}

bool update_wanted(const struct collective *c)
{
	return c->request->kind == COLL_BROADCAST && request_compares(c->request) != NULL;
}

bool update_exchanges(const struct collective *c)
{
	return update_wanted(c) && c->agreed.size > 1 && !c->transfer.update.over;
}

/* The coordinator's own part says which round it is. Others may come before it. */
static int check_said(const struct collective *c, struct err *err)
{
	const uint64_t *said = c->transfer.update.said;
	const uint64_t own = said[c->agreed.rank];
	for (int r = 0; own && r < c->agreed.size; r++)
		if (said[r] && said[r] != own)
			return err_rank(err, ERR_INTEGRITY, r, "a malformed ROUND message (files)");
	return 0;
}

int update_take(struct collective *c, int rank, struct view part, struct err *err)
{
	struct update *u = &c->transfer.update;
	const size_t size = (size_t)c->agreed.size;
	const uint8_t round = view_u8(&part);
	const uint32_t number = view_u32(&part);
	const size_t n = view_left(&part);
	const uint8_t *p = view_bytes(&part, n);
	const bool roots = round == ROUND_DIGESTS || round == ROUND_PIECES || round == ROUND_OLD ||
	                   round == ROUND_MOVES || round == ROUND_LENGTHS || round == ROUND_CODES;
	if (part.failed || round < ROUND_DIGESTS || round > ROUND_CODES || n > ROUND_BYTES ||
	    (roots && n && rank != c->agreed.root))
		return malformed(err, "ROUND", "files");
	if (!u->said && !(u->said = err_calloc(size, sizeof *u->said, "the files", err)))
		return -1;
	if (u->parts % c->agreed.ncame == 0) { /* the first of a round */
		memset(u->said, 0, size * sizeof *u->said);
		buf_release(&u->answer);
		buf_init(&u->answer, JOB_ROUND_MAX);
	}
	u->parts = u->parts % c->agreed.ncame + 1;
	u->said[rank] = (uint64_t)round << 32 | number;
	for (size_t i = 0; i < n && i < u->answer.len; i++)
		u->answer.data[i] |= p[i];
	if (n > u->answer.len)
		buf_put(&u->answer, p + u->answer.len, n - u->answer.len);
	if (u->answer.failed)
		return err_nomem(err, "the files", n);
	return check_said(c, err);
}

void update_answer(struct collective *c, struct buf *out)
{
	const struct buf *answer = &c->transfer.update.answer;
	if (answer->len)
		buf_put(out, answer->data, answer->len);
}

/* Has @all the bits of @own? */
static bool includes(const uint8_t *all, const uint8_t *own, size_t n)
{
	bool ok = true;
	for (size_t i = 0; i < n; i++)
		ok &= (all[i] & own[i]) == own[i];
	return ok;
}

int update_malformed_answer(const struct collective *c, struct err *err)
{
	return err_rank(err, ERR_INTEGRITY, job_coordinator(c->life->job),
	                "a malformed ANSWER message (files)");
}

/* Exchange the @all bytes @bytes in as many rounds as they need: what this rank has, if it @sends,
 * becomes what all ranks have sent. */
static int send_rounds(struct collective *c, enum round round, bool sends, uint8_t *bytes,
                       uint64_t all, struct err *err)
{
	uint32_t number = 0;
	for (uint64_t at = 0, n; at < all; at += n) {
		struct view answer;
		struct buf b;
		n = all - at < ROUND_BYTES ? all - at : ROUND_BYTES;
		buf_init(&b, JOB_ROUND_MAX);
		buf_put_u8(&b, (uint8_t)round);
		buf_put_u32(&b, number++);
		if (sends)
			buf_put(&b, bytes + at, n);
		if (coll_await_round(c->life, &b, "the files", &answer, err) < 0)
			return -1;
		if (view_left(&answer) != n || (sends && !includes(answer.p, bytes + at, n)))
			return update_malformed_answer(c, err);
		memcpy(bytes + at, answer.p, n);
	}
	return 0;
}

/* What the ranks lack, and what the coordinator knows of the network. */
static int send_lacks(struct collective *c, struct err *err)
{
	struct update *u = &c->transfer.update;
	const uint64_t n = (2 * (uint64_t)c->agreed.root_files.nfiles + 1 + 7) / 8;
	const double rate = job_coordinator(c->life->job) == c->agreed.rank
	                            ? network_rate(&c->planner.network)
	                            : 0;
	put_u64(u->lacks + n, (uint64_t)rate);
	if (send_rounds(c, ROUND_LACKS, true, u->lacks, n + sizeof u->rate, err) < 0)
		return -1;
	u->rate = get_u64(u->lacks + n);
	return 0;
}

static int compare_files(struct collective *c, struct err *err)
{
	struct update *u = &c->transfer.update;
	const uint64_t n = (uint64_t)c->agreed.root_files.nfiles;
	const bool root = collective_is_root(c);
	if (c->request->checksum &&
	    (!(u->of_files = err_calloc(n + 1, DIGEST_BYTES, "the digests of the files", err)) ||
	     (root && job_run_in_thread(c->life->job, digest_inputs, c, err) < 0) ||
	     send_rounds(c, ROUND_DIGESTS, root, u->of_files, n * DIGEST_BYTES, err) < 0))
		return -1;
	if (job_run_in_thread(c->life->job, find_lacks, c, err) < 0)
		return -1;
	return send_lacks(c, err);
}

/* Are pieces coded, if there are any? */
static int choose_coding(struct collective *c, struct err *err)
{
	struct update *u = &c->transfer.update;
	u->codes = c->request->delta;
	if (u->codes || !update_may_compress(c))
		return 0;
	if (collective_is_root(c) && job_run_in_thread(c->life->job, update_try_coding, c, err) < 0)
		return -1;
	uint8_t codes = u->codes;
	if (send_rounds(c, ROUND_CODES, collective_is_root(c), &codes, sizeof codes, err) < 0)
		return -1;
	u->codes = codes;
	return 0;
}

/* ---- pieces ---- */

/* The most bytes of a piece in tables. */
#define PIECE_MEMORY (4 * DIGEST_BYTES)

static uint64_t pieces_of(uint64_t bytes)
{
	return bytes / UPDATE_PIECE + (bytes % UPDATE_PIECE > 0);
}

/* Files that a rank lacks have pieces, if these are coded, or each rank has an old version. */
static void count_pieces(struct collective *c)
{
	struct update *u = &c->transfer.update;
	uint64_t n = 0;
	for (int f = 0; f < c->agreed.root_files.nfiles; f++) {
		const uint64_t bytes = c->agreed.root_files.files[f].bytes;
		u->first_piece[f] = n;
		if (update_bit(u->lacks, 2 * (uint64_t)f) &&
		    (u->codes || !update_bit(u->lacks, 2 * (uint64_t)f + 1)))
			n += pieces_of(bytes);
	}
	/* All ranks have the same plan. A dry run reads contents only with --checksum. */
	if (n > c->life->plan.memory / PIECE_MEMORY ||
	    (c->request->dry_run && !c->request->checksum))
		memset(u->first_piece, 0,
		       sizeof *u->first_piece * ((size_t)c->agreed.root_files.nfiles + 1));
	else
		u->first_piece[c->agreed.root_files.nfiles] = u->npieces = n;
}

static int compare_pieces(struct collective *c, struct err *err)
{
	struct update *u = &c->transfer.update;
	count_pieces(c);
	const uint64_t n = u->npieces;
	const bool root = collective_is_root(c);
	if (!n)
		return 0;
	if (!(u->lacks_piece = err_calloc(n / 8 + 1, 1, "the pieces", err)) ||
	    !(u->in_part = err_calloc(n / 8 + 1, 1, "the pieces", err)) ||
	    !(u->of_pieces = err_calloc(n, DIGEST_BYTES, "the pieces", err)) ||
	    !(u->own = err_calloc(n, DIGEST_BYTES, "the pieces", err)) ||
	    !(u->own_lacks = err_calloc(n / 8 + 1, 1, "the pieces", err)) ||
	    (root && job_run_in_thread(c->life->job, update_digest_pieces, c, err) < 0) ||
	    send_rounds(c, ROUND_PIECES, root, u->of_pieces, n * DIGEST_BYTES, err) < 0 ||
	    job_run_in_thread(c->life->job, update_find_pieces, c, err) < 0)
		return -1;
	memcpy(u->own_lacks, u->lacks_piece, n / 8 + 1);
	return send_rounds(c, ROUND_LACKS_PIECES, true, u->lacks_piece, (n + 7) / 8, err);
}

/* ---- coded pieces ---- */

/* The digests of OLD's pieces, and then the number of moves. */
static int send_old(struct collective *c, uint64_t *moves, struct err *err)
{
	struct update *u = &c->transfer.update;
	const uint64_t n = u->npieces * DIGEST_BYTES;
	const bool root = collective_is_root(c);
	if (!(u->of_old = err_calloc(n + sizeof *moves, 1, "the pieces", err)) ||
	    (root && job_run_in_thread(c->life->job, update_digest_old, c, err) < 0))
		return -1;
	put_u64(u->of_old + n, u->moves.n);
	if (send_rounds(c, ROUND_OLD, root, u->of_old, n + sizeof *moves, err) < 0)
		return -1;
	*moves = get_u64(u->of_old + n);
	return update_takes_moves(c, *moves) ? 0 : update_malformed_answer(c, err);
}

static int send_moves(struct collective *c, uint64_t n, struct err *err)
{
	struct update_moves *moves = &c->transfer.update.moves;
	struct err why = ERR_INIT;
	uint8_t *bytes = err_calloc(n, UPDATE_MOVE_BYTES, "the tensors", err);
	int ret = bytes ? 0 : -1;
	if (ret == 0) {
		update_put_moves(moves, bytes);
		ret = send_rounds(c, ROUND_MOVES, collective_is_root(c), bytes,
		                  n * UPDATE_MOVE_BYTES, err);
	}
	if (ret == 0 && !collective_is_root(c) &&
	    update_get_moves(moves, &c->agreed.root_files, bytes, n, &why) < 0)
		ret = why.code == ERR_INTEGRITY ? update_malformed_answer(c, err)
		                                : err_pass(err, &why);
	free(bytes);
	return ret;
}

/* Which pieces of OLD do the ranks have? */
static int compare_bases(struct collective *c, struct err *err)
{
	struct update *u = &c->transfer.update;
	const uint64_t n = u->npieces, bits = 2 * n + (uint64_t)c->agreed.size;
	uint64_t moves;
	if (!(u->bases = err_calloc(bits / 8 + 1, 1, "the pieces", err)) ||
	    !(u->own_base = err_calloc(n / 8 + 1, 1, "the pieces", err)))
		return -1;
	if (!c->request->delta)
		return 0;
	if (send_old(c, &moves, err) < 0 || (moves && send_moves(c, moves, err) < 0) ||
	    (!collective_is_root(c) &&
	     job_run_in_thread(c->life->job, update_find_bases, c, err) < 0))
		return -1;
	return send_rounds(c, ROUND_BASES, true, u->bases, (bits + 7) / 8, err);
}

/* The most bytes that the pieces may have, coded. */
static uint64_t most_coded(const struct collective *c)
{
	uint64_t n = c->transfer.update.npieces * (4 + CODING_HEAD);
	for (int f = 0; f < c->agreed.root_files.nfiles; f++)
		n += c->agreed.root_files.files[f].bytes;
	return n;
}

/* The root tells the lengths of its streams. */
static int send_lengths(struct collective *c, struct err *err)
{
	struct update *u = &c->transfer.update;
	uint8_t lengths[UPDATE_STREAMS * sizeof(uint64_t)] = {0};
	for (int s = 0; s < UPDATE_STREAMS; s++)
		put_u64(lengths + 8 * s, u->coded_bytes[s]);
	if (send_rounds(c, ROUND_LENGTHS, collective_is_root(c), lengths, sizeof lengths, err) < 0)
		return -1;
	for (int s = 0; s < UPDATE_STREAMS; s++)
		if ((u->coded_bytes[s] = get_u64(lengths + 8 * s)) > most_coded(c))
			return update_malformed_answer(c, err);
	return 0;
}

static int code_pieces(struct collective *c, struct err *err)
{
	struct update *u = &c->transfer.update;
	if (compare_bases(c, err) < 0 ||
	    (collective_is_root(c) && job_run_in_thread(c->life->job, update_encode, c, err) < 0) ||
	    send_lengths(c, err) < 0)
		return -1;
	u->coded = true;
	for (enum update_stream s = 0; s < UPDATE_STREAMS; s++)
		if (u->coded_bytes[s] && update_open_spool(u, s, err) < 0)
			return -1;
	return 0;
}

/* ---- what is sent ---- */

/* Add bytes of file @f; the files come in their order. */
static int add_run(struct update *u, int f, uint64_t offset, uint64_t bytes, struct err *err)
{
	struct update_run *last = u->nruns > u->first_run[f] ? &u->run[u->nruns - 1] : NULL;
	if (last && last->offset + last->bytes == offset) {
		last->bytes += bytes;
		return 0;
	}
	struct update_run *run = err_grow(u->run, u->nruns, sizeof *run, "the pieces", err);
	if (!run)
		return -1;
	u->run = run;
	run[u->nruns++] = (struct update_run){offset, bytes};
	return 0;
}

struct runs {
	struct update *u;
	int f;
};

static int add_range(void *ctx, uint64_t offset, uint64_t bytes, struct err *err)
{
	const struct runs *r = ctx;
	return add_run(r->u, r->f, offset, bytes, err);
}

/* The same without what lies in holes. */
static int add_data(struct collective *c, int f, uint64_t offset, uint64_t bytes, struct err *err)
{
	struct runs r = {&c->transfer.update, f};
	return sparse_visit(&c->agreed.root_files.files[f].data, offset, bytes, add_range, &r, err);
}

static int add_piece(void *ctx, const struct update_piece *p, struct err *err)
{
	struct collective *c = ctx;
	struct update *u = &c->transfer.update;
	if (!update_bit(u->lacks_piece, p->i)) {
		u->equal += p->n;
		return 0;
	}
	u->plain_bytes += p->n;
	return add_data(c, p->f, p->at, p->n, err);
}

static int list_runs(struct collective *c, struct err *err)
{
	struct update *u = &c->transfer.update;
	const int n = c->agreed.root_files.nfiles;
	int ret = 0;
	for (int f = 0; f < n && ret == 0; f++) {
		const struct listed_file *l = &c->agreed.root_files.files[f];
		u->first_run[f] = u->nruns;
		if (!update_bit(u->lacks, 2 * (uint64_t)(l->linked ? l->to : f)))
			u->nequal++;
		else if (u->first_piece[f] < u->first_piece[f + 1])
			ret = update_each_piece(c, f, add_piece, c, err);
		else
			ret = add_data(c, f, 0, l->bytes, err);
	}
	u->first_run[n] = u->nruns;
	return ret;
}

static void keep(struct collective *c, int f)
{
	for (int k = 0; c->transfer.sink && k < c->transfer.copies; k++)
		sink_keep(c->transfer.sink, files_place(c, k, (size_t)f)->file);
}

static void note_without(const struct collective *c, int level)
{
	const struct update *u = &c->transfer.update;
	const uint64_t whole = u->coded_bytes[UPDATE_WHOLE];
	const bool many = u->nwithout > 1;
	char text[256], bytes[UNITS_TEXT];
	struct rank_list list;
	rank_list_init(&list, text, sizeof text);
	for (int i = 0; i < u->nwithout; i++)
		rank_list_add(&list, u->without_old[i]);
	rank_list_end(&list);
	if (whole)
		coll_note(c->life, level,
		          "rank%s %s lack%s all or part of the root's old version, and get%s %s of "
		          "whole pieces",
		          many ? "s" : "", text, many ? "" : "s", many ? "" : "s",
		          size_text(whole, bytes));
	else
		coll_note(c->life, level,
		          "rank%s %s lack%s all or part of the root's old version: all ranks get "
		          "whole pieces in its place",
		          many ? "s" : "", text, many ? "" : "s");
}

static void note(const struct collective *c)
{
	const struct update *u = &c->transfer.update;
	const int level = c->agreed.rank == 0 ? 0 : 1;
	char bytes[UNITS_TEXT], coded[UNITS_TEXT], more[64] = "";
	if (u->cached)
		coll_note(c->life, 1, "the digests of %s are an earlier job's",
		          size_text(u->cached, bytes));
	if (u->equal)
		snprintf(more, sizeof more, ", and %s of others", size_text(u->equal, bytes));
	if (u->nequal || u->equal)
		coll_note(c->life, level, "%zu of %d files%s are as the root's: not sent",
		          u->nequal, c->agreed.root_files.nfiles, more);
	if (u->coded && u->plain_bytes)
		coll_note(c->life, level, "%s of files are sent as %s %s",
		          size_text(u->plain_bytes, bytes),
		          size_text(u->coded_bytes[UPDATE_TO_ALL], coded),
		          c->request->delta ? "of differences" : "that are compressed");
	if (u->nwithout)
		note_without(c, level);
}

/* The vector has what is sent alone. */
static int shrink(struct collective *c, struct err *err)
{
	struct update *u = &c->transfer.update;
	struct agreement *a = &c->agreed;
	struct vector *v = &a->vectors[0];
	uint64_t at = 0;
	if (list_runs(c, err) < 0)
		return -1;
	if (!u->nequal && !u->equal && !u->coded)
		return 0;
	for (int f = 0; f < a->root_files.nfiles; f++) {
		struct tensor *t = &a->tensors[f].tensor;
		if (!update_bit(u->lacks, 2 * (uint64_t)f) && !a->root_files.files[f].linked)
			keep(c, f);
		t->count = u->coded && f == 0 ? u->coded_bytes[UPDATE_TO_ALL] : 0;
		for (size_t i = u->first_run[f]; !u->coded && i < u->first_run[f + 1]; i++)
			t->count += u->run[i].bytes;
		t->bytes = t->count;
		a->tensors[f].at = at;
		at += t->bytes;
	}
	v->info.count = v->info.shape[0] = at;
	if (agree_layout(c, v, err) < 0 || (u->coded && update_add_group(c, err) < 0))
		return -1;
	note(c);
	return 0;
}

static int agree(struct collective *c, struct err *err)
{
	struct update *u = &c->transfer.update;
	const size_t n = (size_t)c->agreed.root_files.nfiles + 1;
	if (!(u->lacks = err_calloc(n + sizeof u->rate, 1, "the files", err)) ||
	    !(u->seen = err_calloc(n, sizeof *u->seen, "the files", err)) ||
	    !(u->first_piece = err_calloc(n, sizeof *u->first_piece, "the files", err)) ||
	    !(u->first_run = err_calloc(n, sizeof *u->first_run, "the files", err)))
		return -1;
	if (compare_files(c, err) < 0 || choose_coding(c, err) < 0 || compare_pieces(c, err) < 0 ||
	    (u->codes && u->npieces && code_pieces(c, err) < 0))
		return -1;
	return shrink(c, err);
}

int update_agree(struct collective *c, struct err *err)
{
	struct update *u = &c->transfer.update;
	u->spool[UPDATE_TO_ALL] = u->spool[UPDATE_WHOLE] = -1;
	if (!update_wanted(c))
		return 0;
	if (c->request->delta && collective_is_root(c) && update_check_old(c, err) < 0)
		return -1;
	if (c->agreed.size == 1)
		return 0;
	u->cache.fd = -1;
	progress_compare(c);
	if (!c->request->no_digest_cache)
		digest_cache_open(&u->cache);
	const int ret = agree(c, err);
	digest_cache_close(&u->cache);
	u->over = true;
	return ret;
}

/* Other names of the file change its ctime, too: this or another rank may link it to them. */
static bool same_file(const struct stat *a, const struct stat *b)
{
	return io_same_file(a, b) && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       (a->st_nlink != b->st_nlink || (a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
	                                       a->st_ctim.tv_nsec == b->st_ctim.tv_nsec));
}

int update_check_left(const struct sink *sink, int file, struct beneath *last,
                      const struct stat *was, struct err *err)
{
	struct err why = ERR_INIT;
	struct stat st;
	return sink_stat_old(sink, file, last, &st, &why) == 0 && same_file(&st, was)
	               ? 0
	               : update_not_opened(sink_path(sink, file), &why, err);
}

/* Are the files that are left what they were when they were compared? */
static int check_kept(const struct collective *c, struct err *err)
{
	const struct update *u = &c->transfer.update;
	struct beneath last = BENEATH_INIT;
	int ret = 0;
	for (int f = 0; f < c->agreed.root_files.nfiles && u->nequal && ret == 0; f++) {
		const int file = files_place(c, 0, (size_t)f)->file;
		if (sink_fate(c->transfer.sink, file) == SINK_EQUAL &&
		    !c->agreed.root_files.files[f].linked)
			ret = update_check_left(c->transfer.sink, file, &last, &u->seen[f], err);
	}
	beneath_release(&last);
	return ret;
}

int update_finish(struct collective *c, struct err *err)
{
	if (!c->transfer.sink || !update_wanted(c))
		return 0;
	if (update_decode(c, err) < 0 ||
	    (c->transfer.update.equal && update_copy_pieces(c, err) < 0))
		return -1;
	return check_kept(c, err);
}

static uint64_t count_equal(const struct collective *c, int f)
{
	const struct update *u = &c->transfer.update;
	uint64_t n = 0;
	if (!u->lacks) /* the ranks have not compared files */
		return 0;
	if (!update_bit(u->lacks, 2 * (uint64_t)f))
		return pieces_of(c->agreed.root_files.files[f].bytes);
	for (uint64_t i = u->first_piece[f]; i < u->first_piece[f + 1]; i++)
		n += !update_bit(u->lacks_piece, i);
	return n;
}

struct coll_pieces update_count_pieces(const struct collective *c)
{
	const struct update *u = &c->transfer.update;
	/* A dry run compares no pieces unless it reads contents, and codes none. */
	struct coll_pieces n = {.known = !c->request->dry_run || !update_wanted(c)};
	uint64_t all = 0;
	for (int f = 0; f < c->agreed.root_files.nfiles; f++) {
		all += pieces_of(c->agreed.root_files.files[f].bytes);
		n.equal += count_equal(c, f);
	}
	for (int i = 0; i < CODINGS; i++) {
		if (coding_has_base((enum coding)i))
			n.delta += u->coded_as[i];
		else if (i != CODING_RAW)
			n.compressed += u->coded_as[i];
	}
	n.raw = all - n.equal - n.delta - n.compressed;
	return n;
}

void update_release(struct collective *c)
{
	struct update *u = &c->transfer.update;
	free(u->lacks_piece);
	free(u->bases);
	free(u->own_lacks);
	free(u->own_base);
	free(u->without_old);
	free(u->in_part);
	free(u->moves.list);
	free(u->elements.list);
	free(u->own);
	free(u->said);
	free(u->seen);
	for (int s = 0; u->lacks && s < UPDATE_STREAMS; s++) /* update_agree was called */
		if (u->spool[s] >= 0)
			close(u->spool[s]);
	free(u->first_piece);
	free(u->run);
	free(u->first_run);
	buf_release(&u->answer);
	free(u->of_files);
	free(u->of_pieces);
	free(u->of_old);
	free(u->lacks);
}
