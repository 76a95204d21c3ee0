/*
 * Sharded sets: the files of an index, or all files of a folder. The shards and the index must
 * agree on every tensor.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/entry.h"
#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/data/dataset/dataset_internal.h"
#include "lib/data/files/input.h"
#include "lib/data/formats/safetensors.h"
#include "lib/data/formats/shard_index.h"
#include "lib/data/torch/dcp.h"
#include "lib/data/torch/fsdp.h"

#define USUAL_INDEX "model.safetensors.index.json"
#define USUAL_TORCH "pytorch_model.bin.index.json"

/* ---- shards ---- */

static int need_files(const struct dataset *d, size_t n, struct err *err)
{
	char what[512];
	snprintf(what, sizeof what, "the %zu files of %.400s", n, d->path);
	return need_descriptors((int)n + SPARE_DESCRIPTORS, what, err);
}

/* Adds the tensors of an open file. */
typedef int add_tensors(void *ctx, int file, struct err *err);

static int add_safetensors(void *ctx, int file, struct err *err)
{
	return dataset_add_safetensors(ctx, file, err);
}

/* Open and read one of @n shards at @path. Frees @path; NULL: an error. */
static int add_shard(struct dataset *d, char *path, size_t n, add_tensors *add, void *ctx,
                     struct err *err)
{
	struct stat st;
	struct err why = {0};
	if (!path)
		return -1;
	int fd = input_open(path, &st, &why), file = -1;
	if (fd >= 0)
		file = dataset_add_file(d, fd, path, false, err);
	else if (why.code == ERR_RESOURCE)
		err_set(err, ERR_RESOURCE, "%s; the set has %zu files: raise the limit (ulimit -n)",
		        why.text, n);
	else
		err_pass(err, &why);
	free(path);
	return file < 0 ? -1 : add(ctx, file, err);
}

/* ---- by an index ---- */

static char *read_index(const char *path, size_t *len, struct err *err)
{
	struct stat st;
	char *json = NULL;
	int fd = input_open(path, &st, err);
	if (fd < 0)
		return NULL;
	*len = (size_t)st.st_size;
	if (*len > SAFETENSORS_HEADER_MAX)
		err_set(err, ERR_INPUT, "%s: has %zu bytes: the limit is %u", path, *len,
		        SAFETENSORS_HEADER_MAX);
	else if ((json = err_malloc(*len + 1, "an index", err)) &&
	         input_pread(fd, path, json, *len, 0, err)) {
		free(json);
		json = NULL;
	}
	close(fd);
	return json;
}

/* Check that shards and index have the same tensors in the same files. */
static int check_mapped(const struct dataset *d, const struct shard_index *x, const char *path,
                        struct err *err)
{
	bool *found = err_calloc(x->nentries + 1, sizeof *found, "an index", err);
	int ret = found ? 0 : -1;
	for (size_t i = 0; ret == 0 && i < d->ntensors; i++) {
		const struct tensor *t = &d->tensors[i];
		const struct shard_entry *e = shard_index_find(x, t->name);
		if (!e)
			ret = err_set(err, ERR_INPUT,
			              "%s: weight_map lacks the tensor '%.200s' of %s", path,
			              t->name, d->files[t->file].name);
		else if (e->file != t->file)
			ret = err_set(err, ERR_INPUT,
			              "%s: weight_map has tensor '%.200s' in %s: found in %s", path,
			              t->name, x->files[e->file], d->files[t->file].name);
		else
			found[e - x->entries] = true;
	}
	for (size_t i = 0; ret == 0 && i < x->nentries; i++)
		if (!found[i])
			ret = err_set(err, ERR_INPUT,
			              "%s: weight_map has tensor '%.200s' in %s, which lacks it",
			              path, x->entries[i].tensor, x->files[x->entries[i].file]);
	free(found);
	return ret;
}

int dataset_open_index_of(struct dataset *d, const char *path, add_tensors *add, void *ctx,
                          struct err *err)
{
	struct shard_index x;
	struct err why = {0};
	size_t len;
	char *json = read_index(path, &len, err);
	int ret = json ? shard_index_parse(&x, json, len, &why) : -1;
	if (ret) {
		free(json);
		return why.code ? err_set(err, why.code, "%s: %s", path, why.text) : -1;
	}
	d->index_metadata = x.metadata;
	x.metadata = NULL;
	if (!(d->index = err_strdup(path_name(path), "a path", err)))
		ret = -1;
	if (ret == 0)
		ret = need_files(d, (size_t)x.nfiles, err);
	for (int i = 0; ret == 0 && i < x.nfiles; i++)
		ret = add_shard(d, path_beside(path, x.files[i], err), (size_t)x.nfiles, add, ctx,
		                err);
	if (ret == 0)
		ret = check_mapped(d, &x, path, err);
	shard_index_release(&x);
	free(json);
	return ret;
}

/* ---- by a folder ---- */

static bool has_suffix(const char *name, const char *suffix)
{
	size_t n = strlen(name), m = strlen(suffix);
	return n > m && strcmp(name + n - m, suffix) == 0;
}

static int is_index(const struct dirent *e)
{
	return e->d_name[0] != '.' && has_suffix(e->d_name, ".safetensors.index.json");
}

static int is_shard(const struct dirent *e)
{
	return e->d_name[0] != '.' && has_suffix(e->d_name, ".safetensors");
}

static void free_list(struct dirent **list, int n)
{
	for (int i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

/* Choose the index among @list[n]: the one with the @usual name, or the only one. */
static const char *choose(const char *folder, const char *usual, struct dirent **list, int n,
                          struct err *err)
{
	for (int i = 0; i < n; i++)
		if (strcmp(list[i]->d_name, usual) == 0)
			return usual;
	if (n == 1)
		return list[0]->d_name;
	err_set(err, ERR_INPUT, "%s: holds %d indexes, %.100s and %.100s among them: name one",
	        folder, n, list[0]->d_name, list[1]->d_name);
	return NULL;
}

static int open_indexed(struct dataset *d, struct dirent **list, int n, struct err *err)
{
	const char *name = choose(d->path, USUAL_INDEX, list, n, err);
	char *path = name ? path_join(d->path, name, err) : NULL;
	int ret = path ? dataset_open_index_of(d, path, add_safetensors, d, err) : -1;
	free(path);
	return ret;
}

static int open_shards(struct dataset *d, struct dirent **list, int n, struct err *err)
{
	if (need_files(d, (size_t)n, err))
		return -1;
	for (int i = 0; i < n; i++)
		if (add_shard(d, path_join(d->path, list[i]->d_name, err), (size_t)n,
		              add_safetensors, d, err))
			return -1;
	return 0;
}

/* Pass the sorted names in the folder that @is accepts to @open. 1: there are none, so @open was
 * not called. */
static int with_names(struct dataset *d, int (*is)(const struct dirent *),
                      int (*open)(struct dataset *, struct dirent **, int, struct err *),
                      struct err *err)
{
	struct dirent **list = NULL;
	int n = scandir(d->path, &list, is, entry_by_bytes);
	if (n < 0)
		return err_errno(err, ERR_INPUT, "%s: cannot list", d->path);
	int ret = n ? open(d, list, n, err) : 1;
	free_list(list, n);
	return ret;
}

static int is_torch_index(const struct dirent *e)
{
	return e->d_name[0] != '.' && has_suffix(e->d_name, format_torch.index);
}

int dataset_torch_index(const char *folder, char **path, struct err *err)
{
	struct dirent **list = NULL;
	const int n = scandir(folder, &list, is_torch_index, entry_by_bytes);
	*path = NULL;
	if (n < 0)
		return err_errno(err, ERR_INPUT, "%s: cannot list", folder);
	const char *name = n ? choose(folder, USUAL_TORCH, list, n, err) : NULL;
	if (name)
		*path = path_join(folder, name, err);
	free_list(list, n);
	return n && !*path ? -1 : 0;
}

static bool holds_safetensors(const char *folder)
{
	struct dirent **list = NULL;
	const int n = scandir(folder, &list, is_shard, entry_by_bytes);
	free_list(list, n);
	return n > 0;
}

static bool holds_torch_index(const char *folder)
{
	struct dirent **list = NULL;
	const int n = scandir(folder, &list, is_torch_index, entry_by_bytes);
	free_list(list, n);
	return n > 0;
}

static int is_distcp(const struct dirent *e)
{
	return has_suffix(e->d_name, ".distcp");
}

static int refuse_distcp(struct dataset *d, struct dirent **list, int n, struct err *err)
{
	(void)n;
	return err_set(
	        err, ERR_INPUT,
	        "%s: holds pieces, %.100s, without .metadata, which says what they are: copy "
	        "that file of the checkpoint to this folder",
	        d->path, list[0]->d_name);
}

static int open_folder(struct dataset *d, bool parts, struct err *err)
{
	int ret = with_names(d, is_index, open_indexed, err);
	if (ret > 0)
		ret = with_names(d, is_shard, open_shards, err);
	if (ret > 0)
		ret = with_names(d, is_distcp, refuse_distcp, err);
	if (ret > 0 && parts)
		ret = 0;
	if (ret > 0)
		return err_set(
		        err, ERR_INPUT,
		        "%s: holds no checkpoint: expected " USUAL_INDEX
		        ", another .safetensors.index.json, .safetensors files or " USUAL_TORCH,
		        d->path);
	return ret;
}

int dataset_open_set(struct dataset *d, const struct dataset_source *source, struct err *err)
{
	const bool folder = path_is_folder(d->path);
	const bool asked = source->hints && source->hints->format; /* for .safetensors */
	const bool dcp = folder && !asked && dcp_is_folder(d->path);
	const bool fsdp = folder && !asked && fsdp_is_folder(d->path);
	if (dcp + fsdp + ((dcp || fsdp) && holds_safetensors(d->path)) > 1)
		return err_set(err, ERR_INPUT,
		               "%s: holds checkpoints of several kinds%s%s: choose one by --format "
		               "safetensors, dcp or torch",
		               d->path, dcp ? ", .metadata" : "",
		               fsdp ? ", model_world_size_N_rank_R.pt" : "");
	if (dcp)
		return dcp_open(d, source, err);
	if (fsdp)
		return fsdp_open(d, source, err);
	if (folder && !asked && !holds_safetensors(d->path) && holds_torch_index(d->path))
		return format_torch.open_set(d, source, err);
	d->sharded = true;
	if ((folder ? open_folder(d, source->parts, err)
	            : dataset_open_index_of(d, d->path, add_safetensors, d, err)) < 0)
		return -1;
	return dcp_is_safetensors(d) ? dcp_join_safetensors(d, source, err) : 0;
}

/* ---- reading an output back ---- */

/* Is it an index that a reader would choose instead of @index (NULL: none)? */
static bool leads_away(const char *name, const char *index)
{
	return !index || (strcmp(name, index) != 0 && strcmp(index, USUAL_INDEX) != 0);
}

int dataset_set_alone(const char *folder, const char *index,
                      bool (*is_ours)(void *ctx, const char *name), void *ctx, struct err *err)
{
	struct dirent **list = NULL;
	int ret = 0, n = scandir(folder, &list, NULL, entry_by_bytes);
	if (n < 0 && (errno == EACCES || errno == ENOENT))
		return 0; /* not read as a set, or does not exist yet */
	if (n < 0)
		return err_errno(err, ERR_OUTPUT, "%s: cannot list", folder);
	for (int i = 0; ret == 0 && i < n; i++) {
		const char *name = list[i]->d_name;
		bool stray = is_index(list[i]) ? leads_away(name, index)
		                               : !index && is_shard(list[i]) && !is_ours(ctx, name);
		if (stray)
			ret = err_set(err, ERR_OUTPUT,
			              "%s: holds %.200s, which would be read as part of the "
			              "output: remove it, or name another folder",
			              folder, name);
	}
	free_list(list, n);
	return ret;
}

int dataset_set_strays(const char *folder, bool (*is_ours)(void *ctx, const char *name), void *ctx,
                       char *first, size_t cap)
{
	struct dirent **list = NULL;
	int strays = 0, n = scandir(folder, &list, is_shard, entry_by_bytes);
	for (int i = 0; i < n; i++)
		if (!is_ours(ctx, list[i]->d_name) && strays++ == 0)
			snprintf(first, cap, "%s", list[i]->d_name);
	free_list(list, n);
	return strays;
}
