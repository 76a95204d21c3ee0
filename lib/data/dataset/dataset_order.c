/* Converts arrays in Fortran order to C order. */
#include <unistd.h>

#include "lib/data/dataset/dataset.h"
#include "lib/data/files/spool.h"
#include "lib/data/formats/fortran.h"

/* Convert @t from @in to offset @at of @out. */
static int turn(const struct dataset *d, struct tensor *t, int in, int out, uint64_t at,
                size_t memory, struct err *err)
{
	struct err why = {0};
	if (fortran_to_c(in, t->offset, out, at, t->shape, t->ndim, dtype_size(t->dtype), memory,
	                 &why))
		return err_set(err, why.code, "%s: cannot be converted to C order: %s", d->path,
		               why.text);
	t->offset = at;
	t->fortran = false;
	return 0;
}

/* Convert the array of a .npy file into a spool, which replaces the file in the dataset. */
static int turn_file(struct dataset *d, struct tensor *t, size_t memory, struct err *err)
{
	struct dataset_file *f = &d->files[t->file];
	int spool = spool_open(err);
	if (spool < 0)
		return -1;
	if (turn(d, t, f->fd, spool, 0, memory, err) || dataset_unchanged(d, err)) {
		close(spool);
		return -1;
	}
	close(f->fd);
	f->fd = spool;
	f->spooled = true;
	f->size = t->bytes;
	return 0;
}

int dataset_to_c_order(struct dataset *d, size_t memory, struct err *err)
{
	for (size_t i = 0; i < d->ntensors; i++) {
		struct tensor *t = &d->tensors[i];
		struct dataset_file *f = &d->files[t->file];
		if (!t->fortran)
			continue;
		if (!f->spooled) {
			if (turn_file(d, t, memory, err))
				return -1;
			continue;
		}
		/* All members are in a spool: append the converted array to it. */
		if (turn(d, t, f->fd, f->fd, f->size, memory, err))
			return -1;
		f->size += t->bytes;
	}
	return 0;
}
