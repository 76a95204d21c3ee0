/* The table of stores, with a toy (tests/toys/lib/store/store_memory.c) as one more row: a whole
 * rendezvous over it, without a server. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/store/rendezvous.h"
#include "lib/store/store.h"
#include "tests/unit/unit.h"

#define SOON (clock_ns() + 100 * NS_PER_SEC)

static const struct secret secret = {.key = "the secret of the job"};

static bool never(void *ctx)
{
	(void)ctx;
	return false;
}

static struct rendezvous *must_meet(const char *job, const struct secret *with)
{
	static const struct address_settings addresses = {.listen = "127.0.0.1"};
	const struct rendezvous_conf conf = {.job = job,
	                                     .secret = with,
	                                     .store.url = "memory://",
	                                     .listen_fd = -1,
	                                     .addresses = &addresses,
	                                     .interrupted = never};
	struct err err = {0};
	struct rendezvous *r = rendezvous_new(&conf, &err);
	if (!r)
		fail_msg("%s", err.text);
	return r;
}

static void must_locate(struct rendezvous *r, const struct addr *at)
{
	struct addr where;
	struct err err = {0};
	if (rendezvous_locate(r, &where, SOON, &err) != 1)
		fail_msg("%s; %s", err.text, rendezvous_trouble(r));
	assert_true(addr_same_host(&where, at));
	assert_int_equal(addr_port(&where), addr_port(at));
}

static int must_publish(struct rendezvous *r, struct addr *where)
{
	struct err err = {0};
	int fd;
	if (rendezvous_publish(r, where, &fd, SOON, &err) != PUBLISH_DONE)
		fail_msg("%s", err.text);
	return fd;
}

/* Rank 0 publishes, the others find it, a second rank 0 learns of the first; then the record goes.
 */
TEST(a_rendezvous)
{
	struct rendezvous *zero = must_meet("a", &secret), *other = must_meet("a", &secret);
	struct rendezvous *second = must_meet("a", &secret);
	struct addr where, at;
	struct err err = {0};
	int none;
	assert_int_equal(rendezvous_locate(other, &at, clock_ns(), &err), 0);
	assert_non_null(
	        strstr(rendezvous_trouble(other), "no record collctl/a in the store memory://"));
	int fd = must_publish(zero, &where);
	must_locate(other, &where);
	assert_int_equal(rendezvous_publish(second, &at, &none, SOON, &err), PUBLISH_TAKEN);
	assert_int_equal(none, -1);
	assert_int_equal(addr_port(&at), addr_port(&where));
	assert_int_equal(rendezvous_withdraw(zero, SOON, &err), 0);
	rendezvous_free(other);
	other = must_meet("a", &secret);
	assert_int_equal(rendezvous_locate(other, &at, clock_ns(), &err), 0);
	close(fd);
	rendezvous_free(zero);
	rendezvous_free(other);
	rendezvous_free(second);
}

TEST(other_secrets_are_told)
{
	static const struct secret wrong = {.key = "another secret"};
	struct rendezvous *zero = must_meet("b", &secret), *other = must_meet("b", &wrong);
	struct rendezvous *plain = must_meet("b", NULL);
	struct addr where, at;
	struct err err = {0};
	int fd = must_publish(zero, &where);
	assert_int_equal(rendezvous_locate(other, &at, SOON, &err), 0);
	assert_non_null(strstr(rendezvous_trouble(other), "secrets differ"));
	assert_int_equal(rendezvous_locate(plain, &at, SOON, &err), 0);
	assert_non_null(strstr(rendezvous_trouble(plain), "has a MAC, so rank 0 has a secret"));
	assert_int_equal(rendezvous_withdraw(zero, SOON, &err), 0);
	close(fd);
	rendezvous_free(zero);
	rendezvous_free(other);
	rendezvous_free(plain);
}

/* A store that loses the record gets it again, for as long as the coordinator keeps it. */
TEST(a_lost_record_is_published_again)
{
	struct rendezvous *zero = must_meet("c", NULL), *other = must_meet("c", NULL);
	struct store_value v;
	struct addr where;
	struct err err = {0};
	uint64_t wait = 0;
	int fd = must_publish(zero, &where);
	rendezvous_keep(zero);
	struct store *s = store_open(&(struct store_conf){.url = "MEMORY://"}, &err);
	assert_int_equal(store_get(s, "collctl/c", 0, &v, &wait, SOON, &err), 0);
	assert_true(v.index > 0);
	free(v.data);
	assert_int_equal(store_delete(s, "collctl/c", v.index, SOON, &err), 1);
	do {
		assert_int_equal(store_get(s, "collctl/c", wait, &v, &wait, SOON, &err), 0);
		free(v.data);
	} while (!v.index);
	must_locate(other, &where);
	assert_int_equal(rendezvous_withdraw(zero, SOON, &err), 0);
	assert_int_equal(store_get(s, "collctl/c", 0, &v, NULL, SOON, &err), 0);
	assert_int_equal(v.index, 0);
	store_close(s);
	close(fd);
	rendezvous_free(zero);
	rendezvous_free(other);
}

TEST(unknown_schemes_are_told)
{
	struct err err = {0};
	assert_null(store_open(&(struct store_conf){.url = "ftp://h"}, &err));
	assert_int_equal(err.code, ERR_USAGE);
	assert_non_null(strstr(err.text, "memory://"));
	assert_non_null(strstr(err.text, "etcd+http:// or etcd+https://"));
}

int main(void)
{
	return unit_run(NULL, NULL);
}
