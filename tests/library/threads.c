/*
 * The ranks of jobs as threads of one process, with arrays in memory:
 *
 *     threads STORE SECRET-FILE
 *
 * Two groups of three ranks run every collective at the same time, the first over memory lanes, the
 * second over TLS and in the reverse order. Then a job fails. Exits with 1 if a result is wrong.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collctl.h"

#define RANKS  3
#define GROUPS 2
#define N      6 /* elements of an input */
#define SLICE  (N / RANKS)

static const char *store, *secret_file;

struct rank {
	pthread_t thread;
	int group, rank;
	unsigned shown;
	uint64_t done, total;
	float input[N];
	char digest[64]; /* of the allreduce */
};

static void fail(const struct rank *r, const char *command, const char *what)
{
	fprintf(stderr, "group %d, rank %d: %s: %s\n", r->group, r->rank, command, what);
	exit(1);
}

static float value(int rank, int i)
{
	return (float)(10 * rank + i);
}

/* Element @i of the sum of the ranks from 0 to @ranks - 1. */
static float sum(int ranks, int i)
{
	float total = 0;
	for (int k = 0; k < ranks; k++)
		total += value(k, i);
	return total;
}

/* ---- what the ranks get: element @i of @rank ---- */

static float all(int rank, int i)
{
	(void)rank;
	return sum(RANKS, i);
}

static float slice_of_all(int rank, int i)
{
	return sum(RANKS, rank * SLICE + i);
}

static float from_root(int rank, int i)
{
	(void)rank;
	return value(0, i);
}

static float slice_from_root(int rank, int i)
{
	return value(0, rank * SLICE + i);
}

static float one_after_the_other(int rank, int i)
{
	(void)rank;
	return value(i / N, i % N);
}

static float slices_from_all(int rank, int i)
{
	return value(i / SLICE, rank * SLICE + i % SLICE);
}

static float with_ranks_before(int rank, int i)
{
	return sum(rank + 1, i);
}

static float ranks_before(int rank, int i)
{
	return sum(rank, i);
}

static const struct collective {
	const char *name;
	bool from_root, to_root; /* rank 0 alone has an input, gets the result */
	uint64_t n;              /* elements of the result; 0: there is none */
	float (*want)(int rank, int i);
} collectives[] = {
        {"allreduce", false, false, N, all},
        {"reduce", false, true, N, all},
        {"reduce-scatter", false, false, SLICE, slice_of_all},
        {"broadcast", true, false, N, from_root},
        {"scatter", true, false, SLICE, slice_from_root},
        {"gather", false, true, N *RANKS, one_after_the_other},
        {"allgather", false, false, N *RANKS, one_after_the_other},
        {"alltoall", false, false, N, slices_from_all},
        {"scan", false, false, N, with_ranks_before},
        {"exscan", false, false, N, ranks_before},
        {"barrier", false, false, 0, NULL},
};
#define COLLECTIVES (int)(sizeof collectives / sizeof *collectives)

/* ---- a job ---- */

static void set(collctl *job, const struct rank *r, const char *command, const char *name,
                const char *text)
{
	if (collctl_set(job, name, text) != 0)
		fail(r, command, collctl_message(job));
}

static void show(void *ctx, const char *phase, uint64_t done, uint64_t total, double left)
{
	struct rank *r = ctx;
	(void)phase, (void)left;
	r->shown++;
	r->done = done;
	r->total = total;
}

/* A job named @name, which no other group has. */
static collctl *make(struct rank *r, const char *command, const char *name)
{
	char text[64];
	collctl *job = collctl_new(command);
	if (!job)
		fail(r, command, "no job");
	snprintf(text, sizeof text, "%d-%s", r->group, name);
	set(job, r, command, "job", text);
	snprintf(text, sizeof text, "%d", r->rank);
	set(job, r, command, "rank", text);
	snprintf(text, sizeof text, "%d", RANKS);
	set(job, r, command, "size", text);
	set(job, r, command, "rendezvous", store);
	set(job, r, command, "secret-file", secret_file);
	if (strcmp(command, "barrier") != 0)
		set(job, r, command, "lanes", r->group ? "tcp" : "memory");
	r->shown = 0;
	collctl_progress(job, show, r);
	return job;
}

static void give_input(collctl *job, struct rank *r, const char *command)
{
	const uint64_t shape[] = {N};
	for (int i = 0; i < N; i++)
		r->input[i] = value(r->rank, i);
	if (collctl_input_memory(job, r->input, "f32", shape, 1) != 0)
		fail(r, command, collctl_message(job));
}

static void check(collctl *job, const struct rank *r, const struct collective *c)
{
	const uint64_t *shape;
	const void *data;
	const char *dtype;
	uint64_t bytes;
	int ndim;
	if (collctl_result(job, 0, &data, &bytes, &dtype, &shape, &ndim) != 0)
		fail(r, c->name, "no result");
	if (bytes != c->n * sizeof(float) || strcmp(dtype, "f32") != 0)
		fail(r, c->name, "a result of another size or type");
	for (int i = 0; i < (int)c->n; i++)
		if (((const float *)data)[i] != c->want(r->rank, i))
			fail(r, c->name, "a wrong element");
}

static void run(struct rank *r, const struct collective *c)
{
	const bool gets = c->n && (r->rank == 0 || !c->to_root);
	collctl *job = make(r, c->name, c->name);
	if (c->n && (r->rank == 0 || !c->from_root))
		give_input(job, r, c->name);
	if (gets && collctl_output_kept(job) != 0)
		fail(r, c->name, collctl_message(job));
	if (collctl_run(job) != 0)
		fail(r, c->name, collctl_message(job));
	if (gets)
		check(job, r, c);
	if (!r->shown || (c->n && (!r->total || r->done != r->total)))
		fail(r, c->name, "the progress does not end with all");
	if (c->want == all && !c->to_root)
		snprintf(r->digest, sizeof r->digest, "%s", collctl_digest(job));
	collctl_free(job);
}

/* Rank 1 has too little room for the result. */
static void run_failing(struct rank *r)
{
	float out[N] = {-1, -1, -1, -1, -1, -1};
	collctl *job = make(r, "allreduce", "failing");
	give_input(job, r, "a failing job");
	if (collctl_output_memory(job, out, NULL, r->rank == 1 ? 4 : sizeof out, 0) != 0)
		fail(r, "a failing job", collctl_message(job));
	if (collctl_run(job) != COLLCTL_OUTPUT || collctl_culprit(job) != 1)
		fail(r, "a failing job", "another outcome");
	for (int i = 0; i < N; i++)
		if (out[i] != -1)
			fail(r, "a failing job", "the memory has changed");
	if (*collctl_digest(job))
		fail(r, "a failing job", "a digest");
	collctl_free(job);
}

static void *run_all(void *ctx)
{
	struct rank *r = ctx;
	for (int k = 0; k < COLLECTIVES; k++)
		run(r, &collectives[r->group ? COLLECTIVES - 1 - k : k]);
	run_failing(r);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct rank ranks[GROUPS * RANKS];
	if (argc != 3)
		return 2;
	store = argv[1];
	secret_file = argv[2];
	for (int i = 0; i < GROUPS * RANKS; i++) {
		ranks[i].group = i / RANKS;
		ranks[i].rank = i % RANKS;
		if (pthread_create(&ranks[i].thread, NULL, run_all, &ranks[i]) != 0)
			return 1;
	}
	for (int i = 0; i < GROUPS * RANKS; i++)
		pthread_join(ranks[i].thread, NULL);
	for (int i = 0; i < GROUPS * RANKS; i++)
		if (!*ranks[i].digest || strcmp(ranks[i].digest, ranks[0].digest) != 0)
			fail(&ranks[i], "allreduce", "another digest");
	return 0;
}
