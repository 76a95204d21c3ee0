/* The files of a check: the tuning file's hosts and round trips, as they are written and read, and
 * the list of hosts that reach each other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/coll/check_files.h"
#include "tests/unit/unit.h"

#define SIZE 6

static char folder[64], path[80];

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/collctl-check.XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof path, "%s/file", folder);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

static void put(const char *text)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void got(char text[512])
{
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	text[fread(text, 1, 511, f)] = '\0';
	assert_int_equal(fclose(f), 0);
}

/* Ranks 0 and 1 share host a, 2 and 3 b; 4 is c, 5 is d. Each host sends at its rate, and receives
 * at half of it. */
static const int home[SIZE] = {0, 0, 2, 2, 4, 5}, host[SIZE] = {0, 0, 1, 1, 2, 3};
static const char *names[SIZE] = {"a", "a", "b", "b", "c", "d"};

static const char *name(void *ctx, int rank)
{
	return ((const char **)ctx)[rank];
}

static struct link_matrix measured(void)
{
	static const double rates[SIZE] = {8e6, 8e6, 4e6, 4e6, 2e6, 1e6};
	struct link_matrix m;
	struct err err = {0};
	assert_int_equal(link_matrix_init(&m, SIZE, &err), 0);
	for (int r = 0; r < SIZE; r++)
		for (int q = 0; q < SIZE; q++) {
			struct link_cell *c = link_cell(&m, r, q);
			c->rate = home[r] == home[q]        ? 1e9
			          : rates[r] < rates[q] / 2 ? rates[r]
			                                    : rates[q] / 2;
			c->median = home[r] == home[q] ? 1e-6 : 1e-3 * (home[r] + home[q]);
			c->least = c->median;
		}
	return m;
}

static void end(struct link_matrix *m)
{
	struct err err = {0};
	assert_int_equal(link_matrix_end(m, home, &err), 0);
}

static struct check_hosts of(const struct link_matrix *m, const char **of_ranks)
{
	return (struct check_hosts){m, 4, host, name, of_ranks};
}

static bool about(double a, double b)
{
	return a < b * 1.00001 && b < a * 1.00001;
}

TEST_WITH(rates_of_hosts_and_round_trips, make_folder, remove_folder)
{
	static const char *found[] = {"d", "a", NULL, "x", "c"};
	struct link_matrix m = measured();
	struct select_tuning t, back;
	struct network n;
	struct err err = {0};
	end(&m);
	tuning_init(&t);
	assert_int_equal(check_rates((struct check_hosts[]){of(&m, names)}, &t, &err), 0);
	assert_int_equal(t.nhosts, 4);
	assert_int_equal(tuning_write(&t, path, &err), 0);
	assert_int_equal(tuning_read(&back, path, &err), 0);
	assert_int_equal(back.nhosts, 4);

	assert_int_equal(network_init(&n, 5, true, &err), 0);
	tuning_apply(&back, found, &n);
	network_settle(&n, &back.rates);
	assert_true(about((double)n.host[0].found.up, 1e6)); /* d */
	assert_true(about((double)n.host[0].found.down, 0.5e6));
	assert_true(about((double)n.host[1].found.up, 2e6)); /* a: as much as b takes */
	assert_true(n.host[2].found.from == NETWORK_UNKNOWN && n.port[2].egress == 1 / 1e6);
	assert_int_equal(n.host[4].found.from, NETWORK_TUNING);
	assert_true(about(n.round_trip, 9e-3)); /* c and d */
	network_release(&n);
	tuning_release(&back);

	/* A check of other hosts replaces them. */
	assert_int_equal(check_rates((struct check_hosts[]){of(&m, names)}, &t, &err), 0);
	assert_int_equal(t.nhosts, 4);
	tuning_release(&t);
	link_matrix_release(&m);
}

/* What a rank says cannot make a file that is not read: names that others have, no name, absurd
 * figures. */
TEST_WITH(a_rank_that_lies, make_folder, remove_folder)
{
	static const char *lies[SIZE] = {"a", "a", "a", "a", "", "d"};
	struct link_matrix m = measured();
	struct select_tuning t, back;
	struct err err = {0};
	for (int q = 0; q < SIZE; q++) {
		link_cell(&m, 5, q)->rate = 1e300;
		link_cell(&m, q, 5)->rate = 1;
		link_cell(&m, 5, q)->median = 1e9;
		link_cell(&m, q, 4)->rate = 0;
	}
	end(&m);
	tuning_init(&t);
	assert_int_equal(check_rates((struct check_hosts[]){of(&m, lies)}, &t, &err), 0);
	assert_int_equal(t.nhosts, 2);
	assert_int_equal(tuning_write(&t, path, &err), 0);
	assert_int_equal(tuning_read(&back, path, &err), 0);
	assert_int_equal(back.nhosts, 2);
	tuning_release(&back);
	tuning_release(&t);
	link_matrix_release(&m);
}

TEST_WITH(files_that_are_none, make_folder, remove_folder)
{
	static const char *const bad[] = {
	        "{\"version\": 1, \"hosts\": 1}",
	        "{\"version\": 1, \"hosts\": {\"a\": 1}}",
	        "{\"version\": 1, \"hosts\": {\"a\": {\"egress\": 1}}}",
	        "{\"version\": 1, \"hosts\": {\"a\": {\"egress\": 1, \"ingress\": 0}}}",
	        "{\"version\": 1, \"hosts\": {\"a\": {\"egress\": 1, \"ingress\": -1}}}",
	        "{\"version\": 1, \"hosts\": {\"a\": {\"egress\": 1e16, \"ingress\": 1}}}",
	        "{\"version\": 1, \"hosts\": {\"a/b\": {\"egress\": 1, \"ingress\": 1}}}",
	        "{\"version\": 1, \"hosts\": {\"\": {\"egress\": 1, \"ingress\": 1}}}",
	        "{\"version\": 1, \"round_trips\": 1}",
	        "{\"version\": 1, \"round_trips\": {\"a\": 1}}",
	        "{\"version\": 1, \"round_trips\": {\"a\": {\"b\": 1}}}",
	        ("{\"version\": 1, \"hosts\": {\"a\": {\"egress\": 1, \"ingress\": 1}, \"b\": "
	         "{\"egress\": 1, \"ingress\": 1}}, \"round_trips\": {\"a\": {\"b\": 0}}}"),
	};
	for (size_t i = 0; i < LENGTH(bad); i++) {
		struct select_tuning t;
		struct err err = {0};
		put(bad[i]);
		if (tuning_read(&t, path, &err) == 0)
			fail_msg("read: %s", bad[i]);
		assert_int_equal(err.code, ERR_INPUT);
		assert_non_null(strstr(err.text, path));
		tuning_release(&t);
	}
}

/* ---- the list of hosts ---- */

static void list(struct link_matrix *m, const char *expected, int n)
{
	const struct check_hosts c = of(m, names);
	struct err err = {0};
	char text[512];
	end(m);
	assert_int_equal(check_write_hosts(&c, path, &err), n);
	got(text);
	assert_string_equal(text, expected);
	link_matrix_release(m);
}

TEST_WITH(hosts_that_reach_each_other, make_folder, remove_folder)
{
	struct link_matrix m = measured();
	list(&m, "a slots=2\nb slots=2\nc\nd\n", 4);

	m = measured(); /* one rank of b does not reach c, and c not d */
	link_cell(&m, 3, 4)->state = LINK_SLOW;
	link_cell(&m, 4, 5)->state = LINK_SLOW;
	list(&m, "a slots=2\nb slots=2\nd\n", 3);

	m = measured(); /* c and d reach nobody */
	for (int r = 0; r < 4; r++)
		link_cell(&m, 4, r)->state = link_cell(&m, 5, r)->state = LINK_TIMED_OUT;
	link_cell(&m, 4, 5)->state = LINK_REFUSED;
	list(&m, "a slots=2\nb slots=2\n", 2);

	m = measured(); /* inside a */
	link_cell(&m, 0, 1)->state = LINK_REFUSED;
	list(&m, "b slots=2\nc\nd\n", 3);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
