#include "lib/data/digest_cache.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/boot.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/user.h"
#include "lib/base/xxh3.h"

/* The headers of Linux before 5.15 lack them. */
#ifndef CIFS_SUPER_MAGIC
#define CIFS_SUPER_MAGIC 0xff534d42
#define SMB2_SUPER_MAGIC 0xfe534d42
#define CEPH_SUPER_MAGIC 0x00c36400
#define FUSE_SUPER_MAGIC 0x65735546
#endif

#define TABLE   (64u << 20) /* bytes */
#define ENTRIES 4
#define FORMAT  0x31434c4c4f434744ull /* another number if entries change */

/* Seconds. Some file systems count two at a time; a server's clock may be behind this host's. */
#define SETTLED        2
#define SETTLED_REMOTE 3600

struct entry {
	uint8_t digest[DIGEST_BYTES], tag[DIGEST_BYTES];
};

struct bucket {
	struct entry entries[ENTRIES]; /* the newest first */
};

#define BUCKETS (TABLE / sizeof(struct bucket))

/* ---- the file ---- */

static bool is_own_folder(int fd)
{
	struct stat st;
	char why[256];
	return fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	       !user_others_change(&st, geteuid(), why, sizeof why);
}

/* Open the folder @name in @parent, which is created unless it exists. Takes ownership of
 * @parent. */
static int open_folder(int parent, const char *name, int flags)
{
	flags |= O_RDONLY | O_DIRECTORY | O_CLOEXEC;
	int fd = io_retry(openat(parent, name, flags));
	if (fd < 0 && errno == ENOENT && mkdirat(parent, name, 0700) == 0)
		fd = io_retry(openat(parent, name, flags));
	if (parent >= 0)
		close(parent);
	if (fd < 0 || is_own_folder(fd))
		return fd;
	close(fd);
	return -1;
}

/* The user may have linked this folder elsewhere. */
static int open_base(void)
{
	const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	if (base && base[0] == '/')
		return open_folder(AT_FDCWD, base, 0);
	if (!home || home[0] != '/')
		return -1;
	const int fd = io_retry(open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	return fd < 0 ? -1 : open_folder(fd, ".cache", 0);
}

static bool is_own_file(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && user_is_self(st.st_uid) &&
	       st.st_nlink == 1 && !(st.st_mode & (S_IRWXG | S_IRWXO));
}

/* A write past a limit of the file size could end a process that uses the library. */
static bool is_within_limit(void)
{
	struct rlimit limit;
	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= TABLE;
}

void digest_cache_open(struct digest_cache *c)
{
	char boot[BOOT_ID_MAX];
	const size_t n = boot_id_read(boot);
	c->fd = -1;
	c->boot = XXH3_64bits(boot, n);
	const int base = n && is_within_limit() ? open_base() : -1;
	const int folder = base < 0 ? -1 : open_folder(base, "collctl", O_NOFOLLOW);
	if (folder < 0)
		return;
	c->fd = io_retry(openat(folder, "digests",
	                        O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
	                        0600));
	close(folder);
	if (c->fd >= 0 && !is_own_file(c->fd))
		digest_cache_close(c);
}

void digest_cache_close(struct digest_cache *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

/* ---- entries ---- */

/* Are the times of the file @fd those of this host's clock? */
static bool is_local(int fd)
{
	static const uint32_t remote[] = {NFS_SUPER_MAGIC,  CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC,
	                                  CEPH_SUPER_MAGIC, AFS_SUPER_MAGIC,  V9FS_MAGIC,
	                                  FUSE_SUPER_MAGIC, 0x0bd00bd0 /* Lustre */};
	struct statfs fs;
	bool local = fstatfs(fd, &fs) == 0;
	for (size_t i = 0; local && i < sizeof remote / sizeof *remote; i++)
		local = (uint32_t)fs.f_type != remote[i];
	return local;
}

static bool is_settled(int fd, const struct stat *st)
{
	const time_t changed =
	        st->st_mtim.tv_sec > st->st_ctim.tv_sec ? st->st_mtim.tv_sec : st->st_ctim.tv_sec;
	return clock_wall_ns() / NS_PER_SEC - changed > (is_local(fd) ? SETTLED : SETTLED_REMOTE);
}

void digest_key_of(const struct digest_cache *c, int fd, struct digest_key *k)
{
	struct stat st;
	*k = (struct digest_key){.known = false};
	if (c->fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return;
	const uint64_t words[] = {c->boot,
	                          st.st_dev,
	                          st.st_ino,
	                          (uint64_t)st.st_size,
	                          (uint64_t)st.st_mtim.tv_sec,
	                          (uint64_t)st.st_ctim.tv_sec,
	                          (uint64_t)st.st_mtim.tv_nsec << 32 | (uint64_t)st.st_ctim.tv_nsec,
	                          FORMAT};
	_Static_assert(sizeof words == sizeof k->words, "all of them");
	memcpy(k->words, words, sizeof words);
	k->known = true;
	k->settled = is_settled(fd, &st);
}

static void make_tag(const struct digest_key *k, uint64_t at, uint64_t n, const uint8_t *digest,
                     uint8_t *tag)
{
	struct {
		uint64_t words[8], at, n;
		uint8_t digest[DIGEST_BYTES];
	} in = {.at = at, .n = n};
	XXH128_canonical_t out;
	memcpy(in.words, k->words, sizeof in.words);
	memcpy(in.digest, digest, DIGEST_BYTES);
	XXH128_canonicalFromHash(&out, XXH3_128bits(&in, sizeof in));
	memcpy(tag, out.digest, DIGEST_BYTES);
}

/* Consecutive pieces have consecutive places. */
static off_t place(const struct digest_key *k, uint64_t at)
{
	const uint64_t first = XXH3_64bits(k->words, sizeof k->words);
	return (off_t)((first % BUCKETS + at / DIGEST_PIECE) % BUCKETS * sizeof(struct bucket));
}

static bool read_bucket(const struct digest_cache *c, const struct digest_key *k, uint64_t at,
                        struct bucket *b)
{
	memset(b, 0, sizeof *b);
	return k->known && pread_full(c->fd, b, sizeof *b, (uint64_t)place(k, at)) >= 0;
}

bool digest_cache_get(const struct digest_cache *c, const struct digest_key *k, uint64_t at,
                      uint64_t n, uint8_t digest[DIGEST_BYTES])
{
	struct bucket b;
	uint8_t tag[DIGEST_BYTES];
	if (!read_bucket(c, k, at, &b))
		return false;
	for (int i = 0; i < ENTRIES; i++) {
		make_tag(k, at, n, b.entries[i].digest, tag);
		if (memcmp(tag, b.entries[i].tag, sizeof tag) != 0)
			continue;
		memcpy(digest, b.entries[i].digest, DIGEST_BYTES);
		return true;
	}
	return false;
}

void digest_cache_put(const struct digest_cache *c, const struct digest_key *k, int fd, uint64_t at,
                      uint64_t n, const uint8_t digest[DIGEST_BYTES])
{
	struct digest_key now;
	struct bucket b;
	uint8_t known[DIGEST_BYTES];
	if (!k->settled)
		return;
	digest_key_of(c, fd, &now);
	if (memcmp(now.words, k->words, sizeof now.words) != 0 ||
	    digest_cache_get(c, k, at, n, known) || !read_bucket(c, k, at, &b))
		return;
	memmove(&b.entries[1], &b.entries[0], sizeof b.entries - sizeof b.entries[0]);
	memcpy(b.entries[0].digest, digest, DIGEST_BYTES);
	make_tag(k, at, n, digest, b.entries[0].tag);
	/* Without room on the disk it is not entered. */
	(void)!pwrite(c->fd, &b, sizeof b, place(k, at));
}
