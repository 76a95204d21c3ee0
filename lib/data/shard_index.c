#include "lib/data/shard_index.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

/* A name that can't lead out of its folder and is none of a hidden file. */
static int check_name(const char *tensor, const json_t *value, struct err *err)
{
	const char *name = json_string_value(value);
	if (!name)
		return err_set(err, ERR_INPUT,
		               "weight_map: the file of tensor '%.200s' is no string", tensor);
	if (!*name || *name == '.' || strchr(name, '/'))
		return err_set(err, ERR_INPUT,
		               "weight_map: the file '%.100s' of tensor '%.200s' is no plain name: "
		               "expected one of a file in the same folder",
		               name, tensor);
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_tensor(const void *a, const void *b)
{
	const struct shard_entry *x = a, *y = b;
	return strcmp(x->tensor, y->tensor);
}

/* The names in @files[n], sorted, each once. */
static int unique(const char **files, size_t n)
{
	int kept = 0;
	if (n > 1)
		qsort(files, n, sizeof *files, by_text);
	for (size_t i = 0; i < n; i++)
		if (!kept || strcmp(files[i], files[kept - 1]) != 0)
			files[kept++] = files[i];
	return kept;
}

static int find_file(const struct shard_index *x, const char *name)
{
	const char **at = bsearch(&name, x->files, (size_t)x->nfiles, sizeof *x->files, by_text);
	return (int)(at - x->files);
}

static int fill(struct shard_index *x, json_t *map, struct err *err)
{
	const char *tensor;
	json_t *value;
	size_t n = json_object_size(map);
	x->entries = calloc(n + 1, sizeof *x->entries);
	x->files = calloc(n + 1, sizeof *x->files);
	if (!x->entries || !x->files)
		return err_nomem(err, "an index", n * sizeof *x->entries);
	json_object_foreach(map, tensor, value)
	{
		if (check_name(tensor, value, err))
			return -1;
		x->files[x->nentries++] = json_string_value(value);
	}
	x->nfiles = unique(x->files, n);
	x->nentries = 0;
	json_object_foreach(map, tensor, value) x->entries[x->nentries++] =
	        (struct shard_entry){tensor, find_file(x, json_string_value(value))};
	if (n > 1)
		qsort(x->entries, n, sizeof *x->entries, by_tensor);
	return 0;
}

static int take_metadata(struct shard_index *x, json_t *metadata, struct err *err)
{
	if (!metadata)
		return 0;
	if (!json_is_object(metadata))
		return err_set(err, ERR_INPUT, "metadata is no object");
	x->metadata = json_dumps(metadata, JSON_COMPACT);
	return x->metadata ? 0 : err_nomem(err, "an index's metadata", 0);
}

static int take(struct shard_index *x, struct err *err)
{
	const json_t *root = x->json;
	json_t *map = json_object_get(root, "weight_map");
	if (!json_is_object(root))
		return err_set(err, ERR_INPUT, "is no index: expected an object with weight_map");
	if (!map)
		return err_set(err, ERR_INPUT, "lacks the key 'weight_map'");
	if (!json_is_object(map))
		return err_set(err, ERR_INPUT, "weight_map is no object");
	if (!json_object_size(map))
		return err_set(err, ERR_INPUT, "weight_map is empty");
	return take_metadata(x, json_object_get(root, "metadata"), err) ? -1 : fill(x, map, err);
}

int shard_index_parse(struct shard_index *x, const char *json, size_t len, struct err *err)
{
	json_error_t where;
	*x = (struct shard_index){.json = json_loadb(json, len, JSON_REJECT_DUPLICATES, &where)};
	if (!x->json)
		return err_set(err, ERR_INPUT, "is not right JSON: line %d: %s", where.line,
		               where.text);
	if (take(x, err)) {
		shard_index_release(x);
		return -1;
	}
	return 0;
}

void shard_index_release(struct shard_index *x)
{
	free(x->entries);
	free(x->files);
	free(x->metadata);
	json_decref(x->json);
	*x = (struct shard_index){0};
}

const struct shard_entry *shard_index_find(const struct shard_index *x, const char *tensor)
{
	const struct shard_entry key = {.tensor = tensor};
	return bsearch(&key, x->entries, x->nentries, sizeof key, by_tensor);
}
