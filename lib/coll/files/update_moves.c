/*
 * --delta: the tensors of a file are matched by name, so that those that are at another place than
 * in OLD still have their old bytes as base. The root reads the headers of both versions and tells
 * the other ranks what has moved; these read no headers. See update.h.
 */
#include "lib/coll/files/update.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/coll/collective.h"
#include "lib/data/files/input.h"

#define WIDTHS 4 /* of elements: 1, 2, 4 and 8 bytes */

/* ---- the tensors of two versions, at the root ---- */

/* Open @fd, a file of this format. Empty if that fails, or @fd is -1. The file is the one that is
 * open, whatever has its name now. */
static void open_tensors(struct dataset *d, int fd, const struct format *format, uint64_t memory)
{
	const struct array_hints hints = {.format = format};
	const struct dataset_source source = {
	        .hints = &hints, .heads_only = true, .memory = memory};
	struct err unread = ERR_INIT;
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (fd < 0 || dataset_open(d, path, &source, &unread) < 0)
		*d = (struct dataset){0};
}

/* Are its bytes in the file as they are? */
static bool is_plain(const struct dataset *d, const struct tensor *t)
{
	return d->nfiles == 1 && !d->files[0].spooled && !t->npieces && !t->copied && t->bytes;
}

static bool same_tensor(const struct tensor *a, const struct tensor *b)
{
	bool same = a->dtype == b->dtype && a->ndim == b->ndim && a->fortran == b->fortran &&
	            a->swapped == b->swapped && a->bytes == b->bytes;
	for (int k = 0; same && k < a->ndim; k++)
		same = a->shape[k] == b->shape[k];
	return same;
}

static int by_place(const void *a, const void *b)
{
	const struct update_move *x = a, *y = b;
	return x->at < y->at ? -1 : x->at > y->at;
}

static unsigned width_of(enum dtype dtype)
{
	const size_t n = dtype_size(dtype);
	return n == 1 || n == 2 || n == 4 ? (unsigned)n : n ? 8 : 0;
}

/* List the tensors of @new, with the width of their elements, in the order of their places. @from
 * is set for those that @old has, too. Returns their number, or -1. */
static long list_tensors(const struct dataset *new, const struct dataset *old,
                         struct update_move **list, struct err *err)
{
	long n = 0;
	size_t k = 0;
	if (!(*list = err_calloc(new->ntensors + 1, sizeof **list, "the tensors", err)))
		return -1;
	for (size_t i = 0; i < new->ntensors; i++) { /* both are sorted by name */
		const struct tensor *t = &new->tensors[i];
		while (k < old->ntensors && strcmp(old->tensors[k].name, t->name) < 0)
			k++;
		if (!is_plain(new, t))
			continue;
		struct update_move *m = &(*list)[n++];
		*m = (struct update_move){.at = t->offset,
		                          .bytes = t->bytes,
		                          .from = UPDATE_NOWHERE,
		                          .width = width_of(t->dtype)};
		if (k < old->ntensors && strcmp(old->tensors[k].name, t->name) == 0 &&
		    is_plain(old, &old->tensors[k]) && same_tensor(t, &old->tensors[k]))
			m->from = old->tensors[k].offset;
	}
	qsort(*list, (size_t)n, sizeof **list, by_place);
	return n;
}

/* Add @m behind the others, or to the last. */
static int add(struct update_moves *l, size_t first, const struct update_move *m, struct err *err)
{
	struct update_move *last = l->n > first ? &l->list[l->n - 1] : NULL;
	if (last && last->at + last->bytes == m->at && last->width == m->width &&
	    (m->from == UPDATE_NOWHERE ? last->from == UPDATE_NOWHERE
	                               : last->from + last->bytes == m->from)) {
		last->bytes += m->bytes;
		return 0;
	}
	struct update_move *list = err_grow(l->list, l->n, sizeof *list, "the tensors", err);
	if (!list)
		return -1;
	l->list = list;
	list[l->n++] = *m;
	return 0;
}

/* Storages may overlap: what is behind the end of the one before. */
static bool follows(const struct update_move *list, long k)
{
	return k == 0 || list[k].at >= list[k - 1].at + list[k - 1].bytes;
}

static int add_file(struct update *u, uint64_t f, const struct update_move *list, long n,
                    struct err *err)
{
	const size_t first = u->elements.n, first_move = u->moves.n;
	bool moved = false, plain = true;
	for (long k = 0; k < n; k++) {
		plain &= follows(list, k);
		moved |= list[k].from != UPDATE_NOWHERE && list[k].from != list[k].at;
	}
	for (long k = 0; k < n && plain; k++) {
		struct update_move m = list[k];
		m.file = f;
		m.from = UPDATE_NOWHERE;
		if (add(&u->elements, first, &m, err) < 0)
			return -1;
		m.from = list[k].from;
		m.width = 0;
		if (moved && m.from != UPDATE_NOWHERE && add(&u->moves, first_move, &m, err) < 0)
			return -1;
	}
	return 0;
}

static int compare_tensors(struct collective *c, int f, struct err *err)
{
	const struct dataset_file *in = files_listed_input(c, f);
	const struct format *format = NULL;
	const uint64_t memory = c->life->plan.memory;
	struct err unknown = ERR_INIT;
	struct dataset new, old;
	struct update_move *list = NULL;
	if (in->spooled || format_of(in->name, NULL, &format, &unknown) < 0)
		return 0;
	const int fd = update_open_old(c, f, NULL), in_fd = dataset_file_open(in, &unknown);
	open_tensors(&new, in_fd, format, memory);
	open_tensors(&old, new.ntensors ? fd : -1, format, memory);
	const long n = list_tensors(&new, &old, &list, err);
	const int ret = n < 0 ? -1 : add_file(&c->transfer.update, (uint64_t)f, list, n, err);
	free(list);
	dataset_close(&new);
	dataset_close(&old);
	dataset_file_close(in, in_fd);
	if (fd >= 0)
		close(fd);
	return ret;
}

/* The most moves that a rank takes. */
static size_t most_moves(const struct collective *c)
{
	return c->life->plan.memory / (2 * sizeof(struct update_move));
}

int update_find_moves(struct collective *c, struct err *err)
{
	struct update *u = &c->transfer.update;
	for (int f = 0; f < c->agreed.root_files.nfiles; f++)
		if (u->first_piece[f] < u->first_piece[f + 1] && compare_tensors(c, f, err) < 0)
			return -1;
	if (u->moves.n > most_moves(c))
		u->moves.n = 0;
	return 0;
}

/* ---- lists ---- */

void update_put_moves(const struct update_moves *l, uint8_t *to)
{
	for (size_t k = 0; k < l->n; k++, to += UPDATE_MOVE_BYTES) {
		const struct update_move *m = &l->list[k];
		put_u64(to, m->file);
		put_u64(to + 8, m->at);
		put_u64(to + 16, m->from);
		put_u64(to + 24, m->bytes);
	}
}

/* Is @m in a file of the root's, and behind @last? */
static bool is_sound(const struct file_list *l, const struct update_move *m,
                     const struct update_move *last)
{
	if (m->file >= (uint64_t)l->nfiles || !m->bytes || m->at > l->files[m->file].bytes ||
	    m->bytes > l->files[m->file].bytes - m->at || m->from > INT64_MAX - m->bytes)
		return false;
	return !last || m->file > last->file ||
	       (m->file == last->file && m->at >= last->at + last->bytes);
}

bool update_takes_moves(const struct collective *c, uint64_t n)
{
	return n <= most_moves(c);
}

int update_get_moves(struct update_moves *l, const struct file_list *files, const uint8_t *from,
                     size_t n, struct err *err)
{
	if (!(l->list = err_calloc(n + 1, sizeof *l->list, "the tensors", err)))
		return -1;
	for (; l->n < n; l->n++, from += UPDATE_MOVE_BYTES) {
		struct update_move *m = &l->list[l->n];
		*m = (struct update_move){.file = get_u64(from),
		                          .at = get_u64(from + 8),
		                          .from = get_u64(from + 16),
		                          .bytes = get_u64(from + 24)};
		if (!is_sound(files, m, l->n ? m - 1 : NULL))
			return malformed(err, "ANSWER", "files");
	}
	return 0;
}

/* The first of the list that ends behind byte @at of file @f, or is in a later file. */
static size_t find(const struct update_moves *l, uint64_t f, uint64_t at)
{
	size_t lo = 0, hi = l->n;
	while (lo < hi) {
		const size_t mid = lo + (hi - lo) / 2;
		const struct update_move *m = &l->list[mid];
		if (m->file < f || (m->file == f && m->at + m->bytes <= at))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The next of the list that has bytes of the piece; *k: its index. *begin and *end: these bytes. */
static const struct update_move *next_of(const struct update_moves *l, const struct update_piece *p,
                                         size_t k, uint64_t *begin, uint64_t *end)
{
	const struct update_move *m = k < l->n ? &l->list[k] : NULL;
	if (!m || m->file != (uint64_t)p->f || m->at >= p->at + p->n)
		return NULL;
	*begin = m->at > p->at ? m->at : p->at;
	*end = m->at + m->bytes < p->at + p->n ? m->at + m->bytes : p->at + p->n;
	return m;
}

bool update_has_moves(const struct update *u, int f)
{
	const size_t k = find(&u->moves, (uint64_t)f, 0);
	return k < u->moves.n && u->moves.list[k].file == (uint64_t)f;
}

/* ---- a piece ---- */

int update_read_base(const struct update *u, int fd, const char *path, const struct update_piece *p,
                     uint8_t *buf, uint8_t *digest, struct err *err)
{
	uint64_t begin, end;
	size_t k = find(&u->moves, (uint64_t)p->f, p->at);
	const struct update_move *m;
	if (!update_has_moves(u, p->f))
		return update_digest(fd, path, p->at, p->n, buf, digest, err);
	memset(buf, 0, p->n);
	for (; (m = next_of(&u->moves, p, k, &begin, &end)); k++)
		if (input_pread(fd, path, buf + (begin - p->at), end - begin,
		                m->from + (begin - m->at), err) < 0)
			return -1;
	update_hash(buf, p->n, digest);
	return 0;
}

unsigned update_width(const struct update *u, const struct update_piece *p)
{
	uint64_t begin, end, bytes[WIDTHS] = {0};
	size_t k = find(&u->elements, (uint64_t)p->f, p->at);
	const struct update_move *m;
	unsigned best = 0;
	for (; (m = next_of(&u->elements, p, k, &begin, &end)); k++)
		if (m->width && (m->at - p->at) % m->width == 0) /* also if it begins before */
			bytes[__builtin_ctz(m->width)] += end - begin;
	for (unsigned w = 1; w < WIDTHS; w++)
		best = bytes[w] > bytes[best] ? w : best;
	return bytes[best] ? 1u << best : 0;
}
