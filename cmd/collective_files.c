/* Inputs and outputs of a collective, and the executor's way to them. See collective.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/collective.h"
#include "cmd/stdio_file.h"
#include "lib/job/details.h"

/* ---- inputs ---- */

/* Of a broadcast, a file that is no array can be taken as it is. */
static int hint_at_bytes(const struct collective *c, struct err *err)
{
	size_t n = strlen(err->text);
	if ((c->cmd->opts & OPTS_BYTES) && err->code == ERR_USAGE)
		snprintf(err->text + n, sizeof err->text - n, ", or --raw-file for its bytes");
	return -1;
}

static enum array_format format_option(const struct options *o)
{
	if (o->raw_file)
		return ARRAY_RAW;
	if (!o->format)
		return ARRAY_FORMAT_AUTO;
	return strcmp(o->format, "raw") == 0 ? ARRAY_RAW : ARRAY_NPY;
}

/* Whoever writes to a pipe may take long: meanwhile the job goes on, and can be stopped. */
static int await_pipe(void *ctx, int fd, struct err *err)
{
	const struct collective *c = ctx;
	return job_await(c->job, fd, err);
}

static int open_input(struct collective *c, const char *name, const struct array_hints *hints,
                      struct err *err)
{
	struct array_file *f = &c->inputs[c->ninputs];
	const struct array_file *first = &c->inputs[0];
	char shape[ARRAY_SHAPE_TEXT], first_shape[ARRAY_SHAPE_TEXT];
	char *path = joining_path(name, c->rank, c->size, err);
	int ret = path ? stdio_array_open(f, path, hints, await_pipe, c, err) : -1;
	free(path);
	if (ret < 0)
		return hint_at_bytes(c, err);
	c->ninputs++;
	if (f->info.dtype != first->info.dtype)
		return err_set(err, ERR_INPUT, "%s: dtype %s differs from %s of %s", f->path,
		               dtype_name(f->info.dtype), dtype_name(first->info.dtype),
		               first->path);
	if (!array_same(&f->info, &first->info))
		return err_set(err, ERR_INPUT, "%s: shape %s differs from %s of %s", f->path,
		               array_shape_text(&f->info, shape),
		               array_shape_text(&first->info, first_shape), first->path);
	return 0;
}

/* Can the collective work on such an array? */
static int check_input(const struct collective *c, struct err *err)
{
	const char *path = c->inputs[0].path;
	uint64_t sum;
	if (coll_reduces(c->kind) && !reduce_op_defined(c->op, c->info.dtype))
		return err_set(err, ERR_USAGE, "%s: --op %s is not defined on %s", path,
		               reduce_op_name(c->op), dtype_name(c->info.dtype));
	if (c->rules->cut != CUT_ELEMENTS && c->info.ndim == 0)
		return err_set(err, ERR_INPUT,
		               "%s: shape () is a single element: %s needs an axis 0 to %s along",
		               path, c->cmd->name, c->rules->cut == CUT_ROWS ? "cut" : "join");
	if (c->counts && (rows_sum(c->counts, c->size, &sum) < 0 || sum != c->info.shape[0]))
		return err_set(err, ERR_USAGE, "%s: has %llu rows, but --counts add up to %llu",
		               path, (unsigned long long)c->info.shape[0], (unsigned long long)sum);
	return 0;
}

int files_open_inputs(struct collective *c, char **paths, int n, struct err *err)
{
	const struct options *o = c->o;
	struct array_hints hints = {.format = format_option(o), .shape = o->shape};
	if (!collective_reads(c))
		return 0;
	if (o->dtype)
		hints.dtype = dtype_by_name(o->dtype);
	if (o->raw_file)
		hints.dtype = DTYPE_U8;
	c->inputs = calloc((size_t)n, sizeof *c->inputs);
	if (!c->inputs)
		return err_nomem(err, "the inputs", (size_t)n * sizeof *c->inputs);
	for (int i = 0; i < n; i++)
		if (open_input(c, paths[i], &hints, err) < 0)
			return -1;
	c->info = c->inputs[0].info;
	return check_input(c, err);
}

/* ---- outputs ---- */

/* The output has the input's format, which another rank may have told. */
static int check_format(const struct collective *c, const struct output *out, struct err *err)
{
	enum array_format want = c->layout.out.format, format = format_option(c->o);
	if (out->is_stdout && format == ARRAY_FORMAT_AUTO)
		return 0;
	if (array_format_of(out->path, format, &format, err) < 0)
		return -1;
	if (format == want)
		return 0;
	if (c->o->format)
		return err_set(err, ERR_USAGE, "%s: the output has the input's format: --format %s",
		               out->path, want == ARRAY_NPY ? "npy" : "raw");
	return err_set(err, ERR_USAGE, "%s: the output has the input's format: end its name in %s",
	               out->path, want == ARRAY_NPY ? ".npy" : ".bin or .raw");
}

int files_name_outputs(struct collective *c, struct err *err)
{
	const struct options *o = c->o;
	if (!collective_writes(c))
		return 0;
	if (o->noutputs != 1 && o->noutputs != c->ninputs)
		return err_set(
		        err, ERR_USAGE,
		        "-o is given %d times: give it once, or once for each of the %d inputs",
		        o->noutputs, c->ninputs);
	c->outputs = calloc((size_t)o->noutputs, sizeof *c->outputs);
	if (!c->outputs)
		return err_nomem(err, "the outputs", (size_t)o->noutputs * sizeof *c->outputs);
	for (int i = 0; i < o->noutputs; i++) {
		struct output *out = &c->outputs[i];
		out->path = joining_path(o->outputs[i], c->rank, c->size, err);
		if (!out->path)
			return -1;
		c->noutputs++;
		out->is_stdout = strcmp(out->path, "-") == 0;
		if (check_format(c, out, err) < 0)
			return -1;
	}
	return 0;
}

int files_open_outputs(struct collective *c, struct err *err)
{
	const struct array_info *info = &c->layout.out;
	if (!c->noutputs)
		return 0;
	c->header_len = array_header(info, c->header, sizeof c->header);
	if (c->header_len < 0)
		return err_set(err, ERR_OUTPUT, "%s: the header of this shape is too long",
		               c->outputs[0].path);
	uint64_t size = (uint64_t)c->header_len + array_bytes(info);
	for (int i = 0; i < c->noutputs; i++) {
		struct output *out = &c->outputs[i];
		int ret = out->is_stdout ? stdio_spool_open(&out->file, size, err)
		                         : outfile_open(&out->file, out->path, size, !c->o->no_sync,
		                                        c->o->force, err);
		if (ret < 0)
			return -1;
		out->open = true;
		if (outfile_pwrite(&out->file, c->header, (size_t)c->header_len, 0, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- the files' side of the executor ---- */

int files_prepare(struct collective *c, struct err *err)
{
	const struct coll_args *args = &c->layout.args;
	const struct coll_layout l = coll_layout(c->kind, c->rank, c->size, args->root);
	size_t esize = dtype_size(c->info.dtype), n = (size_t)(l.out_hi - l.out_lo);
	c->read_staging = malloc(STAGING);
	c->write_staging = malloc(STAGING);
	uint64_t *starts = calloc(n + 1, sizeof *starts);
	const struct array_info *info = &c->layout.out;
	const struct tensor whole = {.dtype = info->dtype,
	                             .ndim = info->ndim,
	                             .shape = info->shape,
	                             .count = info->count,
	                             .bytes = array_bytes(info)};
	if (starts && c->noutputs) {
		for (size_t j = 0; j < n; j++)
			starts[j] = coll_out_at(c->kind, args, l.out_lo + (int)j) * esize;
		c->digest = digest_new(&(const struct tensor *){&whole}, 1, starts, n);
	}
	free(starts);
	if (!c->read_staging || !c->write_staging || (c->noutputs && !c->digest))
		return err_nomem(err, "the digest and staging", 2 * STAGING);
	return 0;
}

int files_read(void *ctx, int input, void *buf, uint64_t pos, uint64_t n, struct err *err)
{
	struct collective *c = ctx;
	const struct array_file *f = &c->inputs[input];
	size_t esize = dtype_size(c->info.dtype), wide = dtype_size(c->dtype);
	if (c->dtype == c->info.dtype)
		return array_pread(f, buf, n * esize, f->info.offset + pos * esize, err);
	convert_fn *convert = convert_kernel(c->dtype, c->info.dtype);
	for (uint64_t i = 0, len; i < n; i += len) {
		len = n - i < STAGING / wide ? n - i : STAGING / wide;
		if (array_pread(f, c->read_staging, len * esize, f->info.offset + (pos + i) * esize,
		                err) < 0)
			return -1;
		convert((uint8_t *)buf + i * wide, c->read_staging, len);
	}
	return 0;
}

static int store(struct collective *c, const void *buf, uint64_t pos, size_t bytes, struct err *err)
{
	digest_update(c->digest, pos, buf, bytes);
	for (int i = 0; i < c->noutputs; i++)
		if (outfile_pwrite(&c->outputs[i].file, buf, bytes, (uint64_t)c->header_len + pos,
		                   err) < 0)
			return -1;
	return 0;
}

int files_write(void *ctx, const void *buf, uint64_t pos, uint64_t n, bool final, struct err *err)
{
	struct collective *c = ctx;
	size_t esize = dtype_size(c->info.dtype), wide = dtype_size(c->dtype);
	bool divide = final && c->op == REDUCE_AVG;
	if (c->dtype == c->info.dtype && !divide)
		return store(c, buf, pos * esize, n * esize, err);
	for (uint64_t i = 0, len; i < n; i += len) {
		const uint8_t *from = (const uint8_t *)buf + i * wide;
		len = n - i < STAGING / wide ? n - i : STAGING / wide;
		if (divide)
			final_kernel(c->info.dtype, c->dtype)(c->write_staging, from, c->divisor,
			                                      len);
		else
			convert_kernel(c->info.dtype, c->dtype)(c->write_staging, from, len);
		if (store(c, c->write_staging, (pos + i) * esize, len * esize, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- the end ---- */

static int read_back(void *ctx, void *buf, size_t bytes, uint64_t pos, struct err *err)
{
	struct collective *c = ctx;
	return outfile_pread(&c->outputs[0].file, buf, bytes, (uint64_t)c->header_len + pos, err);
}

int files_seal(struct collective *c, struct err *err)
{
	for (int i = 0; i < c->ninputs; i++)
		if (array_unchanged(&c->inputs[i], err) < 0)
			return -1;
	if (c->digest && digest_final(c->digest, read_back, c, &c->digest_bytes, err) < 0)
		return -1;
	for (int i = 0; i < c->noutputs; i++)
		if (outfile_seal(&c->outputs[i].file, err) < 0)
			return -1;
	return 0;
}

int files_commit(struct collective *c, struct err *err)
{
	for (int i = 0; i < c->noutputs; i++) {
		struct output *out = &c->outputs[i];
		int ret = out->is_stdout ? stdio_spool_copy(&out->file, err)
		                         : outfile_commit(&out->file, err);
		if (ret < 0)
			return -1;
	}
	return 0;
}

void files_release(struct collective *c)
{
	for (int i = 0; i < c->ninputs; i++)
		array_close(&c->inputs[i]);
	for (int i = 0; i < c->noutputs; i++) {
		if (c->outputs[i].open)
			outfile_release(&c->outputs[i].file);
		free(c->outputs[i].path);
	}
	digest_free(c->digest);
	free(c->inputs);
	free(c->outputs);
	free(c->read_staging);
	free(c->write_staging);
}
