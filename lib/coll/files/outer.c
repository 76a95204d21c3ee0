#include "lib/coll/files/outer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/io.h"
#include "lib/coll/collective.h"
#include "lib/coll/request/paths.h"
#include "lib/data/dataset/dataset_output.h"
#include "lib/data/kernels/delta.h"

static bool has_outer(const struct collective *c)
{
	return c->request->have_outer && agreement_writes(&c->agreed, c->request) &&
	       c->transfer.ninputs;
}

static char *path_of(const struct collective *c, struct err *err)
{
	return paths_fill(c->request->momentum, c->agreed.rank, c->agreed.size, NULL, err);
}

/* ---- the momentum before ---- */

/* Is the file also that of the origin, or an input? Then the new momentum would replace it. */
static int check_apart(const struct collective *c, const struct dataset *d, struct err *err)
{
	const struct stat *own = &d->files[0].was;
	for (int k = -1; k < c->transfer.ninputs; k++) {
		const struct dataset *with =
		        k < 0 ? &c->transfer.origin.file.data : &c->transfer.inputs[k];
		for (int i = 0; i < with->nfiles; i++)
			if (io_same_file(&with->files[i].was, own))
				return err_set(err, ERR_USAGE,
				               "--momentum: %s is also %s: give another name",
				               d->path, k < 0 ? "--origin" : "an input");
	}
	return 0;
}

/* It must have the floats of @in, in the types of differences. */
static int check_tensors(const struct dataset *d, const struct dataset *in, struct err *err)
{
	char shape[ARRAY_SHAPE_TEXT], want_shape[ARRAY_SHAPE_TEXT];
	size_t k = 0;
	for (size_t i = 0; i < in->ntensors; i++) {
		const struct tensor *want = &in->tensors[i], *t = &d->tensors[k];
		const enum dtype dtype = delta_dtype(want->dtype);
		if (dtype == DTYPE_NONE)
			continue;
		if (k == d->ntensors || strcmp(t->name, want->name) != 0)
			return err_set(err, ERR_INPUT, "%s: --momentum: lacks the tensor '%.200s'",
			               d->path, want->name);
		tensor_shape_text(t, shape);
		tensor_shape_text(want, want_shape);
		if (t->dtype != dtype || strcmp(shape, want_shape) != 0)
			return err_set(err, ERR_INPUT,
			               "%s: --momentum: tensor '%.200s' is %s %s: expected %s %s",
			               d->path, t->name, dtype_name(t->dtype), shape,
			               dtype_name(dtype), want_shape);
		k++;
	}
	if (k == d->ntensors)
		return 0;
	return err_set(err, ERR_INPUT, "%s: --momentum: the inputs lack its tensor '%.200s'",
	               d->path, d->tensors[k].name);
}

static int open_file(struct collective *c, const char *path, struct err *err)
{
	struct inspection *in = &c->transfer.outer.file;
	/* Its tensors have the names of the output. */
	const struct input_options plain = {.format = c->request->files.format};
	const struct input_source from = {.o = &plain,
	                                  .heads_only = c->request->dry_run,
	                                  .memory = c->request->settings.memory,
	                                  .job = c->life->job};
	struct stat st;
	if (stat(path, &st) && errno == ENOENT)
		return 0;
	if (inspect_open(in, path, &from, err) < 0 || check_apart(c, &in->data, err) < 0 ||
	    check_tensors(&in->data, &c->transfer.inputs[0], err) < 0)
		return -1;
	return origin_digest(c, in, err);
}

int outer_open(struct collective *c, struct err *err)
{
	if (!has_outer(c))
		return 0;
	char *path = path_of(c, err);
	int ret = path ? open_file(c, path, err) : -1;
	free(path);
	return ret;
}

void outer_fact(const struct collective *c, struct intent *in)
{
	const struct inspection *file = &c->transfer.outer.file;
	char text[DIGEST_TEXT];
	if (c->request->have_outer && coll_rules(c->request->kind)->replicated)
		intent_add(in, "--momentum",
		           file->digests ? digest_text(file->digest, text)
		           : file->open  ? "given"
		                         : "no file");
}

void outer_release(struct collective *c)
{
	struct outer_state *o = &c->transfer.outer;
	for (int i = 0; i < c->agreed.nvectors; i++) {
		if (o->in)
			extents_release(&o->in[i]);
		if (o->out)
			extents_release(&o->out[i]);
	}
	free(o->in);
	free(o->out);
	free(o->buf);
	inspect_release(&o->file);
}

/* ---- the momentum after ---- */

/* Keep the floats of *out, as one file. at[i]: the index of tensor i of the input, or SIZE_MAX. */
static void keep_floats(struct dataset_output *out, size_t *at)
{
	size_t n = 0;
	for (size_t i = 0; i < out->like.ntensors; i++) {
		const enum dtype dtype = delta_dtype(out->tensors[i].dtype);
		at[i] = dtype == DTYPE_NONE ? SIZE_MAX : n;
		if (dtype == DTYPE_NONE)
			continue;
		out->tensors[n] = out->tensors[i];
		out->tensors[n].file = 0;
		tensor_set_dtype(&out->tensors[n++], dtype);
	}
	out->like.ntensors = n;
	out->like.sharded = false;
	out->like.index = NULL;
}

/* Map the vectors to the momentum: to the file, if it exists, and to the @places in the sink. */
static int map(struct collective *c, const struct place *places, const size_t *at, struct err *err)
{
	struct outer_state *o = &c->transfer.outer;
	const size_t n = (size_t)c->agreed.nvectors + 1;
	o->in = err_calloc(n, sizeof *o->in, "the momentum", err);
	o->out = err_calloc(n, sizeof *o->out, "the momentum", err);
	o->buf = err_malloc(STAGING, "staging", err);
	if (!o->in || !o->out || !o->buf)
		return -1;
	for (int i = 0; i < c->agreed.nvectors; i++) {
		const struct vector *v = &c->agreed.vectors[i];
		for (size_t k = 0; vector_is_delta(v, c->request) && k < v->ntensors; k++) {
			const size_t index = at[c->agreed.tensors[v->tensors[k]].index];
			const struct tensor *t = o->file.open ? &o->file.data.tensors[index] : NULL;
			const uint64_t bytes = c->agreed.tensors[v->tensors[k]].tensor.count *
			                       dtype_size(delta_dtype(v->dtype));
			if ((t && files_map_tensor(&o->in[i], 0, t, t->swapped, err) < 0) ||
			    extents_add(&o->out[i], 0, places[index].file, places[index].offset,
			                bytes, false, err) < 0)
				return -1;
		}
	}
	return 0;
}

int outer_name(struct collective *c, struct err *err)
{
	struct dataset_output out;
	if (!has_outer(c))
		return 0;
	const struct dataset *in = &c->transfer.inputs[0];
	struct place *places = err_calloc(in->ntensors + 1, sizeof *places, "the momentum", err);
	size_t *at = err_calloc(in->ntensors + 1, sizeof *at, "the momentum", err);
	char *path = path_of(c, err);
	int ret = places && at && path ? dataset_output_of(&out, in, DTYPE_NONE, err) : -1;
	if (ret == 0) {
		keep_floats(&out, at);
		ret = sink_add_like(c->transfer.sink, path, c->request->files.format, &out.like,
		                    places, err);
		dataset_output_release(&out);
	}
	if (ret == 0)
		ret = map(c, places, at, err);
	free(path);
	free(places);
	free(at);
	return ret;
}

/* ---- elements ---- */

int outer_step(const struct collective *c, int vector, void *to, const void *origin,
               const void *from, double by, uint64_t pos, uint64_t n, struct err *err)
{
	const struct vector *v = &c->agreed.vectors[vector];
	const struct outer_state *o = &c->transfer.outer;
	const enum dtype dtype = delta_dtype(v->dtype);
	if (!o->file.open)
		memset(o->buf, 0, n * dtype_size(dtype));
	else if (origin_read(&o->file.data, &o->in[vector], dtype, o->buf, pos, n, err) < 0)
		return -1;
	delta_outer(v->out, to, v->dtype, origin, v->wire, from, by, dtype, o->buf,
	            c->request->outer.rate, c->request->outer.momentum, n);
	return elements_put(c, &o->out[vector], o->buf, pos * dtype_size(dtype),
	                    n * dtype_size(dtype), err);
}
