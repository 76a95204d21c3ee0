#include "lib/data/torch/torch_spool.h"

#include <stdlib.h>

#include "lib/data/files/spool.h"

#define COPY_BYTES (16u << 20)           /* memory to copy a view */
#define METADATA   "{\"format\":\"pt\"}" /* as torch's writers of .safetensors say */

void torch_spool_init(struct torch_spool *s, struct dataset *d, const struct dataset_source *source)
{
	*s = (struct torch_spool){.dataset = d, .source = source, .file = -1};
}

static int open_spool(struct torch_spool *s, struct err *err)
{
	if (s->file >= 0)
		return 0;
	const int fd = spool_open(err);
	s->file = fd < 0 ? -1 : dataset_add_file(s->dataset, fd, s->dataset->path, true, err);
	if (s->file < 0)
		return -1;
	s->dataset->files[s->file].unpacked = true;
	return 0;
}

static uint64_t bytes_of_files(const struct dataset *d)
{
	uint64_t bytes = 0;
	for (int i = 0; i < d->nfiles; i++)
		bytes += d->files[i].unpacked ? 0 : d->files[i].size;
	return bytes;
}

int torch_spool_reserve(struct torch_spool *s, uint64_t bytes, uint64_t *at, struct err *err)
{
	if (!s->source->heads_only && open_spool(s, err))
		return -1;
	*at = s->size;
	if (!__builtin_add_overflow(s->size, bytes, &s->size) && s->size <= INT64_MAX &&
	    (s->size / TORCH_EXPANDS <= bytes_of_files(s->dataset) || s->size <= s->source->memory))
		return 0;
	return err_set(err, ERR_INPUT,
	               "%s: its tensors repeat elements: they have more than %d times its size and "
	               "more than --memory; save them by .contiguous(), or give more --memory",
	               s->dataset->path, TORCH_EXPANDS);
}

bool torch_spool_copies(const struct strided *of, uint64_t bytes)
{
	return bytes && (!strided_is_c_order(of) || of->swapped);
}

int torch_spool_place(struct torch_spool *s, const struct strided *of, uint64_t bytes, int *file,
                      uint64_t *offset, struct err *err)
{
	struct dataset *d = s->dataset;
	struct err why = ERR_INIT;
	*offset = of->at;
	uint64_t at;
	if (!torch_spool_copies(of, bytes))
		return 0;
	if (s->source->heads_only) /* would it fit? */
		return torch_spool_reserve(s, bytes, &at, err);
	const char *path = d->files[*file].path;
	const int in = d->files[*file].fd;
	if (torch_spool_reserve(s, bytes, offset, err))
		return -1;
	*file = s->file;
	if (strided_to_c(of, in, d->files[s->file].fd, *offset, COPY_BYTES, &why) == 0)
		return 0;
	return err_set(err, why.code, "%s: a view cannot be copied: %s", path, why.text);
}

int torch_spool_aside(const struct torch_spool *s, int (*fn)(void *arg, struct err *), void *arg,
                      struct err *err)
{
	return s->source->aside ? s->source->aside(s->source->ctx, fn, arg, err) : fn(arg, err);
}

int torch_spool_end(struct torch_spool *s, struct err *err)
{
	struct dataset *d = s->dataset;
	if (s->file >= 0)
		d->files[s->file].size = s->size;
	for (int i = 0; i < d->nfiles; i++) {
		free(d->files[i].metadata);
		d->files[i].metadata = NULL;
	}
	if (!d->nfiles)
		return 0;
	d->files[0].metadata = err_strdup(METADATA, "metadata", err);
	return d->files[0].metadata ? 0 : -1;
}
