#include "lib/data/files/names_taken.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

struct name_taken {
	struct name_key key; /* .name NULL: the slot is free */
	int file;
};

int names_taken_init(struct names_taken *t, size_t most, struct err *err)
{
	size_t slots = 4;
	while (slots < 2 * most)
		slots *= 2;
	names_taken_release(t);
	if (!(t->slot = err_calloc(slots, sizeof *t->slot, "the outputs' names", err)))
		return -1;
	t->mask = slots - 1;
	return 0;
}

static bool is_same(const struct name_key *a, const struct name_key *b)
{
	return a->device == b->device && a->inode == b->inode && a->group == b->group &&
	       strcmp(a->name, b->name) == 0;
}

int names_taken_by(struct names_taken *t, struct name_key key, int file)
{
	const uint64_t folder[] = {key.device, key.inode, key.group};
	const uint64_t hash = XXH3_64bits_withSeed(key.name, strlen(key.name),
	                                           XXH3_64bits(folder, sizeof folder));
	size_t i = (size_t)hash & t->mask;
	for (; t->slot[i].key.name; i = (i + 1) & t->mask)
		if (is_same(&t->slot[i].key, &key))
			return t->slot[i].file;
	t->slot[i] = (struct name_taken){key, file};
	return file;
}

void names_taken_release(struct names_taken *t)
{
	free(t->slot);
	*t = (struct names_taken){0};
}
