/* Chooses tensors by patterns of their names. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "lib/data/dataset/dataset.h"

/* ---- the names nearest to a pattern ---- */

#define NEAR      3     /* names that a message has */
#define NEAR_MOST 10000 /* tensors that are compared */
#define NEAR_LEN  128   /* bytes of a name or pattern that are compared */

static int least(int a, int b)
{
	return a < b ? a : b;
}

/* The least number of bytes to insert, delete or replace in @name so that @pattern matches it, with
 * '*' for any bytes and '?' for any one. */
static int distance(const char *pattern, const char *name)
{
	int d[NEAR_LEN + 1];
	const int n = (int)strnlen(name, NEAR_LEN);

	for (int j = 0; j <= n; j++)
		d[j] = j;
	for (int i = 0; pattern[i] && i < NEAR_LEN; i++) {
		const bool any = pattern[i] == '*';
		int diagonal = d[0];
		d[0] += !any;
		for (int j = 1; j <= n; j++) {
			const bool same = pattern[i] == '?' || pattern[i] == name[j - 1];
			const int above = d[j];
			d[j] = any ? least(above, d[j - 1])
			           : least(least(above, d[j - 1]) + 1, diagonal + !same);
			diagonal = above;
		}
	}
	return d[n];
}

struct nearest {
	const char *names[NEAR];
	int distances[NEAR];
	int n;
};

static void nearest_add(struct nearest *near, const char *name, int away)
{
	int at = near->n < NEAR ? near->n++ : NEAR;
	for (; at > 0 && near->distances[at - 1] > away; at--)
		if (at < NEAR) {
			near->names[at] = near->names[at - 1];
			near->distances[at] = near->distances[at - 1];
		}
	if (at == NEAR)
		return;
	near->names[at] = name;
	near->distances[at] = away;
}

static int no_match(const struct dataset *d, const char *pattern, struct err *err)
{
	struct nearest near = {0};
	char names[NEAR * 112] = "";
	size_t at = 0;

	for (size_t i = 0; i < d->ntensors && i < NEAR_MOST; i++)
		nearest_add(&near, d->tensors[i].name, distance(pattern, d->tensors[i].name));
	for (int i = 0; i < near.n; i++)
		at += (size_t)snprintf(names + at, sizeof names - at, "%s'%.100s'", i ? ", " : "",
		                       near.names[i]);
	return err_set(err, ERR_USAGE, "%s: no tensor matches --include '%.100s'%s%s", d->path,
	               pattern, near.n ? ": the nearest names: " : ": it has none", names);
}

/* ---- choosing ---- */

/* A name that contains '[' is also meant as it stands. */
static bool matches(const char *pattern, const char *name)
{
	return strcmp(pattern, name) == 0 || fnmatch(pattern, name, 0) == 0;
}

static bool matches_any(const char *name, const char *const *patterns, int n)
{
	int i = 0;
	while (i < n && !matches(patterns[i], name))
		i++;
	return i < n;
}

static bool is_used(const struct dataset *d, const char *pattern)
{
	size_t i = 0;
	while (i < d->ntensors && !matches(pattern, d->tensors[i].name))
		i++;
	return i < d->ntensors;
}

int dataset_select(struct dataset *d, const struct dataset_patterns *p, struct err *err)
{
	size_t kept = 0;
	if (!p->ninclude && !p->nexclude)
		return 0;
	if (dataset_is_array(d))
		return err_set(err, ERR_USAGE,
		               "%s: is a single array without a name: --include and --exclude "
		               "choose tensors by name",
		               d->path);
	for (int i = 0; i < p->ninclude && !p->none; i++)
		if (!is_used(d, p->include[i]))
			return no_match(d, p->include[i], err);
	for (int i = 0; p->unused && i < p->nexclude; i++)
		if (!is_used(d, p->exclude[i]))
			p->unused(p->ctx, d, "--exclude", p->exclude[i]);
	for (size_t i = 0; i < d->ntensors; i++) {
		const struct tensor *t = &d->tensors[i];
		if ((!p->ninclude || matches_any(t->name, p->include, p->ninclude)) &&
		    !matches_any(t->name, p->exclude, p->nexclude))
			d->tensors[kept++] = *t;
	}
	if (!kept && !p->none)
		return err_set(err, ERR_USAGE,
		               "%s: --include and --exclude leave none of its %zu tensors", d->path,
		               d->ntensors);
	d->selected = d->selected || kept < d->ntensors;
	d->ntensors = kept;
	return 0;
}
