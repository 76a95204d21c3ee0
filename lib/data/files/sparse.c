#include "lib/data/files/sparse.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOLE_LEAST 4096u /* smaller holes are not worth a range */

void sparse_release(struct sparse *s)
{
	free(s->range);
	*s = (struct sparse){0};
}

/* Fill the smallest holes, until there are at most @most ranges. */
static void merge(struct sparse *s, size_t most)
{
	for (uint64_t least = 2 * HOLE_LEAST; s->n > most; least *= 2) {
		size_t last = 0;
		for (size_t i = 1; i < s->n; i++) {
			struct file_range *a = &s->range[last], *b = &s->range[i];
			if (b->offset - (a->offset + a->bytes) < least)
				a->bytes = b->offset + b->bytes - a->offset;
			else
				s->range[++last] = *b;
		}
		s->n = last + 1;
	}
}

static int add(struct sparse *s, uint64_t offset, uint64_t end, struct err *err)
{
	struct file_range *last = s->n ? &s->range[s->n - 1] : NULL;
	if (last && offset - (last->offset + last->bytes) < HOLE_LEAST) {
		last->bytes = end - last->offset;
		return 0;
	}
	struct file_range *range = err_grow(s->range, s->n, sizeof *range, "the holes", err);
	if (!range)
		return -1;
	s->range = range;
	range[s->n++] = (struct file_range){offset, end - offset};
	return 0;
}

int sparse_find(struct sparse *s, int fd, uint64_t size, size_t most, struct err *err)
{
	struct stat st;
	*s = (struct sparse){0};
	if (!most || fstat(fd, &st) || (uint64_t)st.st_blocks * 512 >= size)
		return 0;
	for (uint64_t at = 0; at < size;) {
		const off_t data = lseek(fd, (off_t)at, SEEK_DATA); /* -1: a hole up to the end */
		if (data < 0 || (uint64_t)data >= size)
			break;
		const off_t hole = lseek(fd, data, SEEK_HOLE);
		at = hole < 0 || (uint64_t)hole > size ? size : (uint64_t)hole;
		if (add(s, (uint64_t)data, at, err) < 0) {
			sparse_release(s);
			return -1;
		}
	}
	merge(s, most);
	s->sparse = sparse_bytes(&(struct sparse){true, s->range, s->n}, size) < size;
	if (!s->sparse)
		sparse_release(s);
	return 0;
}

uint64_t sparse_bytes(const struct sparse *s, uint64_t size)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < s->n; i++)
		bytes += s->range[i].bytes;
	return s->sparse ? bytes : size;
}

/* The first range that ends after @offset. */
static size_t find(const struct sparse *s, uint64_t offset)
{
	size_t lo = 0, hi = s->n;
	while (lo < hi) {
		const size_t mid = lo + (hi - lo) / 2;
		if (s->range[mid].offset + s->range[mid].bytes <= offset)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int sparse_visit(const struct sparse *s, uint64_t offset, uint64_t bytes,
                 int (*fn)(void *ctx, uint64_t offset, uint64_t bytes, struct err *err), void *ctx,
                 struct err *err)
{
	const uint64_t end = offset + bytes;
	int ret = 0;
	if (!s->sparse)
		return bytes ? fn(ctx, offset, bytes, err) : 0;
	for (size_t i = find(s, offset); i < s->n && s->range[i].offset < end && ret == 0; i++) {
		const struct file_range *r = &s->range[i];
		const uint64_t from = r->offset > offset ? r->offset : offset;
		const uint64_t to = r->offset + r->bytes < end ? r->offset + r->bytes : end;
		ret = fn(ctx, from, to - from, err);
	}
	return ret;
}
