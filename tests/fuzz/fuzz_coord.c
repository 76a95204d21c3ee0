/*
 * A coordinator whose ranks and guests send anything at any stage. The first byte says how many
 * ranks the job has and whether two are enough, whether its own takes any number, whether ranks may
 * ask for the verdict, and whether they go back when a lane breaks. Then come steps {u8 what, u8
 * who, u8 type, u8 kind, u8 length, body}: a connection says HELLO, a rank or a guest sends a
 * message (bytes as they are or, by kind, a message that fits a job, with one byte changed or
 * none), a link is lost, a timer runs out, the loop turns. What the coordinator's own rank then
 * hears must be in order: one ROSTER, and one more after each ANEW; a VERDICT only if all that take
 * part have voted, and never after an ABORT.
 */
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/job/coordinator/coord_internal.h"
#include "tests/fuzz/check.h"

#define SIZE    5 /* at most */
#define LINKS   100
#define NUMBERS 8 /* of ranks, in HELLO: also of those that do not exist, which an ABORT names */
#define RIGHT   1 /* of kind: the body is not from the input */
#define CHANGED 2 /* one byte of it is changed */
#define HOURS   (3600 * NS_PER_SEC)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
	struct loop loop;
	struct coord *c;
	int size;
	int peers[LINKS], npeers; /* the other ends of the links */
	int heard[MSG_TYPES];
	unsigned answers;
	int completed;
};

static void deliver(void *ctx, uint8_t type, struct view body)
{
	struct world *w = ctx;
	struct err e;
	enum phase phase;
	CHECK(type < MSG_TYPES);
	w->heard[type]++;
	switch (type) {
	case MSG_ROSTER:
		CHECK(w->heard[type] == 1 + w->heard[MSG_ANEW] &&
		      w->completed == !coord_can_miss(w->c));
		break;
	case MSG_ABORT:
		CHECK(w->heard[type] == 1 && !w->heard[MSG_VERDICT]);
		CHECK(err_decode(&e, &phase, &body) == 0 && e.code >= ERR_OTHER &&
		      e.code <= ERR_RESOURCE && e.rank < NUMBERS);
		break;
	case MSG_VERDICT:
		CHECK(w->heard[type] == 1 && w->heard[MSG_ROSTER] && !w->heard[MSG_ABORT]);
		CHECK(w->heard[MSG_MOVED] == w->c->conf.callbacks->goes_back);
		CHECK(w->heard[MSG_ROSTER] == 1 + w->heard[MSG_ANEW]);
		for (int r = 0; r < w->size; r++)
			CHECK(w->c->members[r].voted != w->c->members[r].missing);
		CHECK(w->size - w->c->seats.nmissing >= w->c->conf.settings->min_ranks);
		break;
	case MSG_MOVED:
		CHECK(w->heard[type] == 1 && w->heard[MSG_AGAIN] == w->heard[MSG_BACK]);
		break;
	case MSG_BACK:
		CHECK(w->heard[type] <= JOB_RECONNECTS_MOST && !w->heard[MSG_MOVED] &&
		      w->heard[MSG_AGAIN] == w->heard[type] - 1);
		CHECK(err_decode(&e, &phase, &body) == 0 && e.code == ERR_PEER_LOST);
		break;
	case MSG_AGAIN:
		CHECK(w->heard[type] == w->heard[MSG_BACK]);
		for (int r = 0; r < w->size; r++)
			CHECK(w->c->members[r].stopped != w->c->members[r].missing);
		break;
	case MSG_ANEW:
		CHECK(coord_can_miss(w->c) && w->heard[type] <= w->c->seats.nmissing &&
		      w->heard[type] == w->heard[MSG_ROSTER] && !w->heard[MSG_ABORT] &&
		      !w->heard[MSG_VERDICT]);
		CHECK(err_decode(&e, &phase, &body) == 0 && e.code && e.rank < w->size);
		w->heard[MSG_MOVED] = 0;
		w->heard[MSG_AGAIN] = w->heard[MSG_BACK];
		break;
	case MSG_FINAL:
		CHECK(w->heard[type] == 1 && w->heard[MSG_VERDICT]);
		CHECK(err_decode(&e, &phase, &body) == 0 && e.code <= ERR_RESOURCE);
		break;
	}
}

static void complete(void *ctx)
{
	((struct world *)ctx)->completed++;
}

static int decide(void *ctx, const struct intent *const *intents, struct plan *plan,
                  struct err *err)
{
	const struct world *w = ctx;
	for (int r = 0; r < w->size; r++)
		CHECK(!intents[r] == w->c->members[r].missing &&
		      (!intents[r] || intents[r]->nfacts <= FACTS_MAX));
	plan->windows = plan->streams = 1;
	return intents[0]->ninputs == 77 ? err_set(err, ERR_INPUT, "no plan") : 0;
}

static void details(void *ctx, int rank, struct buf *out)
{
	CHECK(rank >= 0 && rank < ((struct world *)ctx)->size);
	buf_put_u32(out, (uint32_t)rank);
}

static void table(void *ctx, uint32_t page, struct buf *out)
{
	(void)ctx;
	if (page < 3)
		table_put(out, page == 0 ? "a" : page == 1 ? "b" : "c", "1");
}

static int collect(void *ctx, int rank, struct view part, struct err *err)
{
	CHECK(rank >= 0 && rank < ((struct world *)ctx)->size);
	return view_left(&part) == 7 ? err_set(err, ERR_INTEGRITY, "seven bytes") : 0;
}

static void answer(void *ctx, int rank, struct buf *out)
{
	struct world *w = ctx;
	CHECK(rank >= 0 && rank < w->size);
	w->answers++;
	buf_put_u8(out, 1);
}

static const struct job_callbacks callbacks = {
        .decide = decide,
        .details = details,
        .table = table,
        .noun = "tensor",
        .collect = collect,
        .answer = answer,
        .forms_anew = true,
};

/* ---- steps ---- */

static struct conn *new_link(struct world *w)
{
	struct err err = {0};
	int fd[2];
	if (w->npeers == LINKS || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) < 0)
		return NULL;
	w->peers[w->npeers++] = fd[1];
	struct conn *conn = conn_tcp_new(fd[0], &err);
	CHECK(conn);
	conn->writable = true;
	return conn;
}

static void say_hello(struct world *w, uint8_t who, uint8_t kind, struct view rest)
{
	struct hello h = {.version = PROTO_VERSION,
	                  .rank = who < NUMBERS ? who : PROTO_RANK_AUTO,
	                  .size = kind & 4   ? (uint32_t)w->size
	                          : kind & 8 ? 9
	                                     : 0};
	uint8_t opening[GATE_OPENING];
	struct addr from = {.len = sizeof from.sa};
	struct err err = {0};
	struct conn *conn = new_link(w);
	if (!conn)
		return;
	if (kind & 16)
		h.version = view_u32(&rest);
	memcpy(h.jobtag, "job tag", 8);
	memcpy(h.launch, "launch 1", 8);
	if (kind & 32)
		h.launch[0] = h.jobtag[kind >> 6] = 1;
	hello_encode(&h, opening);
	CHECK(addr_resolve(&from, "127.0.0.1", 7, false, &err) == 0);
	if (w->c->gate) /* it is closed before the roster */
		coord_admit(w->c, conn, opening, &from);
	else
		conn_free(conn);
}

static void put_intent(int rank, uint8_t kind, struct buf *b)
{
	static struct intent in;
	memset(&in, 0, sizeof in);
	intent_add(&in, "dtype", kind & 4 ? "f16" : "f32");
	intent_add(&in, "tensors", kind & 8 ? "2" : "1");
	if (kind & 16)
		memcpy(in.table, "tensors", 8);
	in.ninputs = kind & 32 ? 77 : 1;
	in.memory = 1 + (uint64_t)rank;
	memcpy(in.data_addr, ":7", 3);
	intent_encode(&in, b);
}

/* A message that a rank may send. */
static void put_right(const struct world *w, uint8_t type, int rank, uint8_t kind, struct buf *b)
{
	const struct presence p = {.host = "nodea", .finds_root = kind & 4, .input = "in.npy"};
	const struct beat beat = {.phase = (enum phase)(kind >> 2 & 3), .moved = kind, .total = 99};
	const struct vote vote = {.has_digest = kind & 4,
	                          .has_table = kind & 8,
	                          .digest = {kind >> 4},
	                          .work = {.rank = rank, .busy = 1, .total = 2}};
	const struct err e = {.code = kind & 4   ? ERR_STALLED
	                              : kind & 8 ? 0
	                                         : 130,
	                      .rank = (rank + 1) % w->size,
	                      .text = "x.npy: truncated"};
	switch (type) {
	case MSG_INTENT:
		put_intent(rank, kind, b);
		break;
	case MSG_PRESENT:
		presence_encode(&p, b);
		break;
	case MSG_BEAT:
		beat_encode(&beat, b);
		break;
	case MSG_VOTE:
		vote_encode(&vote, b);
		break;
	case MSG_ABORT:
	case MSG_DONE:
	case MSG_REPORT:
		err_encode(&e, PHASE_RUN, b);
		buf_put_u8(b, kind & 16);
		buf_put_u64(b, kind);
		buf_put_u8(b, kind >> 5 & 3);
		break;
	case MSG_STOPPED:
		stopped_encode(&(struct stopped){!(kind & 4), kind}, b);
		break;
	case MSG_PAGE:
		buf_put_u32(b, w->c->comparison.tables.page);
		table(NULL, w->c->comparison.tables.page, b);
		break;
	case MSG_LINKS:
		link_encode(rank, (rank + 1) % w->size, LINK_REFUSED, "refused", b);
		break;
	case MSG_PEERS:
		buf_put_u32(b, 0);
		break;
	default:
		break;
	}
}

static void receive(struct world *w, const struct ctl *from, int rank, uint8_t type, struct view v)
{
	if (from && ctl_open(from))
		from->on_message(from->ctx, type, v);
	else if (!from && rank == w->c->self)
		coord_receive(w->c, type, v);
}

static void send_message(struct world *w, const struct ctl *from, int rank, const uint8_t step[5],
                         struct view rest)
{
	const size_t left = view_left(&rest), n = step[4] < left ? step[4] : left;
	struct buf b;
	buf_init(&b, CTL_BODY_MAX);
	if (step[3] & RIGHT)
		put_right(w, step[2], rank, step[3], &b);
	else if (n)
		buf_put(&b, rest.p, n);
	if (step[3] & CHANGED && b.len)
		b.data[step[4] % b.len] ^= step[3];
	receive(w, from, rank, step[2], view_of(b.len ? b.data : (void *)"", b.len));
	buf_release(&b);
}

static struct ctl *guest_link(const struct world *w, unsigned who)
{
	for (struct guest *g = w->c->seats.guests; g; g = g->next)
		if (!g->own && who-- == 0)
			return &g->ctl;
	return NULL;
}

static void lose(struct ctl *link, uint8_t kind)
{
	const struct err err = {.code = kind & 4   ? ERR_PEER_LOST
	                                : kind & 8 ? ERR_INTEGRITY
	                                           : 0,
	                        .text = "connection closed"};
	if (!link || !ctl_open(link))
		return;
	link->alerted = kind & 16;
	ctl_release(link);
	link->on_lost(link->ctx, &err);
}

static void turn(struct world *w)
{
	struct err err = {0};
	CHECK(loop_turn(&w->loop, 0, &err) == 0);
}

static void run_out(struct world *w, unsigned which)
{
	static const enum coord_timer timers[] = {TIMER_JOIN,     TIMER_BEAT,  TIMER_COMPARE,
	                                          TIMER_EVIDENCE, TIMER_DOUBT, TIMER_JOINED,
	                                          TIMER_AWAY,     TIMER_GRACE, TIMER_BACK};
	const enum coord_timer t = timers[which % (sizeof timers / sizeof *timers)];
	if (coord_timer_runs(w->c, t))
		coord_set_timer(w->c, t, 0);
	turn(w);
}

static void take_step(struct world *w, struct view *v)
{
	uint8_t step[5];
	for (int i = 0; i < 5; i++)
		step[i] = view_u8(v);
	const unsigned rank = step[1] % (unsigned)w->size;
	struct member *m = &w->c->members[rank];
	const bool own = (int)rank == w->c->self;
	switch (step[0] % 6) {
	case 0:
		say_hello(w, step[1], step[3], *v);
		break;
	case 1:
		send_message(w, own ? NULL : &m->ctl, (int)rank, step, *v);
		break;
	case 2: {
		struct ctl *link = guest_link(w, step[1]);
		if (link)
			send_message(w, link, 0, step, *v);
		break;
	}
	case 3:
		lose(step[3] & 32 ? guest_link(w, step[1]) : &m->ctl, step[3]);
		break;
	case 4:
		turn(w);
		break;
	case 5:
		run_out(w, step[1]);
		break;
	}
	if ((step[0] % 6 == 1 || step[0] % 6 == 2) && !(step[3] & RIGHT) && step[4])
		(void)view_bytes(v, step[4] < view_left(v) ? step[4] : view_left(v));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct presence present = {.host = "nodea"};
	struct world w = {.npeers = 0};
	struct job_callbacks calls = callbacks;
	struct addr at;
	struct err err = {0};
	if (size < 1)
		return 0;
	w.size = 1 + (data[0] & 15) % SIZE;
	calls.ctx = &w;
	if (data[0] & 32)
		calls.collect = NULL;
	calls.goes_back = data[0] & 128;
	const struct job_settings settings = {.timeout = HOURS,
	                                      .join_timeout = HOURS,
	                                      .grace = HOURS,
	                                      .min_ranks = (data[0] & 15) / SIZE == 2 ? 2 : 0};
	struct coord_conf conf = {
	        .settings = &settings,
	        .loop = &w.loop,
	        .size = w.size,
	        .rank = data[0] & 16 ? -1 : 0,
	        .present = &present,
	        .jobtag = (const uint8_t *)"job tag",
	        .launch = (const uint8_t *)"launch 1",
	        .join_deadline = clock_ns() + HOURS,
	        .deliver = deliver,
	        .callbacks = &calls,
	        .complete = complete,
	        .ctx = &w,
	};
	CHECK(loop_init(&w.loop, &err) == 0);
	CHECK(addr_resolve(&at, "127.0.0.1", 0, true, &err) == 0);
	int fd = addr_listen(&at, 0, 0, 1, &err);
	CHECK(fd >= 0);
	w.c = coord_open(&conf, fd, &err);
	CHECK(w.c);
	const int inquiries = eventfd(0, EFD_NONBLOCK); /* nobody connects */
	CHECK(inquiries >= 0);
	if (data[0] & 64)
		coord_take_inquiries(w.c, inquiries, false);
	struct view v = view_of(data + 1, size - 1);
	while (view_left(&v))
		take_step(&w, &v);
	for (int i = 0; i < w.npeers; i++)
		close(w.peers[i]);
	turn(&w);
	coord_drain(w.c);
	turn(&w);
	coord_close(w.c);
	close(inquiries);
	loop_release(&w.loop);
	return 0;
}
