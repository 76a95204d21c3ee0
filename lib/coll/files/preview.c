/* request.dry_run: what a collective would do on this rank. See collective.h. */
#include <stdlib.h>

#include "lib/coll/collective.h"

/* Bytes of the elements that this rank reads from each of its inputs, and writes to each output. */
static uint64_t bytes_in(const struct vector *v)
{
	const struct coll_args *args = &v->layout.args;
	const struct coll_layout l = coll_layout(v->kind, args->rank, args->size, args->root);
	uint64_t first = coll_in_at(v->kind, args, l.in_lo),
	         end = coll_in_at(v->kind, args, l.in_hi);
	if (v->blocks)
		return v->info.count * dtype_size(v->dtype);
	return (end - first) * dtype_size(v->dtype);
}

static uint64_t bytes_out(const struct vector *v)
{
	const struct coll_args *args = &v->layout.args;
	const struct coll_layout l = coll_layout(v->kind, args->rank, args->size, args->root);
	uint64_t first = coll_out_at(v->kind, args, l.out_lo),
	         end = coll_out_at(v->kind, args, l.out_hi);
	if (v->blocks)
		return v->info.count * dtype_size(v->out);
	if (v->stores_block) {
		first = v->layout.off[args->rank];
		end = v->layout.off[args->rank + 1];
	}
	return (end - first) * dtype_size(v->out);
}

static void list_vectors(struct collective *c)
{
	const struct agreement *a = &c->agreed;
	struct coll_preview *p = &c->transfer.preview;
	for (int i = 0; i < a->nvectors; i++) {
		const struct vector *v = &a->vectors[i];
		uint64_t count = v->blocks ? v->info.count : coll_count(&v->layout.args);
		p->vectors[p->nvectors++] =
		        (struct coll_planned){.algorithm = v->algorithm,
		                              .dtype = v->dtype,
		                              .wire = v->wire,
		                              .out = v->out,
		                              .count = count,
		                              .bytes = count * dtype_size(v->dtype),
		                              .windows = v->windows,
		                              .seconds = planner_seconds(&c->planner, i)};
		p->bytes_read += bytes_in(v) * (uint64_t)v->ninputs;
		if (c->transfer.sink)
			p->bytes_written += bytes_out(v) * (uint64_t)c->transfer.copies;
	}
}

static void list_outputs(struct collective *c, int n)
{
	const struct sink *sink = c->transfer.sink;
	struct coll_preview *p = &c->transfer.preview;
	for (int f = 0; f < n; f++)
		p->outputs[p->noutputs++] =
		        (struct coll_planned_output){.path = sink_path(sink, f),
		                                     .points_to = sink_points_to(sink, f),
		                                     .fate = sink_fate(sink, f),
		                                     .sized = !sink_is_packed(sink, f),
		                                     .bytes = sink_size(sink, f)};
}

static int list_deletes(struct collective *c, struct err *err)
{
	const struct extras *x = &c->transfer.deletes.extras;
	struct coll_preview *p = &c->transfer.preview;
	if (!(p->deletes = err_calloc(x->n + 1, sizeof *p->deletes, "the preview", err)))
		return -1;
	for (; p->ndeletes < x->n; p->ndeletes++)
		p->deletes[p->ndeletes] = x->list[p->ndeletes].path;
	return 0;
}

int preview_make(struct collective *c, struct err *err)
{
	struct drive *d = &c->transfer.drive;
	struct coll_preview *p = &c->transfer.preview;
	int nfiles = c->transfer.sink ? sink_files(c->transfer.sink) : 0;
	p->vectors =
	        err_calloc((size_t)c->agreed.nvectors + 1, sizeof *p->vectors, "the preview", err);
	p->outputs = err_calloc((size_t)nfiles + 1, sizeof *p->outputs, "the preview", err);
	if (!p->vectors || !p->outputs || list_deletes(c, err) < 0)
		return -1;
	list_vectors(c);
	list_outputs(c, nfiles);
	for (int r = 0; r < c->agreed.size; r++)
		d->npeers += d->edges[r] != 0;
	p->bytes_read += c->transfer.update.equal; /* copied from old files */
	p->bytes_written += c->transfer.update.equal;
	if (exec_foresee(&d->conf, &d->stats, err) < 0)
		return -1;
	if (c->request->op == REDUCE_SLERP &&
	    coll_reduces(c->request->kind)) { /* data move twice */
		d->stats.bytes_sent *= 2;
		d->stats.bytes_received *= 2;
		d->stats.messages *= 2;
	}
	return 0;
}

void preview_release(struct collective *c)
{
	free(c->transfer.preview.vectors);
	free(c->transfer.preview.outputs);
	free(c->transfer.preview.deletes);
}
