/*
 * The coordinator, with members made by hand: real control links over loopback in plain frames,
 * everything in one loop. Rank 0 is the test itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <xxhash.h>

#include "lib/base/clock.h"
#include "lib/job/coord.h"
#include "lib/job/ctl.h"

#define PATIENCE (100 * NS_PER_SEC) /* no test takes longer */
#define MEMBERS  8

/* What a rank (0: by coord.deliver) has been told. */
struct member {
	struct ctl ctl;
	int heard[MSG_ANSWER + 1]; /* messages of each type */
	int lost;
	uint32_t rank; /* by WELCOME */
	struct welcome welcome;
	struct joined joined;
	struct plan plan;
	uint32_t size; /* by ROSTER */
	char addrs[MEMBERS][ADDR_TEXT];
	struct err failure; /* by ABORT */
	enum phase phase;
	struct err outcome; /* by FINAL */
	bool completed_before_roster;
	char details[32]; /* of its plan */
	uint32_t page;    /* by ASK */
	struct pace pace; /* by BEAT */
	uint32_t answer;  /* by ANSWER */
};

static struct loop loop;
static struct coord *coord;
static struct addr at;
static struct member members[MEMBERS];
static int completed, decided;
static struct err decision;
static int job_size;
static struct view details_seen[MEMBERS]; /* the intents' details, as decide sees them */
static uint64_t inputs_seen;
static const char *tables[MEMBERS]; /* "name=value name=value ..."; NULL: it has none */

static void take(struct member *m, uint8_t type, struct view v)
{
	struct err err = {0};
	enum phase phase;
	assert_true(type <= MSG_ANSWER);
	m->heard[type]++;
	switch (type) {
	case MSG_WELCOME:
		assert_int_equal(welcome_decode(&m->welcome, v, &err), 0);
		m->rank = (uint32_t)m->welcome.rank;
		break;
	case MSG_JOINED:
		assert_int_equal(joined_decode(&m->joined, v, &err), 0);
		break;
	case MSG_ROSTER:
		m->completed_before_roster = completed == 1;
		assert_int_equal(plan_decode(&m->plan, &v, &err), 0);
		snprintf(m->details, sizeof m->details, "%.*s", (int)view_left(&m->plan.details),
		         (const char *)m->plan.details.p);
		m->size = view_u32(&v);
		for (uint32_t r = 0; r < m->size; r++)
			view_str(&v, m->addrs[r], ADDR_TEXT);
		break;
	case MSG_ANSWER:
		m->answer = view_u32(&v);
		break;
	case MSG_BEAT:
		assert_int_equal(pace_decode(&m->pace, v, &err), 0);
		break;
	case MSG_ASK:
		m->page = view_u32(&v);
		break;
	case MSG_ABORT:
		assert_int_equal(err_decode(&m->failure, &m->phase, &v), 0);
		break;
	case MSG_FINAL:
		assert_int_equal(err_decode(&m->outcome, &phase, &v), 0);
		break;
	}
	assert_false(v.failed);
}

static void deliver(void *ctx, uint8_t type, struct view body)
{
	assert_ptr_equal(ctx, members);
	take(&members[0], type, body);
}

static void on_message(void *ctx, uint8_t type, struct view body)
{
	take(ctx, type, body);
}

static void on_lost(void *ctx, const struct err *err)
{
	(void)err;
	((struct member *)ctx)->lost++;
}

static int decide(void *ctx, const struct intent *const *intents, struct plan *plan,
                  struct err *err)
{
	assert_ptr_equal(ctx, members);
	decided++;
	inputs_seen = intents[0]->ninputs + 10 * intents[job_size - 1]->ninputs;
	for (int r = 0; r < job_size; r++)
		details_seen[r] = intents[r]->details;
	if (decision.code) {
		*err = decision;
		return -1;
	}
	snprintf(plan->algorithm, sizeof plan->algorithm, "direct");
	plan->windows = 3;
	plan->streams = 2;
	return 0;
}

/* To every rank but 1: what its right neighbour has said, and where. */
static void details(void *ctx, int rank, struct buf *out)
{
	assert_ptr_equal(ctx, members);
	assert_int_equal(decided, 1);
	for (int r = 0; r < job_size; r++)
		if (r == (rank + 1) % job_size && rank != 1)
			buf_put(out, details_seen[r].p, view_left(&details_seen[r]));
}

static void complete(void *ctx)
{
	assert_ptr_equal(ctx, members);
	completed++;
}

/* Page @page of the table @text, with two entries to a page. */
static void put_page(const char *text, uint32_t page, struct buf *out)
{
	for (uint32_t entry = 0; *text; entry++) {
		char name[32], value[32];
		int used = 0;
		assert_int_equal(sscanf(text, "%31[^=]=%31s %n", name, value, &used), 2);
		text += used;
		if (entry / 2 == page)
			table_put(out, name, value);
	}
}

static void own_table(void *ctx, uint32_t page, struct buf *out)
{
	assert_ptr_equal(ctx, members);
	assert_int_equal(out->len, 0);
	put_page(tables[0], page, out);
}

/* A part of a round is a number; 0 is malformed. The answer: their sum, and the rank. */
static uint32_t round_sum;

static int collect(void *ctx, int rank, struct view part, struct err *err)
{
	uint32_t x = view_u32(&part);
	assert_ptr_equal(ctx, members);
	assert_in_range(rank, 0, job_size - 1);
	round_sum += x;
	return x ? 0 : err_set(err, ERR_INTEGRITY, "no number");
}

static void answer(void *ctx, int rank, struct buf *out)
{
	assert_ptr_equal(ctx, members);
	buf_put_u32(out, 1000 * (uint32_t)rank + round_sum);
}

static const struct job_callbacks callbacks = {
        .decide = decide,
        .details = details,
        .table = own_table,
        .noun = "tensor",
        .collect = collect,
        .answer = answer,
        .ctx = members,
};

static void open_job_as(int rank, const struct presence *present, int size, int64_t join_ns,
                        int64_t timeout)
{
	struct err err = {0};
	job_size = size;
	struct coord_conf conf = {
	        .loop = &loop,
	        .size = size,
	        .rank = rank,
	        .present = present,
	        .jobtag = (const uint8_t *)"job tag",
	        .launch = (const uint8_t *)"launch 1",
	        .join_deadline = clock_ns() + join_ns,
	        .timeout = timeout,
	        .deliver = deliver,
	        .callbacks = &callbacks,
	        .complete = complete,
	        .ctx = members,
	};
	assert_int_equal(addr_resolve(&at, "127.0.0.1", 0, true, &err), 0);
	int fd = addr_listen(&at, 0, 0, 64, &err);
	assert_true(fd >= 0);
	coord = coord_open(&conf, fd, &err);
	assert_non_null(coord);
}

static void open_job(int size, int64_t join_ns, int64_t timeout)
{
	open_job_as(0, NULL, size, join_ns, timeout);
}

static int set_up(void **state)
{
	struct err err = {0};
	(void)state;
	memset(members, 0, sizeof members);
	completed = decided = 0;
	decision = (struct err){0};
	memset(tables, 0, sizeof tables);
	return loop_init(&loop, &err);
}

static int tear_down(void **state)
{
	(void)state;
	coord_close(coord);
	coord = NULL;
	for (int i = 0; i < MEMBERS; i++)
		ctl_release(&members[i].ctl);
	loop_release(&loop);
	return 0;
}

static void again(void **state)
{
	tear_down(state);
	assert_int_equal(set_up(state), 0);
}

static void turn(void)
{
	struct err err = {0};
	assert_int_equal(loop_turn(&loop, clock_ns() + NS_PER_MS, &err), 0);
}

static void until_(const int *counter, int n, const char *what, int line)
{
	int64_t end = clock_ns() + PATIENCE;
	while (*counter < n) {
		if (clock_ns() >= end)
			fail_msg("line %d: %s did not come to %d", line, what, n);
		turn();
	}
}
#define until(counter, n) until_(&(counter), n, #counter, __LINE__)

static void for_ms(int ms)
{
	int64_t end = clock_ns() + ms * NS_PER_MS;
	while (clock_ns() < end)
		turn();
}

static void nothing(void *ctx)
{
	(void)ctx;
}

/* Member @i says HELLO. */
static void hello_as(int i, const struct hello *h)
{
	struct member *m = &members[i];
	struct err err = {0};
	uint8_t opening[GATE_OPENING];
	int64_t end = clock_ns() + PATIENCE;
	struct conn *c = conn_tcp_new(conn_sock_dial(&at, &err), &err);
	assert_non_null(c);
	assert_int_equal(conn_watch(c, &loop, nothing, NULL, &err), 0);
	while (conn_handshake(c, &err) != 1) {
		assert_true(clock_ns() < end);
		turn();
	}
	hello_encode(h, opening);
	assert_int_equal(conn_write(c, opening, sizeof opening, &err), sizeof opening);
	assert_int_equal(conn_flush(c, &err), 1);
	m->ctl.on_message = on_message;
	m->ctl.on_lost = on_lost;
	m->ctl.ctx = m;
	assert_int_equal(ctl_start(&m->ctl, c, &loop, &err), 0);
}

static struct hello hello_of(int rank, int size)
{
	struct hello h = {.version = PROTO_VERSION,
	                  .rank = rank < 0 ? PROTO_RANK_AUTO : (uint32_t)rank,
	                  .size = (uint32_t)size};
	memcpy(h.jobtag, "job tag", 8);
	return h;
}

static void join(int rank, int size)
{
	struct hello h = hello_of(rank, size);
	hello_as(rank, &h);
	until(members[rank].heard[MSG_WELCOME], 1);
	assert_int_equal(members[rank].rank, rank);
}

static void send_to_coordinator(int rank, uint8_t type, const struct buf *b)
{
	if (rank)
		ctl_send(&members[rank].ctl, type, b);
	else
		coord_receive(coord, type, b ? view_of(b->data, b->len) : view_of("", 0));
}

static struct intent intent_of(int rank, const char *shape)
{
	struct intent in;
	memset(&in, 0, sizeof in);
	intent_add(&in, "dtype", "f32");
	intent_add(&in, "shape", shape);
	snprintf(in.subject, sizeof in.subject, "g.%d.npy", rank);
	in.memory = 1000 - (uint64_t)rank;
	in.ninputs = (uint32_t)rank + 1;
	snprintf(in.data_addr, sizeof in.data_addr, rank ? "127.0.0.1:%d" : ":%d", 7000 + rank);
	return in;
}

static void say_intent(int rank, const struct intent *in)
{
	struct buf b;
	buf_init(&b, CTL_BODY_MAX);
	intent_encode(in, &b);
	send_to_coordinator(rank, MSG_INTENT, &b);
	buf_release(&b);
}

static void intend(int rank, const char *shape)
{
	struct intent in = intent_of(rank, shape);
	char text[32];
	snprintf(text, sizeof text, "rows of rank %d", rank);
	in.details = view_of(text, strlen(text));
	if (tables[rank]) {
		intent_add(&in, "tensors", tables[rank]);
		snprintf(in.table, sizeof in.table, "tensors");
	}
	say_intent(rank, &in);
}

/* All join and agree. */
static void run_job(int size, int64_t timeout)
{
	open_job(size, PATIENCE, timeout);
	for (int r = 1; r < size; r++)
		join(r, size);
	for (int r = 0; r < size; r++)
		intend(r, "(3,5)");
	for (int r = 0; r < size; r++)
		until(members[r].heard[MSG_ROSTER], 1);
}

static void send_err_to_coordinator(int rank, uint8_t type, int code, int culprit, const char *text)
{
	struct err e = {.code = code, .rank = culprit};
	struct buf b;
	snprintf(e.text, sizeof e.text, "%s", text);
	buf_init(&b, 4096);
	err_encode(&e, PHASE_RUN, &b);
	send_to_coordinator(rank, type, &b);
	buf_release(&b);
}

static void beat_of(int rank, enum phase phase, uint64_t moved, uint64_t total)
{
	struct beat beat = {phase, moved, total, 0};
	struct buf b;
	buf_init(&b, 32);
	beat_encode(&beat, &b);
	send_to_coordinator(rank, MSG_BEAT, &b);
	buf_release(&b);
}

static void beat(int rank, enum phase phase)
{
	beat_of(rank, phase, 0, 0);
}

static void vote(int rank, const char *digest)
{
	struct vote v = {.has_digest = digest, .has_table = tables[rank]};
	struct buf b;
	if (digest)
		memcpy(v.digest, digest, strlen(digest));
	buf_init(&b, 32);
	vote_encode(&v, &b);
	send_to_coordinator(rank, MSG_VOTE, &b);
	buf_release(&b);
}

/* Every rank of the first @size but @but hears of one failure; -1: every one. */
static void all_fail(int size, int but, int code, int culprit, const char *words)
{
	for (int r = 0; r < size; r++) {
		const struct err *e = &members[r].failure;
		if (r == but)
			continue;
		until(members[r].heard[MSG_ABORT], 1);
		if (e->code != code || e->rank != culprit || !strstr(e->text, words))
			fail_msg("rank %d hears %d, rank %d: '%s'", r, e->code, e->rank, e->text);
		assert_int_equal(members[r].heard[MSG_ABORT], 1);
		assert_int_equal(members[r].heard[MSG_VERDICT], 0);
	}
}

/* Member @rank answers the n-th ASK. */
static void show(int rank, int n)
{
	struct buf b;
	until(members[rank].heard[MSG_ASK], n);
	buf_init(&b, TABLE_PAGE_MAX);
	buf_put_u32(&b, members[rank].page);
	put_page(tables[rank], members[rank].page, &b);
	send_to_coordinator(rank, MSG_PAGE, &b);
	buf_release(&b);
}

/* ---- joining and agreeing ---- */

static void ranks_that_agree_get_the_roster(void **state)
{
	(void)state;
	run_job(4, NS_PER_SEC);
	assert_int_equal(decided, 1);
	assert_int_equal(completed, 1);
	assert_int_equal(inputs_seen, 41);
	for (int r = 0; r < 4; r++) {
		const struct member *m = &members[r];
		assert_string_equal(m->plan.algorithm, "direct");
		assert_int_equal(m->plan.windows, 3);
		assert_int_equal(m->plan.streams, 2);
		assert_int_equal(m->plan.total_inputs, 10);
		assert_int_equal(m->plan.memory, 997);
		assert_int_equal(m->size, 4);
		assert_string_equal(m->addrs[0], ":7000");
		assert_string_equal(m->addrs[3], "127.0.0.1:7003");
		assert_memory_equal(m->plan.key, members[0].plan.key, TLS_KEY_BYTES);
		assert_memory_equal(m->plan.session, members[0].plan.session, 16);
		assert_true(m->completed_before_roster);
	}
	assert_string_equal(members[0].details, "rows of rank 1");
	assert_string_equal(members[1].details, "");
	assert_string_equal(members[3].details, "rows of rank 0");
	static const uint8_t none[TLS_KEY_BYTES];
	assert_memory_not_equal(members[0].plan.key, none, sizeof none);
	/* The listener is gone: the next job of this name can't run into this one. */
	struct err err = {0};
	int fd = conn_sock_dial(&at, &err);
	if (fd >= 0) {
		struct conn *c = conn_tcp_new(fd, &err);
		int ret;
		assert_int_equal(conn_watch(c, &loop, nothing, NULL, &err), 0);
		while ((ret = conn_handshake(c, &err)) == 0)
			turn();
		assert_int_equal(ret, -1);
		conn_free(c);
	}
}

static void a_job_of_one_rank_agrees_with_itself(void **state)
{
	(void)state;
	open_job(1, PATIENCE, NS_PER_SEC);
	intend(0, "(3,5)");
	assert_int_equal(members[0].heard[MSG_ROSTER], 1);
	vote(0, "mine");
	assert_int_equal(members[0].heard[MSG_VERDICT], 1);
	send_err_to_coordinator(0, MSG_DONE, 0, ERR_RANK_SELF, "");
	assert_int_equal(members[0].heard[MSG_FINAL], 1);
	coord_drain(coord);
	assert_true(coord_drained(coord));
}

static void differing_shapes_are_named(void **state)
{
	(void)state;
	open_job(4, PATIENCE, NS_PER_SEC);
	for (int r = 1; r < 4; r++)
		join(r, 4);
	for (int r = 0; r < 4; r++)
		intend(r, r == 2 ? "(3,4)" : "(3,5)");
	all_fail(4, -1, ERR_DISAGREE, 2,
	         "g.2.npy: shape (3,4) differs from (3,5) on ranks 0, 1, 3");
	assert_int_equal(members[1].phase, PHASE_JOIN);
	assert_int_equal(decided, 0);
	assert_int_equal(completed, 0);
}

static void most_ranks_are_right(void **state)
{
	(void)state;
	open_job(5, PATIENCE, NS_PER_SEC);
	for (int r = 1; r < 5; r++)
		join(r, 5);
	for (int r = 0; r < 5; r++)
		intend(r, r < 2 ? "(3,4)" : "(3,5)");
	all_fail(5, -1, ERR_DISAGREE, 0,
	         "g.0.npy: shape (3,4) differs from (3,5) on ranks 2-4; so does rank 1");
}

/* All but @odd say the same of a fact, which @without does not have. */
static void intend_but(int size, int odd, int without)
{
	open_job(size, PATIENCE, NS_PER_SEC);
	for (int r = 1; r < size; r++)
		join(r, size);
	for (int r = 0; r < size; r++) {
		struct intent in = intent_of(r, "(3,5)");
		if (r != without)
			intent_add(&in, "root", r == odd ? "1" : "0");
		say_intent(r, &in);
	}
}

/* Those that have a fact must agree, whoever else has none. */
static void a_fact_that_some_ranks_have(void **state)
{
	(void)state;
	for (int without = 0; without < 4; without++) {
		again(state);
		intend_but(4, -1, without);
		for (int r = 0; r < 4; r++)
			until(members[r].heard[MSG_ROSTER], 1);
		again(state);
		intend_but(4, (without + 1) % 4, without);
		all_fail(4, -1, ERR_DISAGREE, (without + 1) % 4, "root 1 differs from 0 on ranks ");
	}
	again(state);
	intend_but(3, 2, 0);
	all_fail(3, -1, ERR_DISAGREE, 2, "root 1 differs from 0 on rank 1");
}

static void a_decision_may_fail(void **state)
{
	(void)state;
	decision = (struct err){.code = ERR_RESOURCE, .rank = ERR_RANK_SELF, .text = "too large"};
	open_job(2, PATIENCE, NS_PER_SEC);
	join(1, 2);
	intend(0, "(3,5)");
	intend(1, "(3,5)");
	all_fail(2, -1, ERR_RESOURCE, 0, "too large");
	assert_int_equal(completed, 0);
}

static void sizes_that_differ(void **state)
{
	struct hello h = hello_of(2, 4);
	(void)state;
	open_job(3, PATIENCE, NS_PER_SEC);
	join(1, 3);
	hello_as(2, &h);
	all_fail(3, -1, ERR_DISAGREE, 2, "--size 4 differs from 3 on rank 0");
	until(members[2].lost, 1);
}

/* ---- --rank auto ---- */

static void say_present(int i, const struct presence *p)
{
	struct buf b;
	buf_init(&b, 4096);
	presence_encode(p, &b);
	ctl_send(&members[i].ctl, MSG_PRESENT, &b);
	buf_release(&b);
}

static struct presence presence_of(const char *host, const char *input)
{
	struct presence p = {.host = "", .has_input = *input != 0};
	presence_set(p.host, sizeof p.host, host);
	presence_set(p.input, sizeof p.input, input);
	return p;
}

/* Members @from to @to - 1, each as p[i], want any rank. */
static void want_ranks(const struct presence *p, int from, int to, int size)
{
	struct hello h = hello_of(-1, size);
	for (int i = from; i < to; i++) {
		hello_as(i, &h);
		say_present(i, &p[i]);
	}
}

/* Host, address and input decide the ranks; the coordinator and the order of arrival do not. */
static void auto_ranks_are_sorted(void **state)
{
	static const int order[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}};
	const struct presence sorted[4] = {presence_of("a", "z"), presence_of("b", "x"),
	                                   presence_of("b", "y"), presence_of("c", "")};
	for (size_t k = 0; k < 3; k++) {
		struct presence p[4];
		again(state);
		for (int i = 0; i < 4; i++)
			p[i] = sorted[order[k][i]];
		open_job_as(-1, &p[0], 4, PATIENCE, NS_PER_SEC);
		want_ranks(p, 1, 4, 4);
		for (int i = 0; i < 4; i++) {
			until(members[i].heard[MSG_WELCOME], 1);
			assert_int_equal(members[i].rank, order[k][i]);
			until(members[i].heard[MSG_WELCOME], 2);
			assert_int_equal(members[i].welcome.coordinator, order[k][0]);
			assert_string_equal(members[i].welcome.host, p[0].host);
			assert_int_equal(members[i].welcome.root, -1);
		}
	}
	(void)state;
}

/* Ranks with a number keep it; the others fill what is left. */
static void auto_ranks_fill_the_places_left(void **state)
{
	const struct presence p[4] = {presence_of("d", ""), presence_of("n", ""),
	                              presence_of("c", ""), presence_of("m", "")};
	struct hello h = hello_of(2, 4);
	(void)state;
	open_job_as(-1, &p[0], 4, PATIENCE, NS_PER_SEC);
	hello_as(1, &h);
	until(members[1].heard[MSG_WELCOME], 1);
	assert_int_equal(members[1].welcome.coordinator, -1);
	want_ranks(p, 2, 3, 4);
	h = hello_of(0, 4);
	hello_as(3, &h);
	say_present(1, &p[1]);
	say_present(3, &p[3]);
	static const int want[] = {3, 2, 1, 0};
	for (int i = 0; i < 4; i++) {
		until(members[i].heard[MSG_WELCOME], 2);
		assert_int_equal(members[i].rank, want[i]);
		assert_int_equal(members[i].welcome.coordinator, 3);
	}
	for (int i = 0; i < 4; i++) /* the message's sender is named by its rank */
		if (i != 1)
			intend(i, "(3,5)");
	ctl_release(&members[1].ctl);
	until(members[0].heard[MSG_ABORT], 1);
	assert_int_equal(members[0].failure.rank, 2);
	assert_string_equal(members[0].failure.host, "n");
}

static void the_root_is_found(void **state)
{
	struct presence p[3] = {presence_of("b.example", ""), presence_of("a", ""),
	                        presence_of("c", "")};
	static const struct {
		const char *host;     /* --root */
		int gives[3], has[3]; /* an input; a file that exists */
		int root;             /* by presence; -1: none */
		const char *says;
	} cases[] = {
	        {"b", {0}, {0}, 0, NULL},
	        {"b.example", {0}, {0}, 0, NULL},
	        {"x", {0}, {0}, -1, "--root x: no rank is on a host of this name"},
	        {"", {0, 0, 1}, {0}, 2, NULL},
	        {"", {1, 1, 1}, {0, 1, 0}, 1, NULL},
	        {"", {1, 0, 1}, {1, 0, 1}, -1, "ranks 1, 2 give an input"},
	        {"", {1, 0, 1}, {0}, -1, "ranks 1, 2 give an input"},
	        {"", {0}, {0}, -1, "no rank gives an input"},
	};
	static const int rank_of[] = {1, 0, 2};
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		again(state);
		for (int i = 0; i < 3; i++) {
			p[i].finds_root = true;
			presence_set(p[i].root, sizeof p[i].root, cases[k].host);
			presence_set(p[i].input, sizeof p[i].input, cases[k].gives[i] ? "in" : "");
			p[i].has_input = cases[k].has[i];
		}
		open_job_as(-1, &p[0], 3, PATIENCE, NS_PER_SEC);
		want_ranks(p, 1, 3, 3);
		for (int i = 0; i < 3; i++) {
			until(members[i].heard[cases[k].says ? MSG_ABORT : MSG_WELCOME],
			      cases[k].says ? 1 : 2);
			if (!cases[k].says)
				assert_int_equal(members[i].welcome.root, rank_of[cases[k].root]);
			else if (!strstr(members[i].failure.text, cases[k].says))
				fail_msg("case %zu: %s", k, members[i].failure.text);
		}
	}
}

/* A rank whose WELCOME arrived corrupt joins again, and learns the root again. */
static void the_root_is_told_again(void **state)
{
	struct presence p[4] = {presence_of("a", "in"), presence_of("b", "")};
	uint8_t alert[20] = {0};
	(void)state;
	p[0].finds_root = p[1].finds_root = true;
	open_job_as(-1, &p[0], 2, PATIENCE, NS_PER_SEC);
	want_ranks(p, 1, 2, 2);
	until(members[1].heard[MSG_WELCOME], 2);
	put_u32(alert, 0xfffffffe);
	put_u32(alert + 4, 2); /* after HELLO and PRESENT */
	put_u32(alert + 16, (uint32_t)XXH3_64bits(alert, 16));
	assert_int_equal(send(members[1].ctl.conn->fd, alert, sizeof alert, 0), sizeof alert);
	p[3] = p[1];
	want_ranks(p, 3, 4, 2);
	until(members[3].heard[MSG_WELCOME], 2);
	assert_int_equal(members[3].rank, 1);
	assert_int_equal(members[3].welcome.root, 0);
}

static void several_ranks_on_the_root_s_host(void **state)
{
	struct presence p[3] = {presence_of("b", ""), presence_of("a", ""), presence_of("b", "")};
	(void)state;
	for (int i = 0; i < 3; i++) {
		p[i].finds_root = true;
		presence_set(p[i].root, sizeof p[i].root, "b");
	}
	open_job_as(-1, &p[0], 3, PATIENCE, NS_PER_SEC);
	want_ranks(p, 1, 3, 3);
	until(members[2].heard[MSG_ABORT], 1);
	assert_non_null(strstr(members[2].failure.text, "ranks 1, 2 are on this host"));
}

/* Who waits learns who is there, and at the end all do, also who has no rank yet. */
static void missing_ranks_are_counted_by_host(void **state)
{
	const struct presence p[3] = {presence_of("b", ""), presence_of("a", ""),
	                              presence_of("b", "")};
	(void)state;
	open_job_as(-1, &p[0], 5, 3 * NS_PER_SEC, NS_PER_SEC);
	want_ranks(p, 1, 3, 5);
	for (int i = 0; i < 3; i++) {
		until(members[i].heard[MSG_JOINED], 1);
		assert_int_equal(members[i].joined.size, 5);
		assert_true(members[i].joined.by_host);
	}
	for (int i = 0; i < 3; i++) {
		until(members[i].heard[MSG_ABORT], 1);
		assert_int_equal(members[i].failure.code, ERR_RENDEZVOUS);
		assert_int_equal(members[i].failure.rank, ERR_RANK_SELF);
		assert_non_null(strstr(members[i].failure.text, "3 of 5 ranks have joined"));
		assert_non_null(strstr(members[i].failure.text, "; 2 are missing"));
	}
	coord_drain(coord);
	for (int i = 1; i < 3; i++)
		ctl_end(&members[i].ctl);
	int64_t end = clock_ns() + PATIENCE;
	while (!coord_drained(coord)) {
		assert_true(clock_ns() < end);
		turn();
	}
}

static void who_waits_learns_who_is_missing(void **state)
{
	(void)state;
	open_job(4, PATIENCE, NS_PER_SEC);
	join(1, 4);
	join(3, 4);
	until(members[1].heard[MSG_JOINED], 1);
	until(members[3].heard[MSG_JOINED], 1);
	until(members[0].heard[MSG_JOINED], 1);
	assert_int_equal(members[1].joined.here, 3);
	assert_string_equal(members[1].joined.names, "2");
	assert_false(members[1].joined.by_host);
}

static void a_rank_out_of_range(void **state)
{
	struct hello h = hello_of(3, 0);
	(void)state;
	open_job(3, PATIENCE, NS_PER_SEC);
	hello_as(3, &h);
	until(members[3].heard[MSG_ABORT], 1);
	assert_int_equal(members[3].failure.code, ERR_DISAGREE);
	assert_non_null(strstr(members[3].failure.text, "there is no such rank"));
	until(members[0].heard[MSG_ABORT], 1);
}

/* The second is told, the first and the job go on. */
static void a_rank_started_twice(void **state)
{
	struct hello h = hello_of(1, 3), zero = hello_of(0, 3);
	(void)state;
	open_job(3, PATIENCE, NS_PER_SEC);
	join(1, 3);
	hello_as(4, &h);
	hello_as(5, &zero);
	for (int i = 4; i < 6; i++) {
		until(members[i].lost, 1);
		assert_int_equal(members[i].failure.code, ERR_DISAGREE);
		assert_non_null(strstr(members[i].failure.text, "has joined already"));
		assert_int_equal(members[i].heard[MSG_WELCOME], 0);
	}
	assert_non_null(strstr(members[4].failure.text, "from 127.0.0.1:"));
	join(2, 3);
	for (int r = 0; r < 3; r++)
		intend(r, "(3,5)");
	for (int r = 0; r < 3; r++)
		until(members[r].heard[MSG_ROSTER], 1);
}

static void other_versions_and_jobs_are_told(void **state)
{
	struct hello h = hello_of(1, 2);
	(void)state;
	open_job(2, PATIENCE, NS_PER_SEC);
	h.version = PROTO_VERSION + 1;
	hello_as(2, &h);
	until(members[2].lost, 1);
	assert_int_equal(members[2].failure.code, ERR_DISAGREE);
	assert_non_null(strstr(members[2].failure.text, "protocol version 6 differs from 5"));
	h = hello_of(1, 2);
	h.jobtag[0] ^= 1;
	hello_as(3, &h);
	until(members[3].lost, 1);
	assert_int_equal(members[3].failure.code, ERR_AUTH);
	assert_non_null(strstr(members[3].failure.text, "another job"));
	assert_int_equal(members[3].heard[MSG_OTHER_JOB], 1);
	assert_int_equal(members[0].heard[MSG_ABORT], 0);
	join(1, 2);
}

/* The others, who wait for it in vain, learn it too. */
static void another_version_is_told_to_those_who_miss_the_rank(void **state)
{
	struct hello h = hello_of(2, 3);
	(void)state;
	open_job(3, NS_PER_SEC, NS_PER_SEC);
	join(1, 3);
	h.version = PROTO_VERSION + 1;
	hello_as(2, &h);
	until(members[2].lost, 1);
	all_fail(2, -1, ERR_RENDEZVOUS, 2,
	         "did not join within 0 s (--join-timeout) (a peer at 127.0.0.1:");
	assert_non_null(strstr(members[1].failure.text, "has protocol version 6, not 5: install"));
}

/* Launches whose jobs have one name; who has named the job is of every launch. */
static void another_launch_is_told(void **state)
{
	struct hello h = hello_of(1, 3);
	(void)state;
	open_job(3, PATIENCE, NS_PER_SEC);
	memcpy(h.launch, "launch 2", 8);
	hello_as(3, &h);
	until(members[3].lost, 1);
	assert_int_equal(members[3].failure.code, ERR_AUTH);
	assert_non_null(strstr(members[3].failure.text, "--job"));
	memcpy(h.launch, "launch 1", 8);
	hello_as(1, &h);
	until(members[1].heard[MSG_WELCOME], 1);
	join(2, 3);
	assert_int_equal(members[0].heard[MSG_ABORT], 0);
}

/* How many there are nobody knows: as many as the smaller size are waited for, not to the end. */
static void after_sizes_that_differ_few_are_waited_for(void **state)
{
	struct hello h = hello_of(1, 2), late = hello_of(2, 3);
	(void)state;
	open_job(4, 3600 * NS_PER_SEC, NS_PER_SEC);
	hello_as(1, &h);
	until(members[1].lost, 1);
	until(members[0].heard[MSG_ABORT], 1);
	coord_drain(coord);
	assert_false(coord_drained(coord)); /* ranks 2 and 3 may be under way */
	hello_as(2, &late);
	until(members[2].heard[MSG_ABORT], 1);
	int64_t end = clock_ns() + PATIENCE;
	while (!coord_drained(coord)) {
		assert_true(clock_ns() < end);
		turn();
	}
}

/* The coordinator has the smaller size: the others' last rank may be under way. */
static void a_rank_of_a_larger_size_is_told_too(void **state)
{
	struct hello h = hello_of(1, 3), last = hello_of(2, 3);
	(void)state;
	open_job(2, 3600 * NS_PER_SEC, NS_PER_SEC);
	hello_as(1, &h);
	until(members[1].lost, 1);
	until(members[0].heard[MSG_ABORT], 1);
	coord_drain(coord);
	assert_false(coord_drained(coord));
	hello_as(2, &last);
	until(members[2].lost, 1);
	assert_int_equal(members[2].failure.code, ERR_DISAGREE);
}

/* Nobody else is to come: the coordinator waits for nobody. */
static void auto_ranks_whose_sizes_differ(void **state)
{
	const struct presence own = presence_of("a", "");
	struct hello more = hello_of((int)PROTO_RANK_AUTO, 4),
	             same = hello_of((int)PROTO_RANK_AUTO, 3);
	(void)state;
	open_job_as(-1, &own, 3, 3600 * NS_PER_SEC, NS_PER_SEC);
	hello_as(1, &more);
	until(members[1].lost, 1);
	until(members[0].heard[MSG_ABORT], 1);
	coord_drain(coord);
	assert_false(coord_drained(coord));
	hello_as(2, &same);
	until(members[2].lost, 1);
	int64_t end = clock_ns() + 4 * NS_PER_SEC; /* it would wait longer for a third */
	while (!coord_drained(coord)) {
		assert_true(clock_ns() < end);
		turn();
	}
}

static void missing_ranks_are_listed_at_the_deadline(void **state)
{
	(void)state;
	open_job(6, NS_PER_SEC, NS_PER_SEC);
	join(2, 6);
	all_fail(1, -1, ERR_RENDEZVOUS, 1, "did not join");
	assert_non_null(strstr(members[0].failure.text, "ranks 1, 3-5"));
	until(members[2].heard[MSG_ABORT], 1);
	assert_string_equal(members[2].failure.text, members[0].failure.text);
}

static void a_rank_that_says_nothing_is_named_at_the_deadline(void **state)
{
	(void)state;
	open_job(2, NS_PER_SEC, NS_PER_SEC);
	join(1, 2);
	intend(0, "(3,5)");
	all_fail(2, -1, ERR_RENDEZVOUS, 1, "joined, but did not send");
}

/* After a failure to agree the late are told as well. */
static void a_late_rank_is_told_of_the_failure(void **state)
{
	struct hello h = hello_of(2, 3);
	(void)state;
	open_job(3, PATIENCE, NS_PER_SEC);
	join(1, 3);
	send_err_to_coordinator(1, MSG_ABORT, ERR_INPUT, 1, "g.1.npy: no such file");
	until(members[0].heard[MSG_ABORT], 1);
	coord_drain(coord);
	for_ms(20);
	assert_false(coord_drained(coord));
	hello_as(2, &h);
	until(members[2].lost, 1);
	assert_int_equal(members[2].failure.code, ERR_INPUT);
	assert_int_equal(members[2].failure.rank, 1);
	for_ms(20);
	assert_true(coord_drained(coord));
}

static void ranks_that_take_any_place(void **state)
{
	const struct presence p = {.host = "a"};
	struct hello any = hello_of(-1, 4);
	bool taken[4] = {true};
	(void)state;
	open_job(4, PATIENCE, NS_PER_SEC);
	hello_as(4, &any);
	say_present(4, &p);
	hello_as(5, &any);
	say_present(5, &p);
	for_ms(5);
	assert_int_equal(members[4].heard[MSG_WELCOME], 0); /* one with a rank may still come */
	join(2, 4);
	taken[2] = true;
	for (int i = 4; i < 6; i++) {
		until(members[i].heard[MSG_WELCOME], 1);
		assert_true(members[i].rank < 4 && !taken[members[i].rank]);
		taken[members[i].rank] = true;
	}
	assert_int_equal(members[4].rank, 1); /* first come, first served */
	intend(0, "(3,5)");
	intend(2, "(3,5)");
	for (int i = 4; i < 6; i++)
		intend(i, "(3,5)");
	for (int i = 4; i < 6; i++)
		until(members[i].heard[MSG_ROSTER], 1);
}

/* Whether it goes later or right behind its HELLO, so that both are found together. */
static void who_goes_before_it_has_a_place_is_not_counted(void **state)
{
	const struct presence p = {.host = "a"};
	struct hello any = hello_of(-1, 3);
	for (int late = 0; late < 2; late++) {
		again(state);
		open_job(3, PATIENCE, NS_PER_SEC);
		hello_as(4, &any);
		say_present(4, &p);
		if (late)
			for_ms(5);
		ctl_release(&members[4].ctl);
		for_ms(5);
		hello_as(5, &any);
		say_present(5, &p);
		for_ms(5);
		assert_int_equal(members[5].heard[MSG_WELCOME], 0);
		hello_as(6, &any);
		say_present(6, &p);
		until(members[5].heard[MSG_WELCOME], 1);
		until(members[6].heard[MSG_WELCOME], 1);
		assert_int_equal(members[0].heard[MSG_ABORT], 0);
	}
}

static void a_rank_lost_while_joining(void **state)
{
	(void)state;
	open_job(3, PATIENCE, NS_PER_SEC);
	join(1, 3);
	join(2, 3);
	ctl_release(&members[2].ctl);
	all_fail(2, -1, ERR_PEER_LOST, 2, "lost while joining: connection closed");
}

/* In order, before it has said what it is to do: it has waited too long, and may come again. */
static void a_rank_that_goes_before_its_intent_may_come_again(void **state)
{
	struct hello h = hello_of(1, 2);
	(void)state;
	open_job(2, PATIENCE, NS_PER_SEC);
	hello_as(1, &h);
	ctl_end(&members[1].ctl);
	until(members[1].lost, 1);
	join(1, 2);
	intend(0, "(3,5)");
	intend(1, "(3,5)");
	until(members[1].heard[MSG_ROSTER], 1);
	assert_int_equal(members[0].heard[MSG_ABORT], 0);
}

/* What is found when the coordinator goes on no longer counts. */
static void a_coordinator_that_stood_still_says_so(void **state)
{
	for (int size = 2; size <= 4; size += 2) {
		again(state);
		open_job(size, NS_PER_SEC, NS_PER_SEC);
		join(1, size);
		intend(0, "(3,5)");
		intend(1, "(3,5)"); /* not read before it stands still */
		ctl_release(&members[1].ctl);
		assert_int_equal(poll(NULL, 0, 2100), 0);
		all_fail(1, -1, ERR_RENDEZVOUS, size == 2 ? 0 : 2,
		         size == 2 ? "did not run until "
		                   : "ranks 2, 3 did not join within 0 s (--join-timeout); "
		                     "rank 0 did not run until ");
	}
}

/* ---- one culprit ---- */

static void an_own_abort_is_the_cause(void **state)
{
	(void)state;
	run_job(3, NS_PER_SEC);
	/* Its peers see its connections break and report that first; it dies behind its word. */
	send_err_to_coordinator(1, MSG_REPORT, ERR_PEER_LOST, 2,
	                        "the connection to rank 2 was lost");
	for_ms(10);
	assert_int_equal(members[0].heard[MSG_ABORT], 0);
	send_err_to_coordinator(2, MSG_ABORT, ERR_INPUT, 2, "g.2.npy: truncated");
	ctl_release(&members[2].ctl);
	all_fail(3, 2, ERR_INPUT, 2, "g.2.npy: truncated");
	assert_int_equal(members[1].phase, PHASE_RUN);
}

static void an_abort_names_its_sender(void **state)
{
	(void)state;
	run_job(3, NS_PER_SEC);
	send_err_to_coordinator(1, MSG_ABORT, 143, 2,
	                        "ended by SIGTERM"); /* by a signal: 8 for the others */
	all_fail(3, -1, ERR_PEER_LOST, 1, "ended by SIGTERM");
}

static void a_lost_link_beats_a_report(void **state)
{
	(void)state;
	run_job(3, NS_PER_SEC);
	send_err_to_coordinator(1, MSG_REPORT, ERR_PEER_LOST, 0,
	                        "the connection to rank 0 was lost");
	for_ms(10);
	ctl_release(&members[2].ctl);
	all_fail(3, 2, ERR_PEER_LOST, 2, "lost while connecting: connection closed");
}

/* Also in the moment after it has entered it: each phase begins with a beat. */
static void a_loss_names_the_phase_of_the_rank(void **state)
{
	static const struct {
		enum phase phase;
		const char *words;
	} cases[] = {{PHASE_JOIN, "lost while connecting"}, /* of before the roster */
	             {PHASE_CONNECT, "lost while connecting"},
	             {PHASE_RUN, "lost while data were moving"},
	             {PHASE_COMMIT, "lost during the commit"}};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		again(state);
		run_job(3, NS_PER_SEC);
		beat(2, cases[i].phase);
		ctl_end(&members[2].ctl);
		all_fail(3, 2, ERR_PEER_LOST, 2, cases[i].words);
		assert_int_equal(members[1].phase, i ? cases[i].phase : PHASE_CONNECT);
	}
	again(state);
	run_job(3, NS_PER_SEC);
	vote(2, "same");
	ctl_end(&members[2].ctl);
	all_fail(3, 2, ERR_PEER_LOST, 2, "lost during the commit");
}

static void a_report_counts_when_nobody_confesses(void **state)
{
	int64_t start;
	(void)state;
	run_job(3, 5 * NS_PER_SEC);
	start = clock_ns();
	send_err_to_coordinator(1, MSG_REPORT, ERR_INTEGRITY, 2,
	                        "the checksum of frame 7 is wrong");
	for_ms(20);
	send_err_to_coordinator(0, MSG_REPORT, ERR_PEER_LOST, 1, "a later report");
	all_fail(3, -1, ERR_INTEGRITY, 2, "the checksum of frame 7");
	assert_true(clock_ns() - start >= 240 * NS_PER_MS);
}

static void a_report_of_nothing_is_out_of_turn(void **state)
{
	(void)state;
	run_job(2, NS_PER_SEC);
	send_err_to_coordinator(1, MSG_REPORT, 0, 0, "");
	all_fail(2, -1, ERR_INTEGRITY, 1, "an unexpected control message");
}

static void a_silent_rank_is_named(void **state)
{
	int64_t start;
	(void)state;
	run_job(3, 200 * NS_PER_MS);
	start = clock_ns();
	beat(2, PHASE_CONNECT);
	while (!members[0].heard[MSG_ABORT]) {
		beat(1, PHASE_RUN);
		turn();
		assert_true(clock_ns() - start < PATIENCE);
	}
	all_fail(3, -1, ERR_STALLED, 2, "while connecting: stopped or unreachable");
	assert_true(clock_ns() - start >= 200 * NS_PER_MS);
	assert_true(members[1].heard[MSG_BEAT] > 0); /* the coordinator's own signs of life */
}

/* Somebody's report makes the coordinator look who has fallen silent. */
static void a_report_finds_the_silent_rank(void **state)
{
	int64_t start = clock_ns();
	(void)state;
	run_job(4, 400 * NS_PER_MS); /* beats are due every 100 ms */
	while (clock_ns() - start < 260 * NS_PER_MS) {
		beat(1, PHASE_RUN);
		beat(3, PHASE_RUN);
		turn();
	}
	send_err_to_coordinator(1, MSG_REPORT, ERR_STALLED, 3, "no progress");
	while (!members[0].heard[MSG_ABORT]) {
		beat(1, PHASE_RUN);
		beat(3, PHASE_RUN);
		turn();
		assert_true(clock_ns() - start < PATIENCE);
	}
	all_fail(4, -1, ERR_STALLED, 2, "no message for");
}

static void messages_out_of_turn(void **state)
{
	static const uint8_t types[] = {MSG_WELCOME, MSG_ROSTER, MSG_VERDICT, MSG_FINAL, MSG_DONE,
	                                MSG_INTENT,  MSG_VOTE,   0,           200};
	(void)state;
	for (size_t i = 0; i < sizeof types; i++) {
		again(state);
		run_job(2, NS_PER_SEC);
		send_to_coordinator(1, types[i], NULL);
		all_fail(2, -1, ERR_INTEGRITY, 1, "an unexpected control message");
	}
}

/* ---- the vote ---- */

static void part(int rank, uint32_t x)
{
	struct buf b;
	buf_init(&b, 4);
	buf_put_u32(&b, x);
	send_to_coordinator(rank, MSG_ROUND, &b);
	buf_release(&b);
}

static void a_round_is_answered_when_all_have_spoken(void **state)
{
	(void)state;
	run_job(3, PATIENCE);
	for (int n = 1; n <= 3; n++) {
		round_sum = 0;
		part(n % 3, 7);
		part((n + 1) % 3, 30);
		for_ms(20);
		for (int r = 0; r < 3; r++)
			assert_int_equal(members[r].heard[MSG_ANSWER], n - 1);
		part((n + 2) % 3, 100);
		for (int r = 0; r < 3; r++) {
			until(members[r].heard[MSG_ANSWER], n);
			assert_int_equal(members[r].answer, 1000 * r + 137);
		}
	}
	for (int r = 0; r < 3; r++)
		vote(r, NULL);
	until(members[2].heard[MSG_VERDICT], 1);
}

static void a_round_out_of_turn(void **state)
{
	(void)state;
	run_job(3, PATIENCE);
	part(1, 1);
	part(1, 2);
	all_fail(3, -1, ERR_INTEGRITY, 1, "unexpected control message");
	again(state);
	run_job(3, PATIENCE);
	part(2, 0);
	all_fail(3, -1, ERR_INTEGRITY, 2, "no number");
	again(state);
	run_job(3, PATIENCE);
	vote(2, NULL);
	part(2, 1);
	all_fail(3, -1, ERR_INTEGRITY, 2, "unexpected control message");
}

static void all_votes_give_the_verdict(void **state)
{
	(void)state;
	run_job(3, NS_PER_SEC);
	vote(0, "same");
	vote(1, "same");
	for_ms(20);
	assert_int_equal(members[0].heard[MSG_VERDICT], 0);
	vote(2, "same");
	for (int r = 0; r < 3; r++)
		until(members[r].heard[MSG_VERDICT], 1);
	for (int r = 0; r < 3; r++)
		send_err_to_coordinator(r, MSG_DONE, 0, ERR_RANK_SELF, "");
	for (int r = 0; r < 3; r++) {
		until(members[r].heard[MSG_FINAL], 1);
		assert_int_equal(members[r].outcome.code, 0);
		assert_int_equal(members[r].heard[MSG_ABORT], 0);
	}
	coord_drain(coord);
	assert_false(coord_drained(coord));
	until(members[1].lost, 1);
	until(members[2].lost, 1);
	for_ms(10);
	assert_true(coord_drained(coord));
}

/* A FINAL that is slow to arrive is waited for: closing the link would destroy it. */
static void a_final_on_its_way_is_waited_for(void **state)
{
	(void)state;
	run_job(2, PATIENCE);
	for (int r = 0; r < 2; r++)
		vote(r, "same");
	until(members[1].heard[MSG_VERDICT], 1);
	loop_del(&loop, &members[1].ctl.conn->watch); /* it reads nothing more */
	for (int r = 0; r < 2; r++)
		send_err_to_coordinator(r, MSG_DONE, 0, ERR_RANK_SELF, "");
	until(members[0].heard[MSG_FINAL], 1);
	coord_drain(coord);
	for_ms(2500);
	assert_false(coord_drained(coord));
	ctl_look(&members[1].ctl);
	assert_int_equal(members[1].heard[MSG_FINAL], 1);
	assert_int_equal(members[1].lost, 1);
	for_ms(10);
	assert_true(coord_drained(coord));
}

static void digests_that_differ(void **state)
{
	(void)state;
	run_job(3, NS_PER_SEC);
	vote(0, "same");
	vote(1, NULL); /* has no result of its own */
	vote(2, "other");
	all_fail(3, -1, ERR_INTEGRITY, 2,
	         "its result differs from that of rank 0: the digests are not the same");
	assert_int_equal(members[1].phase, PHASE_COMMIT);
}

/* Most are right, whoever voted first. */
static void the_digest_of_most_is_right(void **state)
{
	(void)state;
	run_job(5, NS_PER_SEC);
	for (int r = 0; r < 5; r++)
		vote(r, r == 0 ? "odd" : r == 3 ? "other" : "same");
	all_fail(5, -1, ERR_INTEGRITY, 0,
	         "its result differs from that of ranks 1, 2, 4: the digests are not the same; so "
	         "does rank 3");
}

static void votes_without_digests(void **state)
{
	(void)state;
	run_job(2, NS_PER_SEC);
	vote(1, NULL);
	vote(0, NULL);
	until(members[0].heard[MSG_VERDICT], 1);
	until(members[1].heard[MSG_VERDICT], 1);
}

static void an_abort_before_the_verdict(void **state)
{
	(void)state;
	run_job(3, NS_PER_SEC);
	vote(0, "same");
	vote(1, "same");
	send_err_to_coordinator(2, MSG_ABORT, ERR_OUTPUT, 2, "out.npy: no space left on device");
	all_fail(3, -1, ERR_OUTPUT, 2, "no space left");
	vote(2, "same"); /* too late */
	for_ms(20);
	for (int r = 0; r < 3; r++)
		assert_int_equal(members[r].heard[MSG_VERDICT], 0);
}

static void run_to_verdict(int size, int64_t timeout)
{
	run_job(size, timeout);
	for (int r = 0; r < size; r++)
		vote(r, "same");
	for (int r = 0; r < size; r++)
		until(members[r].heard[MSG_VERDICT], 1);
}

static void done(int rank)
{
	send_err_to_coordinator(rank, MSG_DONE, 0, ERR_RANK_SELF, "");
}

static void expect_outcome(int rank, int code, int culprit, const char *text)
{
	const struct member *m = &members[rank];
	until(m->heard[MSG_FINAL], 1);
	assert_int_equal(m->outcome.code, code);
	assert_int_equal(m->outcome.rank, culprit);
	assert_string_equal(m->outcome.text, text);
	assert_int_equal(m->heard[MSG_ABORT], 0);
}

/* Those who are left finish, and learn whose output may be the old one. */
static void a_rank_lost_after_the_verdict(void **state)
{
	(void)state;
	run_to_verdict(3, NS_PER_SEC);
	ctl_release(&members[1].ctl);
	send_err_to_coordinator(2, MSG_ABORT, ERR_OTHER, 2, "too late to stop");
	for_ms(10);
	assert_int_equal(members[0].heard[MSG_FINAL], 0);
	done(0);
	done(2);
	for (int r = 0; r < 3; r += 2)
		expect_outcome(r, ERR_PEER_LOST, 1,
		               "lost after the verdict: its output may be the old one");
}

static void ranks_lost_after_the_verdict(void **state)
{
	(void)state;
	run_to_verdict(6, NS_PER_SEC);
	done(0);
	done(2);
	ctl_release(&members[5].ctl);
	ctl_release(&members[3].ctl);
	ctl_release(&members[4].ctl);
	ctl_release(&members[1].ctl);
	for (int r = 0; r < 3; r += 2)
		expect_outcome(r, ERR_PEER_LOST, 1,
		               "lost after the verdict: its output may be the old one; ranks 3-5 "
		               "were lost after the verdict too");
}

/* A rank that has said DONE has its new output. */
static void a_rank_lost_after_its_commit(void **state)
{
	(void)state;
	run_to_verdict(3, NS_PER_SEC);
	done(1);
	for_ms(10);
	ctl_release(&members[1].ctl);
	for_ms(10);
	done(2);
	done(0);
	for (int r = 0; r < 3; r += 2)
		expect_outcome(r, 0, ERR_RANK_SELF, "");
}

static void an_own_word_comes_before_a_loss(void **state)
{
	(void)state;
	run_to_verdict(3, NS_PER_SEC);
	ctl_release(&members[1].ctl);
	send_err_to_coordinator(2, MSG_DONE, ERR_OUTPUT, ERR_RANK_SELF,
	                        "out.npy: rename: no such directory");
	done(0);
	for (int r = 0; r < 3; r += 2)
		expect_outcome(r, ERR_OUTPUT, 2,
		               "out.npy: rename: no such directory; rank 1 was lost after the "
		               "verdict too");
}

/* It learns the outcome if it goes on. */
static void a_rank_silent_after_the_verdict(void **state)
{
	int64_t start = clock_ns();
	(void)state;
	run_to_verdict(2, NS_PER_SEC);
	done(0);
	for (int r = 0; r < 2; r++) {
		until(members[r].heard[MSG_FINAL], 1);
		assert_int_equal(members[r].outcome.code, ERR_PEER_LOST);
		assert_int_equal(members[r].outcome.rank, 1);
		assert_non_null(strstr(members[r].outcome.text, "no message for "));
		assert_non_null(strstr(members[r].outcome.text,
		                       " s after the verdict: its output may be the old one"));
	}
	assert_true(clock_ns() - start >= NS_PER_SEC);
}

static void a_commit_that_fails_is_told_to_all(void **state)
{
	(void)state;
	run_job(3, NS_PER_SEC);
	for (int r = 0; r < 3; r++)
		vote(r, "same");
	until(members[1].heard[MSG_VERDICT], 1);
	send_err_to_coordinator(0, MSG_DONE, 0, ERR_RANK_SELF, "");
	send_err_to_coordinator(1, MSG_DONE, ERR_OUTPUT, ERR_RANK_SELF,
	                        "out.npy: rename: no such directory");
	send_err_to_coordinator(2, MSG_DONE, 0, ERR_RANK_SELF, "");
	for (int r = 0; r < 3; r++) {
		until(members[r].heard[MSG_FINAL], 1);
		assert_int_equal(members[r].outcome.code, ERR_OUTPUT);
		assert_int_equal(members[r].outcome.rank, 1);
		assert_non_null(strstr(members[r].outcome.text, "rename"));
	}
}

/* ---- tables ---- */

#define BASE_TABLE "a=f32 b=bf16 c=f16 d=i8 e=u8"

/* A job of 4 whose rank 2 has @odd, the others BASE_TABLE; each has said so. */
static void run_tables(const char *odd, int64_t join_ns)
{
	open_job(4, join_ns, PATIENCE);
	for (int r = 1; r < 4; r++)
		join(r, 4);
	for (int r = 0; r < 4; r++) {
		tables[r] = r == 2 ? odd : BASE_TABLE;
		intend(r, "(3,5)");
	}
}

static void the_tensor_is_named(void **state)
{
	static const struct {
		const char *odd, *words;
		int pages;
	} cases[] = {
	        {"a=f32 b=f32 c=f16 d=i8 e=u8",
	         "g.2.npy: tensor 'b' f32 differs from bf16 on ranks 0, 1, 3", 1},
	        {"a=f32 b=bf16 c=f16 d=i8 e=i8",
	         "g.2.npy: tensor 'e' i8 differs from u8 on ranks 0, 1, 3", 3},
	        {"a=f32 b=bf16 d=i8 e=u8", "g.2.npy: tensor 'c' is missing; ranks 0, 1, 3 have it",
	         2},
	        {"a=f32 b=bf16 c=f16 d=i8", "g.2.npy: tensor 'e' is missing; ranks 0, 1, 3 have it",
	         3},
	        {"a=f32 b=bf16 c=f16 d=i8 e=u8 f=f64",
	         "g.2.npy: has a tensor 'f' that ranks 0, 1, 3 don't have", 3},
	        {"a=f32 b=bf16 b2=f16 d=i8 e=u8",
	         "g.2.npy: has a tensor 'b2' that ranks 0, 1, 3 don't have", 2},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		again(state);
		run_tables(cases[i].odd, PATIENCE);
		for (int n = 1; n <= cases[i].pages; n++) {
			assert_int_equal(members[0].heard[MSG_ABORT], 0);
			show(2, n);
		}
		all_fail(4, -1, ERR_DISAGREE, 2, cases[i].words);
		assert_int_equal(members[2].heard[MSG_ASK], cases[i].pages);
		assert_int_equal(members[1].heard[MSG_ASK] + members[3].heard[MSG_ASK], 0);
		assert_int_equal(members[1].phase, PHASE_JOIN);
	}
}

/* Rank 0 is the odd one; ranks 1 and 2 have other tables than 3, 4 and 5, of which 3 shows none. */
static void other_dissenters_are_named_too(void **state)
{
	(void)state;
	open_job(7, PATIENCE, PATIENCE);
	for (int r = 1; r < 7; r++)
		join(r, 7);
	for (int r = 0; r < 7; r++) {
		struct intent in = intent_of(r, "(3,5)");
		tables[r] = r == 0 ? "a=f64" : r < 3 ? "a=f16" : "a=f32";
		intent_add(&in, "tensors", tables[r]);
		if (r != 3)
			snprintf(in.table, sizeof in.table, "tensors");
		say_intent(r, &in);
	}
	show(4, 1);
	all_fail(7, -1, ERR_DISAGREE, 0,
	         "g.0.npy: tensor 'a' f64 differs from f32 on ranks 3-6; so do ranks 1, 2");
	assert_int_equal(members[3].heard[MSG_ASK], 0);
}

/* Whose table is not to be had is told as far as it is known. */
static void without_a_table_no_tensor_is_named(void **state)
{
	(void)state;
	for (int how = 0; how < 4; how++) {
		const char *base = "g.2.npy: tensors a=f64 differs from a=f32 b=bf16 c=f16 d=i8 "
		                   "e=u8 on ranks 0, 1, 3";
		again(state);
		run_tables("a=f64", how == 2 ? 2 * NS_PER_SEC : PATIENCE);
		until(members[2].heard[MSG_ASK], 1);
		assert_int_equal(members[0].heard[MSG_ABORT], 0);
		if (how == 0)
			ctl_release(&members[2].ctl);
		else if (how == 1) /* it can't make its page */
			send_err_to_coordinator(2, MSG_ABORT, ERR_RESOURCE, 2, "out of memory");
		else if (how == 3) /* another goes */
			ctl_release(&members[1].ctl);
		all_fail(4, how == 0 ? 2 : how == 3 ? 1 : -1, ERR_DISAGREE, 2, base);
	}
}

/* All have joined by then: the end of --join-timeout ends only the comparison. */
static void a_message_after_the_deadline_of_a_comparison(void **state)
{
	(void)state;
	run_tables("a=f64", NS_PER_SEC);
	until(members[2].heard[MSG_ASK], 1);
	beat(2, PHASE_JOIN);
	assert_int_equal(poll(NULL, 0, 1100), 0);
	all_fail(4, -1, ERR_DISAGREE, 2, "tensors");
}

/* The same tables, though the digests are not: nothing to name, and no end of pages. */
static void tables_that_are_the_same(void **state)
{
	(void)state;
	run_job(2, PATIENCE);
	tables[0] = tables[1] = "a=1 b=2 c=3";
	vote(0, "one");
	vote(1, "other");
	for (int n = 1; n <= 3; n++)
		show(1, n);
	all_fail(2, -1, ERR_INTEGRITY, 1,
	         "its result differs from that of rank 0: the digests are not the same");
}

static void the_tensor_of_a_result_is_named(void **state)
{
	(void)state;
	run_job(6, PATIENCE);
	for (int r = 0; r < 6; r++) {
		tables[r] = r == 1 ? "a=11 b=22 c=34" : r == 5 ? "a=7" : "a=11 b=22 c=33";
		vote(r, tables[r]);
	}
	show(1, 1);
	send_err_to_coordinator(3, MSG_REPORT, ERR_PEER_LOST, 4,
	                        "the connection to rank 4 was lost");
	show(1, 2);
	all_fail(6, -1, ERR_INTEGRITY, 1,
	         "its result differs from that of ranks 0, 2-4: tensor 'c' 34 differs from 33; so "
	         "does rank 5");
	assert_int_equal(members[1].phase, PHASE_COMMIT);
}

/* A page that does not come is not waited for; signs of life go on meanwhile. */
static void a_page_that_does_not_come(void **state)
{
	int64_t start;
	(void)state;
	run_job(2, NS_PER_SEC);
	tables[0] = "a=1";
	tables[1] = "a=2";
	vote(0, "one");
	vote(1, "other");
	start = clock_ns();
	while (!members[0].heard[MSG_ABORT]) {
		beat(1, PHASE_COMMIT);
		turn();
		assert_true(clock_ns() - start < PATIENCE);
	}
	assert_int_equal(members[1].heard[MSG_ASK], 1);
	assert_true(members[1].heard[MSG_BEAT] > 0);
	all_fail(2, -1, ERR_INTEGRITY, 1,
	         "its result differs from that of rank 0: the digests are not the same");
	assert_true(clock_ns() - start >= 990 * NS_PER_MS);
}

/* Neither side is rank 0. */
static void both_tables_come_from_others(void **state)
{
	(void)state;
	run_job(3, PATIENCE);
	tables[1] = "a=1 b=2 c=3";
	tables[2] = "a=1 b=2 d=3";
	vote(0, NULL);
	vote(1, "one");
	vote(2, "other");
	for (int n = 1; n <= 2; n++) {
		show(2, n);
		show(1, n);
	}
	all_fail(3, -1, ERR_INTEGRITY, 2,
	         "its result differs from that of rank 1: tensor 'c' is missing; rank 1 has it");
}

static void pages_that_are_none(void **state)
{
	static const struct {
		uint32_t page;
		size_t len;
		const char *bytes, *words;
	} cases[] = {
	        {0, 3, "\2\0x", "sent a malformed page 0 of its table"},
	        {0, 14,
	         "\1\0b\1\0x"
	         "\1\0a\1\0x"
	         "\0",
	         "sent a malformed page 0 of its table"},
	        {0, 12,
	         "\1\0b\1\0x"
	         "\1\0a\1\0x",
	         "sent a malformed page 0 of its table"},
	        {1, 6, "\1\0b\1\0x", "sent page 1 of its table, which was not requested"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct buf b;
		again(state);
		run_tables("a=f64", PATIENCE);
		until(members[2].heard[MSG_ASK], 1);
		buf_init(&b, TABLE_PAGE_MAX);
		buf_put_u32(&b, cases[i].page);
		buf_put(&b, cases[i].bytes, cases[i].len);
		send_to_coordinator(2, MSG_PAGE, &b);
		all_fail(4, -1, ERR_INTEGRITY, 2, cases[i].words);
		buf_release(&b);
	}
	again(state); /* nor one of a rank that was not asked */
	run_tables("a=f64", PATIENCE);
	until(members[2].heard[MSG_ASK], 1);
	members[3].heard[MSG_ASK] = 1;
	show(3, 1);
	all_fail(4, -1, ERR_INTEGRITY, 3, "sent page 0 of its table, which was not requested");
	again(state); /* nor a page of no number */
	run_tables("a=f64", PATIENCE);
	send_to_coordinator(2, MSG_PAGE, NULL);
	all_fail(4, -1, ERR_INTEGRITY, 2, "an unexpected control message");
}

/* ---- progress ---- */

static struct beat beats[4]; /* what the ranks say until somebody else is the slowest */

static bool told_pace(const struct pace *p, int rank, enum phase phase, double done)
{
	return p->rank == rank &&
	       (rank < 0 || (p->phase == phase && p->done > done - 1e-5 && p->done < done + 1e-5));
}

static void expect_pace(int rank, enum phase phase, double done)
{
	int64_t end = clock_ns() + PATIENCE;
	while (!told_pace(&members[0].pace, rank, phase, done) ||
	       !told_pace(&members[3].pace, rank, phase, done)) {
		if (clock_ns() >= end)
			fail_msg("rank %d is not told to be the slowest", rank);
		for (int r = 0; r < 4; r++)
			beat_of(r, beats[r].phase, beats[r].moved, beats[r].total);
		turn();
	}
}

static void the_slowest_is_told(void **state)
{
	(void)state;
	run_job(4, 400 * NS_PER_MS); /* beats are due every 100 ms */
	beats[0] = (struct beat){PHASE_RUN, 50, 100, 0};
	beats[1] = (struct beat){PHASE_RUN, 5, 0, 0}; /* nobody knows how far it is to go */
	beats[2] = (struct beat){PHASE_CONNECT, 90, 100, 0};
	beats[3] = (struct beat){PHASE_RUN, 1, 3, 0};
	expect_pace(2, PHASE_CONNECT, 0);
	beats[2] = (struct beat){PHASE_RUN, 9000, 10000, 0};
	expect_pace(3, PHASE_RUN, 1. / 3);
	beats[3].moved = UINT64_MAX;
	expect_pace(0, PHASE_RUN, .5);
	beats[0].phase = PHASE_COMMIT;
	expect_pace(2, PHASE_RUN, .9);
	beats[2].phase = PHASE_COMMIT;
	expect_pace(-1, PHASE_RUN, 0);
}

static void a_beat_that_is_none(void **state)
{
	(void)state;
	run_job(2, NS_PER_SEC);
	send_to_coordinator(1, MSG_BEAT, NULL);
	all_fail(2, -1, ERR_INTEGRITY, 1, "an unexpected control message");
}

#define COORD_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        COORD_TEST(ranks_that_agree_get_the_roster),
	        COORD_TEST(a_job_of_one_rank_agrees_with_itself),
	        COORD_TEST(differing_shapes_are_named),
	        COORD_TEST(most_ranks_are_right),
	        COORD_TEST(a_fact_that_some_ranks_have),
	        COORD_TEST(a_decision_may_fail),
	        COORD_TEST(sizes_that_differ),
	        COORD_TEST(a_rank_out_of_range),
	        COORD_TEST(a_rank_started_twice),
	        COORD_TEST(other_versions_and_jobs_are_told),
	        COORD_TEST(another_version_is_told_to_those_who_miss_the_rank),
	        COORD_TEST(another_launch_is_told),
	        COORD_TEST(auto_ranks_are_sorted),
	        COORD_TEST(auto_ranks_fill_the_places_left),
	        COORD_TEST(the_root_is_found),
	        COORD_TEST(the_root_is_told_again),
	        COORD_TEST(several_ranks_on_the_root_s_host),
	        COORD_TEST(missing_ranks_are_counted_by_host),
	        COORD_TEST(who_waits_learns_who_is_missing),
	        COORD_TEST(after_sizes_that_differ_few_are_waited_for),
	        COORD_TEST(a_rank_of_a_larger_size_is_told_too),
	        COORD_TEST(auto_ranks_whose_sizes_differ),
	        COORD_TEST(missing_ranks_are_listed_at_the_deadline),
	        COORD_TEST(a_rank_that_says_nothing_is_named_at_the_deadline),
	        COORD_TEST(a_late_rank_is_told_of_the_failure),
	        COORD_TEST(ranks_that_take_any_place),
	        COORD_TEST(who_goes_before_it_has_a_place_is_not_counted),
	        COORD_TEST(a_rank_lost_while_joining),
	        COORD_TEST(a_rank_that_goes_before_its_intent_may_come_again),
	        COORD_TEST(a_coordinator_that_stood_still_says_so),
	        COORD_TEST(an_own_abort_is_the_cause),
	        COORD_TEST(an_abort_names_its_sender),
	        COORD_TEST(a_lost_link_beats_a_report),
	        COORD_TEST(a_loss_names_the_phase_of_the_rank),
	        COORD_TEST(a_report_counts_when_nobody_confesses),
	        COORD_TEST(a_report_of_nothing_is_out_of_turn),
	        COORD_TEST(a_silent_rank_is_named),
	        COORD_TEST(a_report_finds_the_silent_rank),
	        COORD_TEST(messages_out_of_turn),
	        COORD_TEST(a_round_is_answered_when_all_have_spoken),
	        COORD_TEST(a_round_out_of_turn),
	        COORD_TEST(all_votes_give_the_verdict),
	        COORD_TEST(a_final_on_its_way_is_waited_for),
	        COORD_TEST(digests_that_differ),
	        COORD_TEST(the_digest_of_most_is_right),
	        COORD_TEST(votes_without_digests),
	        COORD_TEST(an_abort_before_the_verdict),
	        COORD_TEST(a_rank_lost_after_the_verdict),
	        COORD_TEST(ranks_lost_after_the_verdict),
	        COORD_TEST(a_rank_lost_after_its_commit),
	        COORD_TEST(an_own_word_comes_before_a_loss),
	        COORD_TEST(a_rank_silent_after_the_verdict),
	        COORD_TEST(a_commit_that_fails_is_told_to_all),
	        COORD_TEST(the_tensor_is_named),
	        COORD_TEST(other_dissenters_are_named_too),
	        COORD_TEST(without_a_table_no_tensor_is_named),
	        COORD_TEST(a_message_after_the_deadline_of_a_comparison),
	        COORD_TEST(tables_that_are_the_same),
	        COORD_TEST(the_tensor_of_a_result_is_named),
	        COORD_TEST(a_page_that_does_not_come),
	        COORD_TEST(both_tables_come_from_others),
	        COORD_TEST(pages_that_are_none),
	        COORD_TEST(the_slowest_is_told),
	        COORD_TEST(a_beat_that_is_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
