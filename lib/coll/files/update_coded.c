/* --delta: the spool of coded pieces, and the root's old version. See update.h. */
#include "lib/coll/files/update.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/coll/collective.h"
#include "lib/data/files/input.h"
#include "lib/data/files/spool.h"

#define SPOOL "the coded pieces"

/* ---- the spool ---- */

int update_read_coded(const struct update *u, enum update_stream stream, void *buf, uint64_t pos,
                      uint64_t n, struct err *err)
{
	return input_pread(u->spool[stream], SPOOL, buf, n, pos, err);
}

int update_write_coded(const struct update *u, enum update_stream stream, const void *buf,
                       uint64_t pos, uint64_t n, struct err *err)
{
	const uint8_t *from = buf;
	for (uint64_t done = 0; done < n;) {
		const ssize_t put = io_retry(
		        pwrite(u->spool[stream], from + done, n - done, (off_t)(pos + done)));
		if (put <= 0)
			return err_errno(err, ERR_RESOURCE, "%s: cannot write to a file in %s",
			                 SPOOL, spool_folder());
		done += (uint64_t)put;
	}
	return 0;
}

int update_open_spool(struct update *u, enum update_stream stream, struct err *err)
{
	if (u->spool[stream] < 0)
		u->spool[stream] = spool_open(err);
	return u->spool[stream] < 0 ? -1 : 0;
}

/* ---- OLD, at the root ---- */

int update_open_old(const struct collective *c, int f, struct err *err)
{
	const struct file_list *l = &c->agreed.root_files;
	const char *old = c->request->delta;
	char *path = l->folder || l->tree ? path_join(old, l->files[f].name, err)
	                                  : err_strdup(old, "a path", err);
	struct stat st;
	int fd = path ? io_retry(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)) : -1;
	if (path && fd < 0)
		err_errno(err, ERR_INPUT, "%s: cannot open", path);
	if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
		close(fd);
		fd = -1;
	}
	free(path);
	return fd;
}

int update_check_old(const struct collective *c, struct err *err)
{
	const char *old = c->request->delta;
	const struct file_list *l = &c->agreed.root_files;
	const bool folder = l->folder || l->tree;
	struct stat st;
	if (stat(old, &st))
		return err_errno(err, ERR_INPUT, "--delta %s: cannot examine the old version", old);
	if (folder != S_ISDIR(st.st_mode))
		return err_set(err, ERR_USAGE, "--delta %s: is %s: expected %s, as the input", old,
		               folder ? "no folder" : "a folder", folder ? "a folder" : "a file");
	if (folder)
		return access(old, X_OK) ? err_errno(err, ERR_INPUT,
		                                     "--delta %s: cannot enter the folder", old)
		                         : 0;
	const int fd = input_open(old, &st, err);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? -1 : 0;
}

struct hashing {
	struct collective *c;
	int old; /* OLD's file; -1: none */
	uint64_t old_bytes;
	uint8_t *buf;
};

/* A piece that OLD does not have keeps the digest of zeros. */
static int add_old(void *ctx, const struct update_piece *p, struct err *err)
{
	const struct hashing *h = ctx;
	struct update *u = &h->c->transfer.update;
	if (h->old < 0 || (!update_has_moves(u, p->f) && p->at + p->n > h->old_bytes))
		return 0;
	atomic_fetch_add(&u->compared, p->n);
	return update_read_base(u, h->old, h->c->request->delta, p, h->buf,
	                        u->of_old + p->i * DIGEST_BYTES, err);
}

int update_digest_old(void *collective, struct err *err)
{
	struct collective *c = collective;
	const uint64_t *first = c->transfer.update.first_piece;
	struct hashing h = {c, -1, 0, err_malloc(UPDATE_PIECE, "staging", err)};
	struct stat st;
	int ret = h.buf ? update_find_moves(c, err) : -1;
	for (int f = 0; f < c->agreed.root_files.nfiles && ret == 0; f++) {
		if (first[f] == first[f + 1])
			continue;
		h.old = update_open_old(c, f, NULL);
		h.old_bytes = h.old >= 0 && fstat(h.old, &st) == 0 ? (uint64_t)st.st_size : 0;
		ret = update_each_piece(c, f, add_old, &h, err);
		if (h.old >= 0)
			close(h.old);
	}
	free(h.buf);
	return ret;
}
