/* --stats of a collective: which tensors of the inputs have NaN or Inf. See collective.h. */
#include <stdlib.h>

#include "lib/base/offload.h"
#include "lib/coll/collective.h"

/* ---- before the transfer ---- */

static int scan_tensor(const struct dataset *d, const struct tensor *t, uint8_t *buf,
                       struct stats *stats, struct err *err)
{
	size_t esize = dtype_size(t->dtype), step = esize ? STAGING / esize * esize : STAGING;
	stats_init(stats);
	for (uint64_t at = 0, n; esize && at < t->bytes; at += n) {
		n = t->bytes - at < step ? t->bytes - at : step;
		if (offload_stopped(err) < 0 || dataset_read_native(d, t, buf, n, at, err) < 0)
			return -1;
		stats_add(stats, t->dtype, buf, n / esize);
	}
	return 0;
}

static int scan(void *ctx, struct err *err)
{
	struct collective *c = ctx;
	uint8_t *buf = err_malloc(STAGING, "staging", err);
	int ret = buf ? 0 : -1;
	for (int k = 0; ret == 0 && k < c->transfer.ninputs; k++) {
		const struct dataset *d = &c->transfer.inputs[k];
		c->transfer.scanned[k] = err_calloc(d->ntensors + 1, sizeof **c->transfer.scanned,
		                                    "the statistics", err);
		if (!c->transfer.scanned[k])
			ret = -1;
		for (size_t i = 0; ret == 0 && i < d->ntensors; i++)
			ret = scan_tensor(d, &d->tensors[i], buf, &c->transfer.scanned[k][i], err);
	}
	free(buf);
	return ret;
}

int input_stats_scan(struct collective *c, struct err *err)
{
	if (!c->request->stats || !c->transfer.ninputs || c->agreed.content != CONTENT_BYTES ||
	    c->request->files.raw_file)
		return 0;
	c->transfer.scanned = err_calloc((size_t)c->transfer.ninputs, sizeof *c->transfer.scanned,
	                                 "the statistics", err);
	return c->transfer.scanned ? job_run_in_thread(c->life->job, scan, c, err) : -1;
}

void input_stats_release(struct collective *c)
{
	for (int k = 0; c->transfer.scanned && k < c->transfer.ninputs; k++)
		free(c->transfer.scanned[k]);
	free(c->transfer.scanned);
	free(c->transfer.found);
}

/* ---- results ---- */

/* Add the counts of a tensor. */
static void add(struct transfer *t, const char *path, const char *name, const struct stats *s)
{
	stats_merge(&t->found_all, s);
	if (s->nans || s->infs)
		t->found[t->nfound++] = (struct coll_found){.input = path,
		                                            .tensor = name,
		                                            .count = s->count,
		                                            .nans = s->nans,
		                                            .infs = s->infs};
}

static void add_vector(struct collective *c, int i)
{
	const struct vector *v = &c->agreed.vectors[i];
	const struct stats *stats = c->transfer.files ? c->transfer.files[i].stats : NULL;
	for (int k = 0; stats && k < v->ninputs; k++)
		for (size_t j = 0; j < v->ntensors; j++) {
			const struct vector_tensor *t = &c->agreed.tensors[v->tensors[j]];
			const struct dataset *d =
			        &c->transfer.inputs[c->request->each ? t->input : k];
			add(&c->transfer, d->path, t->tensor.name,
			    &stats[(size_t)k * v->ntensors + j]);
		}
}

void input_stats_report(struct collective *c, struct coll_result *r)
{
	struct transfer *t = &c->transfer;
	size_t n = c->agreed.ntensors * (size_t)(t->ninputs + 1);
	for (int k = 0; k < t->ninputs; k++)
		n += t->inputs[k].ntensors;
	stats_init(&t->found_all);
	if (!(t->found = err_calloc(n + 1, sizeof *t->found, "the statistics", &r->err)))
		return;
	for (int i = 0; i < c->agreed.nvectors; i++)
		add_vector(c, i);
	for (int k = 0; t->scanned && k < t->ninputs; k++)
		for (size_t i = 0; i < t->inputs[k].ntensors; i++)
			add(t, t->inputs[k].path, t->inputs[k].tensors[i].name, &t->scanned[k][i]);
	r->found = t->found;
	r->nfound = t->nfound;
	r->overflowed = t->overflowed;
	r->found_all = (struct coll_found){
	        .count = t->found_all.count, .nans = t->found_all.nans, .infs = t->found_all.infs};
}
