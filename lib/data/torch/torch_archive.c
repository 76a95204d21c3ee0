#include "lib/data/torch/torch_archive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/data/files/input.h"

#define PICKLE_MAX (100u << 20) /* bytes of data.pkl */

static const struct zip_entry *entry(const struct torch_archive *a, const char *name)
{
	char path[TORCH_FOLDER + 64];
	snprintf(path, sizeof path, "%s/%s", a->folder, name);
	return zip_directory_find(&a->zip, path);
}

/* The folder of the entry FOLDER/data.pkl, which an archive of torch.save has once. */
static int find_folder(struct torch_archive *a, struct err *err)
{
	static const char pickle[] = "/data.pkl";
	const size_t m = sizeof pickle - 1;
	int n = 0;
	for (size_t i = 0; i < a->zip.n; i++) {
		const char *name = a->zip.entries[i].name, *slash = strchr(name, '/');
		if (!slash || strcmp(slash, pickle) != 0 || strlen(name) >= sizeof a->folder)
			continue;
		memcpy(a->folder, name, strlen(name) - m);
		a->folder[strlen(name) - m] = '\0';
		n++;
	}
	if (n == 1)
		return 0;
	return err_set(err, ERR_INPUT,
	               "%s: is a zip archive without the entry NAME/data.pkl: expected one as "
	               "torch.save writes it",
	               a->path);
}

/* Read the entry, malloced, with a NUL after it. */
static char *read_entry(const struct torch_archive *a, const struct zip_entry *e, size_t most,
                        struct err *err)
{
	uint64_t at;
	if (e->bytes > most) {
		err_set(err, ERR_INPUT, "%s: its entry '%.200s' has %llu bytes: the limit is %zu",
		        a->path, e->name, (unsigned long long)e->bytes, most);
		return NULL;
	}
	if (zip_entry_offset(&a->zip, e, a->fd, a->path, &at, err))
		return NULL;
	char *bytes = err_malloc((size_t)e->bytes + 1, "an entry of an archive", err);
	if (!bytes)
		return NULL;
	if (input_pread(a->fd, a->path, bytes, (size_t)e->bytes, at, err)) {
		free(bytes);
		return NULL;
	}
	bytes[e->bytes] = '\0';
	return bytes;
}

static int read_byte_order(struct torch_archive *a, struct err *err)
{
	const struct zip_entry *e = entry(a, "byteorder");
	char *text = e ? read_entry(a, e, 64, err) : NULL;
	if (!e) /* versions before 2.1: always little */
		return 0;
	if (!text)
		return -1;
	a->swapped = strcmp(text, "big") == 0;
	const bool known = a->swapped || strcmp(text, "little") == 0;
	free(text);
	return known ? 0
	             : err_set(err, ERR_INPUT, "%s: its byte order is neither little nor big",
	                       a->path);
}

int torch_archive_open(struct torch_archive *a, int fd, const char *path, uint64_t at,
                       uint64_t size, struct err *err)
{
	*a = (struct torch_archive){.fd = fd, .path = path};
	if (zip_directory_read(&a->zip, fd, path, at, size, err))
		return -1;
	int ret = find_folder(a, err);
	if (ret == 0 && entry(a, "constants.pkl"))
		ret = err_set(
		        err, ERR_INPUT,
		        "%s: is a TorchScript program, which is not read: save its tensors by "
		        "torch.save(module.state_dict(), ...)",
		        path);
	if (ret == 0)
		ret = read_byte_order(a, err);
	if (ret)
		torch_archive_release(a);
	return ret;
}

void torch_archive_release(struct torch_archive *a)
{
	zip_directory_release(&a->zip);
}

/* ---- tensors ---- */

struct visit {
	const struct torch_archive *archive;
	const struct torch_archive_visitor *visitor;
};

/* *at: where the storage of @t begins in the file. */
static int find_storage(const struct torch_archive *a, const struct torch_tensor *t,
                        const char *name, uint64_t *at, struct err *err)
{
	char key[64];
	if (t->storage_len > 50 || !torch_is_text(t->storage, t->storage_len))
		return err_set(err, ERR_INPUT, "%s: tensor '%.200s': its storage has no plain name",
		               a->path, name);
	snprintf(key, sizeof key, "data/%.*s", (int)t->storage_len, t->storage);
	const struct zip_entry *e = entry(a, key);
	if (!e)
		return err_set(err, ERR_INPUT,
		               "%s: tensor '%.200s': the archive has no entry '%.60s'", a->path,
		               name, key);
	if (e->bytes < t->storage_bytes)
		return err_set(
		        err, ERR_INPUT,
		        "%s: tensor '%.200s': the entry '%.60s' has %llu bytes: expected %llu",
		        a->path, name, key, (unsigned long long)e->bytes,
		        (unsigned long long)t->storage_bytes);
	return zip_entry_offset(&a->zip, e, a->fd, a->path, at, err);
}

static int visit_tensor(void *ctx, const char *name, const struct torch_tensor *t, struct err *err)
{
	const struct visit *v = ctx;
	uint64_t storage;
	if (find_storage(v->archive, t, name, &storage, err))
		return -1;
	const struct strided of = {.ndim = t->ndim,
	                           .shape = t->shape,
	                           .stride = t->stride,
	                           .dtype = t->dtype,
	                           .swapped = v->archive->swapped,
	                           .at = storage + t->offset * dtype_size(t->dtype)};
	return v->visitor->tensor(v->visitor->ctx, name, t, &of, err);
}

static int visit_other(void *ctx, const char *name, const struct pickle_value *value,
                       struct err *err)
{
	const struct visit *v = ctx;
	return v->visitor->other ? v->visitor->other(v->visitor->ctx, name, value, err) : 0;
}

int torch_archive_visit(const struct torch_archive *a, const struct torch_archive_visitor *visitor,
                        struct err *err)
{
	struct visit v = {a, visitor};
	const struct torch_visitor inner = {visitor->pieces, visit_tensor, visit_other, &v};
	const struct zip_entry *e = entry(a, "data.pkl");
	struct pickle pickle;
	struct err why = ERR_INIT;
	char *bytes = read_entry(a, e, PICKLE_MAX, err);
	if (!bytes)
		return -1;
	int ret = pickle_read(&pickle, bytes, (size_t)e->bytes, torch_permits, &why);
	if (ret == 0) {
		ret = torch_visit(pickle.root, (size_t)e->bytes, &inner, &why);
		pickle_release(&pickle);
	}
	free(bytes);
	if (ret == 0)
		return 0;
	const size_t n = strlen(a->path);
	return strncmp(why.text, a->path, n) == 0 && strncmp(why.text + n, ": ", 2) == 0
	               ? err_pass(err, &why)
	               : err_set(err, why.code, "%s: %s", a->path, why.text);
}
