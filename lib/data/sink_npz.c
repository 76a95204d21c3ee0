/* .npz as output: the members lie in a spool, one after another, until the archive is packed. */
#include <stdlib.h>
#include <string.h>

#include "lib/data/sink_internal.h"

/* Append a member of @len bytes of header, which are copied, and @bytes of data. */
static int archive_add(struct archive *a, const char *name, const void *head, size_t len,
                       uint64_t bytes, struct err *err)
{
	if (a->n == a->cap) {
		size_t cap = a->cap ? 2 * a->cap : 16;
		struct npz_member *members = reallocarray(a->members, cap, sizeof *members);
		if (members)
			a->members = members;
		struct archive_head *heads = reallocarray(a->heads, cap, sizeof *heads);
		if (heads)
			a->heads = heads;
		if (!members || !heads)
			return err_nomem(err, "the members of an archive", cap * sizeof *members);
		a->cap = cap;
	}
	struct npz_member m = {.offset = a->bytes, .bytes = len + bytes};
	uint64_t all;
	if (m.bytes < bytes || __builtin_add_overflow(a->bytes, m.bytes, &all))
		return err_set(err, ERR_OUTPUT, "tensor '%s': is too large for an archive", name);
	m.name = strdup(name);
	struct archive_head h = {malloc(len), len};
	if (!m.name || !h.data) {
		free((void *)m.name);
		free(h.data);
		return err_nomem(err, "the members of an archive", len);
	}
	memcpy(h.data, head, len);
	a->members[a->n] = m;
	a->heads[a->n++] = h;
	a->bytes = all;
	return 0;
}

void archive_release(struct archive *a)
{
	for (size_t i = 0; i < a->n; i++) {
		free((void *)a->members[i].name);
		free(a->heads[i].data);
	}
	free(a->members);
	free(a->heads);
	*a = (struct archive){0};
}

static int add_members(struct archive *a, const struct dataset *like, struct place *places,
                       struct err *err)
{
	char head[ARRAY_HEADER_MAX];
	for (size_t i = 0; i < like->ntensors; i++) {
		const struct tensor *t = &like->tensors[i];
		struct array_info info;
		if (sink_tensor_info(t, ARRAY_NPY, &info, err))
			return -1;
		long len = array_header(&info, head, sizeof head);
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

int sink_add_npz(struct sink *s, const char *path, const struct dataset *like, struct place *places,
                 struct err *err)
{
	struct archive a = {0};
	if (add_members(&a, like, places, err)) {
		archive_release(&a);
		return -1;
	}
	int file = sink_add_archive(s, path, &a, err);
	for (size_t i = 0; i < like->ntensors; i++)
		places[i].file = file;
	return file < 0 ? -1 : 0;
}
