/* The coordinator until all ranks have joined: the assignment of ranks, the agreement, the missing
 * ones. */
#include "tests/unit/coord_world.h"

/* ---- joining and agreeing ---- */

COORD_TEST(ranks_that_agree_get_the_roster)
{
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
		assert_int_equal(m->roster.size, 4);
		assert_int_equal(m->nplaces, 4);
		assert_string_equal(m->places[0].addr, ":7000");
		assert_string_equal(m->places[3].addr, "127.0.0.1:7003");
		assert_int_equal(m->roster.hosts, 4); /* nobody has sent an identity */
		assert_null(m->roster.host);
		for (int p = 0; p < 4; p++)
			assert_memory_equal(m->places[p].key, members[p].places[r].key,
			                    TLS_KEY_BYTES);
		assert_memory_equal(m->plan.session, members[0].plan.session, 16);
		assert_true(m->completed_before_roster);
	}
	assert_string_equal(members[0].details, "rows of rank 1");
	assert_string_equal(members[1].details, "");
	assert_string_equal(members[3].details, "rows of rank 0");
	/* Each pair has its own key. */
	static const uint8_t none[TLS_KEY_BYTES];
	const uint8_t *keys[] = {none,
	                         members[0].places[1].key,
	                         members[0].places[2].key,
	                         members[0].places[3].key,
	                         members[1].places[2].key,
	                         members[1].places[3].key,
	                         members[2].places[3].key};
	for (int i = 0; i < 7; i++)
		for (int k = 0; k < i; k++)
			assert_memory_not_equal(keys[i], keys[k], TLS_KEY_BYTES);
	/* The listener is gone: the next job of this name can't run into this one. */
	struct err err = {0};
	int fd = conn_sock_dial(&at, NULL, &err);
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

COORD_TEST(a_job_of_one_rank_agrees_with_itself)
{
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

COORD_TEST(differing_shapes_are_named)
{
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

COORD_TEST(most_ranks_are_right)
{
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
COORD_TEST(a_fact_that_some_ranks_have)
{
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

COORD_TEST(a_decision_may_fail)
{
	decision = (struct err){.code = ERR_RESOURCE, .rank = ERR_RANK_SELF, .text = "too large"};
	open_job(2, PATIENCE, NS_PER_SEC);
	join(1, 2);
	intend(0, "(3,5)");
	intend(1, "(3,5)");
	all_fail(2, -1, ERR_RESOURCE, 0, "too large");
	assert_int_equal(completed, 0);
}

COORD_TEST(sizes_that_differ)
{
	struct hello h = hello_of(2, 4);
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
COORD_TEST(ranks_left_over_are_named)
{
	static const struct {
		uint32_t ages[2];
		const char *text; /* the beginning; "": none */
	} cases[] = {
	        {{0, 0}, ""},
	        {{590, 20}, ""},
	        {{620, 20}, "rank 1 on node1 was started 10 min before rank 0"},
	        {{26 * 3600 + 60, 20}, "rank 1 on node1 was started 26 h before rank 0"},
	        {{20, 26 * 3600 + 60}, "rank 2 on node2 was started 26 h before rank 0"},
	        {{3 * 3600, 30 * 3600 + 60}, "ranks 1, 2 were started up to 30 h before rank 0"},
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct presence own = {.host = "node0", .started = clock_ns()};
		again(state);
		open_job_as(0, &own, 3, PATIENCE, NS_PER_SEC);
		for (int r = 1; r < 3; r++) {
			struct presence p = {.age = cases[i].ages[r - 1]};
			join(r, 3);
			snprintf(p.host, sizeof p.host, "node%d", r);
			say_present(r, &p);
		}
		for (int r = 0; r < 3; r++)
			intend(r, "(2)");
		until(members[2].heard[MSG_ROSTER], 1);
		if (strncmp(warned, cases[i].text, strlen(cases[i].text)) != 0 ||
		    !*warned != !*cases[i].text)
			fail_msg("'%s' for '%s'", warned, cases[i].text);
		assert_true(!*warned || strstr(warned, "(-j)"));
	}
	/* It is rank 0 that is left over. */
	struct presence own = {.host = "node0", .started = clock_ns() - 7200 * NS_PER_SEC};
	struct presence p = {.host = "node1"};
	again(state);
	open_job_as(0, &own, 2, PATIENCE, NS_PER_SEC);
	join(1, 2);
	say_present(1, &p);
	intend(0, "(2)");
	intend(1, "(2)");
	until(members[1].heard[MSG_ROSTER], 1);
	assert_non_null(strstr(warned, "rank 0 on node0 was started 2 h before rank 1 on node1"));
}

COORD_TEST(auto_ranks_are_sorted)
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
}

/* Of a rank with a number, and of one that is to get its number. */
COORD_TEST(a_host_that_is_no_name_ends_the_job)
{
	struct presence own = presence_of("a", ""), bad[2] = {own, presence_of(".ssh", "")};
	open_job_as(0, &own, 2, PATIENCE, NS_PER_SEC);
	join(1, 2);
	say_present(1, &bad[1]);
	for (int i = 0; i < 2; i++) {
		until(members[i].heard[MSG_ABORT], 1);
		assert_int_equal(members[i].failure.code, ERR_DISAGREE);
		assert_int_equal(members[i].failure.rank, 1);
		assert_non_null(strstr(members[i].failure.text, "'.ssh' is no name of a host"));
	}
	again(state);
	open_job_as(-1, &own, 2, PATIENCE, NS_PER_SEC);
	want_ranks(bad, 1, 2, 2);
	until(members[1].heard[MSG_ABORT], 1);
	assert_int_equal(members[1].failure.code, ERR_DISAGREE);
	assert_non_null(strstr(members[1].failure.text, "a rank at 127.0.0.1"));
	assert_non_null(strstr(members[1].failure.text, "'.ssh' is no name of a host"));
}

/* Ranks with one identity are on one machine, whatever their hosts' names. */
COORD_TEST(machines_are_numbered)
{
	static const uint8_t ids[5] = {7, 9, 7, 0, 9};
	static const int want[5] = {0, 1, 0, 2, 1};
	struct presence p[5];
	for (int i = 0; i < 5; i++) {
		p[i] = presence_of((const char *const[]){"a", "b", "c", "d", "e"}[i], "");
		p[i].host_id[3] = ids[i];
	}
	open_job_as(-1, &p[0], 5, PATIENCE, NS_PER_SEC);
	want_ranks(p, 1, 5, 5);
	for (int r = 0; r < 5; r++)
		until(members[r].heard[MSG_WELCOME], 2);
	for (int r = 0; r < 5; r++)
		intend(r, "(3,5)");
	for (int r = 0; r < 5; r++) {
		until(members[r].heard[MSG_ROSTER], 1);
		assert_int_equal(members[r].roster.hosts, 3);
		assert_string_equal(members[r].places[2].host, "c");
		assert_memory_equal(members[r].roster.host, want, sizeof want);
	}
	assert_int_equal(hosts_seen, 3);
}

/* Ranks with a number keep it; the others fill what is left. */
COORD_TEST(auto_ranks_fill_the_places_left)
{
	const struct presence p[4] = {presence_of("d", ""), presence_of("n", ""),
	                              presence_of("c", ""), presence_of("m", "")};
	struct hello h = hello_of(2, 4);
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

/* Also if its last two messages come at once. */
COORD_TEST(a_rank_hears_the_coordinator_before_the_roster)
{
	const struct presence p[2] = {presence_of("a", ""), presence_of("b", "")};
	struct hello h = hello_of(0, 2);
	open_job_as(-1, &p[0], 2, PATIENCE, NS_PER_SEC);
	hello_as(1, &h);
	until(members[1].heard[MSG_WELCOME], 1);
	until(members[0].heard[MSG_WELCOME], 1);
	intend(0, "(2)");
	say_present(1, &p[1]);
	intend(1, "(2)");
	until(members[1].heard[MSG_ROSTER], 1);
	assert_int_equal(members[1].heard[MSG_WELCOME], 2);
	assert_int_equal(members[1].welcome.coordinator, 1);
}

COORD_TEST(the_root_is_found)
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
	for (size_t k = 0; k < LENGTH(cases); k++) {
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
COORD_TEST(the_root_is_told_again)
{
	struct presence p[4] = {presence_of("a", "in"), presence_of("b", "")};
	uint8_t alert[20] = {0};
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

COORD_TEST(several_ranks_on_the_root_s_host)
{
	struct presence p[3] = {presence_of("b", ""), presence_of("a", ""), presence_of("b", "")};
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
COORD_TEST(missing_ranks_are_counted_by_host)
{
	const struct presence p[3] = {presence_of("b", ""), presence_of("a", ""),
	                              presence_of("b", "")};
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

COORD_TEST(who_waits_learns_who_is_missing)
{
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

COORD_TEST(a_rank_out_of_range)
{
	struct hello h = hello_of(3, 0);
	open_job(3, PATIENCE, NS_PER_SEC);
	hello_as(3, &h);
	until(members[3].heard[MSG_ABORT], 1);
	assert_int_equal(members[3].failure.code, ERR_DISAGREE);
	assert_non_null(strstr(members[3].failure.text, "there is no such rank"));
	until(members[0].heard[MSG_ABORT], 1);
}

/* No message can name such a rank: the others must still understand why the job has failed. */
COORD_TEST(a_rank_that_no_job_has)
{
	struct hello h = hello_of(INT32_MAX, 0);
	open_job(3, PATIENCE, NS_PER_SEC);
	join(1, 3);
	until(members[1].heard[MSG_WELCOME], 1);
	hello_as(3, &h);
	until(members[1].heard[MSG_ABORT], 1);
	until(members[3].heard[MSG_ABORT], 1);
	assert_int_equal(members[1].failure.code, ERR_DISAGREE);
	assert_int_equal(members[1].failure.rank, ERR_RANK_SELF);
	assert_non_null(strstr(members[1].failure.text, "there is no such rank"));
}

/* The second gets the reason; the first and the job go on. */
COORD_TEST(a_rank_started_twice)
{
	struct hello h = hello_of(1, 3), zero = hello_of(0, 3);
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

/* Does @text say @before, the version of a rank that is one ahead, @between, and this version? */
static void assert_versions(const char *text, const char *before, const char *between)
{
	char expected[128];
	snprintf(expected, sizeof expected, "%s%d%s%d", before, PROTO_VERSION + 1, between,
	         PROTO_VERSION);
	assert_non_null(strstr(text, expected));
}

COORD_TEST(other_versions_and_jobs_are_told)
{
	struct hello h = hello_of(1, 2);
	open_job(2, PATIENCE, NS_PER_SEC);
	h.version = PROTO_VERSION + 1;
	hello_as(2, &h);
	until(members[2].lost, 1);
	assert_int_equal(members[2].failure.code, ERR_DISAGREE);
	assert_versions(members[2].failure.text, "protocol version ", " differs from ");
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
COORD_TEST(another_version_is_told_to_those_who_miss_the_rank)
{
	struct hello h = hello_of(2, 3);
	open_job(3, NS_PER_SEC, NS_PER_SEC);
	join(1, 3);
	h.version = PROTO_VERSION + 1;
	hello_as(2, &h);
	until(members[2].lost, 1);
	all_fail(2, -1, ERR_RENDEZVOUS, 2,
	         "did not join within 1 s (--join-timeout) (a peer at 127.0.0.1:");
	assert_versions(members[1].failure.text, "has protocol version ", ", not ");
}

/* Launches whose jobs have one name; who has named the job is of every launch. */
#define STRANGERS 200

static int strangers_gone;

static void stranger_hears(void *ctx, uint8_t type, struct view body)
{
	(void)ctx;
	(void)type;
	(void)body;
}

static void stranger_lost(void *ctx, const struct err *err)
{
	(void)ctx;
	(void)err;
	strangers_gone++;
}

/* They read why they cannot join, and stay; or want a rank, and do not send PRESENT. */
COORD_TEST(guests_have_a_bounded_number_of_places)
{
	static struct ctl strangers[STRANGERS];
	struct err err = {0};
	for (int wanting = 0; wanting < 2; wanting++) {
		again(state);
		open_job(3, PATIENCE, NS_PER_SEC);
		join(1, 3);
		strangers_gone = 0;
		for (int i = 0; i < STRANGERS; i++) {
			struct hello h = hello_of(-1, 3);
			h.version += !wanting;
			strangers[i] = (struct ctl){.on_message = stranger_hears,
			                            .on_lost = stranger_lost};
			assert_int_equal(ctl_start(&strangers[i], say_hello(&h), &loop, &err), 0);
		}
		until(strangers_gone, STRANGERS - (2 * 3 + 64)); /* the gate's places */
		join(2, 3);
		for (int r = 0; r < 3; r++)
			intend(r, "(2)");
		until(members[2].heard[MSG_ROSTER], 1);
		for (int i = 0; i < STRANGERS; i++)
			ctl_release(&strangers[i]);
	}
}

/* A guest that sends anything but PRESENT, once, loses its place; the job goes on. */
COORD_TEST(guests_that_send_what_they_like)
{
	struct presence p = {.host = "nodea"};
	for (int i = 0; i < 3; i++) {
		struct hello h = hello_of(-1, 2);
		again(state);
		open_job(2, PATIENCE, NS_PER_SEC);
		hello_as(1, &h);
		struct buf b;
		buf_init(&b, 1024);
		presence_encode(&p, &b);
		if (i == 0)
			ctl_send(&members[1].ctl, MSG_VOTE, &b);
		if (i == 1)
			b.len--;
		ctl_send(&members[1].ctl, MSG_PRESENT, &b);
		if (i == 2) {
			b.len = 0;
			until(members[1].heard[MSG_WELCOME], 1);
			ctl_send(&members[1].ctl, MSG_PRESENT, &b);
			all_fail(2, -1, ERR_INTEGRITY, 1, "unexpected control message");
		} else {
			until(members[1].lost, 1);
			assert_int_equal(members[1].heard[MSG_WELCOME], 0);
			hello_as(1, &h);
			b.len = 0;
			presence_encode(&p, &b);
			ctl_send(&members[1].ctl, MSG_PRESENT, &b);
			until(members[1].heard[MSG_WELCOME], 1);
		}
		buf_release(&b);
	}
}

COORD_TEST(another_launch_is_told)
{
	struct hello h = hello_of(1, 3);
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
COORD_TEST(after_sizes_that_differ_few_are_waited_for)
{
	struct hello h = hello_of(1, 2), late = hello_of(2, 3);
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
COORD_TEST(a_rank_of_a_larger_size_is_told_too)
{
	struct hello h = hello_of(1, 3), last = hello_of(2, 3);
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
COORD_TEST(auto_ranks_whose_sizes_differ)
{
	const struct presence own = presence_of("a", "");
	struct hello more = hello_of((int)PROTO_RANK_AUTO, 4),
	             same = hello_of((int)PROTO_RANK_AUTO, 3);
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

COORD_TEST(missing_ranks_are_listed_at_the_deadline)
{
	open_job(6, NS_PER_SEC, NS_PER_SEC);
	join(2, 6);
	all_fail(1, -1, ERR_RENDEZVOUS, 1, "did not join");
	assert_non_null(strstr(members[0].failure.text, "ranks 1, 3-5"));
	until(members[2].heard[MSG_ABORT], 1);
	assert_string_equal(members[2].failure.text, members[0].failure.text);
}

COORD_TEST(a_rank_that_says_nothing_is_named_at_the_deadline)
{
	open_job(2, NS_PER_SEC, NS_PER_SEC);
	join(1, 2);
	intend(0, "(3,5)");
	all_fail(2, -1, ERR_RENDEZVOUS, 1, "joined, but did not send");
}

/* After a failure to agree, ranks that come late get it too. */
COORD_TEST(a_late_rank_is_told_of_the_failure)
{
	struct hello h = hello_of(2, 3);
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

COORD_TEST(ranks_that_take_any_place)
{
	const struct presence p = {.host = "a"};
	struct hello any = hello_of(-1, 4);
	bool taken[4] = {true};
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
COORD_TEST(who_goes_before_it_has_a_place_is_not_counted)
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

COORD_TEST(a_rank_lost_while_joining)
{
	open_job(3, PATIENCE, NS_PER_SEC);
	join(1, 3);
	join(2, 3);
	ctl_release(&members[2].ctl);
	all_fail(2, -1, ERR_PEER_LOST, 2, "lost while joining: connection closed");
}

/* In order, before it has said what it is to do: it has waited too long, and may come again. */
COORD_TEST(a_rank_that_goes_before_its_intent_may_come_again)
{
	struct hello h = hello_of(1, 2);
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

/* What is found does not count once the coordinator goes on. */
COORD_TEST(a_coordinator_that_stood_still_says_so)
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
		                   : "ranks 2, 3 did not join within 1 s (--join-timeout); "
		                     "rank 0 did not run until ");
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
