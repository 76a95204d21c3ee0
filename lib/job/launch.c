#include "lib/job/launch.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

typedef char *getenv_fn_t(const char *);

/* A launcher's variables. One with `size_needed` has a rank variable of so common a name that it
 * counts only together with the size. */
struct launcher {
	const char *name, *rank, *size;
	bool size_needed;
	bool (*applies)(getenv_fn_t *, struct err *);
};

/* Slurm's ids of what is no step of srun's: batch, extern, interactive and pending. */
#define SLURM_FIRST_SPECIAL_STEP 0xfffffff0LL

static const char *get(getenv_fn_t *getenv_fn, const char *name)
{
	const char *value = name ? getenv_fn(name) : NULL;

	return value && *value ? value : NULL;
}

static int parse(const char *name, const char *value, long long lo, long long hi, long long *out,
                 struct err *err)
{
	char *end;

	errno = 0;
	*out = strtoll(value, &end, 10);
	if (errno || end == value || *end || *out < lo || *out > hi)
		return err_set(err, ERR_USAGE, "%s=%.40s: not a number from %lld to %lld", name,
		               value, lo, hi);
	return 0;
}

static int get_int(getenv_fn_t *getenv_fn, const char *name, int lo, int *out, struct err *err)
{
	const char *value = get(getenv_fn, name);
	long long v;

	if (!value)
		return 0;
	if (parse(name, value, lo, INT_MAX, &v, err) < 0)
		return -1;
	*out = (int)v;
	return 0;
}

/* The shell of a batch script carries SLURM_PROCID=0 too, but it is no rank of anything. */
static bool in_slurm_step(getenv_fn_t *getenv_fn, struct err *err)
{
	const char *value = get(getenv_fn, "SLURM_STEP_ID");
	long long id;

	if (!value || parse("SLURM_STEP_ID", value, LLONG_MIN, LLONG_MAX, &id, err) < 0)
		return false;
	return id >= 0 && id < SLURM_FIRST_SPECIAL_STEP;
}

/* In the order of precedence. */
static const struct launcher launchers[] = {
        {"torchrun", "RANK", "WORLD_SIZE", true, NULL},
        {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", false, NULL},
        {"Hydra", "PMI_RANK", "PMI_SIZE", false, NULL},
        {"JSM", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", false, NULL},
        {"PALS", "PALS_RANKID", NULL, false, NULL},
        {"Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", false, NULL},
        {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", false, in_slurm_step},
        {"Kubernetes", "JOB_COMPLETION_INDEX", NULL, false, NULL},
};

static const struct {
	const char *name;
	bool (*applies)(getenv_fn_t *, struct err *);
} local_ranks[] = {
        {"LOCAL_RANK", NULL},
        {"OMPI_COMM_WORLD_LOCAL_RANK", NULL},
        {"MPI_LOCALRANKID", NULL},
        {"SLURM_LOCALID", in_slurm_step},
};

static bool is_present(const struct launcher *l, getenv_fn_t *getenv_fn, struct err *err)
{
	if (!get(getenv_fn, l->rank) || (l->size_needed && !get(getenv_fn, l->size)))
		return false;
	return !l->applies || l->applies(getenv_fn, err);
}

static int read_launcher(struct launch *out, const struct launcher *l, getenv_fn_t *getenv_fn,
                         struct err *err)
{
	out->launcher = l->name;
	if (get_int(getenv_fn, l->rank, 0, &out->rank, err) < 0 ||
	    get_int(getenv_fn, l->size, 1, &out->size, err) < 0)
		return -1;
	if (out->size >= 0 && out->rank >= out->size)
		return err_set(err, ERR_USAGE, "%s=%d: not below %s=%d", l->rank, out->rank,
		               l->size, out->size);
	return 0;
}

static int read_local_rank(struct launch *out, getenv_fn_t *getenv_fn, struct err *err)
{
	for (size_t i = 0; i < sizeof local_ranks / sizeof local_ranks[0]; i++) {
		if (!get(getenv_fn, local_ranks[i].name) ||
		    (local_ranks[i].applies && !local_ranks[i].applies(getenv_fn, err)))
			continue;
		return get_int(getenv_fn, local_ranks[i].name, 0, &out->local_rank, err);
	}
	return 0;
}

int launch_detect(struct launch *out, char *(*getenv_fn)(const char *), struct err *err)
{
	/* An error of a row's own test (a malformed SLURM_STEP_ID) ends the search too. */
	struct err own = {.rank = ERR_RANK_SELF};

	*out = (struct launch){.rank = -1, .size = -1, .local_rank = -1};
	for (size_t i = 0; i < sizeof launchers / sizeof launchers[0] && !own.code; i++) {
		if (!is_present(&launchers[i], getenv_fn, &own))
			continue;
		if (read_launcher(out, &launchers[i], getenv_fn, &own) == 0)
			read_local_rank(out, getenv_fn, &own);
		break;
	}
	return own.code ? err_set(err, own.code, "%s", own.text) : 0;
}
