#include "lib/data/torch/fsdp.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"
#include "lib/base/vec.h"
#include "lib/data/files/input.h"
#include "lib/data/formats/format_internal.h"
#include "lib/data/torch/pieces.h"
#include "lib/data/torch/torch_archive.h"

#define NAME "model_world_size_%d_rank_%d.pt"

/* ---- the files ---- */

/* Is it a name of these files? */
static bool is_name(const char *name, int *size, int *rank)
{
	char again[64];
	if (sscanf(name, NAME, size, rank) != 2 || *size < 1 || *size > JOB_MAX_SIZE || *rank < 0 ||
	    *rank >= *size)
		return false;
	snprintf(again, sizeof again, NAME, *size, *rank);
	return strcmp(again, name) == 0;
}

static int is_piece(const struct dirent *e)
{
	int size, rank;
	return is_name(e->d_name, &size, &rank);
}

/* The sizes in the names of the folder's files: the least and the greatest, both 0 if it has none.
 */
static int list_sizes(const char *folder, int *least, int *most, struct err *err)
{
	struct dirent **list = NULL;
	int n = scandir(folder, &list, is_piece, alphasort), size, rank;
	*least = *most = 0;
	if (n < 0)
		return err_errno(err, ERR_INPUT, "%s: cannot list", folder);
	for (int i = 0; i < n; i++) {
		is_name(list[i]->d_name, &size, &rank);
		if (!i || size < *least)
			*least = size;
		if (size > *most)
			*most = size;
		free(list[i]);
	}
	free(list);
	return 0;
}

bool fsdp_is_folder(const char *folder)
{
	struct err ignored = ERR_INIT;
	int least, most;
	return list_sizes(folder, &least, &most, &ignored) == 0 && most > 0;
}

/* ---- the tensors ---- */

/* A tensor of one file. */
struct part {
	char *name;
	int rank;
	enum dtype dtype;
	int ndim;
	uint64_t shape[ARRAY_MAX_DIMS]; /* of the whole */
	struct tensor_box box;
};

struct collecting {
	struct torch_spool spool;
	int size; /* files */
	int rank; /* whose file is read: number `file` of the dataset */
	int file;
	VEC(struct part) parts;
};

static int take_part(void *ctx, const char *name, const struct torch_tensor *t,
                     const struct strided *of, struct err *err)
{
	struct collecting *c = ctx;
	struct part *p = vec_push(&c->parts);
	if (!p)
		return err_nomem(err, "the pieces of a checkpoint", sizeof *p);
	*p = (struct part){.name = err_strdup(*name ? name : "tensor", "a name", err),
	                   .rank = c->rank,
	                   .dtype = t->dtype,
	                   .ndim = t->ndim,
	                   .box = {.file = c->file, .offset = of->at}};
	if (!p->name)
		return -1;
	memcpy(p->shape, t->piece ? t->whole : t->shape, sizeof p->shape);
	memcpy(p->box.size, t->shape, sizeof p->box.size);
	if (t->piece)
		memcpy(p->box.first, t->first, sizeof p->box.first);
	return torch_spool_place(&c->spool, of, t->count * dtype_size(t->dtype), &p->box.file,
	                         &p->box.offset, err);
}

/* Of all ranks' values those of rank 0 are kept. */
static int take_value(void *ctx, const char *name, const struct pickle_value *v, struct err *err)
{
	static const char other[] = "\"a value\"";
	struct collecting *c = ctx;
	(void)v;
	return c->rank ? 0
	               : dataset_add_value(c->spool.dataset, name, other, sizeof other - 1, err);
}

static int read_file(struct collecting *c, int size, int rank, struct err *err)
{
	struct dataset *d = c->spool.dataset;
	const struct torch_archive_visitor visitor = {
	        .pieces = true, .tensor = take_part, .other = take_value, .ctx = c};
	struct torch_archive a;
	c->rank = rank;
	char name[64];
	struct stat st;
	snprintf(name, sizeof name, NAME, size, rank);
	char *path = path_join(d->path, name, err);
	if (path && c->spool.source->parts && access(path, F_OK) < 0 && errno == ENOENT) {
		free(path);
		return 0;
	}
	int fd = path ? input_open(path, &st, err) : -1;
	c->file = fd < 0 ? -1 : dataset_add_file(d, fd, path, false, err);
	free(path);
	if (c->file < 0)
		return -1;
	const struct dataset_file *f = &d->files[c->file];
	if (torch_archive_open(&a, f->fd, f->path, 0, f->size, err))
		return -1;
	int ret = torch_archive_visit(&a, &visitor, err);
	torch_archive_release(&a);
	return ret;
}

static int by_name(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	const int d = strcmp(x->name, y->name);
	return d ? d : x->rank < y->rank ? -1 : x->rank > y->rank;
}

static bool same_place(const struct tensor_box *a, const struct tensor_box *b, int ndim)
{
	const size_t n = (size_t)ndim * sizeof *a->first;
	return memcmp(a->first, b->first, n) == 0 && memcmp(a->size, b->size, n) == 0;
}

/* Join the @n parts of one tensor. Of replicas the first counts. */
static int join_one(struct collecting *c, const struct part *p, size_t n, struct err *err)
{
	const struct dataset *d = c->spool.dataset;
	struct array_info info = {.dtype = p->dtype, .ndim = p->ndim};
	struct tensor_box *boxes = err_calloc(n, sizeof *boxes, "the pieces", err);
	int ret = boxes ? 0 : -1, nboxes = 0;
	memcpy(info.shape, p->shape, sizeof info.shape);
	if (ret == 0 && array_count(&info))
		ret = err_set(err, ERR_INPUT, "%s: tensor '%.200s' is too large", d->path, p->name);
	for (size_t k = 0; ret == 0 && k < n; k++) {
		bool replica = false;
		if (p[k].dtype != p->dtype || p[k].ndim != p->ndim ||
		    memcmp(p[k].shape, p->shape, sizeof p->shape) != 0)
			ret = err_set(err, ERR_INPUT,
			              "%s: tensor '%.200s' has another type or shape than in %s",
			              d->files[p[k].box.file].path, p->name,
			              d->files[p->box.file].path);
		if (ret == 0 && k && p[k].rank == p[k - 1].rank)
			ret = err_set(err, ERR_INPUT,
			              "%s: rank %d has two tensors of the name '%.200s'", d->path,
			              p[k].rank, p->name);
		for (int i = 0; i < nboxes && !replica && !c->spool.source->parts; i++)
			replica = same_place(&boxes[i], &p[k].box, p->ndim);
		if (!replica)
			boxes[nboxes++] = p[k].box;
	}
	const struct tensor whole = {.name = p->name,
	                             .dtype = p->dtype,
	                             .ndim = p->ndim,
	                             .shape = info.shape,
	                             .count = info.count,
	                             .bytes = array_bytes(&info)};
	if (ret == 0)
		ret = pieces_join(&c->spool, &whole, boxes, nboxes, err);
	free(boxes);
	return ret;
}

static int join_all(void *arg, struct err *err)
{
	struct collecting *c = arg;
	for (int r = 0; r < c->size; r++)
		if (read_file(c, c->size, r, err))
			return -1;
	const size_t n = c->parts.n;
	const struct part *p = c->parts.v;
	if (!n)
		return err_set(err, ERR_INPUT, "%s: holds no tensor", c->spool.dataset->path);
	qsort(c->parts.v, n, sizeof *c->parts.v, by_name);
	for (size_t i = 0, same; i < n; i += same) {
		same = 1;
		while (i + same < n && strcmp(p[i].name, p[i + same].name) == 0)
			same++;
		if (join_one(c, &p[i], same, err))
			return -1;
	}
	return torch_spool_end(&c->spool, err);
}

int fsdp_open(struct dataset *d, const struct dataset_source *source, struct err *err)
{
	struct collecting c = {0};
	int other;
	char what[512];
	torch_spool_init(&c.spool, d, source);
	d->format = &format_torch;
	d->joined = true;
	if (list_sizes(d->path, &other, &c.size, err))
		return -1;
	if (other != c.size)
		return err_set(err, ERR_INPUT,
		               "%s: holds the pieces of %d and of %d ranks: remove one of the two",
		               d->path, other, c.size);
	snprintf(what, sizeof what, "the %d files of %.400s", c.size, d->path);
	int ret = need_descriptors(c.size + SPARE_DESCRIPTORS, what, err);
	if (ret == 0)
		ret = torch_spool_aside(&c.spool, join_all, &c, err);
	for (size_t i = 0; i < c.parts.n; i++)
		free(c.parts.v[i].name);
	free(c.parts.v);
	return ret;
}
