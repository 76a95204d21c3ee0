
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/store/hostfile.h"
#include "tests/unit/unit.h"

/* "name:port*slots@first ..." of a parsed file. */
static char *render(const struct hostfile *h)
{
	static char buf[1024];
	size_t at = 0;

	buf[0] = '\0';
	for (int i = 0; i < h->nhosts && at < sizeof buf; i++) {
		const struct hostfile_host *e = &h->hosts[i];
		at += (size_t)snprintf(buf + at, sizeof buf - at, "%s%s:%d*%d@%d", i ? " " : "",
		                       e->name, e->port, e->slots, e->first);
	}
	return buf;
}

static const struct {
	const char *text, *want;
	int size;
} good[] = {
        {"a\n", "a:0*1@0", 1},
        {"a", "a:0*1@0", 1},
        {"# the cluster\n\n  a:7000 \nb\tslots=3 # fast\r\nc slots=1", "a:7000*1@0 b:0*3@1 c:0*1@4",
         5},
        {"[2001:db8::1]:7000\n2001:db8::2\n[fe80::1%eth0] slots=2\n::1",
         "2001:db8::1:7000*1@0 2001:db8::2:0*1@1 fe80::1%eth0:0*2@2 ::1:0*1@4", 5},
        /* Open MPI */
        {"n1 slots=2 max_slots=4\nn2 max-slots=3 slots=3\n", "n1:0*2@0 n2:0*3@2", 5},
        /* PBS */
        {"n1\nn1\nn2\n", "n1:0*1@0 n1:0*1@1 n2:0*1@2", 3},
        /* Slurm */
        {"node[08-11,7],x\n",
         "node08:0*1@0 node09:0*1@1 node10:0*1@2 node11:0*1@3 node7:0*1@4 x:0*1@5", 6},
        {"r[1-2]n[01-02]-ib", "r1n01-ib:0*1@0 r1n02-ib:0*1@1 r2n01-ib:0*1@2 r2n02-ib:0*1@3", 4},
        {"a[1-2]:7000 slots=2", "a1:7000*2@0 a2:7000*2@2", 4},
        {"[1-2]", "1:0*1@0 2:0*1@1", 2},
        {"a,b:1,[::1]:2", "a:0*1@0 b:1*1@1 ::1:2*1@2", 3},
        {"n[9-10]", "n9:0*1@0 n10:0*1@1", 2},
};

TEST(test_good)
{
	for (size_t i = 0; i < LENGTH(good); i++) {
		struct hostfile h;
		struct err e = {0};
		if (hostfile_parse(&h, good[i].text, strlen(good[i].text), "hosts", &e) < 0)
			fail_msg("case %zu: %s", i, e.text);
		assert_string_equal(render(&h), good[i].want);
		assert_int_equal(h.size, good[i].size);
		hostfile_release(&h);
		assert_int_equal(h.nhosts, 0);
	}
}

static const struct {
	const char *text, *says;
} bad[] = {
        {"", "hosts: names no host"},
        {"# only a comment\n\n", "hosts: names no host"},
        {"a\nb slots=0\n", "hosts:2: not a number of ranks: slots=0"},
        {"a slots=", "hosts:1: not a number of ranks"},
        {"a slots=2x", "hosts:1: not a number of ranks"},
        {"a slots=99999999999999999999", "hosts:1: not a number of ranks"},
        {"a max_slots=x", "hosts:1: not a number of ranks"},
        {"a b\n", "hosts:1: only slots=N may follow the host: b"},
        {"a cpu=2\n", "hosts:1: only slots=N"},
        {"a:\n", "hosts:1: a:: the port"},
        {"a:0\n", "hosts:1: port 0"},
        {"a:65536\n", "hosts:1: a:65536: the port"},
        {":7000\n", "hosts:1: a port without a host"},
        {"user@a\n", "hosts:1: user@a: a host has no user here"},
        {"a/b\n", "'/' is not allowed in a host name"},
        {"1:2:3\n", "hosts:1: 1:2:3: neither"},
        {"[::1\n", "hosts:1: a bracket is not closed"},
        {"[::1]x\n", "hosts:1: [::1]x: neither"},
        {"n[1-3\n", "hosts:1: a bracket is not closed"},
        {"n[3-1]\n", "hosts:1: not a range"},
        {"n[]\n", "hosts:1: not a range"},
        {"n[1,]\n", "hosts:1: not a range"},
        {"n[1-]\n", "hosts:1: not a range"},
        {"n[a]\n", "hosts:1: not a range"},
        {"n[1-2-3]\n", "hosts:1: not a range"},
        {"n[0000000001]\n", "hosts:1: not a range"},
        {"n]\n", "']' is not allowed in a host name"},
        {"n[1]n[1]n[1]n[1]n[1]n[1]n[1]n[1]n[1]\n", "hosts:1: too many brackets"},
        {"a,,b\n", "hosts:1: an empty name"},
        {"a,\n", "hosts:1: an empty name"},
        {"n[0-999999999]\n", "hosts:1: more than 65536 ranks"},
        {"n[1-999]m[1-999]o[1-999]\n", "hosts:1: more than 65536 ranks"},
        {"n[1-300] slots=300\n", "hosts:1: more than 65536 ranks"},
};

TEST(test_bad)
{
	for (size_t i = 0; i < LENGTH(bad); i++) {
		struct hostfile h;
		struct err e = {0};
		assert_int_equal(hostfile_parse(&h, bad[i].text, strlen(bad[i].text), "hosts", &e),
		                 -1);
		assert_int_equal(e.code, ERR_INPUT);
		if (!strstr(e.text, bad[i].says))
			fail_msg("case %zu: '%s' does not say '%s'", i, e.text, bad[i].says);
		assert_null(h.hosts);
	}
	struct hostfile h;
	struct err e = {0};
	assert_int_equal(hostfile_parse(&h, "a\nb\0c\n", 6, "hosts", &e), -1);
	assert_string_equal(e.text, "hosts:2: a NUL byte; this is not a text file");
}

TEST(test_long_names)
{
	char text[2000];
	struct hostfile h;
	struct err e = {0};

	memset(text, 'a', sizeof text);
	assert_int_equal(hostfile_parse(&h, text, 255, "hosts", &e), 0);
	hostfile_release(&h);
	for (size_t len = 256; len <= sizeof text; len += 436) {
		err_clear(&e);
		assert_int_equal(hostfile_parse(&h, text, len, "hosts", &e), -1);
		assert_non_null(strstr(e.text, "too long"));
	}
	memcpy(text + 250, "[1-2]bbbbb", 10); /* only the expansion is too long */
	err_clear(&e);
	assert_int_equal(hostfile_parse(&h, text, 260, "hosts", &e), -1);
	assert_non_null(strstr(e.text, "too long"));
}

TEST(test_read)
{
	char path[] = "/tmp/collctl-hostfile.XXXXXX";
	struct hostfile h;
	struct err e = {0};
	FILE *f = fdopen(mkstemp(path), "w");

	assert_non_null(f);
	for (int i = 0; i < 5000; i++)
		fprintf(f, "node%04d:7000\n", i);
	fclose(f);
	assert_int_equal(hostfile_read(&h, path, true, &e), 0);
	assert_int_equal(h.size, 5000);
	assert_string_equal(h.hosts[4999].name, "node4999");
	assert_int_equal(h.hosts[4999].first, 4999);
	hostfile_release(&h);
	unlink(path);
	assert_int_equal(hostfile_read(&h, path, true, &e), -1);
	assert_int_equal(e.code, ERR_INPUT);
	assert_non_null(strstr(e.text, path));
	err_clear(&e);
	assert_int_equal(hostfile_read(&h, "/dev/zero", true, &e), -1); /* bounded */
	assert_non_null(strstr(e.text, "/dev/zero: longer than"));
}

static void find(const char *given, bool hosts, int size, const char *first)
{
	struct hostfile h;
	struct err e = {0};

	if (hostfile_find(&h, given, hosts, &e) < 0)
		fail_msg("%s: %s", given, e.text);
	assert_int_equal(h.size, size);
	assert_string_equal(h.hosts[0].name, first);
	hostfile_release(&h);
}

static void find_nothing(const char *given, bool hosts, int code, const char *words)
{
	struct hostfile h;
	struct err e = {0};

	assert_int_equal(hostfile_find(&h, given, hosts, &e), -1);
	assert_int_equal(e.code, code);
	assert_null(h.hosts);
	if (!strstr(e.text, words))
		fail_msg("%s: %s", given, e.text);
}

/* A file or a list, for who reads a hostfile and for who starts ranks on the hosts. */
TEST(test_find)
{
	static const char *const names[] = {"node1", "a,b", "node1,"};
	char folder[] = "/tmp/collctl-hosts.XXXXXX";

	assert_non_null(mkdtemp(folder));
	assert_int_equal(chdir(folder), 0);
	for (int hosts = 0; hosts < 2; hosts++) {
		find("a,b", hosts, 2, "a");
		find("a,b,", hosts, 2, "a");
		find("n[1-3]", hosts, 3, "n1");
		find("node1,", hosts, 1, "node1");
		find("[::1]:7,b", hosts, 2, "::1");
		find("a, b", hosts, 2, "a");
		find(" a ,b , ", hosts, 2, "a");
		find_nothing("a,b c", hosts, ERR_USAGE,
		             "--hostfile: only slots=N may follow the host: c");
		find_nothing("a,b:4", hosts, ERR_USAGE, "give a file with the line 'b slots=4'");
		find_nothing("me@a,b", hosts, ERR_USAGE, "give --ssh 'ssh -l me'");
		find_nothing(",", hosts, ERR_USAGE, "--hostfile: names no host");
		find_nothing("a,,", hosts, ERR_USAGE, "an empty name between commas");
		find_nothing(",a", hosts, ERR_USAGE, "an empty name between commas");
		find_nothing("./node1", hosts, ERR_INPUT, "./node1: No such file");
	}
	find("node1", true, 1, "node1");
	find_nothing("node1", false, ERR_INPUT,
	             "node1: No such file or directory: to name one host, give -H 'node1,'");

	for (size_t i = 0; i < LENGTH(names); i++) {
		FILE *f = fopen(names[i], "w");
		assert_non_null(f);
		fputs("x\ny\nz\n", f);
		fclose(f);
	}
	assert_int_equal(mkdir("node2", 0700), 0);
	assert_int_equal(symlink("node1", "node3"), 0);
	find("node1", false, 3, "x");
	find("a,b", false, 3, "x");
	find_nothing(
	        "node1", true, ERR_USAGE,
	        "--hostfile: 'node1' is a file, but may be meant as a host: give -H ./node1 for "
	        "the file, or -H 'node1,' for the host");
	find_nothing("node3", true, ERR_USAGE, "'node3' is a file");
	find_nothing("a,b", true, ERR_USAGE, "'a,b' is a file");
	for (int hosts = 0; hosts < 2; hosts++) {
		find("./node1", hosts, 3, "x");
		find("./node1,", hosts, 3, "x");
		find("node1,", hosts, 1, "node1");
	}
	find("node2", true, 1, "node2"); /* a folder is no hostfile */
	find_nothing("node2", false, ERR_INPUT, "node2: Is a directory");
	for (size_t i = 0; i < LENGTH(names); i++)
		unlink(names[i]);
	rmdir("node2");
	unlink("node3");
	assert_int_equal(chdir("/"), 0);
	rmdir(folder);
}

static int local_rank(const char *text, int *rank, struct err *e)
{
	struct hostfile h;

	err_clear(e);
	assert_int_equal(hostfile_parse(&h, text, strlen(text), "hosts", e), 0);
	int rc = hostfile_local_rank(&h, rank, e);
	hostfile_release(&h);
	return rc;
}

TEST(test_local_rank)
{
	int rank = -1;
	struct err e = {0};

	assert_int_equal(local_rank("203.0.113.1 slots=3\n127.0.0.1\n203.0.113.2\n", &rank, &e), 0);
	assert_int_equal(rank, 3);
	assert_int_equal(local_rank("203.0.113.1\n[::1]:7000\n", &rank, &e), 0);
	assert_int_equal(rank, 1);
	assert_int_equal(local_rank("localhost\n203.0.113.2\n", &rank, &e), 0);
	assert_int_equal(rank, 0);

	char self[300];
	assert_int_equal(gethostname(self, 256), 0);
	strcat(self, "\n203.0.113.2");
	assert_int_equal(local_rank(self, &rank, &e), 0);
	assert_int_equal(rank, 0);

	assert_int_equal(local_rank("203.0.113.1\n203.0.113.2\n", &rank, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(strstr(e.text, "none of the hostfile's 2 hosts"));
	assert_int_equal(local_rank("127.0.0.1\n203.0.113.2\n127.0.0.1\n", &rank, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(strstr(e.text, "(0, 2); give --rank"));
	assert_int_equal(local_rank("203.0.113.2\n127.0.0.1 slots=4\n", &rank, &e), -1);
	assert_non_null(strstr(e.text, "(1-4); give --rank"));
}

int main(void)
{
	return unit_run(NULL, NULL);
}
