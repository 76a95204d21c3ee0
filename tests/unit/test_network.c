/* What is known of the hosts' links before data move: the speed of interfaces, what several ranks
 * of a host say, the classes of round trips, and the prices that follow. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "algorithms/table.h"
#include "lib/net/iface.h"
#include "lib/net/socket_buffer.h"
#include "lib/price/select.h"
#include "lib/price/simulate.h"
#include "tests/unit/unit.h"

#define MBIT 125000

/* ---- interfaces ---- */

static void put(const char *folder, const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

TEST(the_speed_of_an_interface)
{
	static const struct {
		const char *speed, *uevent;
		bool device;
		uint64_t expected;
	} cases[] = {
	        {"1000\n", "INTERFACE=x\n", true, 1000 * MBIT},
	        {"-1\n", "INTERFACE=x\n", true, 0},
	        {"0\n", "INTERFACE=x\n", true, 0},
	        {"fast\n", "INTERFACE=x\n", true, 0},
	        {"99999999999999999999\n", "INTERFACE=x\n", true, 0},
	        {"9223372036854775807\n", "INTERFACE=x\n", true, 0},
	        {"", "INTERFACE=x\n", true, 0},
	        {"10000\n", "INTERFACE=x\n", false, 0}, /* veth: virtual */
	        {"10000\n", "DEVTYPE=bridge\nINTERFACE=x\n", false, 0},
	        {"20000\n", "DEVTYPE=bond\nINTERFACE=x\n", false, 20000ull * MBIT},
	        {"1000\n", "DEVTYPE=vlan\nINTERFACE=x\n", false, 1000 * MBIT},
	};
	char net[] = "/tmp/collctl-net.XXXXXX", x[64], device[80], entry[80];
	assert_non_null(mkdtemp(net));
	snprintf(x, sizeof x, "%s/x", net);
	snprintf(device, sizeof device, "%s/device", x);
	assert_int_equal(mkdir(x, 0700), 0);
	assert_int_equal(iface_speed(net, "x"), 0); /* an empty folder */
	for (size_t i = 0; i < LENGTH(cases); i++) {
		put(x, "speed", cases[i].speed);
		put(x, "uevent", cases[i].uevent);
		if (cases[i].device)
			put(x, "device", "");
		assert_int_equal(iface_speed(net, "x"), cases[i].expected);
		if (cases[i].device)
			assert_int_equal(unlink(device), 0);
	}
	assert_int_equal(iface_speed(net, "y"), 0);
	assert_int_equal(iface_speed(net, "../x"), 0);
	assert_int_equal(iface_speed(net, ""), 0);
	for (int i = 0; i < 2; i++) {
		snprintf(entry, sizeof entry, "%s/%s", x, i ? "uevent" : "speed");
		assert_int_equal(unlink(entry), 0);
	}
	assert_int_equal(rmdir(x), 0);
	assert_int_equal(rmdir(net), 0);
	assert_int_equal(iface_speed_of(-1), 0);
}

TEST(the_largest_buffers_of_sockets)
{
	static const struct {
		const char *out, *in;
		uint64_t most;
	} cases[] = {
	        {"4096\t16384\t4194304\n", "4096\t131072\t6291456\n", 2097152},
	        {"4096\t16384\t4194304\n", "4096\t131072\t1000\n", 500},
	        {"4096 16384\n", "4096\t131072\t6291456\n", 0},
	        {"", "", 0},
	        {"4096 16384 -1\n", "4096 16384 many\n", 0},
	        {"4096 16384 99999999999999999999999\n", "1 2 99999999999999999999999\n",
	         4999999999},
	};
	char sysctls[] = "/tmp/collctl-net.XXXXXX", path[64];
	assert_non_null(mkdtemp(sysctls));
	assert_int_equal(socket_buffer_most(sysctls), 0);
	for (size_t i = 0; i < LENGTH(cases); i++) {
		put(sysctls, "tcp_wmem", cases[i].out);
		put(sysctls, "tcp_rmem", cases[i].in);
		assert_int_equal(socket_buffer_most(sysctls), cases[i].most);
	}
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s", sysctls, i ? "tcp_wmem" : "tcp_rmem");
		assert_int_equal(unlink(path), 0);
	}
	assert_int_equal(rmdir(sysctls), 0);
}

/* ---- what ranks say ---- */

static struct network network_of(int hosts)
{
	struct err err = {0};
	struct network n;
	assert_int_equal(network_init(&n, hosts, false, &err), 0);
	return n;
}

static bool about(double a, double b)
{
	return a < b * 1.000001 && b < a * 1.000001;
}

TEST(the_better_source_counts_and_then_the_lower_rate)
{
	struct network n = network_of(2);
	const struct network_found slow = {7, 900, NETWORK_TOLD, 0, 0},
	                           fast = {800, 800, NETWORK_TOLD, 50, 0},
	                           iface = {1, 1, NETWORK_INTERFACE, 60, 0},
	                           broken = {0, 5, NETWORK_TOLD, 0, 0};
	network_add(&n, 1, &iface);
	network_add(&n, 1, &fast);
	network_add(&n, 1, &slow);
	network_add(&n, 1, &iface);
	network_add(&n, 1, &broken); /* a rank that says nonsense */
	const struct network_found *f = &n.host[1].found;
	assert_true(f->up == 7 && f->down == 800 && f->from == NETWORK_TOLD && f->limit == 50);
	assert_int_equal(n.host[0].found.from, NETWORK_UNKNOWN);
	network_release(&n);
}

TEST(hosts_without_a_rate_are_as_the_slowest)
{
	struct network n = network_of(3);
	struct price_model m;
	network_settle(&n, &price_default);
	assert_true(!n.known && !n.uneven && !n.limited);
	assert_true(n.slowest.egress == price_default.egress);
	network_release(&n);

	n = network_of(3);
	network_add(&n, 1, &(struct network_found){1000, 2000, NETWORK_TOLD, 0, 0});
	network_settle(&n, &price_default);
	assert_true(n.known && !n.uneven);
	assert_true(about(n.port[0].egress, 1 / (1000 * NETWORK_PAYLOAD)));
	assert_true(about(n.port[2].ingress, 1 / (2000 * NETWORK_PAYLOAD)));
	m = network_model(&n, &price_default);
	assert_true(!m.ports && m.egress == n.slowest.egress && m.latency == price_default.latency);
	network_release(&n);

	n = network_of(3);
	network_add(&n, 1, &(struct network_found){1000, 2000, NETWORK_TUNING, 0, 0});
	network_add(&n, 2, &(struct network_found){.limit = 10});
	network_settle(&n, &price_default);
	m = network_model(&n, &price_default);
	assert_true(about(n.port[1].egress, 1e-3) && about(n.port[2].egress, 0.1));
	assert_true(n.uneven && n.limited && m.ports == n.port && about(m.egress, 0.1));
	network_release(&n);
}

/* One host has no network: a limit alone counts. */
TEST(one_host)
{
	struct network n = network_of(1);
	network_add(&n, 0, &(struct network_found){1000, 1000, NETWORK_TOLD, 0, 0});
	network_settle(&n, &price_default);
	assert_true(network_model(&n, &price_default).egress == price_default.egress);
	network_add(&n, 0, &(struct network_found){.limit = 100});
	network_settle(&n, &price_default);
	assert_true(about(network_model(&n, &price_default).egress, 1e-2));
	network_release(&n);
}

/* ---- round trips ---- */

TEST(the_rate_of_the_slowest_port)
{
	const struct network_found fast = {.up = 1000 * MBIT,
	                                   .down = 1000 * MBIT,
	                                   .from = NETWORK_TOLD},
	                           slow = {.up = 80 * MBIT,
	                                   .down = 10 * MBIT,
	                                   .from = NETWORK_INTERFACE},
	                           limited = {.limit = 5000};
	struct network n;
	for (int hosts = 1; hosts <= 3; hosts++) {
		assert_int_equal(network_init(&n, hosts, false, NULL), 0);
		network_settle(&n, &price_default);
		assert_true(network_rate(&n) == 0);
		network_add(&n, 0, &fast);
		network_settle(&n, &price_default);
		if (hosts == 1) {
			assert_true(network_rate(&n) == 0);
			network_release(&n);
			continue;
		}
		assert_true(fabs(network_rate(&n) / (1000 * MBIT * NETWORK_PAYLOAD) - 1) < 1e-9);
		network_add(&n, 1, &slow);
		network_settle(&n, &price_default);
		assert_true(fabs(network_rate(&n) / (10 * MBIT * NETWORK_PAYLOAD) - 1) < 1e-9);
		network_add(&n, 0, &limited);
		network_settle(&n, &price_default);
		assert_true(fabs(network_rate(&n) / 5000 - 1) < 1e-9);
		network_release(&n);
	}
}

TEST(round_trips_have_coarse_classes)
{
	static const double cases[][2] = {{0, 0},         {0.0004, 0},     {0.0006, 0.001},
	                                  {0.001, 0.001}, {0.0019, 0.001}, {0.005, 0.004},
	                                  {0.010, 0.016}, {0.050, 0.064},  {0.100, 0.064},
	                                  {0.200, 0.256}, {60, 65.536}};
	for (size_t i = 0; i < LENGTH(cases); i++)
		assert_true(network_class(cases[i][0]) == 0 ||
		            about(network_class(cases[i][0]), cases[i][1]));
	assert_true(network_class(0.0004) == 0);
}

/* What fills the fastest link: a slow host does not count, nor what a rank says of its buffers but
 * the least. */
TEST(the_bytes_that_fill_a_far_link)
{
	struct network n = network_of(3);
	network_add(&n, 0, &(struct network_found){1000000, 2000000, NETWORK_TUNING, 0, 900});
	network_add(&n, 1, &(struct network_found){.up = 10, .down = 10, .from = NETWORK_TUNING});
	network_add(&n, 2, &(struct network_found){500000, 500000, NETWORK_TUNING, 0, 700});
	network_add(&n, 2, &(struct network_found){.socket = 800});
	network_settle(&n, &price_default);
	assert_int_equal(network_bdp(&n), 0); /* near */
	assert_int_equal(n.socket, 700);
	network_release(&n);

	n = network_of(2);
	network_add_round_trip(&n, 1, 0.2);
	network_settle(&n, &price_default); /* 10 Gbit/s, 256 ms */
	assert_true(about((double)network_bdp(&n),
	                  0.256 / fmax(price_default.egress, price_default.ingress)));
	network_release(&n);

	n = network_of(2);
	network_add(&n, 0, &(struct network_found){1000000, 2000000, NETWORK_TOLD, 1000, 0});
	network_add(&n, 1, &(struct network_found){3000000, 900000, NETWORK_TOLD, 0, 0});
	network_add_round_trip(&n, 1, 0.1);
	network_settle(&n, &price_default);
	assert_in_range(network_bdp(&n), 120319, 120320); /* 2 MB/s of data, 64 ms */
	network_release(&n);

	n = network_of(1);
	network_add_round_trip(&n, 0, 0.2);
	network_settle(&n, &price_default);
	assert_int_equal(network_bdp(&n), 0);
	network_release(&n);
}

static const struct coll_algorithm *choice(struct select_args *a, const struct network *n)
{
	const struct coll_algorithm *alg;
	struct err err = {0};
	a->network = n;
	assert_int_equal(select_auto(a, &alg, &err), 0);
	return alg;
}

/* Over long round trips an algorithm of few rounds is chosen, and noise changes nothing. */
TEST(far_hosts_take_few_rounds)
{
	struct select_args a = {
	        .kind = COLL_ALLREDUCE, .size = 4, .bytes = 1 << 20, .dtype = DTYPE_F32};
	const struct coll_algorithm *far = NULL;
	for (int i = 0; i < 3; i++) {
		struct network n = network_of(4);
		for (int h = 0; h < 4; h++) {
			network_add(
			        &n, h,
			        &(struct network_found){125000000, 125000000, NETWORK_TOLD, 0, 0});
			network_add_round_trip(&n, h, h ? 0.050 + 0.001 * h * i : 0);
			network_add_round_trip(&n, h, 0.070);
		}
		network_settle(&n, &price_default);
		assert_true(about(n.round_trip, 0.064));
		const struct coll_algorithm *alg = choice(&a, &n);
		assert_string_equal(alg->name, "direct");
		assert_true(!far || far == alg);
		far = alg;
		network_release(&n);
	}
	assert_true(choice(&a, NULL) != far);
}

/* ---- unequal hosts ---- */

static double price_of(struct select_args *a, const struct network *n, const char *name)
{
	struct selection s;
	struct err err = {0};
	double price = -1;
	a->network = n;
	assert_int_equal(select_all(a, &s, &err), 0);
	for (size_t i = 0; i < s.nprices; i++)
		if (strcmp(s.prices[i].alg->name, name) == 0)
			price = s.prices[i].formula;
	selection_release(&s);
	return price;
}

/* A slow host that only receives costs its own bytes; a slow root those of all. */
TEST(prices_know_each_port_and_the_root)
{
	struct select_args a = {
	        .kind = COLL_BROADCAST, .size = 4, .bytes = 10 << 20, .dtype = DTYPE_U8};
	struct network n = network_of(4);
	for (int h = 0; h < 4; h++) {
		const uint64_t rate = h == 3 ? 1 << 20 : 10 << 20;
		network_add(&n, h, &(struct network_found){rate, rate, NETWORK_TUNING, 0, 0});
	}
	network_settle(&n, &price_default);
	const double leaf = price_of(&a, &n, "one_to_all");
	a.root = 3;
	const double root = price_of(&a, &n, "one_to_all");
	assert_in_range((unsigned)leaf, 10, 12);
	assert_in_range((unsigned)root, 30, 34);

	uint64_t off[5];
	coll_split(a.bytes, 4, off);
	struct coll_args args = {.size = 4, .ninputs = 1, .off = off};
	const struct price_model m = select_model(&a);
	for (args.root = 0; args.root < 4; args.root += 3) {
		struct simulation s;
		char why[SIMULATE_TEXT];
		assert_true(simulate_algorithm(&m, coll_find(COLL_BROADCAST, "one_to_all"), &args,
		                               1, &s, why));
		assert_true(s.seconds / (args.root ? root : leaf) > 0.9);
		assert_true(s.seconds / (args.root ? root : leaf) < 1.25);
	}
	network_release(&n);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
