
#include <string.h>

#include "lib/job/launch.h"
#include "tests/unit/unit.h"

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
	const char *env[12];
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
        /* precedence, each against the next, which agrees */
        {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", TORCH, NULL}, "torchrun", 1, 4, -1},
        {{"PMI_RANK=2", "PMI_SIZE=5", OMPI, NULL}, "Open MPI", 2, 5, -1},
        {{OMPI, "JSM_NAMESPACE_RANK=2", NULL}, "Open MPI", 2, 5, -1},
        /* PMI's variables are also those of other launchers */
        {{"JSM_NAMESPACE_RANK=3", HYDRA, NULL}, "JSM", 3, 6, -1},
        {{"PMI_RANK=7", "PMI_SIZE=10", SLURM, NULL}, "Slurm", 7, 10, -1},
        {{HYDRA, SLURM, "SLURM_STEP_NUM_NODES=10", NULL}, "Hydra", 3, 6, -1},
        {{"PALS_RANKID=4", JSM, NULL}, "JSM", 4, 7, -1},
        {{"FLUX_TASK_RANK=5", PALS, NULL}, "PALS", 5, -1, -1},
        {{"SLURM_PROCID=6", "SLURM_STEP_ID=0", FLUX, NULL}, "Flux", 6, 9, -1},
        {{"JOB_COMPLETION_INDEX=7", SLURM, NULL}, "Slurm", 7, 10, -1},
        /* one that only starts the other, once on each host, is no second opinion */
        {{TORCH, "TORCHELASTIC_RUN_ID=a", "GROUP_WORLD_SIZE=10", SLURM, NULL},
         "torchrun",
         1,
         4,
         -1},
        {{TORCH, "TORCHELASTIC_RUN_ID=a", K8S, NULL}, "torchrun", 1, 4, -1},
        {{OMPI, SLURM, "SLURM_STEP_NUM_NODES=10", NULL}, "Open MPI", 2, 5, -1},
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

TEST(test_found)
{
	for (size_t i = 0; i < LENGTH(cases); i++) {
		const struct found *c = &cases[i];
		struct launch l;
		struct err e = {0};
		environment = c->env;
		if (launch_detect(&l, test_getenv, &e) < 0)
			fail_msg("case %zu: %s", i, e.text);
		if (l.conflict.code)
			fail_msg("case %zu: %s", i, l.conflict.text);
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

TEST(test_malformed)
{
	for (size_t i = 0; i < LENGTH(bad); i++) {
		struct launch l;
		struct err e = {0};
		environment = bad[i].env;
		assert_int_equal(launch_detect(&l, test_getenv, &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
		if (!strstr(e.text, bad[i].says))
			fail_msg("'%s' does not say '%s'", e.text, bad[i].says);
	}
}

static const struct {
	const char *env[10];
	const char *says[4];
} conflicts[] = {
        {{"RANK=0", "WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4", NULL},
         {"torchrun (RANK=0)", "Open MPI (OMPI_COMM_WORLD_RANK=3)", "--rank and --size"}},
        {{"RANK=0", "WORLD_SIZE=1", "PMI_RANK=0", "PMI_SIZE=4", NULL},
         {"torchrun (WORLD_SIZE=1)", "Hydra (PMI_SIZE=4)", "--rank and --size"}},
        {{HYDRA, OMPI, NULL}, {"OMPI_COMM_WORLD_RANK=2", "PMI_RANK=3"}},
        {{SLURM, HYDRA, NULL}, {"PMI_RANK=3", "SLURM_PROCID=7"}},
        {{SLURM, HYDRA, "SLURM_STEP_NUM_NODES=2", NULL}, {"PMI_RANK=3", "SLURM_PROCID=7"}},
        {{K8S, FLUX, NULL}, {"FLUX_TASK_RANK=6", "JOB_COMPLETION_INDEX=8"}},
        {{TORCH, "TORCHELASTIC_RUN_ID=a", "GROUP_WORLD_SIZE=2", SLURM, NULL},
         {"RANK=1", "SLURM_PROCID=7"}},
        {{TORCH, "PMI_RANK=1", "SLURM_PROCID=2", "SLURM_STEP_ID=0", NULL}, {"SLURM_PROCID=2"}},
};

TEST(test_conflicts)
{
	for (size_t i = 0; i < LENGTH(conflicts); i++) {
		struct launch l;
		struct err e = {0};
		environment = conflicts[i].env;
		assert_int_equal(launch_detect(&l, test_getenv, &e), 0);
		assert_int_equal(l.conflict.code, ERR_USAGE);
		for (int k = 0; conflicts[i].says[k]; k++)
			if (!strstr(l.conflict.text, conflicts[i].says[k]))
				fail_msg("'%s' does not say '%s'", l.conflict.text,
				         conflicts[i].says[k]);
	}
}

#define LONG "0123456789012345678901234567890123456789012345678901234567890123"

static const struct {
	const char *env[10];
	const char *id, *from; /* @id may end in "-*": a hash follows */
} ids[] = {
        {{NULL}, "", NULL},
        {{TORCH, NULL}, "", NULL},
        {{TORCH, "TORCHELASTIC_RUN_ID=run.7", "SLURM_JOB_ID=3", NULL},
         "run.7",
         "TORCHELASTIC_RUN_ID"},
        {{TORCH, "TORCHELASTIC_RUN_ID=none", "MASTER_ADDR=n1", "MASTER_PORT=29500", NULL},
         "n1_29500-*",
         "MASTER_ADDR:MASTER_PORT"},
        {{TORCH, "TORCHELASTIC_RUN_ID=none", "MASTER_ADDR=n1", NULL}, "", NULL},
        {{OMPI, "PMIX_NAMESPACE=prterun-n1-99@1", "PBS_JOBID=5.srv", NULL},
         "prterun-n1-99_1-*",
         "PMIX_NAMESPACE"},
        {{OMPI, "PBS_JOBID=5.srv", NULL}, "5.srv", "PBS_JOBID"},
        {{PALS, "PALS_APID=ab-cd", NULL}, "ab-cd", "PALS_APID"},
        {{PALS, "PMI_RANK=5", "PALS_APID=ab-cd", "PBS_JOBID=1", NULL}, "ab-cd", "PALS_APID"},
        {{FLUX,
          "FLUX_JOB_ID=\xc6\x92"
          "2Xy",
          NULL},
         "__2Xy-*",
         "FLUX_JOB_ID"},
        {{SLURM, "SLURM_JOB_ID=4711", NULL}, "4711.0", "SLURM_JOB_ID.SLURM_STEP_ID"},
        /* a step that is none of srun's: the job alone */
        {{"SLURM_JOB_ID=4711", "SLURM_PROCID=0", "SLURM_STEP_ID=4294967291", NULL},
         "4711",
         "SLURM_JOB_ID"},
        /* another launcher in a step: each mpiexec of a batch script has a step for its daemons */
        {{HYDRA, "SLURM_JOB_ID=4711", "SLURM_STEP_ID=3", NULL},
         "4711.3",
         "SLURM_JOB_ID.SLURM_STEP_ID"},
        {{HYDRA, "SLURM_JOB_ID=4711", NULL}, "4711", "SLURM_JOB_ID"},
        {{"LSB_JOBID=12", NULL}, "12", "LSB_JOBID"},
        {{"PBS_JOBID=" LONG, NULL}, LONG, "PBS_JOBID"},
        {{"PBS_JOBID=" LONG "4", NULL},
         "0123456789012345678901234567890123456789012345678901234-*",
         "PBS_JOBID"},
};

TEST(test_ids)
{
	for (size_t i = 0; i < LENGTH(ids); i++) {
		static const unsigned char none[8];
		const char *star = strchr(ids[i].id, '*');
		size_t n = star ? (size_t)(star - ids[i].id) : strlen(ids[i].id);
		struct launch l;
		struct err e = {0};
		environment = ids[i].env;
		assert_int_equal(launch_detect(&l, test_getenv, &e), 0);
		if (strncmp(l.id, ids[i].id, n) != 0 || strlen(l.id) != n + (star ? 8 : 0))
			fail_msg("case %zu: '%s'", i, l.id);
		assert_int_equal(memcmp(l.tag, none, sizeof none) == 0, *ids[i].id == 0);
		if (ids[i].from)
			assert_string_equal(l.id_from, ids[i].from);
		else
			assert_null(l.id_from);
	}
}

/* Ids that become the same letters stay different names. */
TEST(test_different_ids)
{
	static const char *const first[] = {"PBS_JOBID=a:b", NULL}, *const second[] = {
	                                                                    "PBS_JOBID=a@b", NULL};
	struct launch a, b;
	struct err e = {0};
	environment = first;
	assert_int_equal(launch_detect(&a, test_getenv, &e), 0);
	environment = second;
	assert_int_equal(launch_detect(&b, test_getenv, &e), 0);
	assert_string_not_equal(a.id, b.id);
	assert_memory_not_equal(a.tag, b.tag, sizeof a.tag);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
