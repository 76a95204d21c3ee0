#include "lib/coll/files/consolidated.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/fields.h"
#include "lib/base/offload.h"
#include "lib/coll/collective.h"
#include "lib/coll/files/shards.h"
#include "lib/data/torch/cover.h"
#include "lib/exec/budget.h"

#define ROUND_BYTES (JOB_ROUND_MAX - 1) /* after the byte that says whether more follow */

/* ---- this rank's pieces ---- */

/* The index of the input that has this tensor. */
static int set_of(const struct collective *c, const struct tensor *t)
{
	int k = 0;
	while (t < c->transfer.inputs[k].tensors ||
	       t >= c->transfer.inputs[k].tensors + c->transfer.inputs[k].ntensors)
		k++;
	return k;
}

/* All tensors of the inputs, in the order of the table. *n: their number. NULL: an error. */
static const struct tensor **sort_tensors(const struct collective *c, size_t *n, struct err *err)
{
	*n = 0;
	for (int k = 0; k < c->transfer.ninputs; k++)
		*n += c->transfer.inputs[k].ntensors;
	const struct tensor **v = err_calloc(*n + 1, sizeof *v, "the pieces", err);
	size_t at = 0;
	for (int k = 0; v && k < c->transfer.ninputs; k++)
		for (size_t i = 0; i < c->transfer.inputs[k].ntensors; i++)
			v[at++] = &c->transfer.inputs[k].tensors[i];
	if (v)
		qsort(v, *n, sizeof *v, piece_table_order);
	return v;
}

static int list_own(struct collective *c, const struct tensor **v, size_t n, uint64_t *bytes,
                    struct err *err)
{
	struct consolidated *p = c->consolidated;
	p->own = err_calloc(n + 1, sizeof *p->own, "the pieces", err);
	if (!p->own || piece_table_put(&p->table, v, n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (!piece_has_elements(v[i]))
			continue;
		p->own[p->nown++] = (struct own_piece){.set = set_of(c, v[i]), .tensor = v[i]};
		if (__builtin_add_overflow(*bytes, v[i]->bytes, bytes) || *bytes > INT64_MAX)
			return err_set(err, ERR_INPUT, "the inputs have too many elements");
	}
	return p->table.failed ? err_nomem(err, "the table of pieces", p->table.len) : 0;
}

static int make_vector(struct collective *c, uint64_t bytes, struct err *err)
{
	struct agreement *a = &c->agreed;
	a->content = CONTENT_PIECES;
	if (!(a->vectors = err_calloc(1, sizeof *a->vectors, "the pieces", err)))
		return -1;
	a->nvectors = 1;
	struct vector *v = a->vectors;
	v->dtype = DTYPE_U8;
	v->info = (struct array_info){.format = &format_raw,
	                              .dtype = DTYPE_U8,
	                              .ndim = 1,
	                              .shape = {bytes},
	                              .count = bytes};
	vector_serve(v, a, c->request, 1);
	return 0;
}

/* Parts of other ranks may come as soon as they have the terms. */
static int begin_rounds(struct collective *c, struct err *err)
{
	struct consolidated *p = c->consolidated;
	const size_t size = (size_t)c->agreed.size;
	p->rows = err_calloc(size, sizeof *p->rows, "the pieces", err);
	p->parts = err_calloc(size, sizeof *p->parts, "the pieces", err);
	p->heads = err_calloc(size, sizeof *p->heads, "the pieces", err);
	p->served = err_calloc(size, sizeof *p->served, "the pieces", err);
	if (!p->rows || !p->parts || !p->heads || !p->served)
		return -1;
	for (size_t r = 0; r < size; r++) {
		buf_init(&p->parts[r], SIZE_MAX);
		buf_init(&p->heads[r], SIZE_MAX);
	}
	return 0;
}

int consolidated_begin(struct collective *c, struct err *err)
{
	struct consolidated *p = c->consolidated = err_calloc(1, sizeof *p, "the pieces", err);
	if (!p)
		return -1;
	p->limit = budget_lists(c->request->settings.memory);
	buf_init(&p->table, SIZE_MAX);
	buf_init(&p->answer, (size_t)p->limit);
	return begin_rounds(c, err);
}

int consolidated_offer(struct collective *c, struct err *err)
{
	uint64_t bytes = 0;
	size_t n;
	if (consolidated_begin(c, err) < 0)
		return -1;
	const struct tensor **v = sort_tensors(c, &n, err);
	int ret = v ? list_own(c, v, n, &bytes, err) : -1;
	free(v);
	for (int k = 0; ret == 0 && k < c->transfer.ninputs; k++)
		if (!c->transfer.inputs[k].ntensors)
			coll_note(c->life, 0, "%s: holds no piece of a checkpoint",
			          c->transfer.inputs[k].path);
	if (ret == 0 && c->request->have_shard_dim)
		ret = shards_rows(c, c->consolidated->rows, err);
	return ret == 0 ? make_vector(c, bytes, err) : -1;
}

/* ---- rounds: tables and digests to the coordinator ---- */

/* Send all of @data in as many rounds as the rank with most needs. */
static int send_rounds(struct collective *c, const void *data, size_t n, struct err *err)
{
	const uint8_t *from = data;
	bool more = true;
	for (size_t at = 0, len; more; at += len) {
		struct view answer;
		struct buf b;
		len = n - at < ROUND_BYTES ? n - at : ROUND_BYTES;
		buf_init(&b, JOB_ROUND_MAX);
		buf_put_u8(&b, at + len < n);
		if (len)
			buf_put(&b, from + at, len);
		if (coll_round(c->life, &b, "the pieces", &answer, err) < 0)
			return -1;
		more = view_u8(&answer);
	}
	return 0;
}

bool consolidated_exchanges(const struct collective *c)
{
	return c->consolidated && c->consolidated->rounds != ROUNDS_OVER;
}

static bool is_coordinator(const struct collective *c)
{
	return c->agreed.rank == job_coordinator(c->life->job);
}

int consolidated_take(struct collective *c, int rank, struct view part, struct err *err)
{
	struct consolidated *p = c->consolidated;
	const bool more = view_u8(&part);
	const size_t n = view_left(&part);
	if (part.failed || (more && n != ROUND_BYTES) || (p->rounds == ROUNDS_ANSWERS && n))
		return malformed(err, "ROUND", "pieces");
	p->more |= more;
	p->taken += n;
	if (p->taken > p->limit)
		return err_set(err, ERR_RESOURCE,
		               "the tables of the ranks' pieces have more than the %llu bytes that "
		               "--memory leaves for them: give more --memory",
		               (unsigned long long)p->limit);
	if (n)
		buf_put(&p->parts[rank], part.p, n);
	return p->parts[rank].failed ? err_nomem(err, "the tables of pieces", n) : 0;
}

/* ---- the coordinator's answers ---- */

static bool takes_tables(const struct collective *c, int rank)
{
	return coll_writes(c->request->kind, rank, c->agreed.size, c->agreed.root);
}

/* Are there replicas of the piece? They are beside it, which is chosen. */
static bool has_replica(const struct piece_table *t, size_t i)
{
	const struct piece *p = t->pieces.v;
	return p[i].chosen != i || (i + 1 < t->pieces.n && p[i + 1].chosen == i);
}

/* The bits of a rank's pieces, by their numbers. */
static void put_bits(const struct piece_table *t, int rank, bool replicas, struct buf *out)
{
	const size_t n = (size_t)(t->count[rank] + 7) / 8;
	uint8_t *bits = buf_room(out, n);
	if (!bits)
		return;
	memset(bits, 0, n);
	for (size_t i = 0; i < t->pieces.n; i++) {
		const struct piece *p = &t->pieces.v[i];
		if (p->rank == rank && (replicas ? has_replica(t, i) : p->chosen == i))
			bits[p->number / 8] |= (uint8_t)(1u << (p->number % 8));
	}
	out->len += n;
}

static void put_head(const struct collective *c, int rank, struct buf *out)
{
	const struct piece_table *t = &c->consolidated->all;
	for (int r = 0; r < t->size; r++)
		buf_put_u64(out, t->rows[r]);
	put_bits(t, rank, false, out);
	put_bits(t, rank, true, out);
}

/* The bytes of the answer to @rank: its head and, if it writes, the length and bytes of each rank's
 * table. The coordinator knows them. */
static uint64_t answer_bytes(const struct collective *c, int rank)
{
	const struct consolidated *p = c->consolidated;
	uint64_t n = p->heads[rank].len;
	for (int r = 0; takes_tables(c, rank) && r < c->agreed.size; r++)
		n += 8 + p->parts[r].len;
	return rank == c->agreed.rank ? 0 : n;
}

/* Append what of @data lies in bytes [from, to) of the answer, in which it begins at *at. */
static void put_slice(struct buf *out, const void *data, size_t n, uint64_t *at, uint64_t from,
                      uint64_t to)
{
	const uint64_t begin = from > *at ? from - *at : 0, end = to - *at < n ? to - *at : n;
	if (to > *at && begin < end)
		buf_put(out, (const uint8_t *)data + begin, (size_t)(end - begin));
	*at += n;
}

/* Append bytes [from, to) of the answer to @rank. */
static void put_answer(const struct collective *c, int rank, uint64_t from, uint64_t to,
                       struct buf *out)
{
	const struct consolidated *p = c->consolidated;
	uint64_t at = 0;
	put_slice(out, p->heads[rank].data, p->heads[rank].len, &at, from, to);
	for (int r = 0; takes_tables(c, rank) && r < c->agreed.size; r++) {
		uint8_t len[8];
		put_u64(len, p->parts[r].len);
		put_slice(out, len, sizeof len, &at, from, to);
		put_slice(out, p->parts[r].data, p->parts[r].len, &at, from, to);
	}
}

static void next_rounds(struct consolidated *p)
{
	p->rounds = p->rounds == ROUNDS_TABLES ? ROUNDS_ANSWERS : ROUNDS_OVER;
	p->more = false;
}

static bool checks(const struct collective *c)
{
	return c->request->check_replicas && !c->request->dry_run;
}

/* All answers are sent: digests may come, in place of tables. */
static void begin_digests(struct collective *c)
{
	struct consolidated *p = c->consolidated;
	for (int r = 0; r < c->agreed.size; r++)
		p->parts[r].len = 0;
	p->taken = 0;
	p->rounds = checks(c) ? ROUNDS_DIGESTS : ROUNDS_OVER;
}

void consolidated_answer(struct collective *c, int rank, struct buf *out)
{
	struct consolidated *p = c->consolidated;
	const bool last = rank == c->agreed.rank; /* of this round */
	if (p->rounds != ROUNDS_ANSWERS) {
		buf_put_u8(out, p->more);
		if (last && !p->more)
			next_rounds(p);
		else if (last)
			p->more = false;
		return;
	}
	const uint64_t all = answer_bytes(c, rank), from = p->served[rank];
	const uint64_t to = all - from < ROUND_BYTES ? all : from + ROUND_BYTES;
	buf_put_u8(out, p->left > 1);
	put_answer(c, rank, from, to, out);
	p->served[rank] = to;
	if (last && --p->left == 0)
		begin_digests(c);
}

static int settle(void *ctx, struct err *err)
{
	struct collective *c = ctx;
	return piece_table_settle(&c->consolidated->all, err);
}

/* At the coordinator: all tables have come. */
static int settle_parts(void *ctx, struct err *err)
{
	struct collective *c = ctx;
	struct consolidated *p = c->consolidated;
	if (piece_table_init(&p->all, c->agreed.size, p->limit, err) < 0)
		return -1;
	for (int r = 0; r < c->agreed.size; r++) {
		struct err why = ERR_INIT;
		if (piece_table_add(&p->all, r, view_of(p->parts[r].data, p->parts[r].len), &why) <
		    0)
			return why.code == ERR_RESOURCE
			               ? err_pass(err, &why)
			               : err_rank(err, why.code, r, "%s", why.text);
	}
	if (settle(c, err) < 0)
		return -1;
	for (int r = 0; r < c->agreed.size; r++)
		put_head(c, r, &p->heads[r]);
	return 0;
}

static int prepare_answers(struct collective *c, struct err *err)
{
	struct consolidated *p = c->consolidated;
	if (job_run_in_thread(c->life->job, settle_parts, c, err) < 0)
		return -1;
	p->left = 1;
	for (int r = 0; r < c->agreed.size; r++) {
		if (p->heads[r].failed)
			return err_nomem(err, "the pieces", p->heads[r].len);
		const uint64_t n = answer_bytes(c, r) / ROUND_BYTES + 1;
		p->left = n > p->left ? (uint32_t)n : p->left;
	}
	return 0;
}

/* ---- the answers, at other ranks ---- */

static int take_answers(struct collective *c, struct err *err)
{
	struct consolidated *p = c->consolidated;
	for (bool more = true; more;) {
		struct view answer;
		struct buf b;
		buf_init(&b, JOB_ROUND_MAX);
		buf_put_u8(&b, 0);
		if (coll_round(c->life, &b, "the pieces", &answer, err) < 0)
			return -1;
		more = view_u8(&answer);
		if (view_left(&answer))
			buf_put(&p->answer, answer.p, view_left(&answer));
		if (p->answer.failed)
			return err_set(err, ERR_RESOURCE,
			               "the tables of the ranks' pieces have more than the %llu "
			               "bytes that --memory leaves for them: give more --memory",
			               (unsigned long long)p->limit);
	}
	return 0;
}

/* Rank 0 has sent what cannot be. */
static int wrong_answer(const struct collective *c, struct err *err)
{
	return err_rank(err, ERR_INTEGRITY, job_coordinator(c->life->job),
	                "a malformed ANSWER message (pieces)");
}

static int get_bits(struct collective *c, struct view *v, bool replicas, struct err *err)
{
	struct consolidated *p = c->consolidated;
	const uint8_t *bits = view_bytes(v, (p->nown + 7) / 8);
	if (!bits)
		return wrong_answer(c, err);
	for (size_t i = 0; i < p->nown; i++)
		*(replicas ? &p->own[i].has_replica : &p->own[i].chosen) =
		        bits[i / 8] >> (i % 8) & 1;
	return 0;
}

/* Do the tables say the same rows as the coordinator? */
static int settle_answer(struct collective *c, struct view v, struct err *err)
{
	struct consolidated *p = c->consolidated;
	if (piece_table_init(&p->all, c->agreed.size, p->limit, err) < 0)
		return -1;
	for (int r = 0; r < c->agreed.size; r++) {
		struct err why = ERR_INIT;
		const uint64_t n = view_u64(&v);
		const uint8_t *table = n > view_left(&v) ? NULL : view_bytes(&v, (size_t)n);
		if (!table)
			return wrong_answer(c, err);
		if (piece_table_add(&p->all, r, view_of(table, (size_t)n), &why) < 0)
			return why.code == ERR_RESOURCE ? err_pass(err, &why)
			                                : wrong_answer(c, err);
	}
	if (view_left(&v))
		return wrong_answer(c, err);
	if (job_run_in_thread(c->life->job, settle, c, err) < 0)
		return -1;
	return memcmp(p->rows, p->all.rows, (size_t)c->agreed.size * sizeof *p->rows) == 0
	               ? 0
	               : wrong_answer(c, err);
}

static int adopt_answer(struct collective *c, struct err *err)
{
	struct consolidated *p = c->consolidated;
	struct view v = view_of(p->answer.data, p->answer.len);
	for (int r = 0; r < c->agreed.size; r++)
		p->rows[r] = view_u64(&v);
	if (v.failed)
		return wrong_answer(c, err);
	if (get_bits(c, &v, false, err) < 0 || get_bits(c, &v, true, err) < 0)
		return -1;
	if (takes_tables(c, c->agreed.rank))
		return settle_answer(c, v, err);
	return view_left(&v) ? wrong_answer(c, err) : 0;
}

/* The same at the coordinator, which has settled the tables. */
static void adopt_own(struct collective *c)
{
	struct consolidated *p = c->consolidated;
	memcpy(p->rows, p->all.rows, (size_t)c->agreed.size * sizeof *p->rows);
	for (size_t i = 0; i < p->all.pieces.n; i++) {
		const struct piece *q = &p->all.pieces.v[i];
		if (q->rank != c->agreed.rank)
			continue;
		p->own[q->number].chosen = q->chosen == i;
		p->own[q->number].has_replica = has_replica(&p->all, i);
	}
}

/* ---- --check-replicas ---- */

struct hashing {
	const struct collective *c;
	struct buf digests;
	uint8_t *buf;
};

static int hash_piece(struct hashing *h, const struct own_piece *own, struct err *err)
{
	const struct tensor *t = own->tensor;
	uint8_t out[1][DIGEST_BYTES];
	struct digest *digest = digest_new(&t, 1);
	int ret = digest ? 0 : err_nomem(err, "the digest", t->bytes);
	for (uint64_t at = 0, n; ret == 0 && at < t->bytes; at += n) {
		n = t->bytes - at < DIGEST_PIECE ? t->bytes - at : DIGEST_PIECE;
		ret = offload_stopped(err);
		if (ret == 0)
			ret = dataset_read(&h->c->transfer.inputs[own->set], t, h->buf, n, at, err);
		if (ret == 0)
			digest_update(digest, at, h->buf, n);
	}
	if (ret == 0)
		ret = digest_final(digest, NULL, NULL, out, err);
	if (ret == 0)
		buf_put(&h->digests, out[0], DIGEST_BYTES);
	digest_free(digest);
	return ret;
}

static int hash_pieces(void *ctx, struct err *err)
{
	struct hashing *h = ctx;
	const struct consolidated *p = h->c->consolidated;
	if (!(h->buf = err_malloc(DIGEST_PIECE, "a piece to digest", err)))
		return -1;
	int ret = 0;
	for (size_t i = 0; ret == 0 && i < p->nown; i++)
		if (p->own[i].has_replica)
			ret = hash_piece(h, &p->own[i], err);
	free(h->buf);
	if (ret == 0 && h->digests.failed)
		ret = err_nomem(err, "the digests", h->digests.len);
	return ret;
}

static int differ(const struct piece_table *t, const struct piece *a, const struct piece *b,
                  const uint8_t *da, const uint8_t *db, struct err *err)
{
	char text[PIECE_TENSOR_TEXT], place[ARRAY_SHAPE_TEXT], is[DIGEST_TEXT], was[DIGEST_TEXT];
	return err_rank(err, ERR_DISAGREE, b->rank, "%s: piece %s has digest %s, but %s on rank %d",
	                piece_tensor_text(&t->tensors[b->tensor].tensor, text),
	                cover_text(b->first, b->size, b->ndim, place), digest_text(db, is),
	                digest_text(da, was), a->rank);
}

/* At the coordinator: the digests of all ranks have come, each rank's in the order of its pieces.
 */
static int compare_digests(struct collective *c, struct err *err)
{
	const struct consolidated *p = c->consolidated;
	const struct piece_table *t = &p->all;
	const size_t size = (size_t)c->agreed.size, n = t->pieces.n;
	size_t *next = err_calloc(size, sizeof *next, "the digests", err);
	const uint8_t **of = err_calloc(n + 1, sizeof *of, "the digests", err);
	int ret = next && of ? 0 : -1;
	for (size_t i = 0; ret == 0 && i < n; i++) {
		const struct piece *q = &t->pieces.v[i];
		const struct buf *digests = &p->parts[q->rank];
		if (!has_replica(t, i))
			continue;
		if (digests->len - next[q->rank] < DIGEST_BYTES)
			ret = err_rank(err, ERR_INTEGRITY, q->rank,
			               "sent too few digests of its pieces");
		else
			of[i] = digests->data + next[q->rank];
		next[q->rank] += DIGEST_BYTES;
		if (ret == 0 && memcmp(of[i], of[q->chosen], DIGEST_BYTES) != 0)
			ret = differ(t, &t->pieces.v[q->chosen], q, of[q->chosen], of[i], err);
	}
	free(next);
	free(of);
	return ret;
}

static int check_replicas(struct collective *c, struct err *err)
{
	struct hashing h = {.c = c};
	buf_init(&h.digests, SIZE_MAX);
	int ret = job_run_in_thread(c->life->job, hash_pieces, &h, err);
	if (ret == 0)
		ret = send_rounds(c, h.digests.data, h.digests.len, err);
	buf_release(&h.digests);
	return ret == 0 && is_coordinator(c) ? compare_digests(c, err) : ret;
}

/* ---- what was agreed ---- */

/* The tensors of the output, and the pieces in the order in which their bytes come. */
static int make_tensors(struct collective *c, struct err *err)
{
	struct agreement *a = &c->agreed;
	struct consolidated *p = c->consolidated;
	struct vector *v = a->vectors;
	const size_t n = p->all.ntensors;
	a->tensors = err_calloc(n + 1, sizeof *a->tensors, "the tensors", err);
	v->tensors = err_calloc(n + 1, sizeof *v->tensors, "the tensors", err);
	if (!a->tensors || !v->tensors)
		return -1;
	for (size_t i = 0; i < n; i++) {
		const struct whole_tensor *w = &p->all.tensors[i];
		a->tensors[i] =
		        (struct vector_tensor){.tensor = w->tensor, .index = i, .at = w->at};
		v->tensors[i] = (uint32_t)i;
	}
	a->ntensors = v->ntensors = c->table.n = n;
	return 0;
}

static int list_sent(struct consolidated *p, struct err *err)
{
	const struct piece_table *t = &p->all;
	size_t *at = err_calloc((size_t)t->size + 1, sizeof *at, "the pieces", err);
	p->sent = err_calloc(t->pieces.n + 1, sizeof *p->sent, "the pieces", err);
	if (at && p->sent) {
		for (size_t i = 0; i < t->pieces.n; i++)
			at[t->pieces.v[i].rank + 1] += t->pieces.v[i].chosen == i;
		for (int r = 0; r < t->size; r++)
			at[r + 1] += at[r];
		p->nsent = at[t->size];
		for (size_t i = 0; i < t->pieces.n; i++)
			if (t->pieces.v[i].chosen == i)
				p->sent[at[t->pieces.v[i].rank]++] = (uint32_t)i;
	}
	free(at);
	return at && p->sent ? 0 : -1;
}

/* Does this rank send the bytes that the others expect? */
static int check_own(const struct collective *c, struct err *err)
{
	const struct consolidated *p = c->consolidated;
	uint64_t bytes = 0;
	for (size_t i = 0; i < p->nown; i++)
		bytes += p->own[i].chosen ? p->own[i].tensor->bytes : 0;
	return bytes == p->rows[c->agreed.rank] ? 0 : wrong_answer(c, err);
}

static int lay_out(struct collective *c, struct err *err)
{
	struct vector *v = c->agreed.vectors;
	const struct consolidated *p = c->consolidated;
	for (int r = 0; r < c->agreed.size; r++) {
		if (p->rows[r] > v->rows[r])
			return wrong_answer(c, err);
		v->rows[r] = p->rows[r];
	}
	const struct layout_of of = vector_layout_of(v, &c->agreed, c->request);
	return layout_make(&v->layout, &of, c->agreed.rank, v->rows, NULL, err);
}

static int run_rounds(struct collective *c, struct err *err)
{
	const struct consolidated *p = c->consolidated;
	if (send_rounds(c, p->table.data, p->table.len, err) < 0 ||
	    (is_coordinator(c) && prepare_answers(c, err) < 0) || take_answers(c, err) < 0)
		return -1;
	if (!is_coordinator(c) && adopt_answer(c, err) < 0)
		return -1;
	if (is_coordinator(c))
		adopt_own(c);
	return checks(c) ? check_replicas(c, err) : 0;
}

int consolidated_exchange(struct collective *c, struct err *err)
{
	struct consolidated *p = c->consolidated;
	job_caller_watches(c->life->job, true);
	int ret = run_rounds(c, err);
	job_caller_watches(c->life->job, false);
	if (ret < 0)
		return -1;
	if (c->request->have_shard_dim)
		return shards_adopt(c, err);
	if (check_own(c, err) < 0 || lay_out(c, err) < 0)
		return -1;
	if (!agreement_writes(&c->agreed, c->request))
		return 0;
	return make_tensors(c, err) < 0 ? -1 : list_sent(p, err);
}

void consolidated_release(struct collective *c)
{
	struct consolidated *p = c->consolidated;
	if (!p)
		return;
	for (int r = 0; p->parts && p->heads && r < c->agreed.size; r++) {
		buf_release(&p->parts[r]);
		buf_release(&p->heads[r]);
	}
	buf_release(&p->table);
	buf_release(&p->answer);
	piece_table_release(&p->all);
	free(p->own);
	free(p->parts);
	free(p->heads);
	free(p->served);
	free(p->rows);
	free(p->sent);
	free(p);
	c->consolidated = NULL;
}
