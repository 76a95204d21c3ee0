/* .npz: a zip archive of .npy files (npz.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/data/files/spool.h"
#include "lib/data/formats/format_internal.h"
#include "lib/data/formats/npz.h"

/* ---- reading ---- */

struct unpacking {
	struct dataset *dataset;
	const struct array_hints *hints;
	int from, spool, file;
	bool heads_only;
	uint64_t memory;
};

static int add_member(void *ctx, const char *name, uint64_t at, uint64_t bytes, struct err *err)
{
	const struct unpacking *u = ctx;
	const struct dataset_file *f = &u->dataset->files[u->file];
	struct array_info info;
	char *path = err_asprintf("a name", err, "%s: member '%.200s.npy'", f->path, name);
	if (!path)
		return -1;
	int ret = format_npy.describe(f->fd, path, at, bytes, u->hints, &info, err);
	free(path);
	return ret ? -1 : dataset_add_array(u->dataset, name, &info, at, u->file, err);
}

static int unpack(void *arg, struct err *err)
{
	struct unpacking *u = arg;
	return npz_unpack(u->from, u->dataset->path, u->spool, u->heads_only, u->memory, add_member,
	                  u, err);
}

/* Unpack the archive into a spool, which is the dataset's second file. */
static int open_npz(struct dataset *d, const struct dataset_source *src,
                    const struct array_hints *hints, struct err *err)
{
	struct unpacking u = {.dataset = d,
	                      .hints = hints,
	                      .from = d->files[0].fd,
	                      .spool = spool_open(err),
	                      .heads_only = src->heads_only,
	                      .memory = src->memory};
	struct stat st;
	if (u.spool < 0)
		return -1;
	u.file = dataset_add_file(d, u.spool, d->path, true, err);
	if (u.file < 0)
		return -1;
	d->files[u.file].unpacked = true;
	if (src->aside ? src->aside(src->ctx, unpack, &u, err) : unpack(&u, err))
		return -1;
	if (fstat(u.spool, &st))
		return err_errno(err, ERR_RESOURCE, "%s: the spool", d->path);
	d->files[u.file].size = (uint64_t)st.st_size;
	return 0;
}

/* ---- writing: the members are consecutive in a spool until the archive is packed ---- */

static int add_members(struct archive *a, const struct dataset *like, struct place *places,
                       struct err *err)
{
	char head[ARRAY_HEADER_MAX];
	for (size_t i = 0; i < like->ntensors; i++) {
		const struct tensor *t = &like->tensors[i];
		struct array_info info;
		if (sink_tensor_info(t, &format_npy, &info, err))
			return -1;
		long len = npy_header(&info, head, sizeof head);
		if (len < 0)
			return err_set(err, ERR_OUTPUT,
			               "tensor '%s': the header of this shape is too long",
			               t->name);
		places[i].offset = a->bytes + (uint64_t)len;
		if (archive_add(a, t->name, head, (size_t)len, t->bytes, err))
			return -1;
	}
	return 0;
}

static int lay_out(struct sink *s, const char *path, const struct dataset *like,
                   struct place *places, struct err *err)
{
	struct archive a = {.pack = npz_pack};
	if (add_members(&a, like, places, err)) {
		archive_release(&a);
		return -1;
	}
	int file = sink_add_archive(s, path, &a, err);
	for (size_t i = 0; i < like->ntensors; i++)
		places[i].file = file;
	return file < 0 ? -1 : 0;
}

static bool loses(enum dtype dtype)
{
	return dtype == DTYPE_BF16 || dtype == DTYPE_F8E4M3 || dtype == DTYPE_F8E5M2;
}

const struct format format_npz = {
        .name = "npz",
        .suffixes = {".npz"},
        .number = 4,
        .loses = loses,
        .open = open_npz,
        .lay_out = lay_out,
};
