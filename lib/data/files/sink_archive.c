/* Archives as outputs: their members. */
#include <stdlib.h>
#include <string.h>

#include "lib/data/files/sink_internal.h"

int archive_add(struct archive *a, const char *name, const void *head, size_t len, uint64_t bytes,
                struct err *err)
{
	static const char what[] = "the members of an archive";
	struct npz_member *members = err_grow(a->members, a->n, sizeof *members, what, err);
	if (members)
		a->members = members;
	struct archive_head *heads = err_grow(a->heads, a->n, sizeof *heads, what, err);
	if (heads)
		a->heads = heads;
	if (!members || !heads)
		return -1;
	struct npz_member m = {.offset = a->bytes, .bytes = len + bytes};
	uint64_t all;
	if (m.bytes < bytes || __builtin_add_overflow(a->bytes, m.bytes, &all))
		return err_set(err, ERR_OUTPUT, "tensor '%s': is too large for an archive", name);
	m.name = err_strdup(name, what, err);
	struct archive_head h = {err_malloc(len, what, err), len};
	if (!m.name || !h.data) {
		free((void *)m.name);
		free(h.data);
		return -1;
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
