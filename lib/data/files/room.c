#include "lib/data/files/room.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/base/units.h"
#include "lib/base/user.h"

#define ZFS_MAGIC 0x2fc12fc1 /* not in linux/magic.h */

uint64_t room_left(const struct statfs *fs)
{
	const uint64_t blocks = user_is_self(0) ? fs->f_bfree : fs->f_bavail;
	const uint64_t size = (uint64_t)(fs->f_frsize ? fs->f_frsize : fs->f_bsize);
	uint64_t bytes;
	if (!fs->f_blocks || fs->f_type == ZFS_MAGIC || fs->f_type == BTRFS_SUPER_MAGIC)
		return UINT64_MAX;
	return __builtin_mul_overflow(blocks, size, &bytes) ? UINT64_MAX : bytes;
}

static struct room_needs *needs_on(struct room *r, int host, uint64_t device, struct err *err)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->on[i].host == host && r->on[i].device == device)
			return &r->on[i];
	struct room_needs *on = err_grow(r->on, r->n, sizeof *on, "the file systems", err);
	if (!on)
		return NULL;
	r->on = on;
	on[r->n] = (struct room_needs){.host = host, .device = device, .left = UINT64_MAX};
	return &on[r->n++];
}

int room_merge(struct room *r, const struct room_needs *needs, struct err *err)
{
	struct room_needs *on = needs_on(r, needs->host, needs->device, err);
	if (!on)
		return -1;
	if (!on->files || needs->rank < on->rank) {
		on->first = needs->first;
		on->rank = needs->rank;
	}
	on->files += needs->files;
	if (needs->left < on->left)
		on->left = needs->left;
	if (__builtin_add_overflow(on->bytes, needs->bytes, &on->bytes))
		on->bytes = UINT64_MAX;
	return 0;
}

int room_add(struct room *r, int fd, const char *path, uint64_t files, uint64_t bytes,
             struct err *err)
{
	struct stat st;
	struct statfs fs;
	if (!bytes || fstat(fd, &st) || io_retry(fstatfs(fd, &fs)))
		return 0; /* it is not known: writing will tell */
	return room_merge(r,
	                  &(struct room_needs){.device = (uint64_t)st.st_dev,
	                                       .bytes = bytes,
	                                       .left = room_left(&fs),
	                                       .first = path,
	                                       .files = files},
	                  err);
}

int room_add_absent(struct room *r, const char *path, uint64_t bytes, struct err *err)
{
	char *folder = path_folder(path, err);
	int fd = -1, ret = folder ? 0 : -1;
	while (folder && (fd = io_retry(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC))) < 0) {
		char *above = path_folder(folder, err);
		const bool top = above && strcmp(above, folder) == 0;
		free(folder);
		folder = top ? NULL : above;
		if (top)
			free(above);
		ret = above ? 0 : -1;
	}
	if (fd >= 0) {
		ret = room_add(r, fd, path, 1, bytes, err);
		close(fd);
	}
	free(folder);
	return ret;
}

int room_check(const struct room *r, struct err *err)
{
	char need[UNITS_TEXT], left[UNITS_TEXT], others[48] = "";
	for (size_t i = 0; i < r->n; i++) {
		const struct room_needs *on = &r->on[i];
		if (on->bytes <= on->left)
			continue;
		if (on->files > 1)
			snprintf(others, sizeof others, " and %" PRIu64 " other output%s",
			         on->files - 1, on->files > 2 ? "s" : "");
		return err_set(err, ERR_OUTPUT,
		               "%s%s: No space left on device: %s %s, and the file system has %s "
		               "left: make room, or write to another one",
		               on->first, others, on->files > 1 ? "need" : "needs",
		               size_text(on->bytes, need), size_text(on->left, left));
	}
	return 0;
}

void room_release(struct room *r)
{
	free(r->on);
	*r = (struct room){0};
}
