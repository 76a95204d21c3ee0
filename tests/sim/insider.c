/*
 * An insider: a process of the job, the coordinator's or another, that has the keys and sends what
 * it likes. It runs the product, so it is where the job is; but of its control messages some are
 * dropped, repeated, changed or replaced, others come when they should not, and it opens
 * connections as another rank. What all processes send and take is watched here too.
 */
#include "tests/sim/sim.h"
#include "tests/sim/wrap.h"

#include <ctype.h>

#include "lib/crypto/hkdf.h"
#include "lib/job/failed_links.h"
#include "lib/job/proto.h"

#define MEMORY    128   /* messages of any rank that it can repeat */
#define REPEATED  65536 /* bytes of the longest of them */
#define LINKS     64
#define LANE      "CCTLLAN1" /* the opening of a lane (mesh.c) */
#define CONTROL   "CCTLCTL1"
#define LANE_KEY  "D1|"       /* the identity of a lane (mesh.c) */
#define RANK_BEAT (1 + 3 * 8) /* bytes of a rank's BEAT, whose first is the phase */
#define LAST_TYPE (MSG_TYPES - 1)

struct insider insider;

struct message {
	uint8_t type, *body;
	size_t len;
};

static struct message heard[MEMORY];
static uint64_t nheard;

/* Its open control links. */
static struct {
	struct ctl *ctl;
	struct conn *conn;
	struct task *task;
} open_links[LINKS];
static int nlinks;
static uint64_t due; /* messages that it is to send of itself */

void insider_begin(void)
{
	memset(&insider, 0, sizeof insider);
	memset(heard, 0, sizeof heard);
	nheard = due = 0;
	nlinks = 0;
}

static bool acts(void)
{
	return current && current == insider.proc;
}

static uint64_t below(uint64_t n)
{
	return rng_below(&insider.rng, n);
}

static bool chance(unsigned per_mille)
{
	return rng_chance(&insider.rng, per_mille);
}

/* ---- what it says ---- */

static int some_rank(void)
{
	const int odd[] = {-1,    -2,    insider.size, insider.size + 1,
	                   65535, 65536, INT32_MAX,    INT32_MIN};
	return chance(700) ? (int)below((uint64_t)insider.size) : odd[below(8)];
}

static uint64_t some_number(void)
{
	static const uint64_t odd[] = {0,         1,          255,       65535,      65536,
	                               INT32_MAX, UINT32_MAX, INT64_MAX, 1ull << 63, UINT64_MAX};
	return chance(500) ? odd[below(10)] : rng_next(&insider.rng) >> below(64);
}

static const char *some_text(void)
{
	static char most[300];
	static const char *const texts[] = {"",
	                                    "h1",
	                                    "10.0.0.1:7766",
	                                    ":7766",
	                                    "10.0.0.9:1",
	                                    "10.0.0.2:99999",
	                                    "../../out",
	                                    "/tmp/x",
	                                    ".ssh",
	                                    "a/b",
	                                    "%n%s",
	                                    "size",
	                                    "a\nb\x1b[2J",
	                                    "elements",
	                                    "f32",
	                                    "ring",
	                                    "127.0.0.1:22",
	                                    "auto"};
	memset(most, 'x', sizeof most - 1);
	return chance(50) ? most : texts[below(sizeof texts / sizeof texts[0])];
}

static void put_noise(struct buf *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_put_u8(b, (uint8_t)rng_next(&insider.rng));
}

static void put_error(struct buf *b)
{
	struct err e = {.code = chance(300) ? 0 : (int)below(chance(800) ? 13 : 300),
	                .rank = some_rank()};
	snprintf(e.text, sizeof e.text, "%s", chance(500) ? "an insider says so" : some_text());
	presence_set(e.host, sizeof e.host, some_text());
	err_encode(&e, (enum phase)below(chance(900) ? 4 : 256), b);
}

static struct workload some_work(void)
{
	return (struct workload){some_rank(), (uint8_t)below(256), some_number(), some_number(),
	                         some_number()};
}

static void put_present(struct buf *b)
{
	struct presence p = {.has_input = chance(500), .finds_root = chance(300)};
	snprintf(p.host, sizeof p.host, "%.60s", some_text());
	snprintf(p.addr, sizeof p.addr, "%.40s", some_text());
	snprintf(p.input, sizeof p.input, "%.250s", some_text());
	snprintf(p.output, sizeof p.output, "%.250s", some_text());
	snprintf(p.root, sizeof p.root, "%.60s", some_text());
	presence_encode(&p, b);
}

static void put_intent(struct buf *b)
{
	struct intent in = {.memory = some_number(),
	                    .ninputs = (uint32_t)some_number(),
	                    .streams = (uint32_t)below(66)};
	for (uint64_t n = below(20); n; n--)
		intent_add(&in, some_text(), some_text());
	snprintf(in.subject, sizeof in.subject, "%.250s", some_text());
	snprintf(in.table, sizeof in.table, "%.20s", some_text());
	snprintf(in.data_addr, sizeof in.data_addr, "%.40s", some_text());
	intent_encode(&in, b);
}

static void put_place(struct buf *b)
{
	struct rank_place p = {.rank = some_rank()};
	rng_bytes(&insider.rng, p.key, sizeof p.key);
	snprintf(p.addr, sizeof p.addr, "%.40s", some_text());
	snprintf(p.host, sizeof p.host, "%.60s", some_text());
	rank_place_encode(&p, b);
}

static void put_roster(struct buf *b)
{
	struct plan p = {.windows = (uint32_t)below(5),
	                 .streams = (uint32_t)below(66),
	                 .total_inputs = some_number(),
	                 .memory = some_number(),
	                 .trace = chance(300)};
	const int size = chance(700) ? insider.size : (int)some_number();
	snprintf(p.algorithm, sizeof p.algorithm, "%.20s", some_text());
	plan_encode(&p, b);
	buf_put_u32(b, (uint32_t)size);
	buf_put_u8(b, (uint8_t)below(3));
	for (int i = 0; i <= insider.size; i++) /* and that of an inquiry */
		put_place(b);
}

static void put_welcome(struct buf *b)
{
	/* Most are right but for the rank, or the root. */
	struct welcome w = {some_rank(), chance(900) ? insider.proc->number : some_rank(),
	                    chance(900) ? -1 : some_rank(), ""};
	snprintf(w.host, sizeof w.host, "%.60s", some_text());
	welcome_encode(&w, b);
}

static void put_beat(struct buf *b)
{
	const struct beat beat = {(enum phase)below(5), some_number(), some_number(),
	                          some_number()};
	const struct pace pace = {some_rank(), (enum phase)below(5), (uint32_t)below(PACE_DONE + 2),
	                          some_number()};
	if (chance(500))
		beat_encode(&beat, b);
	else
		pace_encode(&pace, b);
}

static void put_vote(struct buf *b)
{
	struct vote v = {.has_digest = chance(500), .has_table = chance(300), .work = some_work()};
	rng_bytes(&insider.rng, v.digest, sizeof v.digest);
	vote_encode(&v, b);
}

static void put_joined(struct buf *b)
{
	struct joined j = {(uint32_t)some_number(), (uint32_t)some_number(), chance(500), ""};
	snprintf(j.names, sizeof j.names, "%.250s", some_text());
	joined_encode(&j, b);
}

static void put_again(struct buf *b)
{
	struct again a = {.window = chance(500) ? 0 : some_number()};
	rng_bytes(&insider.rng, a.session, sizeof a.session);
	again_encode(&a, b);
	for (uint64_t n = below(9); n; n--)
		put_place(b);
}

/* A well-formed message of @type with any content. */
static void put_forged(uint8_t type, struct buf *b)
{
	const struct workload work = some_work();
	switch (type) {
	case MSG_WELCOME:
		put_welcome(b);
		return;
	case MSG_INTENT:
		put_intent(b);
		return;
	case MSG_ROSTER:
		put_roster(b);
		return;
	case MSG_REPORT:
		put_error(b);
		buf_put_u8(b, (uint8_t)below(3));
		buf_put_u64(b, some_number());
		buf_put_u8(b, (uint8_t)below(2));
		return;
	case MSG_STOPPED:
		stopped_encode(&(struct stopped){chance(800), some_number()}, b);
		return;
	case MSG_AGAIN:
		put_again(b);
		return;
	case MSG_BACK:
	case MSG_ABORT:
	case MSG_DONE:
	case MSG_FINAL:
		put_error(b);
		return;
	case MSG_BEAT:
		put_beat(b);
		return;
	case MSG_VOTE:
		put_vote(b);
		return;
	case MSG_VERDICT:
		workload_encode(&work, b);
		return;
	case MSG_PAGE:
		buf_put_u32(b, (uint32_t)below(3));
		for (uint64_t n = below(4); n; n--)
			table_put(b, some_text(), some_text());
		return;
	case MSG_PRESENT:
		put_present(b);
		return;
	case MSG_JOINED:
		put_joined(b);
		return;
	case MSG_LINKS:
		for (uint64_t n = 1 + below(4); n; n--)
			link_encode(some_rank(), some_rank(), (enum link_state)below(6),
			            some_text(), b);
		return;
	case MSG_PEERS:
		for (uint64_t n = below(chance(900) ? 20 : 20000); n; n--)
			buf_put_u32(b, (uint32_t)some_rank());
		return;
	case MSG_PLACES:
		for (uint64_t n = below(20); n; n--)
			put_place(b);
		return;
	case MSG_ASK:
		buf_put_u32(b, (uint32_t)some_number());
		return;
	case MSG_MOVED:
		return;
	case MSG_CLOCK:
		if (chance(500))
			buf_put_u64(b, some_number());
		return;
	default: /* ROUND and ANSWER; others have no body */
		put_noise(b, below(200));
		return;
	}
}

static void mutate(struct buf *b)
{
	for (uint64_t n = 1 + below(4); n && b->len; n--) {
		size_t at_ = below(b->len);
		switch (below(5)) {
		case 0:
			b->data[at_] ^= (uint8_t)(1u << below(8));
			break;
		case 1:
			b->data[at_] = (uint8_t)some_number();
			break;
		case 2:
			b->len = at_;
			break;
		case 3:
			put_noise(b, 1 + below(16));
			break;
		default:
			if (b->len - at_ >= 4)
				put_u32(b->data + at_,
				        (uint32_t)(chance(500) ? some_rank() : (int)some_number()));
			break;
		}
	}
}

/* A message that only a coordinator, or only another rank, sends, and that has its time. */
static uint8_t some_type(void)
{
	static const uint8_t of_coordinator[] = {MSG_WELCOME, MSG_WELCOME, MSG_WELCOME, MSG_VERDICT,
	                                         MSG_VERDICT, MSG_VERDICT, MSG_FINAL,   MSG_ABORT,
	                                         MSG_ROSTER,  MSG_PLACES,  MSG_BACK,    MSG_AGAIN,
	                                         MSG_MOVED},
	                     of_rank[] = {MSG_VOTE,    MSG_VOTE,   MSG_DONE,  MSG_ABORT,
	                                  MSG_REPORT,  MSG_REPORT, MSG_BEAT,  MSG_INTENT,
	                                  MSG_PRESENT, MSG_LINKS,  MSG_MOVED, MSG_STOPPED};
	if (chance(400))
		return (uint8_t)(1 + below(LAST_TYPE));
	return insider.coordinates ? of_coordinator[below(sizeof of_coordinator)]
	                           : of_rank[below(sizeof of_rank)];
}

static uint8_t repeat(struct buf *b)
{
	const struct message *m = &heard[below(nheard < MEMORY ? nheard : MEMORY)];
	buf_put(b, m->body, m->len);
	return m->type;
}

/* Any message. */
static uint8_t compose(struct buf *b)
{
	uint8_t type = some_type();
	switch (below(nheard ? 10 : 6)) {
	case 0:
		put_noise(b, below(chance(950) ? 64 : 70000));
		return chance(500) ? type : (uint8_t)below(256);
	case 1: /* of the greatest length, or longer than any may be */
		if (chance(950))
			put_forged(type, b);
		else if (buf_reserve(b, CTL_BODY_MAX + 1) == 0)
			put_noise(b, CTL_BODY_MAX + below(2));
		return type;
	case 2:
	case 3:
	case 4:
	case 5:
		put_forged(type, b);
		return type;
	case 6:
	case 7:
		type = repeat(b);
		mutate(b);
		return type;
	default:
		return repeat(b);
	}
}

static void say(struct ctl *c, uint64_t times)
{
	struct buf b;
	uint8_t type;
	buf_init(&b, CTL_BODY_MAX + 1);
	if (insider.once && chance(800)) {
		type = some_type();
		put_forged(type, &b);
	} else {
		type = compose(&b);
	}
	note("insider says", type, (int64_t)b.len);
	insider.said++;
	while (times--)
		__real_ctl_send(c, type, &b);
	buf_release(&b);
}

/* ---- when it says it ---- */

static void wake(void *a, uint64_t n)
{
	(void)a;
	due += n;
	net_wake(insider.proc);
}

static void speaks_at(int64_t when, uint64_t messages)
{
	at(when, wake, NULL, messages);
}

void insider_draw(struct proc *p, int size, bool coordinates)
{
	insider.proc = p;
	insider.size = size;
	insider.coordinates = coordinates;
	if (chance(500)) {
		insider.once = 1 + below(4 * (uint64_t)size);
		return;
	}
	insider.alters = chance(300) ? 0 : 1 + (unsigned)below(1 + below(500));
	insider.dials = chance(300) ? 1 + (unsigned)below(500) : 0;
	insider.mute = chance(200) ? some_type() : 0;
	for (uint64_t n = below(6); n; n--)
		speaks_at(now + rng_scale(&insider.rng, 100 * US, 3 * SEC), 1 + below(3));
}

void insider_turn(void)
{
	if (!acts())
		return;
	while (due && nlinks) {
		const int i = (int)below((uint64_t)nlinks);
		if (open_links[i].task != task_current())
			return;
		due--;
		say(open_links[i].ctl, chance(950) ? 1 : 1 + below(300));
	}
}

static void forget(const struct conn *conn)
{
	for (int i = 0; i < nlinks; i++)
		if (open_links[i].conn == conn)
			open_links[i--] = open_links[--nlinks];
}

static void remember(struct ctl *c)
{
	if (!acts() || nlinks == LINKS)
		return;
	open_links[nlinks].ctl = c;
	open_links[nlinks].conn = c->conn;
	open_links[nlinks++].task = task_current();
}

int __wrap_ctl_start(struct ctl *c, struct conn *conn, struct loop *loop, struct err *err)
{
	int ret = __real_ctl_start(c, conn, loop, err);
	if (ret == 0)
		remember(c);
	return ret;
}

int __wrap_ctl_take(struct ctl *c, struct ctl *from, struct loop *loop, struct err *err)
{
	forget(from->conn);
	int ret = __real_ctl_take(c, from, loop, err);
	if (ret == 0)
		remember(c);
	return ret;
}

void __wrap_conn_free(struct conn *c)
{
	if (c)
		forget(c);
	__real_conn_free(c);
}

/* ---- what it does with the product's messages ---- */

static void hear(uint8_t type, const void *body, size_t len)
{
	struct message *m = &heard[nheard % MEMORY];
	if (!insider.proc || len > REPEATED)
		return;
	*m = (struct message){type, world_alloc(len + 1), len};
	if (len)
		memcpy(m->body, body, len);
	nheard++;
}

/* The product's own message. */
static void send_own(struct ctl *c, uint8_t type, const struct buf *body)
{
	current->moved |= type == MSG_MOVED;
	__real_ctl_send(c, type, body);
}

static void send_changed(struct ctl *c, uint8_t type, const struct buf *body)
{
	struct buf b;
	buf_init(&b, CTL_BODY_MAX);
	if (body)
		buf_put(&b, body->data, body->len);
	mutate(&b);
	__real_ctl_send(c, type, &b);
	buf_release(&b);
}

void __wrap_ctl_send(struct ctl *c, uint8_t type, const struct buf *body)
{
	if (body)
		hear(type, body->data, body->len);
	if (type == MSG_VOTE)
		current->voted = true;
	if (type == MSG_VOTE)
		break_link(c->conn ? c->conn->fd : -1);
	if (type == MSG_BEAT && body->len == RANK_BEAT && body->data[0] == PHASE_RUN)
		break_lane();
	const bool mute = acts() && type == insider.mute && chance(500);
	const bool now_ = acts() && ++insider.sent == insider.once;
	if (!mute && !now_ && (!acts() || !chance(insider.alters))) {
		send_own(c, type, body);
		return;
	}
	const uint64_t how = mute ? 0 : now_ ? 5 + below(2) : below(7);
	note("insider alters", type, (int64_t)how);
	insider.said++;
	switch (how) {
	case 0: /* nothing */
		return;
	case 1:
		send_own(c, type, body);
		send_own(c, type, body);
		return;
	case 2:
		__real_ctl_send(c, some_type(), body);
		return;
	case 3:
		send_changed(c, type, body);
		return;
	case 4:
		say(c, 1);
		return;
	case 5:
		say(c, 1);
		send_own(c, type, body);
		return;
	default:
		send_own(c, type, body);
		say(c, 1);
		return;
	}
}

/* ---- connections as another rank ---- */

int __wrap_greeting_advance(struct greeting *g, struct conn *conn, struct err *err)
{
	uint8_t *o = g->opening;
	if (memcmp(o, CONTROL, 8) == 0)
		current->number = current->given;
	if (acts() && !g->authenticated && !g->sent && chance(insider.dials)) {
		insider.said++;
		note("insider dials", o[4], 0);
		insider.poses |= memcmp(o, CONTROL, 8) == 0;
		if (memcmp(o, CONTROL, 8) == 0) /* rank or size */
			put_u32(o + (chance(800) ? 12 : 16), (uint32_t)some_rank());
		else if (memcmp(o, LANE, 8) == 0) /* from, to or lane */
			put_u32(o + 24 + 4 * below(3), (uint32_t)some_rank());
	}
	return __real_greeting_advance(g, conn, err);
}

/* Rewrites the identity where mesh.c keeps it, so that it is shown, too. */
int __wrap_hkdf(const uint8_t *key, size_t key_len, const void *info, size_t info_len, uint8_t *out,
                size_t out_len)
{
	char *name = (char *)(uintptr_t)info;
	if (acts() && info_len > 3 && memcmp(name, LANE_KEY, 3) == 0 && chance(insider.dials)) {
		/* "...|from|to|lane": ranks have one digit */
		size_t at_ = info_len - 1 - 2 * below(3);
		if (isdigit((unsigned char)name[at_])) {
			insider.said++;
			note("insider names", name[at_], (int64_t)at_);
			name[at_] = (char)('0' + below((uint64_t)insider.size));
		}
	}
	return __real_hkdf(key, key_len, info, info_len, out, out_len);
}

/* ---- what is watched ---- */

struct coord *__wrap_coord_open(const struct coord_conf *conf, int fd, struct err *err)
{
	insider.coordinates |= acts();
	return __real_coord_open(conf, fd, err);
}

void __wrap_coord_receive(struct coord *c, uint8_t type, struct view body)
{
	hear(type, body.p, view_left(&body));
	current->voted |= type == MSG_VOTE;
	current->moved |= type == MSG_MOVED;
	__real_coord_receive(c, type, body);
}

void __wrap_job_handle_message(void *job, uint8_t type, struct view body)
{
	struct welcome w;
	struct err ignored = {0};
	if (type == MSG_VERDICT && !current->voted && !current->decided)
		current->misled = "a VERDICT came before its vote";
	/* Nothing stops the commit, or what comes after an ABORT. */
	current->decided |= type == MSG_VERDICT || type == MSG_ABORT;
	current->all_moved |= type == MSG_MOVED;
	if (type == MSG_BACK || type == MSG_AGAIN || type == MSG_ROSTER) /* another session */
		current->moved = current->all_moved = false;
	if (type == MSG_WELCOME && welcome_decode(&w, body, &ignored) == 0) {
		if (current->number >= 0 && w.rank != current->number && !current->decided)
			current->misled = "a WELCOME changed its number";
		current->number = w.rank;
	}
	__real_job_handle_message(job, type, body);
}
