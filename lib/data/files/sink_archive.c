/* Archives as outputs: their members. */
#include <stdlib.h>
#include <string.h>

#include "lib/data/files/sink_internal.h"

int archive_add(struct archive *a, const char *name, const void *head, size_t len, uint64_t bytes,
                struct err *err)
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
