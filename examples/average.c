/*
 * Average a checkpoint with libcollctl: each rank is one process that runs
 *
 *     average RANK SIZE STORE SECRET-FILE IN.safetensors OUT.safetensors
 *
 * where STORE is the address of a key-value store, for example of `collctl serve`.
 *
 *     cc average.c $(pkg-config --cflags --libs collctl) -o average
 */
#include <stdio.h>

#include "collctl.h"

static void print_note(void *ctx, int level, int rank, const char *text)
{
	(void)ctx;
	if (level == 0)
		fprintf(stderr, "average: rank %d: %s\n", rank, text);
}

int main(int argc, char **argv)
{
	if (argc != 7) {
		fprintf(stderr, "usage: average RANK SIZE STORE SECRET-FILE IN OUT\n");
		return COLLCTL_USAGE;
	}
	collctl *job = collctl_new("allreduce");
	if (!job)
		return COLLCTL_RESOURCE;
	collctl_notes(job, print_note, NULL);
	int code = collctl_set(job, "op", "avg");
	if (!code)
		code = collctl_set(job, "rank", argv[1]);
	if (!code)
		code = collctl_set(job, "size", argv[2]);
	if (!code)
		code = collctl_set(job, "rendezvous", argv[3]);
	if (!code)
		code = collctl_set(job, "secret-file", argv[4]);
	if (!code)
		code = collctl_input(job, argv[5]);
	if (!code)
		code = collctl_output(job, argv[6]);
	if (!code)
		code = collctl_run(job);
	if (code)
		fprintf(stderr, "average: rank %d: %s\n",
		        collctl_culprit(job) < 0 ? collctl_rank(job) : collctl_culprit(job),
		        collctl_message(job));
	else
		printf("%d of %d: %llu bytes by %s in %.3f s\n", collctl_rank(job),
		       collctl_size(job), (unsigned long long)collctl_bytes(job),
		       collctl_algorithm(job), collctl_seconds(job));
	collctl_free(job);
	return code;
}
