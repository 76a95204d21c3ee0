/* Files of a single array, with or without a header. */
#include "lib/data/formats/format_internal.h"

int dataset_add_array(struct dataset *d, const char *name, const struct array_info *info,
                      uint64_t at, int file, struct err *err)
{
	const struct tensor t = {
	        .name = name,
	        .dtype = info->dtype,
	        .ndim = info->ndim,
	        .shape = info->shape,
	        .count = info->count,
	        .bytes = array_bytes(info),
	        .offset = at + info->offset,
	        .swapped = info->swapped,
	        .fortran = info->fortran,
	};
	return dataset_add_tensor(d, &t, file, err);
}

int format_open_array(struct dataset *d, const struct dataset_source *source,
                      const struct array_hints *hints, struct err *err)
{
	const struct dataset_file *f = &d->files[0];
	struct array_info info;
	(void)source;
	if (d->format->describe(f->fd, f->path, 0, f->size, hints, &info, err) < 0 ||
	    array_check_hints(f->path, hints, &info, err) < 0)
		return -1;
	return dataset_add_array(d, "", &info, 0, 0, err);
}

static int add_file(struct sink *s, const char *path, const struct array_info *info,
                    struct place *place, struct err *err)
{
	char head[ARRAY_HEADER_MAX];
	long len = info->format->header(info, head, sizeof head);
	if (len < 0)
		return err_set(err, ERR_OUTPUT, "%s: the header of this shape is too long", path);
	place->offset = (uint64_t)len;
	place->file = sink_add(s, path, head, (size_t)len, (uint64_t)len + array_bytes(info), err);
	if (place->file < 0)
		return -1;
	sink_set_dtype(s, place->file, info->dtype);
	return 0;
}

int sink_add_array(struct sink *s, const char *path, const struct format *hint,
                   const struct array_info *info, struct place *place, struct err *err)
{
	if (sink_check_format(path, hint, info->format, err) < 0)
		return -1;
	return add_file(s, path, info, place, err);
}

int sink_tensor_info(const struct tensor *t, const struct format *format, struct array_info *info,
                     struct err *err)
{
	if (tensor_info(t, info))
		return err_set(err, ERR_INPUT, "tensor '%s': has %d dimensions: at most %d fit",
		               t->name, t->ndim, ARRAY_MAX_DIMS);
	info->format = format;
	info->swapped = false;
	info->fortran = t->fortran;
	return 0;
}

int format_lay_out_array(struct sink *s, const char *path, const struct dataset *like,
                         struct place *places, struct err *err)
{
	struct array_info info;
	if (like->ntensors != 1)
		return err_set(err, ERR_USAGE, "%s: holds one array, not %zu", path,
		               like->ntensors);
	if (sink_tensor_info(&like->tensors[0], like->format, &info, err) < 0)
		return -1;
	return add_file(s, path, &info, places, err);
}
