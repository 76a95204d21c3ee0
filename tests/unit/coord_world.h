/*
 * A coordinator, with members made by hand: real control links over loopback in plain frames,
 * everything in one loop. Rank 0 is the test itself.
 */
#ifndef COLLCTL_TESTS_COORD_WORLD_H
#define COLLCTL_TESTS_COORD_WORLD_H

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <xxhash.h>

#include "lib/base/clock.h"
#include "lib/job/coordinator/coord.h"
#include "lib/job/ctl.h"
#include "tests/unit/unit.h"

#define PATIENCE (100 * NS_PER_SEC) /* no test takes longer */
#define MEMBERS  (PROTO_PLACES + 1)

/* What a rank (0: by coord.deliver) has been told. */
struct member {
	struct ctl ctl;
	int heard[MSG_TYPES]; /* messages of each type */
	int lost;
	uint32_t rank; /* by WELCOME */
	struct welcome welcome;
	struct joined joined;
	struct plan plan;
	struct roster roster;
	struct rank_place inquiry;         /* by ROSTER: where and how it asks for the verdict */
	struct rank_place places[MEMBERS]; /* by ROSTER and PLACES */
	int nplaces;
	struct again again; /* by AGAIN */
	struct err failure; /* by ABORT; by BACK */
	enum phase phase;
	struct err outcome; /* by FINAL */
	bool completed_before_roster;
	char details[32];        /* of its plan */
	uint32_t page;           /* by ASK */
	struct pace pace;        /* by BEAT */
	uint32_t answer;         /* by ANSWER */
	uint64_t clock;          /* by CLOCK */
	struct workload busiest; /* by VERDICT */
};

static struct loop loop;
static struct coord *coord;
static struct addr at;
static struct member members[MEMBERS];
static int completed, decided;
static int hosts_seen; /* plan.hosts, as decide sees it */
static struct err decision;
static char warned[512]; /* the last warning */
static int job_size;
static int fewest; /* --min-ranks of the next job; 0: all */
static int64_t grace;
static struct view details_seen[MEMBERS]; /* the intents' details, as decide sees them */
static uint64_t inputs_seen;
static const char *tables[MEMBERS]; /* "name=value name=value ..."; NULL: it has none */
static int data_port[MEMBERS];      /* of the data listener; 0: one where nobody listens */

static inline void take_places(struct member *m, struct view v)
{
	struct err err = {0};
	while (view_left(&v)) {
		struct rank_place p;
		assert_int_equal(rank_place_decode(&p, &v, &err), 0);
		assert_in_range(p.rank, 0, m->roster.size - 1);
		m->places[p.rank] = p;
		m->nplaces++;
	}
}

static inline void take(struct member *m, uint8_t type, struct view v)
{
	struct err err = {0};
	enum phase phase;
	assert_true(type < MSG_TYPES);
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
		roster_release(&m->roster);
		assert_int_equal(roster_decode(&m->roster, &v, &err), 0);
		assert_int_equal(rank_place_decode(&m->inquiry, &v, &err), 0);
		take_places(m, v);
		break;
	case MSG_PLACES:
		take_places(m, v);
		break;
	case MSG_AGAIN:
		assert_int_equal(again_decode(&m->again, &v, &err), 0);
		take_places(m, v);
		break;
	case MSG_ANSWER:
		m->answer = view_u32(&v);
		break;
	case MSG_CLOCK:
		m->clock = view_u64(&v);
		break;
	case MSG_VERDICT:
		assert_int_equal(workload_decode(&m->busiest, v, &err), 0);
		assert_in_range(m->busiest.rank + 1, 0, job_size);
		break;
	case MSG_BEAT:
		assert_int_equal(pace_decode(&m->pace, v, &err), 0);
		break;
	case MSG_ASK:
		m->page = view_u32(&v);
		break;
	case MSG_ABORT:
	case MSG_ANEW:
	case MSG_BACK:
		assert_int_equal(err_decode(&m->failure, &m->phase, &v), 0);
		break;
	case MSG_FINAL:
		assert_int_equal(err_decode(&m->outcome, &phase, &v), 0);
		break;
	}
	assert_false(v.failed);
}

static inline void deliver(void *ctx, uint8_t type, struct view body)
{
	assert_ptr_equal(ctx, members);
	take(&members[0], type, body);
}

static inline void on_message(void *ctx, uint8_t type, struct view body)
{
	take(ctx, type, body);
}

static inline void on_lost(void *ctx, const struct err *err)
{
	(void)err;
	((struct member *)ctx)->lost++;
}

static inline int decide(void *ctx, const struct intent *const *intents, struct plan *plan,
                         struct err *err)
{
	assert_ptr_equal(ctx, members);
	decided++;
	hosts_seen = plan->hosts;
	const struct intent *last = intents[job_size - 1];
	inputs_seen = intents[0]->ninputs + 10 * (last ? last->ninputs : 0);
	for (int r = 0; r < job_size; r++)
		details_seen[r] = intents[r] ? intents[r]->details : (struct view){0};
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
static inline void details(void *ctx, int rank, struct buf *out)
{
	assert_ptr_equal(ctx, members);
	assert_int_equal(decided, 1);
	for (int r = 0; r < job_size; r++)
		if (r == (rank + 1) % job_size && rank != 1)
			buf_put(out, details_seen[r].p, view_left(&details_seen[r]));
}

static inline void complete(void *ctx)
{
	assert_ptr_equal(ctx, members);
	completed++;
}

/* Page @page of the table @text, with two entries to a page. */
static inline void put_page(const char *text, uint32_t page, struct buf *out)
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

static inline void own_table(void *ctx, uint32_t page, struct buf *out)
{
	assert_ptr_equal(ctx, members);
	assert_int_equal(out->len, 0);
	put_page(tables[0], page, out);
}

/* A part of a round is a number; 0 is malformed. The answer: their sum, and the rank. */
static uint32_t round_sum;

static inline int collect(void *ctx, int rank, struct view part, struct err *err)
{
	uint32_t x = view_u32(&part);
	assert_ptr_equal(ctx, members);
	assert_in_range(rank, 0, job_size - 1);
	round_sum += x;
	return x ? 0 : err_set(err, ERR_INTEGRITY, "no number");
}

static inline void answer(void *ctx, int rank, struct buf *out)
{
	assert_ptr_equal(ctx, members);
	buf_put_u32(out, 1000 * (uint32_t)rank + round_sum);
}

static inline void warn(void *ctx, const char *text)
{
	assert_ptr_equal(ctx, members);
	snprintf(warned, sizeof warned, "%s", text);
}

static struct job_callbacks callbacks = {
        .decide = decide,
        .details = details,
        .table = own_table,
        .noun = "tensor",
        .collect = collect,
        .answer = answer,
        .forms_anew = true,
        .ctx = members,
};

static inline void open_job_as(int rank, const struct presence *present, int size, int64_t join_ns,
                               int64_t timeout)
{
	struct err err = {0};
	job_size = size;
	static struct job_settings settings;
	settings.timeout = timeout;
	settings.join_timeout = join_ns;
	settings.min_ranks = fewest;
	settings.grace = grace;
	struct coord_conf conf = {
	        .settings = &settings,
	        .loop = &loop,
	        .size = size,
	        .rank = rank,
	        .present = present,
	        .jobtag = (const uint8_t *)"job tag",
	        .launch = (const uint8_t *)"launch 1",
	        .join_deadline = clock_ns() + join_ns,
	        .deliver = deliver,
	        .callbacks = &callbacks,
	        .warn = warn,
	        .complete = complete,
	        .ctx = members,
	};
	assert_int_equal(addr_resolve(&at, "127.0.0.1", 0, true, &err), 0);
	int fd = addr_listen(&at, 0, 0, 64, &err);
	assert_true(fd >= 0);
	coord = coord_open(&conf, fd, &err);
	assert_non_null(coord);
}

static inline void open_job(int size, int64_t join_ns, int64_t timeout)
{
	open_job_as(0, NULL, size, join_ns, timeout);
}

static inline int set_up(void **state)
{
	struct err err = {0};
	(void)state;
	memset(members, 0, sizeof members);
	completed = decided = fewest = 0;
	callbacks.goes_back = false;
	callbacks.forms_anew = true;
	warned[0] = '\0';
	decision = (struct err){0};
	memset(tables, 0, sizeof tables);
	return loop_init(&loop, &err);
}

static inline int tear_down(void **state)
{
	(void)state;
	coord_close(coord);
	coord = NULL;
	for (int i = 0; i < MEMBERS; i++)
		ctl_release(&members[i].ctl);
	for (int i = 0; i < MEMBERS; i++)
		roster_release(&members[i].roster);
	loop_release(&loop);
	return 0;
}

static inline void again(void **state)
{
	tear_down(state);
	assert_int_equal(set_up(state), 0);
}

static inline void turn(void)
{
	struct err err = {0};
	assert_int_equal(loop_turn(&loop, clock_ns() + NS_PER_MS, &err), 0);
}

static inline void until_(const int *counter, int n, const char *what, int line)
{
	int64_t end = clock_ns() + PATIENCE;
	while (*counter < n) {
		if (clock_ns() >= end)
			fail_msg("line %d: %s did not come to %d", line, what, n);
		turn();
	}
}
#define until(counter, n) until_(&(counter), n, #counter, __LINE__)

static inline void for_ms(int ms)
{
	int64_t end = clock_ns() + ms * NS_PER_MS;
	while (clock_ns() < end)
		turn();
}

static inline void nothing(void *ctx)
{
	(void)ctx;
}

/* A connection that has said HELLO. */
static inline struct conn *say_hello(const struct hello *h)
{
	struct err err = {0};
	uint8_t opening[GATE_OPENING];
	int64_t end = clock_ns() + PATIENCE;
	struct conn *c = conn_tcp_new(conn_sock_dial(&at, NULL, &err), &err);
	assert_non_null(c);
	assert_int_equal(conn_watch(c, &loop, nothing, NULL, &err), 0);
	while (conn_handshake(c, &err) != 1) {
		assert_true(clock_ns() < end);
		turn();
	}
	hello_encode(h, opening);
	assert_int_equal(conn_write(c, opening, sizeof opening, &err), sizeof opening);
	assert_int_equal(conn_flush(c, &err), 1);
	return c;
}

/* Member @i says HELLO. */
static inline void hello_as(int i, const struct hello *h)
{
	struct member *m = &members[i];
	struct err err = {0};
	m->ctl.on_message = on_message;
	m->ctl.on_lost = on_lost;
	m->ctl.ctx = m;
	assert_int_equal(ctl_start(&m->ctl, say_hello(h), &loop, &err), 0);
}

static inline struct hello hello_of(int rank, int size)
{
	struct hello h = {.version = PROTO_VERSION,
	                  .rank = rank < 0 ? PROTO_RANK_AUTO : (uint32_t)rank,
	                  .size = (uint32_t)size};
	memcpy(h.jobtag, "job tag", 8);
	return h;
}

static inline void join(int rank, int size)
{
	struct hello h = hello_of(rank, size);
	hello_as(rank, &h);
	until(members[rank].heard[MSG_WELCOME], 1);
	assert_int_equal(members[rank].rank, rank);
}

static inline void send_to_coordinator(int rank, uint8_t type, const struct buf *b)
{
	if (rank)
		ctl_send(&members[rank].ctl, type, b);
	else
		coord_receive(coord, type, b ? view_of(b->data, b->len) : view_of("", 0));
}

static inline struct intent intent_of(int rank, const char *shape)
{
	struct intent in;
	memset(&in, 0, sizeof in);
	intent_add(&in, "dtype", "f32");
	intent_add(&in, "shape", shape);
	snprintf(in.subject, sizeof in.subject, "g.%d.npy", rank);
	in.memory = 1000 - (uint64_t)rank;
	in.ninputs = (uint32_t)rank + 1;
	snprintf(in.data_addr, sizeof in.data_addr, rank ? "127.0.0.1:%d" : ":%d",
	         data_port[rank] ? data_port[rank] : 7000 + rank);
	return in;
}

static inline void say_intent(int rank, const struct intent *in)
{
	struct buf b;
	buf_init(&b, CTL_BODY_MAX);
	intent_encode(in, &b);
	send_to_coordinator(rank, MSG_INTENT, &b);
	buf_release(&b);
}

static inline void intend(int rank, const char *shape)
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
static inline void agree(int size)
{
	for (int r = 1; r < size; r++)
		join(r, size);
	for (int r = 0; r < size; r++)
		intend(r, "(3,5)");
	for (int r = 0; r < size; r++)
		until(members[r].heard[MSG_ROSTER], 1);
}

static inline void run_job(int size, int64_t timeout)
{
	open_job(size, PATIENCE, timeout);
	agree(size);
}

static inline void send_err_to_coordinator(int rank, uint8_t type, int code, int culprit,
                                           const char *text)
{
	struct err e = {.code = code, .rank = culprit};
	struct buf b;
	snprintf(e.text, sizeof e.text, "%s", text);
	buf_init(&b, 4096);
	err_encode(&e, PHASE_RUN, &b);
	if (type == MSG_DONE)
		buf_put_u8(&b, code ? FATE_OLD : FATE_NEW);
	send_to_coordinator(rank, type, &b);
	buf_release(&b);
}

static inline void beat_of(int rank, enum phase phase, uint64_t moved, uint64_t total)
{
	struct beat beat = {phase, moved, total, 0};
	struct buf b;
	buf_init(&b, 32);
	beat_encode(&beat, &b);
	send_to_coordinator(rank, MSG_BEAT, &b);
	buf_release(&b);
}

static inline void beat(int rank, enum phase phase)
{
	beat_of(rank, phase, 0, 0);
}

static inline void vote_with(int rank, const char *digest, const struct workload *work)
{
	struct vote v = {.has_digest = digest, .has_table = tables[rank], .work = *work};
	struct buf b;
	if (digest)
		memcpy(v.digest, digest, strlen(digest));
	buf_init(&b, 64);
	vote_encode(&v, &b);
	send_to_coordinator(rank, MSG_VOTE, &b);
	buf_release(&b);
}

static inline void vote(int rank, const char *digest)
{
	vote_with(rank, digest, &(struct workload){.rank = rank});
}

/* Every rank of the first @size but @but hears of one failure; -1: every one. */
static inline void all_fail(int size, int but, int code, int culprit, const char *words)
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
static inline void show(int rank, int n)
{
	struct buf b;
	until(members[rank].heard[MSG_ASK], n);
	buf_init(&b, TABLE_PAGE_MAX);
	buf_put_u32(&b, members[rank].page);
	put_page(tables[rank], members[rank].page, &b);
	send_to_coordinator(rank, MSG_PAGE, &b);
	buf_release(&b);
}

#define COORD_TEST(name) TEST_WITH(name, set_up, tear_down)

#endif
