/* Offers and terms, the messages of the agreement: out and in again, cut at every byte, and what is
 * impossible. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "lib/coll/agreement/agree_wire.h"
#include "lib/coll/agreement/claims.h"
#include "lib/coll/agreement/offer.h"
#include "lib/coll/agreement/terms.h"
#include "lib/data/kernels/joint.h"
#include "lib/price/fill.h"
#include "tests/unit/unit.h"

#define SIZE 3

static const struct offer_form plain = {.size = SIZE};
static const struct offer_form named = {.size = SIZE, .names = true};
static const struct offer_form gathers = {.size = SIZE, .gathered = true};

static struct array_info rows_of(uint64_t rows)
{
	struct array_info info = {
	        .format = &format_npy, .dtype = DTYPE_F32, .ndim = 2, .shape = {rows, 4}};
	assert_int_equal(array_count(&info), 0);
	return info;
}

/* A copy that ends where the sanitizer sees it; the decoder's result. */
static int offer_cut(const struct buf *b, size_t n, const struct offer_form *form)
{
	struct err err = {0};
	struct offer o;
	uint8_t *part = malloc(n ? n : 1);
	assert_non_null(part);
	memcpy(part, b->data, n);
	int ret = offer_get(view_of(part, n), form, &o, &err);
	assert_int_equal(err.code, ret ? ERR_INTEGRITY : 0);
	offer_release(&o);
	free(part);
	return ret;
}

static int terms_cut(const struct buf *b, size_t n, const struct terms_form *form)
{
	struct err err = {0};
	struct terms t;
	uint8_t *part = malloc(n ? n : 1);
	assert_non_null(part);
	memcpy(part, b->data, n);
	int ret = terms_get(view_of(part, n), form, &t, &err);
	assert_int_equal(err.code, ret ? ERR_INTEGRITY : 0);
	terms_release(&t, form);
	free(part);
	return ret;
}

/* Whole it is right; one byte less, or more, is wrong. */
static void offer_is_whole(struct buf *b, const struct offer_form *form)
{
	assert_false(b->failed);
	for (size_t n = 0; n < b->len; n++)
		assert_int_equal(offer_cut(b, n, form), -1);
	assert_int_equal(offer_cut(b, b->len, form), 0);
	buf_put_u8(b, 0);
	assert_int_equal(offer_cut(b, b->len, form), -1);
	b->len--;
}

static void terms_are_whole(struct buf *b, const struct terms_form *form)
{
	assert_false(b->failed);
	for (size_t n = 0; n < b->len; n++)
		assert_int_equal(terms_cut(b, n, form), -1);
	assert_int_equal(terms_cut(b, b->len, form), 0);
	buf_put_u8(b, 0);
	assert_int_equal(terms_cut(b, b->len, form), -1);
	b->len--;
}

/* ---- offers ---- */

TEST(an_offer_of_nothing)
{
	static const uint64_t places[] = {7, 9};
	struct err err = {0};
	struct buf b, claims;
	struct offer out;
	buf_init(&b, 4096);
	buf_init(&claims, 4096);
	claims_put(&claims, "out.npy", places, 2);
	struct offer o = {.weights = 0.5,
	                  .weighted = true,
	                  .order = 42,
	                  .link = {5, 6, NETWORK_INTERFACE, 7, 0},
	                  .claims = view_of(claims.data, claims.len)};
	offer_put(&b, &o, &plain);
	offer_is_whole(&b, &plain);
	assert_int_equal(offer_get(view_of(b.data, b.len), &plain, &out, &err), 0);
	assert_true(out.weights == 0.5 && out.weighted && out.order == 42 &&
	            out.content.has == OFFER_NOTHING);
	assert_memory_equal(&out.link, &o.link, sizeof o.link);
	assert_int_equal(view_left(&out.claims), claims.len);
	assert_memory_equal(out.claims.p, claims.data, claims.len);
	offer_release(&out);
	buf_release(&b);
	buf_release(&claims);
}

TEST(offered_arrays_come_back)
{
	uint64_t cut[SIZE] = {5, 0, 2};
	struct offered_array arrays[] = {{.name = "a.npy", .info = rows_of(7), .counts = cut},
	                                 {.name = "b.npy", .info = rows_of(2)}};
	struct offer o = {.weights = 1, .content = {OFFER_ARRAYS, arrays, 2, NULL, {0}}}, out;
	const struct offer_form *const forms[] = {&plain, &named};
	struct err err = {0};
	o.claims = view_of("", 0);
	for (int i = 0; i < 2; i++) {
		struct buf b;
		buf_init(&b, 4096);
		offer_put(&b, &o, forms[i]);
		offer_is_whole(&b, forms[i]);
		assert_int_equal(offer_get(view_of(b.data, b.len), forms[i], &out, &err), 0);
		assert_int_equal(out.content.narrays, 2);
		assert_true(array_same(&out.content.arrays[0].info, &arrays[0].info));
		assert_memory_equal(out.content.arrays[0].counts, cut, sizeof cut);
		assert_null(out.content.arrays[1].counts);
		if (forms[i]->names)
			assert_string_equal(out.content.arrays[1].name, "b.npy");
		else
			assert_null(out.content.arrays[1].name);
		offer_release(&out);
		buf_release(&b);
	}
}

TEST(offered_files_come_back)
{
	struct listed_file files[] = {{.name = "x.bin", .bytes = 9, .mode = 0600}};
	struct offer o = {.weights = 1, .claims = view_of("", 0)}, out;
	struct err err = {0};
	struct buf b;
	o.content.has = OFFER_FILES;
	o.content.files = (struct file_list){
	        .format = &format_raw, .folder = true, .files = files, .nfiles = 1};
	buf_init(&b, 4096);
	offer_put(&b, &o, &plain);
	offer_is_whole(&b, &plain);
	assert_int_equal(offer_get(view_of(b.data, b.len), &plain, &out, &err), 0);
	assert_int_equal(out.content.files.nfiles, 1);
	assert_string_equal(out.content.files.files[0].name, "x.bin");
	/* What rank 0 passes on of the root's is read alone, too. */
	struct offer_content content;
	assert_int_equal(offer_content_get(out.bytes, &plain, &content, &err), 0);
	assert_int_equal(content.has, OFFER_FILES);
	offer_content_release(&content);
	offer_release(&out);
	buf_release(&b);
}

static struct listed_file log_file = {.name = "a.log", .bytes = 5, .mode = 0600};
static const struct rank_files logs = {.files = {.format = &format_raw,
                                                 .folder = true,
                                                 .tree = true,
                                                 .files = &log_file,
                                                 .nfiles = 1},
                                       .host = "node1"};

TEST(gathered_files_come_back)
{
	struct rank_files its = logs;
	struct offered_array array = {.info = rows_of(5)};
	struct offer o = {.weights = 1, .content = {OFFER_ARRAYS, &array, 1, &its, {0}}}, out;
	struct err err = {0};
	struct buf b;
	o.claims = view_of("", 0);
	buf_init(&b, 4096);
	offer_put(&b, &o, &gathers);
	offer_is_whole(&b, &gathers);
	assert_int_equal(offer_get(view_of(b.data, b.len), &gathers, &out, &err), 0);
	assert_string_equal(out.content.gathered->host, "node1");
	assert_string_equal(out.content.gathered->files.files[0].name, "a.log");
	offer_release(&out);
	buf_release(&b);
}

/* Counts that the message has no room for: nothing is allocated for them. */
TEST(counts_that_lie_cost_nothing)
{
	static const struct offer_form huge = {.size = 65536};
	struct mallinfo2 before, after;
	struct err err = {0};
	struct offer o;
	struct buf b;
	buf_init(&b, 4096);
	buf_put_u64(&b, 0); /* weight */
	buf_put_u64(&b, 0);
	buf_put_u32(&b, 0);
	buf_put_u8(&b, OFFER_ARRAYS);
	size_t count_at = b.len;
	buf_put_u32(&b, UINT32_MAX);
	buf_put(&b, "12345678901234567890", 20);
	before = mallinfo2();
	assert_int_equal(offer_get(view_of(b.data, b.len), &huge, &o, &err), -1);
	after = mallinfo2();
	assert_int_equal(err.code, ERR_INTEGRITY);
	assert_true(after.arena + after.hblkhd <= before.arena + before.hblkhd + 4096);
	offer_release(&o);
	/* One array whose cut has a number for each of 65536 ranks, which are not there. */
	b.len = count_at;
	buf_put_u32(&b, 1);
	buf_put_u8(&b, format_npy.number);
	buf_put_u8(&b, DTYPE_F32);
	buf_put_u8(&b, 1);
	buf_put_u64(&b, 4);
	buf_put_u32(&b, 65536);
	err_clear(&err);
	assert_int_equal(offer_get(view_of(b.data, b.len), &huge, &o, &err), -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	offer_release(&o);
	buf_release(&b);
}

TEST(an_unknown_content_is_refused)
{
	struct err err = {0};
	struct offer o;
	struct buf b;
	buf_init(&b, 4096);
	buf_put_u64(&b, 0);
	buf_put_u64(&b, 0);
	buf_put_u32(&b, 0);
	buf_put_u8(&b, OFFER_FILES + 1);
	assert_int_equal(offer_get(view_of(b.data, b.len), &plain, &o, &err), -1);
	offer_release(&o);
	buf_release(&b);
}

/* ---- terms ---- */

TEST(terms_come_back)
{
	static const bool forms[][4] = {/* rows, from, gathered, joint */
	                                {false, false, false, false},
	                                {true, false, false, false},
	                                {false, true, false, false},
	                                {true, false, true, false},
	                                {false, false, false, true}};
	uint64_t inputs[SIZE] = {2, 1, 4};
	uint64_t rows[SIZE] = {1, 2, 3}, same[SIZE] = {9, 9, 9}, from[SIZE] = {3, 2, 1};
	bool dropped[] = {false, true};
	for (size_t i = 0; i < LENGTH(forms); i++) {
		struct vector_terms v[] = {{"ring", DTYPE_F64, 7, rows, 0, from},
		                           {"direct", DTYPE_F32, 1, same, 0, NULL}};
		struct rank_files gathered[SIZE] = {logs, logs, logs};
		const struct terms_form form = {SIZE,        2,           forms[i][0],
		                                forms[i][1], forms[i][2], forms[i][3]};
		uint32_t n = form.gathered ? 1 : 2;
		struct terms t = {.divisor = 1.5,
		                  .weighted = true,
		                  .dropped = dropped,
		                  .root = view_of("root", 4),
		                  .vectors = v,
		                  .nvectors = n,
		                  .inputs = inputs,
		                  .gathered = gathered},
		             out;
		struct err err = {0};
		struct buf b;
		buf_init(&b, 4096);
		terms_put(&b, &t, &form);
		terms_are_whole(&b, &form);
		assert_int_equal(terms_get(view_of(b.data, b.len), &form, &out, &err), 0);
		assert_true(out.divisor == 1.5 && out.weighted && !out.keeps_order);
		assert_true(!out.dropped[0] && out.dropped[1]);
		assert_int_equal(view_left(&out.root), 4);
		assert_int_equal(out.nvectors, n);
		assert_string_equal(out.vectors[0].algorithm, "ring");
		assert_true(out.vectors[0].wire == DTYPE_F64 && out.vectors[0].windows == 7);
		assert_true(!out.vectors[0].rows == !form.rows);
		assert_true(!out.vectors[0].from == !form.from);
		if (form.rows)
			assert_memory_equal(out.vectors[0].rows, rows, sizeof rows);
		if (form.rows && n > 1) { /* equal rows are sent once */
			assert_null(out.vectors[1].rows);
			assert_int_equal(out.vectors[1].rows_each, 9);
		}
		if (form.from) {
			assert_memory_equal(out.vectors[0].from, from, sizeof from);
			assert_null(out.vectors[1].from);
		}
		if (form.joint)
			assert_memory_equal(out.inputs, inputs, sizeof inputs);
		assert_int_equal(out.inputs_each, 0);
		if (form.gathered)
			assert_string_equal(out.gathered[2].host, "node1");
		terms_release(&out, &form);
		buf_release(&b);
	}
}

/* Numbers of rows that can't be: all equal, but sent one by one; too many in all. */
TEST(impossible_rows)
{
	static const struct terms_form form = {.size = SIZE, .rows = true};
	for (int i = 0; i < 4; i++) {
		struct err err = {0};
		struct terms t;
		struct buf b;
		buf_init(&b, 4096);
		buf_put_u64(&b, 0); /* divisor */
		for (int k = 0; k < 2 + 4 + 1 + 4 + 4;
		     k++) /* flags, piece, clones, dropped, root */
			buf_put_u8(&b, 0);
		buf_put_u32(&b, 1);
		buf_put_str(&b, "ring");
		buf_put_u8(&b, DTYPE_F32);
		buf_put_u32(&b, 1);
		buf_put_u8(&b, i < 2 ? 0 : i == 2 ? 1 : 2);
		for (int r = 0; r < (i < 2 ? SIZE : 1); r++)
			buf_put_u64(&b, i == 0   ? 5 + (uint64_t)r
			                : i == 1 ? 5
			                         : INT64_MAX / SIZE + (i == 2));
		buf_put_u8(&b, 0); /* shares */
		assert_int_equal(terms_get(view_of(b.data, b.len), &form, &t, &err), i ? -1 : 0);
		assert_int_equal(err.code, i ? ERR_INTEGRITY : 0);
		terms_release(&t, &form);
		buf_release(&b);
	}
}

/* Numbers of inputs: of one rank none, or of all too many, or equal ones that are sent one by one.
 */
TEST(numbers_of_inputs)
{
	static const struct {
		uint64_t each, list[SIZE]; /* each 0: the list */
		int ret;
	} cases[] = {
	        {1, {0}, 0},
	        {JOINT_MOST / SIZE, {0}, 0},
	        {JOINT_MOST / SIZE + 1, {0}, -1},
	        {INT64_MAX / SIZE, {0}, -1},
	        {0, {1, 2, 1}, 0},
	        {0, {1, JOINT_MOST - 2, 1}, 0},
	        {0, {1, JOINT_MOST - 1, 1}, -1},
	        {0, {1, 0, 1}, -1},
	        {0, {3, 3, 3}, -1},
	};
	static const struct terms_form form = {.size = SIZE, .joint = true};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		uint64_t list[SIZE];
		struct vector_terms v = {"direct", DTYPE_F32, 1, NULL, 0, NULL};
		struct terms t = {.vectors = &v, .nvectors = 1, .inputs_each = cases[i].each};
		struct buf b;
		memcpy(list, cases[i].list, sizeof list);
		t.root = view_of("", 0);
		buf_init(&b, 4096);
		if (!cases[i].each && list[0] != list[1])
			t.inputs = list;
		terms_put(&b, &t, &form);
		if (!cases[i].each && !t.inputs) {
			b.len -= 9;
			buf_put_u8(&b, 0);
			for (int r = 0; r < SIZE; r++)
				buf_put_u64(&b, list[r]);
		}
		assert_int_equal(terms_cut(&b, b.len, &form), cases[i].ret);
		buf_release(&b);
	}
	/* None of any rank. */
	struct vector_terms v = {"direct", DTYPE_F32, 1, NULL, 0, NULL};
	struct terms t = {.vectors = &v, .nvectors = 1, .root = view_of("", 0)};
	struct buf b;
	buf_init(&b, 4096);
	terms_put(&b, &t, &form);
	assert_int_equal(terms_cut(&b, b.len, &form), -1);
	buf_release(&b);
}

/* Shares of the ranks: all there, and together the whole. */
TEST(shares_that_can_t_be)
{
	static const struct {
		uint32_t share[SIZE];
		int ret;
	} cases[] = {
	        {{FILL_ALL, 0, 0}, 0},
	        {{FILL_ALL / 2, FILL_ALL / 4, FILL_ALL / 4}, 0},
	        {{FILL_ALL / 2, FILL_ALL / 4, FILL_ALL / 4 - 1}, -1},
	        {{0, 0, 0}, -1},
	        {{UINT32_MAX, FILL_ALL + 1, 0}, -1}, /* adds up in 32 bits alone */
	};
	static const struct terms_form form = {.size = SIZE};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct vector_terms v = {"weighted", DTYPE_F32, 1, NULL, 0, NULL};
		uint32_t share[SIZE], *back = NULL;
		struct terms t = {.vectors = &v, .nvectors = 1, .shares = share};
		struct err err = {0};
		struct buf b;
		memcpy(share, cases[i].share, sizeof share);
		t.root = view_of("", 0);
		buf_init(&b, 4096);
		terms_put(&b, &t, &form);
		assert_int_equal(terms_cut(&b, b.len, &form), cases[i].ret);
		for (size_t len = 0; len < b.len; len++)
			assert_int_equal(terms_cut(&b, len, &form), -1);
		b.len = 0;
		shares_put(&b, share, SIZE);
		struct view all = view_of(b.data, b.len);
		assert_int_equal(shares_get(&all, SIZE, &back, &err), cases[i].ret);
		assert_true(cases[i].ret || !memcmp(back, share, sizeof share));
		free(back);
		b.data[0] = 2;
		back = NULL;
		all = view_of(b.data, b.len);
		assert_int_equal(shares_get(&all, SIZE, &back, &err), -1);
		free(back);
		buf_release(&b);
	}
}

/* One vector with these members, of which one can't be. */
static int one_vector_of(uint32_t piece, const char *algorithm, enum dtype wire, uint32_t windows,
                         uint32_t nvectors)
{
	static const struct terms_form form = {.size = SIZE};
	struct buf b;
	buf_init(&b, 4096);
	buf_put_u64(&b, 0);
	buf_put_u8(&b, 0);
	buf_put_u8(&b, 0);
	buf_put_u32(&b, piece);
	buf_put_u8(&b, 0); /* clones */
	buf_put_u32(&b, 0);
	buf_put_u32(&b, 0);
	buf_put_u32(&b, nvectors);
	buf_put_str(&b, algorithm);
	buf_put_u8(&b, (uint8_t)wire);
	buf_put_u32(&b, windows);
	buf_put_u8(&b, 0); /* shares */
	int ret = terms_cut(&b, b.len, &form);
	buf_release(&b);
	return ret;
}

static int one_vector(const char *algorithm, enum dtype wire, uint32_t windows, uint32_t nvectors)
{
	return one_vector_of(0, algorithm, wire, windows, nvectors);
}

TEST(terms_that_can_t_be)
{
	assert_int_equal(one_vector_of(16384, "ring", DTYPE_F32, 1, 1), 0);
	assert_int_equal(one_vector_of(16385, "ring", DTYPE_F32, 1, 1), -1); /* parts of elements */
	assert_int_equal(one_vector_of(262144, "ring", DTYPE_F32, 1, 1), -1);
	assert_int_equal(one_vector("ring", DTYPE_F32, 1, 1), 0);
	assert_int_equal(one_vector("ring", DTYPE_F32, 0, 1), -1);
	assert_int_equal(one_vector("ring", DTYPE_NONE, 1, 1), -1);
	assert_int_equal(one_vector("ring", DTYPE_F4, 1, 1), -1); /* no whole bytes */
	assert_int_equal(one_vector("ring", DTYPES, 1, 1), -1);
	assert_int_equal(one_vector("ring", DTYPE_F32, 1, 0), -1);
	assert_int_equal(one_vector("ring", DTYPE_F32, 1, 2), -1);
	assert_int_equal(one_vector("ring", DTYPE_F32, 1, UINT32_MAX), -1);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
