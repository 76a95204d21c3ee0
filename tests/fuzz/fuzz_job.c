/*
 * A rank whose coordinator sends anything at any stage. The first byte says what the rank is and
 * does: its number and the size are known or not, it looks for the root, it has a table, it may do
 * without some ranks, it takes part in rounds. Then come messages {u8 type, u8 kind, u8 length,
 * body}, one for each turn of the rank's loop: bytes as they are or, by kind, a message that fits a
 * job, with one byte changed or none. At the end the link is lost. The rank does what a command
 * does (lib/job/job.h): it must end, with an error that can be printed, and commit only by a
 * verdict that came after its vote.
 */
#include <netinet/in.h>
#include <resolv.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/job/job_internal.h"
#include "tests/fuzz/check.h"

#define LARGE   20 /* ranks: more than a roster has places for */
#define SMALL   3
#define RIGHT   1 /* of kind: the body is not from the input */
#define CHANGED 2 /* one byte of it is changed */
#define HOURS   (3600 * NS_PER_SEC)

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A name in a place is not asked for in the network, which would take seconds. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	CHECK(res_init() == 0);
	_res.nscount = 0;
	return 0;
}

struct script {
	struct job *job;
	struct view v;
	struct loop_timer timer;
	int size;
	bool verdict; /* one has come after the vote */
};

static void put_place(struct buf *b, int rank)
{
	rank_place_encode(
	        &(struct rank_place){.rank = rank, .addr = "127.0.0.1:7", .host = "nodea"}, b);
}

static void put_roster(struct buf *b, int size)
{
	const struct plan plan = {.algorithm = "direct", .windows = 1, .streams = 1};
	const struct roster r = {.size = (uint32_t)size};
	plan_encode(&plan, b);
	roster_encode(&r, b);
	put_place(b, 0); /* of an inquiry */
	for (int i = 0; size <= PROTO_PLACES && i < size; i++)
		put_place(b, i);
}

/* A message that a coordinator may send. */
static void put_right(const struct job *j, uint8_t type, int size, struct buf *b)
{
	const struct welcome w = {.rank = 1, .root = j->conf.present.finds_root ? 2 : -1};
	const struct joined joined = {.here = 1, .size = (uint32_t)size, .names = "0, 2"};
	const struct pace pace = {
	        .rank = 2, .phase = PHASE_RUN, .moved = j->beats.slowest.moved + 1};
	const struct workload work = {.rank = 2, .most = 1, .busy = 2, .total = 3};
	const struct err fine = {.rank = ERR_RANK_SELF};
	const struct err e = {.code = ERR_INPUT, .rank = 2, .text = "x.npy: truncated"};
	const struct err broken = {.code = ERR_PEER_LOST, .rank = 2, .text = "connection reset"};
	const struct again again = {.window = 3};
	switch (type) {
	case MSG_WELCOME:
		welcome_encode(&w, b);
		break;
	case MSG_JOINED:
		joined_encode(&joined, b);
		break;
	case MSG_ROSTER:
		put_roster(b, size);
		break;
	case MSG_BEAT:
		pace_encode(&pace, b);
		break;
	case MSG_ABORT:
		err_encode(&e, PHASE_RUN, b);
		break;
	case MSG_VERDICT:
		workload_encode(&work, b);
		break;
	case MSG_FINAL:
		err_encode(&fine, PHASE_COMMIT, b);
		break;
	case MSG_ASK:
		buf_put_u32(b, j->said.pages);
		break;
	case MSG_PLACES:
		if (j->places.awaited > 0 && j->places.asked.len)
			put_place(b, (int)get_u32(j->places.asked.data + j->places.asked.len -
			                          4 * (size_t)j->places.awaited));
		break;
	case MSG_CLOCK:
		buf_put_u64(b, (uint64_t)clock_ns());
		break;
	case MSG_BACK:
	case MSG_ANEW:
		err_encode(&broken, PHASE_RUN, b);
		break;
	case MSG_AGAIN:
		again_encode(&again, b);
		for (int i = 0; size <= PROTO_PLACES && i < size; i++)
			put_place(b, i);
		break;
	default:
		break;
	}
}

static void check_state(const struct job *j, int size)
{
	struct job_progress p;
	job_progress(j, &p);
	if (j->size) {
		CHECK(j->size == size || j->state >= JOB_RUNNING || j->anew.times);
		CHECK(j->rank < j->size && j->root < j->size && j->coordinator < j->size);
		CHECK(p.slowest < j->size);
	}
	for (int r = -1; r <= LARGE; r++) {
		CHECK(job_host(j, r));
		if (j->rank >= 0)
			(void)job_shares_host(j, r);
	}
	CHECK(j->places.awaited >= 0);
}

static void deliver(struct script *s, uint8_t type, struct view body)
{
	s->verdict |= type == MSG_VERDICT && s->job->state == JOB_VOTED;
	CHECK(!s->verdict || s->job->state >= JOB_VOTED);
	job_handle_message(s->job, type, body);
	check_state(s->job, s->size);
}

static void next(void *ctx)
{
	struct script *s = ctx;
	struct err lost = {.code = ERR_PEER_LOST, .text = "connection closed"};
	struct buf b;
	if (!ctl_open(&s->job->ctl))
		return;
	if (!view_left(&s->v)) {
		ctl_release(&s->job->ctl);
		job_coordinator_lost(s->job, &lost);
		return;
	}
	loop_timer_set(&s->job->loop, &s->timer, clock_ns());
	const uint8_t type = view_u8(&s->v), kind = view_u8(&s->v);
	size_t n = view_u8(&s->v);
	if (kind & RIGHT) {
		buf_init(&b, CTL_BODY_MAX);
		put_right(s->job, type, s->size, &b);
		if (kind & CHANGED && b.len)
			b.data[n % b.len] ^= kind;
		deliver(s, type, view_of(b.len ? b.data : (void *)"", b.len));
		buf_release(&b);
		return;
	}
	n = n < view_left(&s->v) ? n : view_left(&s->v);
	const uint8_t *p = n ? view_bytes(&s->v, n) : NULL;
	/* Memory of its own, so that reading beyond it is seen. */
	uint8_t *copy = malloc(n ? n : 1);
	CHECK(copy);
	if (p)
		memcpy(copy, p, n);
	deliver(s, type, view_of(copy, n));
	free(copy);
}

static void put_table(void *ctx, uint32_t page, struct buf *out)
{
	(void)ctx;
	if (page < 2)
		table_put(out, page ? "b" : "a", "1");
}

static int join(struct job *j, struct err *err)
{
	while (j->state == JOB_SEEKING)
		if (!ctl_open(&j->ctl))
			return err_set(err, ERR_RENDEZVOUS, "not found");
		else if (job_turn(j, err) < 0)
			return -1;
	if (job_check(j, err) < 0 || job_await_rank(j, err) < 0)
		return -1;
	job_beat(j);
	return 0;
}

static int take_part(struct job *j, unsigned rounds, bool clock, bool table, bool *committed,
                     struct err *err)
{
	const struct job_callbacks callbacks = {.table = table ? put_table : NULL,
	                                        .noun = "tensor",
	                                        .goes_back = rounds & 1,
	                                        .forms_anew = true};
	const int peers[] = {0, 7, LARGE - 1};
	static struct intent in;
	const uint8_t part[] = {1, 2, 3};
	struct clock_offset offset;
	struct plan plan;
	struct view answer;
	struct buf b;
	memset(&in, 0, sizeof in);
	intent_add(&in, "dtype", "f32");
	if (job_offer(j, &in, false, &callbacks, err) < 0 || job_agree(j, &plan, err) < 0)
		return -1;
	CHECK(j->size > 0 && j->rank >= 0 && plan.windows && plan.streams);
	CHECK(job_ranks_here(j) >= 1 && job_local_index(j) < j->size);
	if (j->size == LARGE && job_find_peers(j, peers, 3, peers, 2, err) < 0)
		return -1;
	if (clock && job_clock(j, &offset, err) < 0)
		return -1;
	buf_init_fixed(&b, (void *)(uintptr_t)part, sizeof part);
	b.len = sizeof part;
	for (unsigned i = 0; i < rounds; i++)
		if (job_round(j, &b, &answer, err) < 0)
			return -1;
	while (callbacks.goes_back && job_await_moved(j, err) < 0) {
		uint64_t window = 8;
		if (!job_goes_back(j))
			return -1;
		CHECK(!err->code && job_reconnects(j) <= JOB_RECONNECTS_MOST);
		if (job_go_back(j, true, 7, &window, err) < 0)
			return -1;
		CHECK(window <= 7);
	}
	if (job_vote(j, NULL, err) < 0)
		return -1;
	*committed = true;
	CHECK(job_busiest(j)->rank < j->size);
	return job_finish(j, NULL, FATE_NEW, err);
}

static void open_link(struct job *j, int fd)
{
	struct err err = {0};
	struct conn *conn = conn_tcp_new(fd, &err);
	CHECK(conn && ctl_start(&j->ctl, conn, &j->loop, &err) == 0);
	conn->writable = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	const unsigned form = data[0];
	struct script s = {.v = view_of(data + 1, size - 1), .size = form & 1 ? LARGE : SMALL};
	struct err err = {.rank = ERR_RANK_SELF};
	bool committed = false;
	int fd[2];
	const struct job_settings settings = {.join_timeout = HOURS,
	                                      .timeout = HOURS,
	                                      .embedded = true,
	                                      .cancel_fd = -1,
	                                      .min_ranks = form & 16 ? 2 : 0};
	const struct job_conf conf = {.settings = &settings,
	                              .name = "fuzz",
	                              .rank = form & 2 ? JOB_RANK_AUTO : 1,
	                              .size = form & 4 ? 0 : s.size,
	                              .coordinator = "127.0.0.1:1",
	                              .listen_fd = -1,
	                              .present = {.finds_root = form & 8}};
	s.job = job_open(&conf, &err);
	CHECK(s.job);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
	open_link(s.job, fd[0]);
	s.timer = (struct loop_timer){.fn = next, .ctx = &s};
	loop_timer_set(&s.job->loop, &s.timer, clock_ns());
	int ret = join(s.job, &err);
	if (ret == 0)
		ret = take_part(s.job, form >> 6, form & 16, form & 32, &committed, &err);
	while (ret < 0 && job_forms_anew(s.job, &err)) {
		CHECK(!committed && (form & 16));
		job_form_anew(s.job);
		ret = take_part(s.job, form >> 6, form & 16, form & 32, &committed, &err);
	}
	CHECK(!committed || s.verdict);
	if (ret < 0) {
		job_fail(s.job, &err);
		CHECK(err.code >= ERR_OTHER && err.code <= UINT8_MAX);
		CHECK(memchr(err.text, 0, sizeof err.text) && memchr(err.host, 0, sizeof err.host));
	} else {
		CHECK(s.job->state == JOB_FINAL && committed);
	}
	loop_timer_stop(&s.timer);
	job_close(s.job);
	close(fd[1]);
	return 0;
}
