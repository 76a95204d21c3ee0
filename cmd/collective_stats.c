/* --stats of a collective: which tensors of the inputs have NaN or Inf. See collective.h. */
#include <inttypes.h>
#include <stdlib.h>

#include "cmd/collective.h"
#include "lib/base/offload.h"

/* ---- before the data move ---- */

static int scan_tensor(const struct dataset *d, const struct tensor *t, uint8_t *buf,
                       struct stats *stats, struct err *err)
{
	size_t esize = dtype_size(t->dtype), step = esize ? STAGING / esize * esize : STAGING;
	stats_init(stats);
	for (uint64_t at = 0, n; esize && at < t->bytes; at += n) {
		n = t->bytes - at < step ? t->bytes - at : step;
		if (offload_stopped(err) < 0 ||
		    dataset_pread(d, t->file, buf, n, t->offset + at, err) < 0)
			return -1;
		if (t->swapped)
			dataset_swap(t->dtype, buf, n / esize);
		stats_add(stats, t->dtype, buf, n / esize);
	}
	return 0;
}

static int scan(void *ctx, struct err *err)
{
	struct collective *c = ctx;
	uint8_t *buf = malloc(STAGING);
	int ret = buf ? 0 : err_nomem(err, "staging", STAGING);
	for (int k = 0; ret == 0 && k < c->ninputs; k++) {
		const struct dataset *d = &c->inputs[k];
		c->scanned[k] = calloc(d->ntensors + 1, sizeof **c->scanned);
		if (!c->scanned[k])
			ret = err_nomem(err, "the statistics", d->ntensors * sizeof **c->scanned);
		for (size_t i = 0; ret == 0 && i < d->ntensors; i++)
			ret = scan_tensor(d, &d->tensors[i], buf, &c->scanned[k][i], err);
	}
	free(buf);
	return ret;
}

int stats_scan(struct collective *c, struct err *err)
{
	if (!c->o->stats || !c->ninputs || c->shape != OF_BYTES || c->o->raw_file)
		return 0;
	c->scanned = calloc((size_t)c->ninputs, sizeof(struct stats *));
	if (!c->scanned)
		return err_nomem(err, "the statistics",
		                 (size_t)c->ninputs * sizeof(struct stats *));
	return job_aside(c->job, scan, c, err);
}

void stats_release(struct collective *c)
{
	for (int k = 0; c->scanned && k < c->ninputs; k++)
		free(c->scanned[k]);
	free(c->scanned);
}

/* ---- what was found ---- */

struct found {
	const struct collective *c;
	struct stats all;
	json_t *tensors;
};

static void tell(struct found *f, const char *path, const char *name, const struct stats *s)
{
	stats_merge(&f->all, s);
	if (!s->nans && !s->infs)
		return;
	json_array_append_new(
	        f->tensors, json_pack("{s:o, s:s, s:I, s:I, s:I}", "input", report_path_json(path),
	                              "name", name, "count", (json_int_t)s->count, "nan",
	                              (json_int_t)s->nans, "inf", (json_int_t)s->infs));
	if (f->c->o->verbose < 0)
		return;
	report_note("rank %d: %s%s%s%s: %" PRIu64 " NaN and %" PRIu64 " Inf in %" PRIu64
	            " elements",
	            f->c->rank, path, *name ? ": tensor '" : "", name, *name ? "'" : "", s->nans,
	            s->infs, s->count);
}

static void tell_part(struct found *f, const struct part *p)
{
	const struct collective *c = f->c;
	for (int k = 0; p->stats && k < p->nin; k++)
		for (size_t i = 0; i < p->nitems; i++) {
			const struct item *it = &c->items[p->items[i]];
			const struct dataset *d = &c->inputs[c->o->each ? it->input : k];
			tell(f, d->path, it->tensor.name, &p->stats[(size_t)k * p->nitems + i]);
		}
}

json_t *stats_tell(const struct collective *c)
{
	struct found f = {.c = c, .tensors = json_array()};
	stats_init(&f.all);
	for (int i = 0; i < c->nparts; i++)
		tell_part(&f, &c->parts[i]);
	for (int k = 0; c->scanned && k < c->ninputs; k++)
		for (size_t i = 0; i < c->inputs[k].ntensors; i++)
			tell(&f, c->inputs[k].path, c->inputs[k].tensors[i].name,
			     &c->scanned[k][i]);
	if (c->ninputs && !f.all.nans && !f.all.infs && c->o->verbose >= 0)
		report_note("rank %d: no NaN and no Inf in %" PRIu64 " elements", c->rank,
		            f.all.count);
	return json_pack("{s:I, s:I, s:I, s:o}", "count", (json_int_t)f.all.count, "nan",
	                 (json_int_t)f.all.nans, "inf", (json_int_t)f.all.infs, "tensors",
	                 f.tensors);
}
