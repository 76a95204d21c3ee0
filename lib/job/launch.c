#include "lib/job/launch.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

typedef char *getenv_fn_t(const char *);

/* A launcher's variables. With `size_needed`, the rank variable has so common a name that it counts
 * only together with the size. `id` is the launcher's name of the launch, with `id_more` as a
 * second part. */
struct launcher {
	const char *name, *rank, *size;
	bool size_needed;
	bool (*applies)(getenv_fn_t *, struct err *);
	const char *id, *id_more;
};

#define PMI_RANK   "PMI_RANK"
#define SLURM_JOB  "SLURM_JOB_ID"
#define SLURM_STEP "SLURM_STEP_ID"

/* Slurm's special step ids, which are not srun's: batch, extern, interactive and pending. */
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

/* The shell of a batch script has SLURM_PROCID=0 too, but it is not a rank. */
static bool in_slurm_step(getenv_fn_t *getenv_fn, struct err *err)
{
	const char *value = get(getenv_fn, SLURM_STEP);
	long long id;

	if (!value || parse(SLURM_STEP, value, LLONG_MIN, LLONG_MAX, &id, err) < 0)
		return false;
	return id >= 0 && id < SLURM_FIRST_SPECIAL_STEP;
}

/* In the order of precedence. */
static const struct launcher launchers[] = {
        {"torchrun", "RANK", "WORLD_SIZE", true, NULL, "TORCHELASTIC_RUN_ID", NULL},
        {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", false, NULL, "PMIX_NAMESPACE",
         NULL},
        {"Hydra", PMI_RANK, "PMI_SIZE", false, NULL, "PMIX_NAMESPACE", NULL},
        {"JSM", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", false, NULL, "PMIX_NAMESPACE", NULL},
        {"PALS", "PALS_RANKID", NULL, false, NULL, "PALS_APID", NULL},
        {"Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", false, NULL, "FLUX_JOB_ID", NULL},
        {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", false, in_slurm_step, SLURM_JOB,
         SLURM_STEP},
        {"Kubernetes", "JOB_COMPLETION_INDEX", NULL, false, NULL, NULL, NULL},
};

/* The job ids of batch systems, for launchers that give a launch no id and for ranks that a batch
 * script starts by hand. A step of Slurm has one launch, that of srun or of the launcher that uses
 * srun to start its daemons. */
static const char *const batch_ids[] = {"PBS_JOBID", "LSB_JOBID", SLURM_JOB, "FLUX_JOB_ID"};

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
	out->rank_from = l->rank;
	out->size_from = out->size >= 0 ? l->size : NULL;
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

/* ---- several launchers ---- */

static bool same_number(getenv_fn_t *getenv_fn, const char *variable, int value)
{
	const char *text = get(getenv_fn, variable);

	return text && value >= 0 && strtoll(text, NULL, 10) == value;
}

/*
 * Did @outer only start the launcher @inner once on each host? Then @outer's ranks are not the
 * job's. torchrun gives its number of groups (GROUP_WORLD_SIZE); mpirun under Slurm starts its
 * daemons by a step with one task on each node.
 */
static bool started_by(const struct launcher *inner, const struct launch *outer,
                       getenv_fn_t *getenv_fn)
{
	if (strcmp(inner->name, "torchrun") == 0)
		return get(getenv_fn, "TORCHELASTIC_RUN_ID") &&
		       (outer->size < 0 || same_number(getenv_fn, "GROUP_WORLD_SIZE", outer->size));
	return strcmp(outer->launcher, "Slurm") == 0 &&
	       same_number(getenv_fn, "SLURM_STEP_NUM_NODES", outer->size);
}

static void set_conflict(struct launch *l, const struct launch *other)
{
	bool rank = l->rank != other->rank;

	err_set(&l->conflict, ERR_USAGE,
	        "%s (%s=%d) and %s (%s=%d) disagree about the %s: give --rank and --size, or unset "
	        "the stale variables",
	        l->launcher, rank ? l->rank_from : l->size_from, rank ? l->rank : l->size,
	        other->launcher, rank ? other->rank_from : other->size_from,
	        rank ? other->rank : other->size, rank ? "rank" : "size");
}

/* Compare the launcher in use, **row, with those after it. Others than Hydra set PMI's variables,
 * too (srun --mpi=pmi2): if one of them agrees, it is the launcher. */
static int compare(struct launch *out, const struct launcher **row, getenv_fn_t *getenv_fn,
                   struct err *err)
{
	const struct launcher *first = *row;
	const size_t found = (size_t)(first - launchers);
	for (size_t i = found + 1; i < sizeof launchers / sizeof launchers[0]; i++) {
		struct launch other = {.rank = -1, .size = -1};
		if (!is_present(&launchers[i], getenv_fn, err) || err->code)
			continue;
		if (read_launcher(&other, &launchers[i], getenv_fn, err) < 0)
			return -1;
		bool sizes = out->size >= 0 && other.size >= 0 && out->size != other.size;
		if (out->rank == other.rank && !sizes) {
			if (strcmp(first->rank, PMI_RANK) != 0)
				continue;
			out->launcher = other.launcher;
			if (!get(getenv_fn, first->id))
				*row = &launchers[i];
		} else if (!started_by(first, &other, getenv_fn)) {
			set_conflict(out, &other);
		}
	}
	return err->code ? -1 : 0;
}

/* ---- the launch's id ---- */

/* Make @id a job's name. If characters must change, a hash of the whole id keeps different ids
 * different. */
static void make_name(const char *id, char name[JOB_NAME_MAX + 1])
{
	enum { HASH = 9 }; /* "-%08x" */
	uint64_t sum = XXH3_64bits(id, strlen(id));
	bool changed = strlen(id) > JOB_NAME_MAX;
	size_t n = 0;

	for (const char *p = id; *p && n < JOB_NAME_MAX; p++) {
		bool fits = isalnum((unsigned char)*p) || strchr("._-", *p);
		name[n++] = fits ? *p : '_';
		changed |= !fits;
	}
	if (changed && n > JOB_NAME_MAX - HASH)
		n = JOB_NAME_MAX - HASH;
	name[n] = '\0';
	if (changed)
		snprintf(name + n, HASH + 1, "-%08" PRIx32, (uint32_t)sum);
}

static void set_id(struct launch *l, const char *from, const char *id, const char *separator,
                   const char *more)
{
	char whole[1024];

	snprintf(whole, sizeof whole, "%s%s%s", id, more ? separator : "", more ? more : "");
	make_name(whole, l->id);
	uint64_t sum = XXH3_64bits(whole, strlen(whole));
	memcpy(l->tag, &sum, sizeof l->tag);
	l->id_from = from;
}

/* @row: of the launcher that was found, or NULL. */
static void find_id(struct launch *l, const struct launcher *row, getenv_fn_t *getenv_fn)
{
	const char *id = row ? get(getenv_fn, row->id) : NULL;
	const char *more = row ? get(getenv_fn, row->id_more) : NULL;
	bool torchrun = row && strcmp(row->name, "torchrun") == 0;
	struct err malformed = ERR_INIT;

	if (torchrun && (!id || strcmp(id, "none") == 0)) { /* torchrun ran without --rdzv-id */
		id = get(getenv_fn, "MASTER_ADDR");
		more = get(getenv_fn, "MASTER_PORT");
		if (id && more) {
			set_id(l, "MASTER_ADDR:MASTER_PORT", id, ":", more);
			return;
		}
		id = more = NULL;
	}
	if (id) {
		set_id(l, more ? SLURM_JOB "." SLURM_STEP : row->id, id, ".", more);
		return;
	}
	more = NULL;
	for (size_t i = 0; i < sizeof batch_ids / sizeof batch_ids[0]; i++) {
		id = get(getenv_fn, batch_ids[i]);
		if (!id)
			continue;
		if (strcmp(batch_ids[i], SLURM_JOB) == 0 && in_slurm_step(getenv_fn, &malformed))
			more = get(getenv_fn, SLURM_STEP);
		set_id(l, more ? SLURM_JOB "." SLURM_STEP : batch_ids[i], id, ".", more);
		return;
	}
}

int launch_detect(struct launch *out, char *(*getenv_fn)(const char *), struct err *err)
{
	/* An error of a row's own test (a malformed SLURM_STEP_ID) also ends the search. */
	struct err own = ERR_INIT;
	const struct launcher *row = NULL;

	*out = (struct launch){.rank = -1, .size = -1, .local_rank = -1, .conflict = ERR_INIT};
	for (size_t i = 0; i < sizeof launchers / sizeof launchers[0] && !own.code && !row; i++) {
		if (!is_present(&launchers[i], getenv_fn, &own))
			continue;
		row = &launchers[i];
		if (read_launcher(out, row, getenv_fn, &own) == 0 &&
		    compare(out, &row, getenv_fn, &own) == 0)
			read_local_rank(out, getenv_fn, &own);
	}
	find_id(out, row, getenv_fn);
	return own.code ? err_set(err, own.code, "%s", own.text) : 0;
}
