#include "lib/data/files/staging.h"

#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/path.h"

#define AHEAD (1u << 20) /* bytes that staging_read reads at once */

bool staging_may_hold(uint64_t bytes)
{
	struct rlimit limit;
	return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
	       bytes <= limit.rlim_cur;
}

uint64_t staging_add(struct staging *s, uint64_t bytes)
{
	s->bytes += bytes;
	return s->bytes - bytes;
}

int staging_open(struct staging *s, const char *path, size_t top, struct err *err)
{
	char *folder = err_strndup(path, path_trim(path, top), "a path", err);
	const int ret =
	        folder ? outfile_open_aside(&s->spool, folder, path, top, s->bytes, err) : -1;
	free(folder);
	return ret;
}

int staging_pwrite(struct staging *s, const void *buf, size_t bytes, uint64_t at, struct err *err)
{
	return outfile_pwrite(&s->spool, buf, bytes, at, err);
}

int staging_pread(struct staging *s, void *buf, size_t bytes, uint64_t at, struct err *err)
{
	return outfile_pread(&s->spool, buf, bytes, at, err);
}

const void *staging_read(struct staging *s, size_t bytes, uint64_t at, struct err *err)
{
	if (!s->ahead && !(s->ahead = err_malloc(AHEAD, "staging", err)))
		return NULL;
	if (at < s->from || at + bytes > s->from + s->len) {
		s->from = at;
		s->len = s->bytes - at < AHEAD ? (size_t)(s->bytes - at) : AHEAD;
		if (staging_pread(s, s->ahead, s->len, at, err))
			return NULL;
	}
	return s->ahead + (at - s->from);
}

void staging_release(struct staging *s)
{
	outfile_release(&s->spool);
	free(s->ahead);
	*s = (struct staging){0};
}

int staging_sync(int dirfd)
{
	return io_retry(syncfs(dirfd));
}

static bool reports_errors(void)
{
	struct utsname u;
	int major = 0, minor = 0;
	return uname(&u) == 0 && sscanf(u.release, "%d.%d", &major, &minor) == 2 &&
	       (major > 5 || (major == 5 && minor >= 8));
}

bool staging_can_sync(int dirfd)
{
	static const uint32_t types[] = {
	        BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, F2FS_SUPER_MAGIC,
	        NFS_SUPER_MAGIC,   TMPFS_MAGIC,      XFS_SUPER_MAGIC,
	};
	struct statfs fs;
	if (io_retry(fstatfs(dirfd, &fs)) || !reports_errors())
		return false;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if ((uint32_t)fs.f_type == types[i])
			return true;
	return false;
}
