/* A call on its own thread: what it returns, and how it stops. */
#include <poll.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/offload.h"
#include "lib/base/stuck.h"
#include "lib/data/formats/fortran.h"
#include "lib/data/formats/npz.h"
#include "tests/unit/unit.h"

struct call {
	sem_t begin;
	int (*fn)(struct err *err);
};

static int wait_and_call(void *ctx, struct err *err)
{
	struct call *c = ctx;
	while (sem_wait(&c->begin))
		;
	return c->fn(err);
}

/* What @fn returns in an offload that was told to stop before it began, or not. */
static int offloaded(int (*fn)(struct err *err), bool stop, struct err *err)
{
	struct call c = {.fn = fn};
	struct offload o;
	assert_int_equal(sem_init(&c.begin, 0, 0), 0);
	assert_int_equal(offload_start(&o, wait_and_call, &c, err), 0);
	if (stop)
		offload_stop(&o);
	sem_post(&c.begin);
	int ret = offload_finish(&o, err);
	sem_destroy(&c.begin);
	return ret;
}

TEST(test_stop)
{
	struct err err = {.rank = ERR_RANK_SELF};
	assert_int_equal(offloaded(offload_stopped, false, &err), 0);
	assert_int_equal(offloaded(offload_stopped, true, &err), -1);
	assert_int_equal(err.code, ERR_OTHER);
	err = (struct err){.rank = ERR_RANK_SELF};
	assert_int_equal(offload_stopped(&err), 0); /* on no such thread */
	assert_int_equal(err.code, 0);
}

struct shared {
	sem_t *met; /* up once by each call, and down by the first for each other */
	int number, of, fails, calls;
};

static int meet(void *ctx, struct err *err)
{
	struct shared *s = ctx;
	s->calls++;
	sem_post(s->met);
	for (int i = 0; s->number == 0 && i < s->of; i++)
		while (sem_wait(s->met))
			;
	return s->number == s->fails ? err_set(err, ERR_INPUT, "number %d", s->number) : 0;
}

/* Call number @fails of @n at once fails, -1: none. */
static int shared(int n, int fails, struct err *err)
{
	struct shared s[4];
	sem_t met;
	assert_int_equal(sem_init(&met, 0, 0), 0);
	for (int i = 0; i < n; i++)
		s[i] = (struct shared){&met, i, n, fails, 0};
	const int ret = offload_share(n, meet, s, sizeof *s, err);
	for (int i = 0; i < n; i++)
		assert_int_equal(s[i].calls, 1);
	sem_destroy(&met);
	return ret;
}

TEST(calls_at_once_and_the_one_that_fails)
{
	for (int n = 1; n <= 4; n++)
		for (int fails = -1; fails < n; fails++) {
			struct err err = {.rank = ERR_RANK_SELF};
			assert_int_equal(shared(n, fails, &err), fails < 0 ? 0 : -1);
			assert_int_equal(err.code, fails < 0 ? 0 : ERR_INPUT);
		}
}

struct dropped {
	sem_t begin, dropped;
};

static int wait_to_begin(void *ctx, struct err *err)
{
	struct dropped *d = ctx;
	(void)err;
	while (sem_wait(&d->begin))
		;
	return 0;
}

static void count_drop(void *ctx)
{
	struct dropped *d = ctx;
	sem_post(&d->dropped);
}

/* The call is left behind before it returns, or after. */
static void assert_dropped(struct dropped *d, bool before)
{
	struct offload *o = malloc(sizeof *o);
	struct err err = {.rank = ERR_RANK_SELF};
	struct pollfd p = {.events = POLLIN};
	assert_non_null(o);
	assert_int_equal(sem_init(&d->begin, 0, !before), 0);
	assert_int_equal(sem_init(&d->dropped, 0, 0), 0);
	assert_int_equal(offload_start(o, wait_to_begin, d, &err), 0);
	p.fd = o->eventfd;
	if (!before)
		assert_int_equal(poll(&p, 1, -1), 1);
	offload_leave(o, count_drop);
	if (before) {
		assert_true(stuck_any());
		assert_int_equal(sem_trywait(&d->dropped), -1);
		sem_post(&d->begin);
	}
	while (sem_wait(&d->dropped))
		;
	assert_int_equal(sem_trywait(&d->dropped), -1);
}

TEST(test_left_behind)
{
	static struct dropped calls[200]; /* a thread may use its own until it has ended */
	for (int i = 0; i < 200; i++)
		assert_dropped(&calls[i], i % 2);
}

/* An array of 3 rows and 2 columns. */
static int turn(struct err *err)
{
	FILE *in = tmpfile(), *out = tmpfile();
	assert_non_null(in);
	assert_non_null(out);
	assert_int_equal(fwrite("abcdef", 1, 6, in), 6);
	assert_int_equal(fflush(in), 0);
	int ret =
	        fortran_to_c(fileno(in), 0, fileno(out), 0, (uint64_t[]){3, 2}, 2, 1, 1 << 20, err);
	fclose(in);
	fclose(out);
	return ret;
}

static int take(void *ctx, const char *name, uint64_t offset, uint64_t bytes, struct err *err)
{
	(void)ctx;
	(void)err;
	assert_string_equal(name, "a");
	assert_int_equal(offset, 0);
	assert_int_equal(bytes, 6);
	return 0;
}

static FILE *archive, *spool;

static int unpack(struct err *err)
{
	return npz_unpack(fileno(archive), "a.npz", fileno(spool), false, UINT64_MAX, take, NULL,
	                  err);
}

static int pack(struct err *err)
{
	const struct npz_member member = {"a", 0, 6};
	return npz_pack(fileno(spool), &member, 1, fileno(archive), err);
}

static void assert_stops(int (*fn)(struct err *err))
{
	struct err err = {.rank = ERR_RANK_SELF};
	assert_int_equal(offloaded(fn, true, &err), -1);
	assert_int_not_equal(err.code, 0);
	err = (struct err){.rank = ERR_RANK_SELF};
	assert_int_equal(offloaded(fn, false, &err), 0);
}

TEST(test_what_takes_long_stops)
{
	archive = tmpfile();
	spool = tmpfile();
	assert_non_null(archive);
	assert_non_null(spool);
	assert_int_equal(fwrite("abcdef", 1, 6, spool), 6);
	assert_int_equal(fflush(spool), 0);
	assert_stops(turn);
	assert_stops(pack);
	assert_stops(unpack);
	fclose(archive);
	fclose(spool);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
