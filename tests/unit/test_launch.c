#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "lib/job/launch.h"

/* The environment of a test: "NAME=VALUE" strings. */
static const char *const *environment;

static char *test_getenv(const char *name)
{
	size_t n = strlen(name);

	for (const char *const *e = environment; *e; e++)
		if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
			return (char *)*e + n + 1;
	return NULL;
}

struct found {
	const char *env[10];
	const char *launcher;
	int rank, size, local_rank;
};

#define TORCH "RANK=1", "WORLD_SIZE=4"
#define OMPI  "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=5"
#define HYDRA "PMI_RANK=3", "PMI_SIZE=6"
#define JSM   "JSM_NAMESPACE_RANK=4", "JSM_NAMESPACE_SIZE=7"
#define PALS  "PALS_RANKID=5"
#define FLUX  "FLUX_TASK_RANK=6", "FLUX_JOB_SIZE=9"
#define SLURM "SLURM_PROCID=7", "SLURM_STEP_NUM_TASKS=10", "SLURM_STEP_ID=0"
#define K8S   "JOB_COMPLETION_INDEX=8"

static const struct found cases[] = {
        {{NULL}, NULL, -1, -1, -1},
        {{TORCH, NULL}, "torchrun", 1, 4, -1},
        {{OMPI, NULL}, "Open MPI", 2, 5, -1},
        {{HYDRA, NULL}, "Hydra", 3, 6, -1},
        {{JSM, NULL}, "JSM", 4, 7, -1},
        {{PALS, NULL}, "PALS", 5, -1, -1},
        {{FLUX, NULL}, "Flux", 6, 9, -1},
        {{SLURM, NULL}, "Slurm", 7, 10, -1},
        {{K8S, NULL}, "Kubernetes", 8, -1, -1},
        /* precedence, each against the next */
        {{OMPI, TORCH, NULL}, "torchrun", 1, 4, -1},
        {{HYDRA, OMPI, NULL}, "Open MPI", 2, 5, -1},
        {{JSM, HYDRA, NULL}, "Hydra", 3, 6, -1},
        {{PALS, JSM, NULL}, "JSM", 4, 7, -1},
        {{FLUX, PALS, NULL}, "PALS", 5, -1, -1},
        {{SLURM, FLUX, NULL}, "Flux", 6, 9, -1},
        {{K8S, SLURM, NULL}, "Slurm", 7, 10, -1},
        /* half of torchrun's pair is somebody else's variable; half of another's is not */
        {{"RANK=1", NULL}, NULL, -1, -1, -1},
        {{"RANK=x", K8S, NULL}, "Kubernetes", 8, -1, -1},
        {{"PMI_RANK=3", NULL}, "Hydra", 3, -1, -1},
        {{"OMPI_COMM_WORLD_RANK=", K8S, NULL}, "Kubernetes", 8, -1, -1},
        /* Slurm: steps only */
        {{"SLURM_PROCID=0", NULL}, NULL, -1, -1, -1},
        {{"SLURM_PROCID=0", "SLURM_STEP_ID=-5", NULL}, NULL, -1, -1, -1},
        {{"SLURM_PROCID=0", "SLURM_STEP_ID=4294967291", NULL}, NULL, -1, -1, -1},
        {{"SLURM_PROCID=0", "SLURM_STEP_ID=4294967280", NULL}, NULL, -1, -1, -1},
        {{"SLURM_PROCID=0", "SLURM_STEP_ID=4294967279", NULL}, "Slurm", 0, -1, -1},
        {{"SLURM_PROCID=0", "SLURM_LOCALID=0", K8S, NULL}, "Kubernetes", 8, -1, -1},
        /* local rank */
        {{TORCH, "LOCAL_RANK=1", "SLURM_LOCALID=3", NULL}, "torchrun", 1, 4, 1},
        {{OMPI, "OMPI_COMM_WORLD_LOCAL_RANK=2", NULL}, "Open MPI", 2, 5, 2},
        {{HYDRA, "MPI_LOCALRANKID=3", NULL}, "Hydra", 3, 6, 3},
        {{SLURM, "SLURM_LOCALID=1", NULL}, "Slurm", 7, 10, 1},
        {{"LOCAL_RANK=x", NULL}, NULL, -1, -1, -1},
};

static void test_found(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const struct found *c = &cases[i];
		struct launch l;
		struct err e = {0};
		environment = c->env;
		if (launch_detect(&l, test_getenv, &e) < 0)
			fail_msg("case %zu: %s", i, e.text);
		if (!!l.launcher != !!c->launcher ||
		    (l.launcher && strcmp(l.launcher, c->launcher) != 0))
			fail_msg("case %zu: %s", i, l.launcher ? l.launcher : "none");
		if (l.rank != c->rank || l.size != c->size || l.local_rank != c->local_rank)
			fail_msg("case %zu: rank %d size %d local %d", i, l.rank, l.size,
			         l.local_rank);
	}
}

static const struct {
	const char *env[6];
	const char *says;
} bad[] = {
        {{"RANK=x", "WORLD_SIZE=2", NULL}, "RANK=x"},
        {{"RANK=1 ", "WORLD_SIZE=2", NULL}, "RANK=1 "},
        {{"RANK=-1", "WORLD_SIZE=2", NULL}, "RANK=-1"},
        {{"RANK=0", "WORLD_SIZE=0", NULL}, "WORLD_SIZE=0"},
        {{"RANK=0", "WORLD_SIZE=99999999999", NULL}, "WORLD_SIZE"},
        {{"RANK=99999999999999999999999", "WORLD_SIZE=2", NULL}, "RANK"},
        {{"RANK=2", "WORLD_SIZE=2", NULL}, "RANK=2: not below WORLD_SIZE=2"},
        {{"PMI_RANK=0", "PMI_SIZE=1x", NULL}, "PMI_SIZE=1x"},
        {{"SLURM_PROCID=0", "SLURM_STEP_ID=zero", NULL}, "SLURM_STEP_ID=zero"},
        {{TORCH, "LOCAL_RANK=first", NULL}, "LOCAL_RANK=first"},
};

static void test_malformed(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct launch l;
		struct err e = {0};
		environment = bad[i].env;
		assert_int_equal(launch_detect(&l, test_getenv, &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
		if (!strstr(e.text, bad[i].says))
			fail_msg("'%s' does not say '%s'", e.text, bad[i].says);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_found),
	        cmocka_unit_test(test_malformed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
