/*
 * The array is divided into boxes of equal shape. A box is read in runs along its first axes,
 * transposed in memory and written in runs along its last axes. choose_box grows the box from one
 * element, always lengthening the shorter kind of run, until the memory is used or the box is the
 * whole array, which is one run in both orders.
 */
#include "lib/data/formats/fortran.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/offload.h"
#include "lib/data/formats/array.h"

struct boxes {
	int ndim;                        /* axes longer than one; at least one axis */
	uint64_t shape[ARRAY_MAX_DIMS];  /* of the array */
	uint64_t box[ARRAY_MAX_DIMS];    /* of a full box */
	uint64_t origin[ARRAY_MAX_DIMS]; /* of the current box */
	uint64_t extent[ARRAY_MAX_DIMS];
	size_t esize;
	char *columns, *rows; /* a box in Fortran order and in C order */
};

/* ---- the box ---- */

/* The length of the runs of @box. *axis: the first axis, in file order, that the runs do not cover
 * (b->ndim: none). @backward: C order, from the last axis to the first. */
static uint64_t run_length(const struct boxes *b, const uint64_t *box, bool backward, int *axis)
{
	uint64_t run = 1;
	for (int k = 0; k < b->ndim; k++) {
		int i = backward ? b->ndim - 1 - k : k;
		run *= box[i];
		*axis = i;
		if (box[i] < b->shape[i])
			return run;
	}
	*axis = b->ndim;
	return run;
}

/* Double the box along @axis, up to the array's length and @most elements. */
static bool grow(struct boxes *b, int axis, uint64_t *volume, uint64_t most)
{
	if (axis == b->ndim)
		return false;
	uint64_t others = *volume / b->box[axis], length = 2 * b->box[axis];
	length = length < b->shape[axis] ? length : b->shape[axis];
	length = length < most / others ? length : most / others;
	if (length <= b->box[axis])
		return false;
	b->box[axis] = length;
	*volume = others * length;
	return true;
}

/* Returns the box's number of elements: at most @most, at least one. */
static uint64_t choose_box(struct boxes *b, uint64_t most)
{
	uint64_t volume = 1;
	bool grown;
	for (int i = 0; i < b->ndim; i++)
		b->box[i] = 1;
	do {
		int first, last;
		uint64_t read = run_length(b, b->box, false, &first);
		uint64_t written = run_length(b, b->box, true, &last);
		grown = read <= written
		                ? grow(b, first, &volume, most) || grow(b, last, &volume, most)
		                : grow(b, last, &volume, most) || grow(b, first, &volume, most);
	} while (grown);
	return volume;
}

/* Set the extent of the box at the origin, clipped to the array. */
static void cut_box(struct boxes *b)
{
	for (int i = 0; i < b->ndim; i++) {
		uint64_t left = b->shape[i] - b->origin[i];
		b->extent[i] = b->box[i] < left ? b->box[i] : left;
	}
}

/* Go to the next box; false: that was the last. The last axis is the fastest. */
static bool next_box(struct boxes *b)
{
	for (int i = b->ndim - 1; i >= 0; i--) {
		b->origin[i] += b->extent[i];
		if (b->origin[i] < b->shape[i])
			return true;
		b->origin[i] = 0;
	}
	return false;
}

/* ---- the files ---- */

static int read_run(int fd, char *p, size_t bytes, uint64_t at, struct err *err)
{
	ssize_t got = pread_full(fd, p, bytes, at);
	if (got < 0)
		return err_errno(err, ERR_INPUT, "cannot read");
	if ((size_t)got < bytes)
		return err_set(err, ERR_INPUT,
		               "became shorter while it was read: expected %zu bytes at offset "
		               "%" PRIu64,
		               bytes, at);
	return 0;
}

static int write_run(int fd, char *p, size_t bytes, uint64_t at, struct err *err)
{
	return pwrite_all(fd, p, bytes, at) < 0
	               ? err_errno(err, ERR_RESOURCE, "cannot write a temporary file")
	               : 0;
}

typedef int run_fn(int fd, char *p, size_t bytes, uint64_t at, struct err *err);

/* The position in a file of the element at @index of the current box, in elements. */
static uint64_t position(const struct boxes *b, const uint64_t *index, bool backward)
{
	uint64_t at = 0;
	for (int k = b->ndim - 1; k >= 0; k--) {
		int i = backward ? b->ndim - 1 - k : k;
		at = at * b->shape[i] + b->origin[i] + index[i];
	}
	return at;
}

/* Transfer every run of the current box, in file order. */
static int transfer(const struct boxes *b, run_fn *fn, int fd, uint64_t base, bool backward,
                    char *buf, struct err *err)
{
	uint64_t index[ARRAY_MAX_DIMS] = {0};
	int inner, step = backward ? -1 : 1, end = backward ? -1 : b->ndim;
	size_t bytes = (size_t)run_length(b, b->extent, backward, &inner) * b->esize;
	for (;;) {
		if (fn(fd, buf, bytes, base + position(b, index, backward) * b->esize, err))
			return -1;
		buf += bytes;
		if (inner == b->ndim)
			return 0;
		int i = inner + step;
		for (; i != end && ++index[i] == b->extent[i]; i += step)
			index[i] = 0;
		if (i == end)
			return 0;
	}
}

/* ---- transposition ---- */

/* A plane is transposed in blocks through a buffer, so that each cache line is used completely at
 * once: lines at distances of a power of two conflict in the cache. */
#define BLOCK     32 /* elements per side */
#define MAX_ESIZE 16

__attribute__((always_inline)) static inline void turn_block(char *dst, const char *src,
                                                             size_t rows, size_t columns,
                                                             size_t dst_row, size_t src_column,
                                                             size_t esize)
{
	char block[BLOCK * BLOCK * MAX_ESIZE];
	for (size_t j = 0; j < columns; j++)
		memcpy(block + j * BLOCK * esize, src + j * src_column * esize, rows * esize);
	for (size_t i = 0; i < rows; i++)
		for (size_t j = 0; j < columns; j++)
			memcpy(dst + (i * dst_row + j) * esize, block + (j * BLOCK + i) * esize,
			       esize);
}

/* Column j of @src has @rows elements; columns are @src_column elements apart. It becomes element j
 * of each row of @dst; rows are @dst_row elements apart. */
__attribute__((always_inline)) static inline void turn_plane_of(char *dst, const char *src,
                                                                size_t rows, size_t columns,
                                                                size_t dst_row, size_t src_column,
                                                                size_t esize)
{
	for (size_t i = 0; i < rows; i += BLOCK)
		for (size_t j = 0; j < columns; j += BLOCK)
			turn_block(dst + (i * dst_row + j) * esize,
			           src + (j * src_column + i) * esize,
			           rows - i < BLOCK ? rows - i : BLOCK,
			           columns - j < BLOCK ? columns - j : BLOCK, dst_row, src_column,
			           esize);
}

/* The same, with common element sizes as constants. */
static void turn_plane(char *dst, const char *src, size_t rows, size_t columns, size_t dst_row,
                       size_t src_column, size_t esize)
{
	switch (esize) {
	case 1:
		turn_plane_of(dst, src, rows, columns, dst_row, src_column, 1);
		break;
	case 2:
		turn_plane_of(dst, src, rows, columns, dst_row, src_column, 2);
		break;
	case 4:
		turn_plane_of(dst, src, rows, columns, dst_row, src_column, 4);
		break;
	case 8:
		turn_plane_of(dst, src, rows, columns, dst_row, src_column, 8);
		break;
	case 16:
		turn_plane_of(dst, src, rows, columns, dst_row, src_column, 16);
		break;
	default:
		turn_plane_of(dst, src, rows, columns, dst_row, src_column, esize);
	}
}

/* Transpose b->columns to b->rows: the planes of the first and last axes, one per index of the
 * other axes. */
static void turn_box(const struct boxes *b)
{
	size_t in[ARRAY_MAX_DIMS], out[ARRAY_MAX_DIMS], index[ARRAY_MAX_DIMS] = {0};
	size_t from = 0, to = 0, volume = 1;
	int last = b->ndim - 1, i;
	for (i = 0; i <= last; volume *= b->extent[i++])
		in[i] = volume;
	for (i = last, volume = 1; i >= 0; volume *= b->extent[i--])
		out[i] = volume;
	if (!last) {
		memcpy(b->rows, b->columns, volume * b->esize);
		return;
	}
	do {
		turn_plane(b->rows + to * b->esize, b->columns + from * b->esize, b->extent[0],
		           b->extent[last], out[0], in[last], b->esize);
		for (i = 1; i < last; i++) {
			from += in[i];
			to += out[i];
			if (++index[i] < b->extent[i])
				break;
			from -= in[i] * index[i];
			to -= out[i] * index[i];
			index[i] = 0;
		}
	} while (i < last);
}

/* ---- entry ---- */

/* Larger boxes gain nothing: the runs are long enough, and fresh pages cost more. */
#define ENOUGH ((size_t)64 << 20)

/* Set b->shape without axes of length one. */
static void drop_short_axes(struct boxes *b, const uint64_t *shape, int ndim)
{
	for (int i = 0; i < ndim; i++)
		if (shape[i] > 1)
			b->shape[b->ndim++] = shape[i];
	if (!b->ndim)
		b->shape[b->ndim++] = 1;
}

int fortran_to_c(int in, uint64_t in_at, int out, uint64_t out_at, const uint64_t *shape, int ndim,
                 size_t esize, size_t memory, struct err *err)
{
	struct boxes b = {.esize = esize};
	int result = -1;
	for (int i = 0; i < ndim; i++)
		if (!shape[i])
			return 0;
	drop_short_axes(&b, shape, ndim);
	memory = memory < ENOUGH ? memory : ENOUGH;
	size_t bytes = (size_t)choose_box(&b, memory / 2 / esize) * esize;
	b.columns = err_malloc(bytes, "an array in Fortran order", err);
	b.rows = err_malloc(bytes, "an array in Fortran order", err);
	if (!b.columns || !b.rows)
		goto out;
	do {
		cut_box(&b);
		if (offload_stopped(err) ||
		    transfer(&b, read_run, in, in_at, false, b.columns, err))
			goto out;
		turn_box(&b);
		if (transfer(&b, write_run, out, out_at, true, b.rows, err))
			goto out;
	} while (next_box(&b));
	result = 0;
out:
	free(b.columns);
	free(b.rows);
	return result;
}
