/* Sharded sets as outputs: a folder of files, and the index last. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "lib/base/json.h"
#include "lib/base/path.h"
#include "lib/data/dataset/dataset_internal.h"
#include "lib/data/files/sink_internal.h"

/* A set's file names may have come from another rank. */
static int check_name(const char *folder, const char *name, struct err *err)
{
	if (path_is_plain(name))
		return 0;
	return err_set(err, ERR_INPUT, "%s: '%s' is not a plain name for a file of a set", folder,
	               name);
}

int sink_split_set(const char *path, const char *input_index, char **folder, char **index,
                   struct err *err)
{
	const struct format *format;
	bool is_folder = path_is_folder(path), is_index = !is_folder && path_is_index(path);
	const char *name = is_index ? path_name(path) : input_index;
	if (strcmp(path, "-") == 0 ||
	    (!is_folder && !is_index && format_of(path, NULL, &format, NULL) == 0))
		return err_set(err, ERR_USAGE,
		               "%s: the input is a sharded set: name a folder for the output",
		               path);
	*index = name ? err_strdup(name, "a path", err) : NULL;
	*folder = is_index ? path_folder(path, err) : err_strdup(path, "a path", err);
	return *folder && (!name || *index) ? 0 : -1;
}

/* Keep the metadata of the set's index, except the size. */
static json_t *index_metadata(const struct dataset *like)
{
	json_t *metadata = like->index_metadata ? json_loads(like->index_metadata,
	                                                     JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL)
	                                        : NULL;
	if (!json_is_object(metadata)) {
		json_decref(metadata);
		metadata = json_object();
	}
	json_object_set_new(metadata, "total_size", json_integer((json_int_t)dataset_bytes(like)));
	return metadata;
}

/* The index in the format of transformers. Malloced, or NULL. */
static char *index_text(const struct dataset *like, size_t *len)
{
	json_t *index = json_object(), *map = json_object();
	char *text = NULL;
	int bad = json_object_set_new(index, "metadata", index_metadata(like));
	for (size_t i = 0; i < like->ntensors; i++)
		bad |= json_object_set_new(map, like->tensors[i].name,
		                           json_string(like->files[like->tensors[i].file].name));
	bad |= json_object_set_new(index, "weight_map", map);
	bad |= json_lacked_memory();
	char *json =
	        bad ? NULL : json_dumps(index, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
	json_decref(index);
	if (json && json_lacked_memory()) {
		free(json);
		json = NULL;
	}
	int n = json ? asprintf(&text, "%s\n", json) : -1;
	free(json);
	*len = (size_t)n;
	return n < 0 ? NULL : text;
}

static int add_index(struct sink *s, const char *folder, const char *name,
                     const struct dataset *like, struct err *err)
{
	size_t len;
	int file = -1;
	if (check_name(folder, name, err))
		return -1;
	char *text = index_text(like, &len), *path = path_join(folder, name, err);
	if (!text)
		err_nomem(err, "the index of a set", 0);
	else if (path)
		file = sink_add(s, path, text, len, len, err);
	free(text);
	free(path);
	return file < 0 ? -1 : 0;
}

static int add_shards(struct sink *s, const char *folder, const struct dataset *like,
                      struct place *places, struct err *err)
{
	const struct tensor **of = sink_by_file(like, err);
	int ret = of ? 0 : -1;
	for (size_t i = 0, n; ret == 0 && i < like->ntensors; i += n) {
		const struct dataset_file *f = &like->files[of[i]->file];
		int file = of[i]->file;
		for (n = 1; i + n < like->ntensors && of[i + n]->file == file; n++)
			;
		ret = check_name(folder, f->name, err);
		char *path = ret ? NULL : path_join(folder, f->name, err);
		ret = path ? sink_add_safetensors(s, path, like, of + i, n, f->metadata, places,
		                                  err)
		           : -1;
		free(path);
	}
	free(of);
	return ret;
}

struct written {
	const struct sink *sink;
	const char *folder;
};

/* The index of the sink's file @name in the folder; -1: none. */
static int find(const struct written *w, const char *name)
{
	struct err err = ERR_INIT;
	char *path = path_join(w->folder, name, &err);
	int found = -1;
	for (int i = 0; path && found < 0 && i < sink_files(w->sink); i++)
		if (strcmp(sink_path(w->sink, i), path) == 0)
			found = i;
	free(path);
	return found;
}

static bool is_written(void *ctx, const char *name)
{
	return find(ctx, name) >= 0;
}

int sink_set_strays(const struct sink *s, const char *folder, char *first, size_t cap)
{
	struct written w = {s, folder};
	return dataset_set_strays(folder, is_written, &w, first, cap);
}

int sink_check_set(struct sink *s, const char *path, const char *folder, const char *index,
                   struct err *err)
{
	struct written w = {s, folder};
	if (!path_is_folder(path)) /* readers open the set by the name of its index */
		return 0;
	int file = index ? find(&w, index) : -1;
	if (file >= 0)
		sink_set_index(s, file);
	return dataset_set_alone(folder, index, is_written, &w, err);
}

int sink_add_set(struct sink *s, const char *path, const struct dataset *like, struct place *places,
                 struct err *err)
{
	char *folder = NULL, *index = NULL;
	int ret = sink_split_set(path, like->index, &folder, &index, err);
	if (ret == 0 &&
	    (sink_add_folder(s, folder, err) || add_shards(s, folder, like, places, err) ||
	     (index && add_index(s, folder, index, like, err)) ||
	     sink_check_set(s, path, folder, index, err)))
		ret = -1;
	free(folder);
	free(index);
	return ret;
}
