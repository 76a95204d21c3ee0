#include "lib/data/formats/shard_index.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/data/formats/json_scan.h"

/* An entry of weight_map. */
struct line {
	const char *tensor, *file;
};

struct parse {
	struct json_scan scan;
	struct line *lines;
	size_t n;
	bool has_map, has_metadata;
	char *metadata;
	struct err *err;
};

/* Check that the file name has no folder and is not hidden. */
static int check_name(const struct line *l, struct err *err)
{
	if (path_is_plain(l->file))
		return 0;
	return err_set(err, ERR_INPUT,
	               "weight_map: the file '%.100s' of tensor '%.200s' is not a plain name: "
	               "expected one of a file in the same folder",
	               l->file, l->tensor);
}

static int on_line(void *ctx, const char *tensor)
{
	struct parse *p = ctx;
	struct line *lines = err_grow(p->lines, p->n, sizeof *lines, "an index", p->err);
	if (!lines)
		return -1;
	p->lines = lines;
	struct line *l = &p->lines[p->n];
	l->tensor = tensor;
	if (!json_scan_next_is(&p->scan, '"'))
		return err_set(p->err, ERR_INPUT,
		               "weight_map: the file of tensor '%.200s' is not a string", tensor);
	if (json_scan_string(&p->scan, &l->file) || check_name(l, p->err))
		return -1;
	p->n++;
	return 0;
}

static int on_map(struct parse *p)
{
	if (p->has_map)
		return err_set(p->err, ERR_INPUT, "has the key 'weight_map' twice");
	p->has_map = true;
	if (!json_scan_next_is(&p->scan, '{'))
		return err_set(p->err, ERR_INPUT, "weight_map is not an object");
	return json_scan_object(&p->scan, on_line, p);
}

static int on_metadata(struct parse *p)
{
	if (p->has_metadata)
		return err_set(p->err, ERR_INPUT, "has the key 'metadata' twice");
	p->has_metadata = true;
	if (!json_scan_next_is(&p->scan, '{'))
		return err_set(p->err, ERR_INPUT, "metadata is not an object");
	const char *from = p->scan.p;
	if (json_scan_skip(&p->scan))
		return -1;
	p->metadata = err_strndup(from, (size_t)(p->scan.p - from), "an index's metadata", p->err);
	return p->metadata ? 0 : -1;
}

static int on_key(void *ctx, const char *key)
{
	struct parse *p = ctx;
	if (strcmp(key, "weight_map") == 0)
		return on_map(p);
	return strcmp(key, "metadata") == 0 ? on_metadata(p) : json_scan_skip(&p->scan);
}

static int scan(struct parse *p)
{
	if (!json_scan_next_is(&p->scan, '{'))
		return err_set(p->err, ERR_INPUT, "is not an index: it does not begin with '{'");
	if (json_scan_object(&p->scan, on_key, p) || json_scan_end(&p->scan))
		return -1;
	if (!p->has_map)
		return err_set(p->err, ERR_INPUT, "lacks the key 'weight_map'");
	return p->n ? 0 : err_set(p->err, ERR_INPUT, "weight_map is empty");
}

/* ---- tables ---- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_tensor(const void *a, const void *b)
{
	const struct shard_entry *x = a, *y = b;
	return strcmp(x->tensor, y->tensor);
}

static void list_files(struct shard_index *x, const struct line *lines, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x->files[i] = lines[i].file;
	qsort(x->files, n, sizeof *x->files, by_text);
	for (size_t i = 0; i < n; i++)
		if (!x->nfiles || strcmp(x->files[i], x->files[x->nfiles - 1]) != 0)
			x->files[x->nfiles++] = x->files[i];
}

static int list_entries(struct shard_index *x, const struct line *lines, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		const char **at = bsearch(&lines[i].file, x->files, (size_t)x->nfiles,
		                          sizeof *x->files, by_text);
		x->entries[x->nentries++] =
		        (struct shard_entry){lines[i].tensor, (int)(at - x->files)};
	}
	qsort(x->entries, n, sizeof *x->entries, by_tensor);
	for (size_t i = 1; i < n; i++)
		if (strcmp(x->entries[i - 1].tensor, x->entries[i].tensor) == 0)
			return err_set(err, ERR_INPUT, "weight_map: tensor '%.200s' appears twice",
			               x->entries[i].tensor);
	return 0;
}

static int fill(struct shard_index *x, const struct line *lines, size_t n, struct err *err)
{
	x->entries = err_calloc(n, sizeof *x->entries, "an index", err);
	x->files = err_calloc(n, sizeof *x->files, "an index", err);
	if (!x->entries || !x->files)
		return -1;
	list_files(x, lines, n);
	return list_entries(x, lines, n, err);
}

int shard_index_parse(struct shard_index *x, char *json, size_t len, struct err *err)
{
	struct parse p = {.err = err};
	*x = (struct shard_index){0};
	json_scan_init(&p.scan, "the index", json, len, err);
	int ret = scan(&p);
	x->metadata = p.metadata;
	if (ret == 0)
		ret = fill(x, p.lines, p.n, err);
	free(p.lines);
	if (ret)
		shard_index_release(x);
	return ret;
}

void shard_index_release(struct shard_index *x)
{
	free(x->entries);
	free(x->files);
	free(x->metadata);
	*x = (struct shard_index){0};
}

const struct shard_entry *shard_index_find(const struct shard_index *x, const char *tensor)
{
	const struct shard_entry key = {.tensor = tensor};
	return bsearch(&key, x->entries, x->nentries, sizeof key, by_tensor);
}
