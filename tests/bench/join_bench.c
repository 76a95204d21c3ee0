/*
 * What a job's join costs its coordinator: build/bench/join_bench RANKS.
 *
 * One process is the coordinator, another all other ranks, over loopback in plain frames. The ranks
 * join, agree, ask for the places of their peers (log2 of the ranks each way), vote, commit and
 * leave. Printed are the messages and bytes of each type to and from the coordinator, and its
 * processor time and memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/job/coordinator/coord.h"
#include "lib/job/ctl.h"

#define PATIENCE       (600 * NS_PER_SEC)
#define RANKS_PER_HOST 8
#define HEADER         5 /* bytes before a body */

static struct loop loop;
static int size;

static void die(const char *what, const struct err *err)
{
	fprintf(stderr, "join_bench: %s: %s\n", what, err->text);
	exit(1);
}

static void turn(void)
{
	struct err err = {0};
	if (loop_turn(&loop, clock_ns() + NS_PER_SEC, &err) < 0)
		die("loop", &err);
}

/* ---- the ranks ---- */

struct rank {
	struct ctl ctl;
	int number, awaited;
	bool ended;
};

static struct traffic {
	uint64_t messages, bytes;
} up[MSG_PLACES + 1], down[MSG_PLACES + 1];
static int waiting; /* for WELCOME, at first; then for the end */

static void say(struct rank *r, uint8_t type, const struct buf *b)
{
	up[type].messages++;
	up[type].bytes += HEADER + (b ? b->len : 0);
	ctl_send(&r->ctl, type, b);
}

static void say_done(struct rank *r)
{
	const struct err none = {.rank = ERR_RANK_SELF};
	struct buf b;
	buf_init(&b, 4096);
	err_encode(&none, PHASE_COMMIT, &b);
	buf_put_u8(&b, FATE_NEW);
	say(r, MSG_DONE, &b);
	buf_release(&b);
}

static void fill_presence(int rank, struct presence *p)
{
	char id[32];
	memset(p, 0, sizeof *p);
	snprintf(p->host, sizeof p->host, "node%04d", rank / RANKS_PER_HOST);
	snprintf(p->addr, sizeof p->addr, "10.0.%d.%d", rank / 256, rank % 256);
	snprintf(p->input, sizeof p->input, "/data/run/gradients.%d.safetensors", rank);
	snprintf(p->output, sizeof p->output, "/data/run/sum.%d.safetensors", rank);
	snprintf(id, sizeof id, "%d", rank / RANKS_PER_HOST);
	host_id_find(p->host_id, id);
}

static void encode_intent(int rank, struct buf *b)
{
	struct intent in = {.memory = 1u << 30, .ninputs = 1};
	intent_add(&in, "collective", "allreduce");
	intent_add(&in, "op", "sum");
	intent_add(&in, "algorithm", "auto");
	intent_add(&in, "--insecure", "no");
	intent_add(&in, "tensors", "0123456789abcdef0123456789abcdef");
	snprintf(in.subject, sizeof in.subject, "gradients.%d.safetensors", rank);
	snprintf(in.data_addr, sizeof in.data_addr, "10.0.%d.%d:41234", rank / 256, rank % 256);
	in.details = view_of("0123456789012345678901234567", 28);
	intent_encode(&in, b);
}

static void ask_for_peers(struct rank *r)
{
	struct buf b;
	buf_init(&b, CTL_BODY_MAX);
	for (int d = 1; d < size; d *= 2) {
		buf_put_u32(&b, (uint32_t)((r->number + d) % size));
		buf_put_u32(&b, (uint32_t)((r->number + size - d) % size));
		r->awaited += 2;
	}
	say(r, MSG_PEERS, &b);
	buf_release(&b);
}

static void vote(struct rank *r)
{
	const struct vote v = {.has_digest = true};
	struct buf b;
	buf_init(&b, 100);
	vote_encode(&v, &b);
	say(r, MSG_VOTE, &b);
	buf_release(&b);
}

static void take_places(struct rank *r, struct view v)
{
	struct err err = {0};
	struct rank_place p;
	while (view_left(&v)) {
		if (rank_place_decode(&p, &v, &err) < 0)
			die("PLACES", &err);
		r->awaited--;
	}
	if (!r->awaited)
		vote(r);
}

static void take(void *ctx, uint8_t type, struct view v)
{
	struct rank *r = ctx;
	struct buf b;
	down[type].messages++;
	down[type].bytes += HEADER + view_left(&v);
	switch (type) {
	case MSG_WELCOME:
		buf_init(&b, CTL_BODY_MAX);
		encode_intent(r->number, &b);
		say(r, MSG_INTENT, &b);
		buf_release(&b);
		break;
	case MSG_ROSTER:
		if (size > PROTO_PLACES)
			ask_for_peers(r);
		else
			vote(r);
		break;
	case MSG_PLACES:
		take_places(r, v);
		break;
	case MSG_VERDICT:
		say_done(r);
		break;
	case MSG_FINAL:
		ctl_end(&r->ctl);
		break;
	}
}

static void lost(void *ctx, const struct err *err)
{
	struct rank *r = ctx;
	if (err->code)
		die("a link was lost", err);
	waiting -= !r->ended;
	r->ended = true;
}

static void lacking(void *ctx, const struct err *err)
{
	(void)ctx;
	die("a rank", err);
}

static void nothing(void *ctx)
{
	(void)ctx;
}

static void join(struct rank *r, const struct addr *at)
{
	const struct hello h = {PROTO_VERSION, (uint32_t)r->number, (uint32_t)size, "job tag", ""};
	struct presence p;
	uint8_t opening[GATE_OPENING];
	struct err err = {0};
	struct buf b;
	int fd = conn_sock_dial(at, NULL, &err);
	struct conn *c = fd >= 0 ? conn_tcp_new(fd, &err) : NULL;
	if (!c || conn_watch(c, &loop, nothing, NULL, &err) < 0)
		die("dialling", &err);
	while (conn_handshake(c, &err) != 1)
		turn();
	hello_encode(&h, opening);
	r->ctl.on_message = take;
	r->ctl.on_lost = lost;
	r->ctl.on_lacking = lacking;
	r->ctl.ctx = r;
	if (conn_write(c, opening, sizeof opening, &err) != sizeof opening ||
	    ctl_start(&r->ctl, c, &loop, &err) < 0)
		die("HELLO", &err);
	fill_presence(r->number, &p);
	buf_init(&b, CTL_BODY_MAX);
	presence_encode(&p, &b);
	say(r, MSG_PRESENT, &b);
	buf_release(&b);
}

static const char *const names[MSG_PLACES + 1] = {
        [MSG_WELCOME] = "WELCOME", [MSG_INTENT] = "INTENT", [MSG_ROSTER] = "ROSTER",
        [MSG_BEAT] = "BEAT",       [MSG_VOTE] = "VOTE",     [MSG_VERDICT] = "VERDICT",
        [MSG_DONE] = "DONE",       [MSG_FINAL] = "FINAL",   [MSG_PRESENT] = "PRESENT",
        [MSG_JOINED] = "JOINED",   [MSG_PEERS] = "PEERS",   [MSG_PLACES] = "PLACES"};

static void print_traffic(void)
{
	struct traffic sums[2] = {{0}};
	printf("%-10s %12s %14s %12s %14s\n", "", "messages to", "bytes to", "messages from",
	       "bytes from");
	for (int t = 1; t <= MSG_PLACES; t++) {
		if (!up[t].messages && !down[t].messages)
			continue;
		printf("%-10s %12llu %14llu %12llu %14llu\n", names[t] ? names[t] : "another",
		       (unsigned long long)up[t].messages, (unsigned long long)up[t].bytes,
		       (unsigned long long)down[t].messages, (unsigned long long)down[t].bytes);
		sums[0].messages += up[t].messages;
		sums[0].bytes += up[t].bytes;
		sums[1].messages += down[t].messages;
		sums[1].bytes += down[t].bytes;
	}
	printf("%-10s %12llu %14llu %12llu %14llu\n", "all", (unsigned long long)sums[0].messages,
	       (unsigned long long)sums[0].bytes, (unsigned long long)sums[1].messages,
	       (unsigned long long)sums[1].bytes);
}

static int be_ranks(const struct addr *at)
{
	struct rank *ranks = calloc((size_t)size, sizeof *ranks);
	struct err err = {0};
	if (!ranks || loop_init(&loop, &err) < 0)
		die("the ranks", &err);
	waiting = size - 1;
	for (int r = 1; r < size; r++) {
		ranks[r].number = r;
		join(&ranks[r], at);
		turn();
	}
	while (waiting)
		turn();
	print_traffic();
	free(ranks);
	return 0;
}

/* ---- the coordinator ---- */

static struct coord *coord;
static bool have_roster, voted_all, final;

static void deliver(void *ctx, uint8_t type, struct view body)
{
	struct err e = {0};
	enum phase phase;
	(void)ctx;
	have_roster |= type == MSG_ROSTER;
	voted_all |= type == MSG_VERDICT;
	final |= type == MSG_FINAL;
	if (type == MSG_ABORT && err_decode(&e, &phase, &body) == 0)
		die("the job failed", &e);
}

static int decide(void *ctx, const struct intent *const *intents, struct plan *plan,
                  struct err *err)
{
	(void)ctx;
	(void)intents;
	(void)err;
	snprintf(plan->algorithm, sizeof plan->algorithm, "circulant");
	return 0;
}

static void details(void *ctx, int rank, struct buf *out)
{
	(void)ctx;
	(void)rank;
	buf_put(out, "0123456789012345678901234567890123456789", 40);
}

static void complete(void *ctx)
{
	(void)ctx;
}

static void send_own(uint8_t type, const struct buf *b)
{
	coord_receive(coord, type, b ? view_of(b->data, b->len) : view_of("", 0));
}

static void until(const bool *what)
{
	while (!*what)
		turn();
}

static void run_coordinator(void)
{
	const struct err none = {.rank = ERR_RANK_SELF};
	const struct vote v = {.has_digest = true};
	struct buf b;
	buf_init(&b, CTL_BODY_MAX);
	encode_intent(0, &b);
	send_own(MSG_INTENT, &b);
	until(&have_roster);
	b.len = 0;
	vote_encode(&v, &b);
	send_own(MSG_VOTE, &b);
	until(&voted_all);
	b.len = 0;
	err_encode(&none, PHASE_COMMIT, &b);
	buf_put_u8(&b, FATE_NEW);
	send_own(MSG_DONE, &b);
	until(&final);
	buf_release(&b);
	coord_drain(coord);
	while (!coord_drained(coord))
		turn();
}

int main(int argc, char **argv)
{
	static const struct job_callbacks callbacks = {.decide = decide, .details = details};
	struct presence present;
	struct rusage use;
	struct addr at;
	struct err err = {0};
	int status;
	size = argc > 1 ? atoi(argv[1]) : 0;
	if (size < 2 || size > JOB_MAX_SIZE) {
		fprintf(stderr, "usage: join_bench RANKS (2 to %d)\n", JOB_MAX_SIZE);
		return 2;
	}
	int fd = addr_resolve(&at, "127.0.0.1", 0, true, &err) < 0
	                 ? -1
	                 : addr_listen(&at, 0, 0, 4096, &err);
	if (fd < 0)
		die("listening", &err);
	pid_t ranks = fork();
	if (ranks == 0) {
		close(fd);
		exit(be_ranks(&at));
	}
	fill_presence(0, &present);
	const struct job_settings settings = {.join_timeout = PATIENCE, .timeout = PATIENCE};
	const struct coord_conf conf = {.settings = &settings,
	                                .loop = &loop,
	                                .size = size,
	                                .present = &present,
	                                .jobtag = (const uint8_t *)"job tag",
	                                .join_deadline = clock_ns() + PATIENCE,
	                                .deliver = deliver,
	                                .callbacks = &callbacks,
	                                .complete = complete};
	if (ranks < 0 || loop_init(&loop, &err) < 0)
		die("starting", &err);
	coord = coord_open(&conf, fd, &err);
	if (!coord)
		die("the coordinator", &err);
	int64_t start = clock_ns();
	run_coordinator();
	double seconds = (double)(clock_ns() - start) / 1e9;
	if (waitpid(ranks, &status, 0) < 0 || status)
		return 1;
	getrusage(RUSAGE_SELF, &use);
	printf("%d ranks: %.2f s; the coordinator: %.2f s of user time, %.2f s of system time, "
	       "%ld MiB\n",
	       size, seconds, (double)use.ru_utime.tv_sec + (double)use.ru_utime.tv_usec / 1e6,
	       (double)use.ru_stime.tv_sec + (double)use.ru_stime.tv_usec / 1e6,
	       use.ru_maxrss / 1024);
	coord_close(coord);
	loop_release(&loop);
	return 0;
}
