
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "lib/net/addr.h"
#include "tests/unit/unit.h"

static bool have_ipv6(void)
{
	struct addr a;

	if (addr_resolve(&a, "::1", 0, true, NULL) < 0)
		return false;
	int fd = addr_listen(&a, 0, 0, 1, NULL);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

TEST(test_split)
{
	static const struct {
		const char *text, *host;
		int port;
	} good[] = {
	        {"host", "host", -1},
	        {"host:0", "host", 0},
	        {"a-b.example:65535", "a-b.example", 65535},
	        {":7766", "", 7766},
	        {"203.0.113.7:1", "203.0.113.7", 1},
	        {"[::1]:7766", "::1", 7766},
	        {"[::1]", "::1", -1},
	        {"::1", "::1", -1},
	        {"::", "::", -1},
	        {"2001:db8::7766", "2001:db8::7766", -1},
	        {"[fe80::1%eth0]:5", "fe80::1%eth0", 5},
	};
	static const char *const bad[] = {"",
	                                  "host:",
	                                  "host:x",
	                                  "host:65536",
	                                  "host:-1",
	                                  "[::1",
	                                  "[::1]x",
	                                  "[::1]:",
	                                  "[host]:1",
	                                  "a:b:c",
	                                  "a b",
	                                  "host/8",
	                                  "u@host",
	                                  "a\nb",
	                                  "[]",
	                                  "host:1 ",
	                                  "::1:2:3:4:5:6:7:8:9"};
	char host[64], joined[64];
	int port;

	for (size_t i = 0; i < LENGTH(good); i++) {
		struct err e = {0};
		if (addr_split(good[i].text, host, sizeof host, &port, &e) < 0)
			fail_msg("%s", e.text);
		assert_string_equal(host, good[i].host);
		assert_int_equal(port, good[i].port);
		addr_join(host, port, joined, sizeof joined);
		if (port >= 0)
			assert_string_equal(joined, good[i].text);
	}
	for (size_t i = 0; i < LENGTH(bad); i++) {
		struct err e = {0};
		if (addr_split(bad[i], host, sizeof host, &port, &e) == 0)
			fail_msg("'%s' was accepted", bad[i]);
		assert_int_equal(e.code, ERR_USAGE);
	}
	struct err e = {0};
	assert_int_equal(addr_split("1234", host, 4, &port, &e), -1); /* no room for the NUL */
	assert_int_equal(addr_split("123", host, 4, &port, &e), 0);
}

TEST(test_resolve_and_text)
{
	struct addr a;
	struct err e = {0};
	char buf[ADDR_TEXT];

	assert_int_equal(addr_resolve(&a, "203.0.113.7", 7766, false, &e), 0);
	assert_string_equal(addr_text(&a, true, buf), "203.0.113.7:7766");
	assert_string_equal(addr_text(&a, false, buf), "203.0.113.7");
	addr_set_port(&a, 65535);
	assert_int_equal(addr_port(&a), 65535);
	assert_int_equal(addr_resolve(&a, "2001:db8::7", 80, false, &e), 0);
	assert_string_equal(addr_text(&a, true, buf), "[2001:db8::7]:80");
	assert_string_equal(addr_text(&a, false, buf), "2001:db8::7");
	assert_int_equal(addr_resolve(&a, "::ffff:203.0.113.7", 80, false, &e), 0);
	assert_string_equal(addr_text(&a, true, buf), "203.0.113.7:80");
	assert_int_equal(addr_resolve(&a, "", 80, false, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	err_clear(&e);
	assert_int_equal(addr_resolve(&a, "no-such-host.invalid", 80, false, &e), -1);
	assert_int_equal(e.code, ERR_RENDEZVOUS);
	assert_non_null(strstr(e.text, "no-such-host.invalid: "));
	err_clear(&e);
	assert_int_equal(addr_resolve(&a, "no-such-host.invalid", 80, true, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
}

static struct addr resolved(const char *host)
{
	struct addr a;
	struct err e = {0};

	if (addr_resolve(&a, host, 1, false, &e) < 0)
		fail_msg("%s", e.text);
	return a;
}

TEST(test_same_host)
{
	struct addr lo = resolved("127.0.0.1"), lo2 = resolved("127.0.0.2"), lo6 = resolved("::1");
	struct addr mapped = resolved("::ffff:127.0.0.1");
	struct addr far = resolved("203.0.113.7"), far2 = resolved("203.0.113.8");
	struct addr far_mapped = resolved("::ffff:203.0.113.7");

	addr_set_port(&lo2, 2);
	assert_true(addr_same_host(&lo, &lo2));
	assert_true(addr_same_host(&lo, &lo6));
	assert_true(addr_same_host(&mapped, &lo6));
	assert_true(addr_same_host(&far, &far));
	assert_true(addr_same_host(&far, &far_mapped));
	assert_false(addr_same_host(&far, &far2));
	assert_false(addr_same_host(&far, &lo));
	assert_true(addr_is_local(&mapped));
	assert_false(addr_is_local(&far));
	assert_true(addr_name_is_local("127.0.0.1"));
	assert_false(addr_name_is_local("203.0.113.7"));
	assert_false(addr_name_is_local("no-such-host.invalid"));
}

/* Can a client connect to @port of @host? */
static bool reaches(const char *host, int port)
{
	struct addr a = resolved(host);
	int fd = socket(a.sa.ss_family, SOCK_STREAM, 0);

	addr_set_port(&a, port);
	bool ok = fd >= 0 && connect(fd, (struct sockaddr *)&a.sa, a.len) == 0;
	if (fd >= 0)
		close(fd);
	return ok;
}

TEST(test_listen)
{
	struct addr a, b;
	struct err e = {0};

	assert_int_equal(addr_resolve(&a, "127.0.0.1", 0, true, &e), 0);
	int fd = addr_listen(&a, 0, 0, 8, &e);
	assert_true(fd >= 0);
	assert_true(addr_port(&a) > 0);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_true(reaches("127.0.0.1", addr_port(&a)));

	assert_int_equal(addr_resolve(&b, "127.0.0.1", addr_port(&a), true, &e), 0);
	assert_int_equal(addr_listen(&b, 0, 0, 8, &e), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(e.code, ERR_RESOURCE);
	assert_non_null(strstr(e.text, "127.0.0.1:"));
	assert_non_null(strstr(e.text, "in use"));

	err_clear(&e);
	assert_int_equal(addr_resolve(&b, "203.0.113.7", 0, true, &e), 0);
	assert_int_equal(addr_listen(&b, 0, 0, 8, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	close(fd);
}

TEST(test_port_range)
{
	struct addr a[4];
	int fd[3] = {-1, -1, -1}, lo = 21000 + (int)(getpid() % 5000);
	struct err e = {0};

	for (int i = 0; i < 4; i++)
		assert_int_equal(addr_resolve(&a[i], "127.0.0.1", 0, true, &e), 0);
	/* Others may have a port of it: move on until three in a row are free. */
	for (int tries = 0; tries < 50 && fd[2] < 0; tries++, lo += 3) {
		for (int i = 0; i < 3; i++) {
			addr_set_port(&a[i], 0);
			fd[i] = addr_listen(&a[i], lo, lo + 2, 1, &e);
			if (fd[i] >= 0 && addr_port(&a[i]) != lo + i) {
				close(fd[i]);
				fd[i] = -1;
			}
		}
		if (fd[2] >= 0)
			break;
		for (int i = 0; i < 3; i++)
			if (fd[i] >= 0)
				close(fd[i]);
		err_clear(&e);
	}
	assert_true(fd[2] >= 0);
	assert_int_equal(addr_listen(&a[3], lo, lo + 2, 1, &e), -1);
	assert_int_equal(e.code, ERR_RESOURCE);
	assert_non_null(strstr(e.text, "no free port from"));
	close(fd[1]);
	addr_set_port(&a[3], 0);
	int again = addr_listen(&a[3], lo, lo + 2, 1, &e);
	assert_true(again >= 0);
	assert_int_equal(addr_port(&a[3]), lo + 1);
	close(again);
	close(fd[0]);
	close(fd[2]);
}

TEST(test_dual_stack)
{
	struct addr a;
	struct err e = {0};

	assert_int_equal(addr_resolve(&a, "", 0, true, &e), 0);
	int fd = addr_listen(&a, 0, 0, 8, &e);
	assert_true(fd >= 0);
	assert_true(reaches("127.0.0.1", addr_port(&a)));
	if (have_ipv6())
		assert_true(reaches("::1", addr_port(&a)));
	close(fd);
}

TEST(test_iface)
{
	struct addr a;
	struct err e = {0};
	char buf[ADDR_TEXT];

	assert_int_equal(addr_of_iface(&a, "lo", &e), 0);
	assert_string_equal(addr_text(&a, false, buf), "127.0.0.1");
	assert_int_equal(addr_of_iface(&a, "127.0.0.0/8", &e), 0);
	assert_string_equal(addr_text(&a, false, buf), "127.0.0.1");
	assert_int_equal(addr_of_iface(&a, "127.0.0.1", &e), 0);
	assert_int_equal(addr_of_iface(&a, "126.0.0.0/7", &e), 0); /* not a whole byte */
	if (have_ipv6()) {
		assert_int_equal(addr_of_iface(&a, "::1/128", &e), 0);
		assert_string_equal(addr_text(&a, false, buf), "::1");
	}
	static const char *const bad[] = {
	        "nope0", "203.0.113.0/24", "127.0.0.128/25", "127.0.0.0/33", "127.0.0.0/", "lo/8",
	        ""};
	for (size_t i = 0; i < LENGTH(bad); i++) {
		err_clear(&e);
		if (addr_of_iface(&a, bad[i], &e) == 0)
			fail_msg("'%s' was accepted", bad[i]);
		assert_int_equal(e.code, ERR_USAGE);
	}
	err_clear(&e);
	assert_int_equal(addr_of_iface(&a, "nope0", &e), -1);
	assert_non_null(strstr(e.text, "the active ones are: "));
	assert_non_null(strstr(e.text, "lo"));
}

int main(void)
{
	return unit_run(NULL, NULL);
}
