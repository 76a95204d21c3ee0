/* The control messages' bodies: out and in again, cut at every byte, and with every byte wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/job/proto.h"
#include "tests/unit/unit.h"

TEST(hello_comes_back)
{
	struct hello h = {.version = 7, .rank = PROTO_RANK_AUTO, .size = 65536}, back;
	uint8_t o[GATE_OPENING];
	memcpy(h.jobtag, "jobs tag", sizeof h.jobtag);
	memcpy(h.launch, "a launch", sizeof h.launch);
	hello_encode(&h, o);
	assert_int_equal(hello_decode(&back, o), 0);
	assert_memory_equal(&h, &back, sizeof h);
	for (int i = 0; i < 8; i++) { /* another magic */
		o[i] ^= 1;
		assert_int_equal(hello_decode(&back, o), -1);
		o[i] ^= 1;
	}
	for (size_t i = 8; i < sizeof o; i++) { /* nothing else is left uninitialised */
		uint8_t again[GATE_OPENING];
		memset(again, 0xff, sizeof again);
		hello_encode(&h, again);
		assert_int_equal(again[i], o[i]);
	}
}

TEST(inquiry_comes_back)
{
	struct inquiry q = {.rank = 65535, .has_verdict = true}, back;
	uint8_t o[GATE_OPENING];
	char text[TLS_IDENTITY_MAX + 1];
	memcpy(q.session, "a session, 16 by", sizeof q.session);
	inquiry_encode(&q, o);
	assert_int_equal(inquiry_decode(&back, o), 0);
	assert_memory_equal(q.session, back.session, sizeof q.session);
	assert_int_equal(back.rank, q.rank);
	assert_true(back.has_verdict);
	assert_true(inquiry_identity(&q, text, sizeof text) < TLS_IDENTITY_MAX);
	assert_string_equal(text, "V1|612073657373696f6e2c203136206279|65535");
	for (size_t i = 0; i < sizeof o; i++) { /* another magic, no truth value, no padding */
		if (i >= 8 && i < 28)
			continue;
		o[i] ^= 2;
		assert_int_equal(inquiry_decode(&back, o), -1);
		o[i] ^= 2;
	}
}

static struct intent full_intent(void)
{
	struct intent in;
	memset(&in, 0, sizeof in);
	for (int i = 0; i < FACTS_MAX + 3; i++) { /* more than it has room for: kept out */
		char name[16], value[600];        /* that of fact 5 is too long: cut, with a hash */
		snprintf(name, sizeof name, "fact%d", i);
		memset(value, 'a' + i, sizeof value);
		value[i == 5 ? sizeof value - 1 : (size_t)i] = '\0';
		intent_add(&in, name, value);
	}
	snprintf(in.subject, sizeof in.subject, "g.%d.npy", 3);
	snprintf(in.table, sizeof in.table, "fact7");
	in.memory = 1ull << 40;
	in.ninputs = 3;
	in.streams = 4;
	snprintf(in.data_addr, sizeof in.data_addr, "[2001:db8::7]:7766");
	in.details = view_of("3,4 and 5", 9);
	return in;
}

TEST(intent_comes_back)
{
	struct intent in = full_intent(), back;
	struct err err = {0};
	struct buf b;
	assert_int_equal(in.nfacts, FACTS_MAX);
	assert_true(in.crowded);
	assert_non_null(strstr(in.facts[5].value, "fff... (599 characters, XXH3 "));
	buf_init(&b, 1u << 20);
	intent_encode(&in, &b);
	assert_false(b.failed);
	assert_int_equal(intent_decode(&back, view_of(b.data, b.len), &err), 0);
	assert_int_equal(back.nfacts, in.nfacts);
	for (int i = 0; i < in.nfacts; i++) {
		assert_string_equal(back.facts[i].name, in.facts[i].name);
		assert_string_equal(back.facts[i].value, in.facts[i].value);
	}
	assert_string_equal(back.subject, in.subject);
	assert_string_equal(back.table, in.table);
	assert_true(back.memory == in.memory);
	assert_int_equal(back.ninputs, 3);
	assert_int_equal(back.streams, 4);
	assert_string_equal(back.data_addr, in.data_addr);
	assert_int_equal(view_left(&back.details), 9);
	assert_memory_equal(back.details.p, "3,4 and 5", 9);
	buf_release(&b);
}

/* What differs behind the cut differs still. */
TEST(long_values_stay_apart)
{
	struct intent in = {0};
	char value[4000];
	memset(value, '7', sizeof value);
	value[sizeof value - 1] = '\0';
	intent_add(&in, "a", value);
	intent_add(&in, "a again", value);
	value[sizeof value - 2] = '8';
	intent_add(&in, "b", value);
	value[FACT_VALUE - 1] = '\0';
	intent_add(&in, "all of it", value);
	assert_string_equal(in.facts[0].value, in.facts[1].value);
	assert_string_not_equal(in.facts[0].value, in.facts[2].value);
	assert_string_equal(in.facts[3].value, value);
	assert_false(in.crowded);
}

TEST(details_are_bounded)
{
	struct intent in = {0}, back;
	struct plan p = {.windows = 1, .streams = 1}, plan;
	uint8_t *bytes = calloc(1, DETAILS_MAX + 1);
	assert_non_null(bytes);
	for (size_t more = 0; more < 2; more++) {
		int want = more ? -1 : 0;
		struct err err = {0};
		struct buf b;
		in.details = p.details = view_of(bytes, DETAILS_MAX + more);
		buf_init(&b, 1u << 20);
		intent_encode(&in, &b);
		assert_int_equal(intent_decode(&back, view_of(b.data, b.len), &err), want);
		assert_int_equal(view_left(&back.details), more ? 0 : DETAILS_MAX);
		buf_release(&b);
		buf_init(&b, 1u << 20);
		plan_encode(&p, &b);
		struct view v = view_of(b.data, b.len);
		err_clear(&err);
		assert_int_equal(plan_decode(&plan, &v, &err), want);
		assert_int_equal(view_left(&plan.details), more ? 0 : DETAILS_MAX);
		buf_release(&b);
	}
	free(bytes);
}

/* A copy of its own of n bytes, so that a sanitizer sees a read behind them. */
static uint8_t *exactly(const uint8_t *p, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);
	assert_non_null(copy);
	memcpy(copy, p, n);
	return copy;
}

TEST(intent_cut_anywhere)
{
	struct intent in = full_intent(), back;
	struct buf b;
	buf_init(&b, 1u << 20);
	intent_encode(&in, &b);
	for (size_t n = 0; n < b.len; n++) {
		struct err err = {0};
		uint8_t *cut = exactly(b.data, n);
		assert_int_equal(intent_decode(&back, view_of(cut, n), &err), -1);
		assert_int_equal(err.code, ERR_INTEGRITY);
		free(cut);
	}
	struct err err = {0}; /* one byte more */
	buf_put_u8(&b, 0);
	assert_int_equal(intent_decode(&back, view_of(b.data, b.len), &err), -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	buf_release(&b);
}

/* Any byte may have any value: an answer or an error, and strings that end. */
TEST(intent_with_wrong_bytes)
{
	struct intent in = full_intent(), back;
	struct buf b;
	buf_init(&b, 1u << 20);
	intent_encode(&in, &b);
	for (size_t i = 0; i < b.len; i++)
		for (unsigned x = 0; x < 256; x += i < 64 ? 1 : 51) {
			struct err err = {0};
			uint8_t *bad = exactly(b.data, b.len);
			bad[i] = (uint8_t)x;
			if (intent_decode(&back, view_of(bad, b.len), &err) < 0)
				assert_int_equal(err.code, ERR_INTEGRITY);
			assert_in_range(back.nfacts, 0, FACTS_MAX);
			for (int k = 0; k < back.nfacts; k++) {
				assert_non_null(memchr(back.facts[k].name, 0, FACT_NAME));
				assert_non_null(memchr(back.facts[k].value, 0, FACT_VALUE));
			}
			free(bad);
		}
	uint8_t too_many = FACTS_MAX + 1;
	struct err err = {0};
	assert_int_equal(intent_decode(&back, view_of(&too_many, 1), &err), -1);
	assert_int_equal(back.nfacts, 0);
	buf_release(&b);
}

static struct plan full_plan(void)
{
	struct plan p;
	memset(&p, 0, sizeof p);
	snprintf(p.algorithm, sizeof p.algorithm, "ring_chunked");
	p.dtype = 11;
	p.windows = 1000000;
	p.streams = 64;
	p.total_inputs = 1ull << 33;
	p.memory = UINT64_MAX;
	p.trace = true;
	p.host_cpus = 96;
	memset(p.session, 0xa1, sizeof p.session);
	p.details = view_of("rows", 4);
	return p;
}

TEST(plan_comes_back)
{
	struct plan p = full_plan(), back;
	struct err err = {0};
	struct buf b;
	buf_init(&b, 1000);
	plan_encode(&p, &b);
	buf_put_u8(&b, 77); /* what follows is left to the caller */
	struct view v = view_of(b.data, b.len);
	assert_int_equal(plan_decode(&back, &v, &err), 0);
	assert_string_equal(back.algorithm, p.algorithm);
	assert_int_equal(back.dtype, p.dtype);
	assert_int_equal(back.windows, p.windows);
	assert_int_equal(back.streams, p.streams);
	assert_true(back.total_inputs == p.total_inputs && back.memory == p.memory);
	assert_int_equal(back.host_cpus, p.host_cpus);
	assert_memory_equal(back.session, p.session, sizeof p.session);
	assert_int_equal(view_left(&back.details), 4);
	assert_memory_equal(back.details.p, "rows", 4);
	assert_int_equal(view_u8(&v), 77);
	for (size_t n = 0; n < b.len - 1; n++) {
		uint8_t *cut = exactly(b.data, n);
		err = (struct err){0};
		v = view_of(cut, n);
		assert_int_equal(plan_decode(&back, &v, &err), -1);
		assert_int_equal(err.code, ERR_INTEGRITY);
		free(cut);
	}
	buf_release(&b);
}

TEST(impossible_plans)
{
	static const uint32_t cases[][2] = {{0, 1}, {1, 0}, {1, 65}, {1, UINT32_MAX}};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct plan p = full_plan(), back;
		struct err err = {0};
		struct buf b;
		p.windows = cases[i][0];
		p.streams = cases[i][1];
		buf_init(&b, 1000);
		plan_encode(&p, &b);
		struct view v = view_of(b.data, b.len);
		assert_int_equal(plan_decode(&back, &v, &err), -1);
		assert_int_equal(err.code, ERR_INTEGRITY);
		buf_release(&b);
	}
}

TEST(errors_come_back)
{
	static const int codes[] = {0, 1, 11, 130, 143}, ranks[] = {ERR_RANK_SELF, 0, 65535};
	for (size_t c = 0; c < 5; c++)
		for (size_t r = 0; r < 3; r++) {
			struct err e = {.code = codes[c], .rank = ranks[r]}, back;
			enum phase phase;
			struct buf b;
			snprintf(e.text, sizeof e.text, "x.npy: no space left");
			snprintf(e.host, sizeof e.host, "nodeb");
			e.subject = (int)strlen("x.npy");
			buf_init(&b, 4096);
			err_encode(&e, PHASE_COMMIT, &b);
			struct view v = view_of(b.data, b.len);
			assert_int_equal(err_decode(&back, &phase, &v), 0);
			assert_int_equal(back.code, e.code);
			assert_int_equal(back.rank, e.rank);
			assert_int_equal(phase, PHASE_COMMIT);
			assert_string_equal(back.text, e.text);
			assert_string_equal(back.host, e.host);
			assert_int_equal(back.subject, e.subject);
			for (size_t n = 0; n < b.len; n++) {
				uint8_t *cut = exactly(b.data, n);
				/* Without a subject; without a host. */
				bool whole = n == b.len - 2 || n == b.len - 4 - strlen(e.host);
				v = view_of(cut, n);
				assert_int_equal(err_decode(&back, &phase, &v), whole ? 0 : -1);
				free(cut);
			}
			buf_release(&b);
		}
}

TEST(presences_come_back)
{
	struct presence p, back;
	struct err err = {0};
	struct buf b;
	memset(&p, 0, sizeof p);
	p.has_input = p.finds_root = true;
	host_name_make(p.host, "node\x1b[2Ja");
	assert_string_equal(p.host, "node__2Ja");
	presence_set(p.addr, sizeof p.addr, "192\x1b");
	assert_string_equal(p.addr, "192?");
	presence_set(p.addr, sizeof p.addr, "192.0.2.1");
	memset(p.host_id, 0xc3, sizeof p.host_id);
	memset(p.input, 'x', sizeof p.input - 1);
	p.age = 93600;
	presence_set(p.root, 5, "nodea");
	assert_string_equal(p.root, "node");
	buf_init(&b, 4096);
	presence_encode(&p, &b);
	assert_int_equal(presence_decode(&back, view_of(b.data, b.len), &err), 0);
	assert_memory_equal(&p, &back, sizeof p);
	for (size_t n = 0; n < b.len; n++) {
		uint8_t *cut = exactly(b.data, n);
		err_clear(&err);
		assert_int_equal(presence_decode(&back, view_of(cut, n), &err), -1);
		assert_int_equal(err.code, ERR_INTEGRITY);
		free(cut);
	}
	buf_release(&b);
}

TEST(welcomes_and_joined_come_back)
{
	struct welcome w = {.rank = 3, .coordinator = -1, .root = 65535, .host = "nodea"}, w2;
	struct joined j = {.here = 3, .size = 4, .by_host = true, .names = "nodea, nodeb"}, j2;
	struct err err = {0};
	struct buf b;
	buf_init(&b, 4096);
	welcome_encode(&w, &b);
	assert_int_equal(welcome_decode(&w2, view_of(b.data, b.len), &err), 0);
	assert_true(w2.rank == w.rank && w2.coordinator == w.coordinator && w2.root == w.root);
	assert_string_equal(w2.host, w.host);
	assert_int_equal(welcome_decode(&w2, view_of(b.data, b.len - 1), &err), -1);
	put_u32(b.data, 65536);
	assert_int_equal(welcome_decode(&w2, view_of(b.data, b.len), &err), -1);
	buf_release(&b);
	buf_init(&b, 4096);
	joined_encode(&j, &b);
	assert_int_equal(joined_decode(&j2, view_of(b.data, b.len), &err), 0);
	assert_true(j2.here == j.here && j2.size == j.size && j2.by_host);
	assert_string_equal(j2.names, j.names);
	assert_int_equal(joined_decode(&j2, view_of(b.data, b.len - 1), &err), -1);
	put_u32(b.data, JOB_MAX_SIZE + 1);
	assert_int_equal(joined_decode(&j2, view_of(b.data, b.len), &err), -1);
	buf_release(&b);
}

TEST(an_error_s_text_is_escaped)
{
	struct err e = {.code = 3, .rank = 1}, back;
	enum phase phase;
	struct buf b;
	snprintf(e.text, sizeof e.text, "a\x1b[2Jb");
	e.subject = 3; /* no longer, when the text is escaped */
	buf_init(&b, 4096);
	err_encode(&e, PHASE_RUN, &b);
	struct view v = view_of(b.data, b.len);
	assert_int_equal(err_decode(&back, &phase, &v), 0);
	assert_string_equal(back.text, "a\\x1b[2Jb");
	assert_string_equal(phase_name(phase), "run");
	assert_int_equal(back.subject, 0);
	buf_release(&b);
	e.subject = 0;
	snprintf(e.text, sizeof e.text, "--size 3 differs from 2 on rank 0");
	buf_init(&b, 4096);
	err_encode(&e, PHASE_JOIN, &b);
	v = view_of(b.data, b.len);
	assert_int_equal(err_decode(&back, &phase, &v), 0);
	assert_int_equal(back.subject, strlen("--size"));
	buf_release(&b);
	buf_init(&b, 4096);
	err_encode(&e, (enum phase)200, &b);
	v = view_of(b.data, b.len);
	assert_int_equal(err_decode(&back, &phase, &v), -1);
	buf_release(&b);
}

/* Who takes part: all, none, or ranks that do not exist. */
TEST(a_roster_that_cannot_be)
{
	static const uint8_t wrong[][8] = {
	        {3, 0, 0, 0, 1, 7, 0}, /* all, as if some were missing */
	        {3, 0, 0, 0, 1, 0, 0}, /* nobody */
	        {3, 0, 0, 0, 1, 8, 0}, /* rank 3 */
	        {3, 0, 0, 0, 2, 3, 0},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct err err = {0};
		struct view v = view_of(wrong[i], sizeof wrong[i]);
		struct roster r;
		assert_int_equal(roster_decode(&r, &v, &err), -1);
		assert_int_equal(err.code, ERR_INTEGRITY);
	}
}

/* Each cut of a ROSTER is malformed; places follow it. */
TEST(a_roster_is_read)
{
	int host[] = {0, 1, 1, 0, 2}, came[] = {0, 1, 3, 4, 5, 6, 7, 8, 9};
	int sparse[] = {0, 1, -1, 1, 1, 0, 2, 1, 1, 1}, apart[] = {0, -1, 1}, two[] = {0, 2};
	const struct roster all[] = {
	        {.size = 5, .host = host, .hosts = 3},
	        {.size = 7, .hosts = 7},
	        {.size = 10, .came = came, .ncame = 9, .host = sparse, .hosts = 3},
	        {.size = 3, .came = two, .ncame = 2, .host = apart, .hosts = 2},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct roster r;
		struct buf b;
		buf_init(&b, 200);
		roster_encode(&all[i], &b);
		const size_t whole = b.len;
		buf_put_u8(&b, 9);
		for (size_t n = 0; n <= b.len; n++) {
			struct err err = {0};
			uint8_t *cut = exactly(b.data, n);
			struct view v = view_of(cut, n);
			const bool fits = n >= whole;
			assert_int_equal(roster_decode(&r, &v, &err), fits ? 0 : -1);
			assert_int_equal(err.code, fits ? 0 : ERR_INTEGRITY);
			if (fits) {
				assert_int_equal(r.size, all[i].size);
				assert_int_equal(r.hosts, all[i].hosts);
				assert_int_equal(r.ncame, r.came ? all[i].ncame : (int)r.size);
				assert_int_equal(view_left(&v), n - whole);
			}
			assert_true(!r.host == (!all[i].host || !fits));
			assert_true(!r.came == (!all[i].came || !fits));
			if (r.host)
				assert_memory_equal(r.host, all[i].host, r.size * sizeof *r.host);
			if (r.came)
				assert_memory_equal(r.came, all[i].came,
				                    (size_t)r.ncame * sizeof *r.came);
			roster_release(&r);
			free(cut);
		}
		for (uint32_t size = 0; size <= JOB_MAX_SIZE + 1; size += JOB_MAX_SIZE + 1) {
			struct err err = {0};
			struct view v = view_of(b.data, b.len);
			put_u32(b.data, size);
			assert_int_equal(roster_decode(&r, &v, &err), -1);
			assert_int_equal(err.code, ERR_INTEGRITY);
		}
		buf_release(&b);
	}
}

TEST(places_come_back)
{
	const struct rank_place in = {
	        .rank = 4, .addr = "[2001:db8::7]:7766", .host = "nodea", .key = "this pair's"};
	struct rank_place p;
	struct buf b;
	buf_init(&b, 200);
	rank_place_encode(&in, &b);
	for (size_t n = 0; n <= b.len; n++) {
		struct err err = {0};
		uint8_t *cut = exactly(b.data, n);
		struct view v = view_of(cut, n);
		assert_int_equal(rank_place_decode(&p, &v, &err), n == b.len ? 0 : -1);
		assert_int_equal(err.code, n == b.len ? 0 : ERR_INTEGRITY);
		free(cut);
	}
	assert_int_equal(p.rank, in.rank);
	assert_string_equal(p.addr, in.addr);
	assert_string_equal(p.host, in.host);
	assert_memory_equal(p.key, in.key, sizeof in.key);
	struct err err = {0};
	struct view v = view_of(b.data, b.len);
	put_u32(b.data, JOB_MAX_SIZE); /* no such rank */
	assert_int_equal(rank_place_decode(&p, &v, &err), -1);
	assert_string_equal(err.text, "a malformed PLACES message (rank)");
	buf_release(&b);
}

/* The rank that gave such an address is to blame, not those that cannot use it. */
TEST(addresses_of_nobody)
{
	static const char *const wrong[] = {"node a:7",   "node\x1b:7", "a/b:7", "[::1:7",
	                                    "node:70000", "node:x",     "node",  ":"};
	static const char *const right[] = {"", ":7", "node:7", "[::1]:7", "[fe80::1%eth0]:7"};
	for (size_t i = 0; i < 8 + 5; i++) {
		const char *text = i < 8 ? wrong[i] : right[i - 8];
		const int want = i < 8 ? -1 : 0;
		struct intent in = full_intent();
		struct err err = {0};
		struct rank_place p = {.rank = 4};
		struct buf b;
		snprintf(in.data_addr, sizeof in.data_addr, "%s", text);
		buf_init(&b, 1u << 20);
		intent_encode(&in, &b);
		assert_int_equal(intent_decode(&in, view_of(b.data, b.len), &err), want);
		assert_int_equal(err.code, want ? ERR_INTEGRITY : 0);
		b.len = 0;
		err_clear(&err);
		snprintf(p.addr, sizeof p.addr, "%s", text);
		rank_place_encode(&p, &b);
		struct view v = view_of(b.data, b.len);
		assert_int_equal(rank_place_decode(&p, &v, &err), want);
		assert_int_equal(err.code, want ? ERR_INTEGRITY : 0);
		buf_release(&b);
	}
}

TEST(votes_come_back)
{
	struct vote v = {.has_digest = true,
	                 .digest = "0123456789abcde",
	                 .has_table = true,
	                 .work = {.rank = -1, .on = 9, .most = 1, .busy = 2, .total = 1ull << 60}},
	            back;
	struct buf b;
	buf_init(&b, 100);
	vote_encode(&v, &b);
	buf_put_u8(&b, 0); /* one byte more */
	for (size_t n = 0; n <= b.len; n++) {
		struct err err = {0};
		uint8_t *cut = exactly(b.data, n);
		int want = n == b.len - 1 ? 0 : -1;
		assert_int_equal(vote_decode(&back, view_of(cut, n), &err), want);
		assert_int_equal(err.code, want ? ERR_INTEGRITY : 0);
		free(cut);
	}
	assert_true(back.has_digest && back.has_table);
	assert_memory_equal(back.digest, v.digest, sizeof v.digest);
	assert_int_equal(back.work.rank, -1);
	assert_int_equal(back.work.on, 9);
	assert_true(back.work.most == 1 && back.work.busy == 2 && back.work.total == 1ull << 60);
	buf_release(&b);
}

TEST(beats_come_back)
{
	struct beat beat = {PHASE_RUN, 1ull << 50, UINT64_MAX, 1ull << 49}, back;
	struct buf b;
	buf_init(&b, 100);
	beat_encode(&beat, &b);
	buf_put_u8(&b, 0);
	for (size_t n = 0; n <= b.len; n++) {
		struct err err = {0};
		uint8_t *cut = exactly(b.data, n);
		int want = n == b.len - 1 ? 0 : -1;
		assert_int_equal(beat_decode(&back, view_of(cut, n), &err), want);
		assert_int_equal(err.code, want ? ERR_INTEGRITY : 0);
		free(cut);
	}
	assert_int_equal(back.phase, PHASE_RUN);
	assert_true(back.moved == beat.moved && back.total == beat.total);
	assert_true(back.acknowledged == beat.acknowledged);
	struct err err = {0};
	b.data[0] = PHASE_COMMIT + 1;
	assert_int_equal(beat_decode(&back, view_of(b.data, b.len - 1), &err), -1);
	buf_release(&b);
}

TEST(a_pace_comes_back)
{
	static const struct pace cases[] = {{-1, PHASE_RUN, PACE_DONE, 0},
	                                    {0, PHASE_JOIN, 0, 7},
	                                    {65535, PHASE_COMMIT, 250000, 1ull << 60}};
	static const struct pace bad[] = {{65536, PHASE_RUN, 0, 0},
	                                  {-2, PHASE_RUN, 0, 0},
	                                  {0, PHASE_COMMIT + 1, 0, 0},
	                                  {0, 0, PACE_DONE + 1, 0}};
	for (size_t i = 0; i < 3 + 4; i++) {
		struct pace p = i < 3 ? cases[i] : bad[i - 3], back;
		struct buf b;
		buf_init(&b, 100);
		pace_encode(&p, &b);
		for (size_t n = 0; n <= b.len; n++) {
			struct err err = {0};
			uint8_t *cut = exactly(b.data, n);
			int want = n == b.len && i < 3 ? 0 : -1;
			assert_int_equal(pace_decode(&back, view_of(cut, n), &err), want);
			assert_int_equal(err.code, want ? ERR_INTEGRITY : 0);
			free(cut);
		}
		if (i < 3)
			assert_true(back.rank == p.rank && back.phase == p.phase &&
			            back.done == p.done && back.moved == p.moved);
		buf_release(&b);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
