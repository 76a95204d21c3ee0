/* Takes prefixes from the names of tensors. */
#include <stdlib.h>
#include <string.h>

#include "lib/data/dataset/dataset_internal.h"

/* @name without @prefix, if it begins with it and has more. */
static const char *without(const char *name, const char *prefix)
{
	const size_t n = strlen(prefix);
	return strncmp(name, prefix, n) == 0 && name[n] ? name + n : name;
}

struct renamed {
	const char *name, *was;
};

static int by_name(const void *a, const void *b)
{
	const struct renamed *x = a, *y = b;
	const int d = strcmp(x->name, y->name);
	return d ? d : strcmp(x->was, y->was);
}

/* Two names have become one. Parts of one tensor have had one before. */
static int check_twice(const struct dataset *d, struct renamed *names, struct err *err)
{
	qsort(names, d->ntensors, sizeof *names, by_name);
	for (size_t i = 1; i < d->ntensors; i++)
		if (strcmp(names[i - 1].name, names[i].name) == 0 &&
		    strcmp(names[i - 1].was, names[i].was) != 0)
			return err_set(
			        err, ERR_INPUT,
			        "%s: two tensors have the name '%.200s' after --strip: leave "
			        "one out by --exclude",
			        d->path, names[i].name);
	return 0;
}

int dataset_strip(struct dataset *d, const char *const *prefixes, int n, struct err *err)
{
	bool stripped = false;
	if (n && dataset_is_array(d))
		return err_set(err, ERR_USAGE,
		               "%s: is a single array without a name: --strip takes prefixes from "
		               "the names of tensors",
		               d->path);
	if (!n)
		return 0;
	struct renamed *names = err_calloc(d->ntensors + 1, sizeof *names, "the names", err);
	if (!names)
		return -1;
	for (size_t i = 0; i < d->ntensors; i++) {
		const char *was = d->tensors[i].name, *name = was;
		for (int k = 0; k < n; k++)
			name = without(name, prefixes[k]);
		d->tensors[i].name = name;
		names[i] = (struct renamed){name, was};
		stripped |= name != was;
	}
	int ret = stripped ? check_twice(d, names, err) : 0;
	free(names);
	if (ret == 0 && stripped) {
		d->selected = true;
		dataset_arrange(d);
	}
	return ret;
}
