/* Takes prefixes from the names of tensors. */
#include <string.h>

#include "lib/data/dataset/dataset_internal.h"

/* @name without @prefix, if it begins with it and has more. */
static const char *without(const char *name, const char *prefix)
{
	const size_t n = strlen(prefix);
	return strncmp(name, prefix, n) == 0 && name[n] ? name + n : name;
}

int dataset_strip(struct dataset *d, const char *const *prefixes, int n, struct err *err)
{
	bool stripped = false;
	if (n && dataset_is_array(d))
		return err_set(err, ERR_USAGE,
		               "%s: is a single array without a name: --strip takes prefixes from "
		               "the names of tensors",
		               d->path);
	for (size_t i = 0; i < d->ntensors; i++)
		for (int k = 0; k < n; k++) {
			const char *name = d->tensors[i].name;
			d->tensors[i].name = without(name, prefixes[k]);
			stripped |= d->tensors[i].name != name;
		}
	if (!stripped)
		return 0;
	d->selected = true;
	dataset_arrange(d);
	for (size_t i = 1; i < d->ntensors; i++)
		if (strcmp(d->tensors[i - 1].name, d->tensors[i].name) == 0)
			return err_set(
			        err, ERR_INPUT,
			        "%s: two tensors have the name '%.200s' after --strip: leave "
			        "one out by --exclude",
			        d->path, d->tensors[i].name);
	return 0;
}
