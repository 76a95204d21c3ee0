/*
 * What ranks tell each other in the agreement (lib/coll). The first byte chooses the decoder, the
 * second how many ranks there are and what the job's messages are made of. Whatever is accepted
 * must keep its promises; what a decoder takes and its encoder writes must be taken again, as the
 * same bytes.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/text.h"
#include "lib/coll/agreement/agree_wire.h"
#include "lib/coll/agreement/claims.h"
#include "lib/coll/agreement/offer.h"
#include "lib/coll/agreement/piece_table.h"
#include "lib/coll/agreement/terms.h"
#include "lib/coll/bench/bench.h"
#include "lib/coll/files/update.h"
#include "lib/data/digest.h"
#include "lib/job/proto.h"
#include "lib/price/fill.h"
#include "tests/fuzz/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same_bytes(const struct buf *b, struct view v)
{
	return b->len == view_left(&v) && (!b->len || memcmp(b->data, v.p, b->len) == 0);
}

/* ---- pieces ---- */

static void decode_array(struct view v, int ranks)
{
	struct array_info info, back;
	uint64_t *counts, *again, sum = 0;
	struct view from = v;
	struct err err = {0};
	struct buf b;
	if (wire_get_array(&v, ranks, &info, &counts, &err) < 0) {
		CHECK(err.code == ERR_INTEGRITY && !counts);
		return;
	}
	CHECK(!counts || (rows_sum(counts, ranks, &sum) == 0 && sum == info.shape[0]));
	buf_init(&b, DETAILS_MAX);
	wire_put_array(&b, &info, counts, ranks);
	CHECK(same_bytes(&b, view_of(from.p, (size_t)(v.p - from.p))));
	struct view written = view_of(b.data, b.len);
	CHECK(wire_get_array(&written, ranks, &back, &again, &err) == 0);
	CHECK(array_same(&info, &back) && info.count == back.count && !counts == !again);
	buf_release(&b);
	free(counts);
	free(again);
}

static void decode_numbers(struct view v, int ranks)
{
	uint64_t *rows, sum = 0;
	struct err err = {0};
	struct view rest = v;
	char *name = NULL;
	if (wire_get_rows(&rest, ranks, &rows, &err) == 0)
		CHECK(rows_sum(rows, ranks, &sum) == 0 && sum <= INT64_MAX);
	free(rows);
	rest = v;
	if (wire_get_name(&rest, &name, &err) == 0)
		CHECK(*name && *name != '.' && !strchr(name, '/'));
	free(name);
}

/* Malformed, or with a name that may not be, which the error tells. */
static bool is_refusal(const struct err *err)
{
	return err->code == ERR_INTEGRITY ||
	       (err->code == ERR_DISAGREE && strchr(err->text, '\'') && text_is_clean(err->text));
}

/* Does it lead out of its folder? */
static void check_name(const char *name, bool tree)
{
	CHECK(*name && *name != '/' && (tree || text_is_clean(name)));
	CHECK(tree || (*name != '.' && !strchr(name, '/')));
	for (const char *p = name; tree && *p;) {
		size_t n = strcspn(p, "/");
		CHECK(n && !(n == 1 && *p == '.') && !(n == 2 && memcmp(p, "..", 2) == 0));
		CHECK(p[n] != '/' || p[n + 1]);
		p += n + (p[n] == '/');
	}
}

static void check_files(const struct file_list *l)
{
	CHECK(l->tree || l->nfiles > 0);
	CHECK(l->tree || (!l->nfolders && !l->nlinks));
	for (int i = 0; i < l->nfiles; i++)
		if (l->folder)
			check_name(l->files[i].name, l->tree);
	for (int i = 0; i < l->nfolders; i++)
		if (*l->folders[i].name) /* the whole */
			check_name(l->folders[i].name, true);
}

/* Does one of the links lead out of the folder, or has one of the names a link as a folder? */
static void check_links(const struct file_list *l)
{
	for (int i = 0; i < l->nlinks; i++) {
		const char *p = l->links[i].target, *name = l->links[i].name;
		const size_t n = strlen(name);
		int depth = 0;
		check_name(name, true);
		CHECK(*p && *p != '/');
		for (const char *s = name; (s = strchr(s, '/')); s++)
			depth++;
		for (; *p; p += strcspn(p, "/"), p += strspn(p, "/")) {
			depth += strcspn(p, "/") == 2 && p[0] == '.' && p[1] == '.' ? -1 : 0;
			CHECK(depth >= 0);
		}
		for (int f = 0; f < l->nfiles; f++)
			CHECK(strncmp(l->files[f].name, name, n) != 0 ||
			      (l->files[f].name[n] && l->files[f].name[n] != '/'));
	}
}

static void check_gathered(const struct rank_files *f, uint32_t nfiles)
{
	CHECK(host_name_is_right(f->host));
	check_files(&f->files);
	check_links(&f->files);
	if (rank_files_is_folder(f)) {
		CHECK(nfiles == 1 && !*f->files.folders[0].name);
		return;
	}
	CHECK(f->files.nfiles == (int)nfiles);
	for (int i = 0; i < f->files.nfiles; i++)
		CHECK(!strchr(f->files.files[i].name, '/'));
}

static void decode_files(struct view v)
{
	struct file_list l;
	struct err err = {0};
	if (file_list_get(&v, &l, &err) < 0) {
		CHECK(is_refusal(&err));
		return;
	}
	check_files(&l);
	check_links(&l);
	file_list_release(&l);
}

static void decode_gathered(struct view v)
{
	struct rank_files f;
	struct err err = {0};
	if (rank_files_get(&v, &f, 1, &err) < 0) {
		CHECK(is_refusal(&err));
		return;
	}
	check_gathered(&f, 1);
	if (file_list_get_equal(&v, &f.files, 1)) {
		uint64_t bytes = file_list_bytes(&f.files, 0);
		struct buf b;
		buf_init(&b, DETAILS_MAX);
		file_list_put_equal(&b, &f.files, 1);
		struct view back = view_of(b.data, b.len);
		CHECK(file_list_get_equal(&back, &f.files, 1) && !view_left(&back));
		CHECK(file_list_bytes(&f.files, 0) == bytes);
		buf_release(&b);
	}
	rank_files_release(&f);
}

/* What three ranks claim, and which of its outputs the last one then drops. */
static void decode_claims(struct view v)
{
	struct claims c = {0};
	struct err err = {0};
	bool dropped[8] = {0}, *drops;
	uint32_t n;
	size_t third = view_left(&v) / 3;
	bool all = true;
	for (int r = 0; r < 3 && all; r++) {
		struct view its = view_of(v.p + (size_t)r * third, third);
		all = claims_get(&c, r, &its, &err) == 0;
	}
	CHECK(all || err.code == ERR_INTEGRITY);
	err_clear(&err);
	if (all && claims_settle(&c, view_left(&v) % 2, 0, &err) < 0)
		CHECK(err.code == ERR_USAGE);
	else if (all) {
		CHECK(claims_dropped(&c, 2, &drops, &n, &err) == 0);
		free(drops);
	}
	claims_release(&c);
	err_clear(&err);
	if (claims_get_dropped(&v, dropped, 8, &err) < 0)
		CHECK(is_refusal(&err));
}

/* ---- whole messages ---- */

static void decode_offer(struct view v, const struct offer_form *form)
{
	struct offer o, again;
	struct err err = {0};
	struct buf b;
	if (offer_get(v, form, &o, &err) < 0) {
		CHECK(is_refusal(&err));
		offer_release(&o);
		return;
	}
	CHECK(o.weights >= 0);
	CHECK(o.content.has != OFFER_ARRAYS || o.content.narrays > 0);
	for (uint32_t i = 0; i < o.content.narrays; i++)
		if (form->names)
			check_name(o.content.arrays[i].name, false);
	if (o.content.gathered)
		check_gathered(o.content.gathered, o.content.narrays);
	if (o.content.has == OFFER_FILES)
		check_files(&o.content.files);
	buf_init(&b, DETAILS_MAX);
	offer_put(&b, &o, form);
	CHECK(!b.failed);
	int ret = offer_get(view_of(b.data, b.len), form, &again, &err);
	CHECK(ret == 0);
	CHECK(again.content.narrays == o.content.narrays && again.order == o.order);
	offer_release(&again);
	offer_release(&o);
	buf_release(&b);
}

static void check_shares(const uint32_t *shares, int ranks)
{
	uint64_t sum = 0;
	for (int r = 0; shares && r < ranks; r++)
		sum += shares[r];
	CHECK(!shares || sum == FILL_ALL);
}

static void decode_terms(struct view v, const struct terms_form *form)
{
	struct terms t, again;
	struct err err = {0};
	struct buf b;
	if (terms_get(v, form, &t, &err) < 0) {
		CHECK(is_refusal(&err));
		terms_release(&t, form);
		return;
	}
	CHECK(t.nvectors > 0 && t.divisor >= 0);
	check_shares(t.shares, form->size);
	CHECK(form->joint ? !t.inputs != !t.inputs_each : !t.inputs && !t.inputs_each);
	for (uint32_t i = 0; i < t.nvectors; i++) {
		CHECK(t.vectors[i].windows && dtype_size(t.vectors[i].wire));
		CHECK(form->rows || !t.vectors[i].rows);
		CHECK(!t.vectors[i].rows || !t.vectors[i].rows_each);
	}
	buf_init(&b, DETAILS_MAX);
	terms_put(&b, &t, form);
	CHECK(!b.failed);
	int ret = terms_get(view_of(b.data, b.len), form, &again, &err);
	CHECK(ret == 0 && again.nvectors == t.nvectors);
	terms_release(&again, form);
	terms_release(&t, form);
	buf_release(&b);
}

/* Tables of pieces, each after its length. If they make whole tensors, the ranks send every byte of
 * them once. */
static void decode_pieces(struct view v, int ranks)
{
	struct piece_table t;
	struct err err = ERR_INIT;
	uint64_t sent = 0, whole = 0;
	int ret = piece_table_init(&t, ranks, 1u << 20, &err);
	CHECK(ret == 0);
	for (int r = 0; ret == 0 && r < ranks; r++) {
		size_t n = view_u16(&v);
		n = n < view_left(&v) ? n : view_left(&v);
		ret = piece_table_add(&t, r, view_of(view_bytes(&v, n), n), &err);
		CHECK(ret == 0 || err.code == ERR_INTEGRITY || err.code == ERR_RESOURCE);
	}
	if (ret == 0)
		ret = piece_table_settle(&t, &err);
	CHECK(ret == 0 || (err.code && text_is_clean(err.text)));
	for (int r = 0; ret == 0 && r < ranks; r++)
		sent += t.rows[r];
	for (size_t i = 0; ret == 0 && i < t.ntensors; i++)
		whole += t.tensors[i].tensor.bytes;
	CHECK(sent == whole);
	for (size_t i = 0; ret == 0 && i < t.pieces.n; i++) {
		const struct piece *p = &t.pieces.v[i];
		const struct tensor *w = &t.tensors[p->tensor].tensor;
		CHECK(p->chosen <= i && t.pieces.v[p->chosen].chosen == p->chosen);
		for (int k = 0; k < w->ndim; k++)
			CHECK(p->size[k] <= w->shape[k] && p->first[k] <= w->shape[k] - p->size[k]);
	}
	piece_table_release(&t);
}

/* Bytes of a file are the base of others. */
static void decode_moves(struct view v)
{
	struct listed_file file[3] = {{.bytes = 0}, {.bytes = 1000}, {.bytes = UINT64_C(1) << 40}};
	const struct file_list files = {.files = file, .nfiles = 3};
	const size_t n = view_left(&v) / UPDATE_MOVE_BYTES;
	struct update u = {0};
	struct err err = {0};
	uint8_t piece[500], digest[DIGEST_BYTES], *again = calloc(n + 1, UPDATE_MOVE_BYTES);
	const int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	CHECK(again && zeros >= 0);
	const int ret = update_get_moves(&u.moves, &files, v.p, n, &err);
	CHECK(ret == 0 || err.code == ERR_INTEGRITY);
	update_put_moves(&u.moves, again);
	CHECK(!u.moves.n || memcmp(again, v.p, u.moves.n * UPDATE_MOVE_BYTES) == 0);
	for (size_t k = 0; ret == 0 && k < n && k < 20; k++) {
		const struct update_move *m = &u.moves.list[k];
		const uint64_t size = file[m->file].bytes, at = m->at - m->at % sizeof piece;
		const struct update_piece p = {.f = (int)m->file,
		                               .at = at,
		                               .n = size - at < sizeof piece ? size - at
		                                                             : sizeof piece};
		CHECK(m->at + m->bytes <= size && update_has_moves(&u, (int)m->file));
		CHECK(update_read_base(&u, zeros, "zeros", &p, piece, digest, &err) == 0);
	}
	close(zeros);
	free(u.moves.list);
	free(again);
}

/* The terms of a bench. */
static void decode_bench(struct view v, int ranks)
{
	struct bench_terms t = {0};
	struct err err = ERR_INIT;
	struct buf b;
	if (bench_terms_get(v, COLL_ALLREDUCE, ranks, &t, &err) == 0) {
		check_shares(t.shares, ranks);
		buf_init(&b, DETAILS_MAX);
		bench_terms_put(&b, &t, ranks);
		CHECK(same_bytes(&b, v));
		buf_release(&b);
	} else {
		CHECK(err.code == ERR_INTEGRITY || err.code == ERR_DISAGREE);
		CHECK(text_is_clean(err.text));
	}
	bench_terms_release(&t);
}

#define MODE_PIECES 0xf5
#define MODE_MOVES  0xf6
#define MODE_BENCH  0xf7

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	unsigned mode = data[0], with = data[1];
	int ranks = (int)(with & 7) + 1;
	struct view v = view_of(data + 2, size - 2);
	const struct offer_form offer = {.size = ranks, .names = with & 8, .gathered = with & 16};
	const struct terms_form terms = {.size = ranks,
	                                 .nclaims = with >> 6,
	                                 .rows = with & 8,
	                                 .from = with & 16,
	                                 .gathered = with & 32,
	                                 .joint = mode & 128};
	if (mode == MODE_BENCH) {
		decode_bench(v, ranks);
		return 0;
	}
	if (mode == MODE_PIECES) {
		decode_pieces(v, ranks);
		return 0;
	}
	if (mode == MODE_MOVES) {
		decode_moves(v);
		return 0;
	}
	switch (mode % 7) {
	case 0:
		decode_array(v, ranks);
		break;
	case 1:
		decode_files(v);
		break;
	case 2:
		decode_gathered(v);
		break;
	case 3:
		decode_claims(v);
		break;
	case 4:
		decode_offer(v, &offer);
		break;
	case 5:
		decode_terms(v, &terms);
		break;
	default:
		decode_numbers(v, ranks);
		break;
	}
	return 0;
}
