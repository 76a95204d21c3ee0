/*
 * What a host's disk has not stored yet, and loses if the power fails: bytes written since the last
 * fsync of the file, and names given since the last fsync of their folder.
 */
#include "tests/sim/sim.h"
#include "tests/sim/wrap.h"

#include <fcntl.h>
#include <unistd.h>

#define UNSYNCED_MOST 256

struct inode {
	dev_t dev;
	ino_t ino;
};

/* A file with bytes, or a folder with a name, that is not stored yet. */
struct unsynced {
	int host, fd;
	struct inode inode;
	char from[64], to[64]; /* a name that was given; from "": by linkat */
	char old[64];          /* keeps the file that had the name before, "": none */
};

static struct unsynced table[UNSYNCED_MOST]; /* in the order of the calls */
static int len;
static bool renaming; /* the last entry is that of disk_will_rename */
static unsigned kept; /* files that had a name before, numbered */

static struct inode inode_of(int fd)
{
	struct stat64 st;
	if (__real_fstat64(fd, &st) < 0)
		abort();
	return (struct inode){st.st_dev, st.st_ino};
}

static bool same(struct inode a, struct inode b)
{
	return a.dev == b.dev && a.ino == b.ino;
}

static struct unsynced *add(int fd)
{
	if (len == UNSYNCED_MOST)
		abort();
	struct unsynced *u = &table[len++];
	*u = (struct unsynced){.host = current->host,
	                       .fd = __real_fcntl64(fd, F_DUPFD_CLOEXEC, 0),
	                       .inode = inode_of(fd)};
	return u;
}

void disk_begin(void)
{
	while (len)
		__real_close(table[--len].fd);
	kept = 0;
}

void disk_wrote(int fd)
{
	const struct inode inode = inode_of(fd);
	for (int i = 0; i < len; i++)
		if (!*table[i].to && same(table[i].inode, inode))
			return;
	add(fd);
}

void disk_synced(int fd)
{
	const struct inode inode = inode_of(fd);
	int n = 0;
	for (int i = 0; i < len; i++) {
		if (same(table[i].inode, inode))
			__real_close(table[i].fd);
		else
			table[n++] = table[i];
	}
	len = n;
}

static void copy_name(char *to, const char *name)
{
	if (snprintf(to, 64, "%s", name) >= 64)
		abort();
}

/* AT_FDCWD names no folder that is synced. */
static bool has_folder(int dir)
{
	return dir >= 0;
}

void disk_linked(int dir, const char *to)
{
	if (has_folder(dir))
		copy_name(add(dir)->to, to);
}

/* As if the name that it got last were @to. */
void disk_renamed(int dir, const char *from, const char *to)
{
	const struct inode inode = inode_of(dir);
	for (int i = len; i-- > 0;)
		if (strcmp(table[i].to, from) == 0 && same(table[i].inode, inode)) {
			copy_name(table[i].to, to);
			return;
		}
}

void disk_will_rename(int dir, const char *from, const char *to)
{
	renaming = has_folder(dir);
	if (!renaming)
		return;
	struct unsynced *u = add(dir);
	copy_name(u->from, from);
	copy_name(u->to, to);
	snprintf(u->old, sizeof u->old, "in.lost.%u", kept++);
	if (__real_linkat(dir, to, dir, u->old, 0) < 0)
		u->old[0] = '\0';
}

void disk_rename_failed(void)
{
	if (!renaming)
		return;
	struct unsynced *u = &table[--len];
	if (*u->old)
		__real_unlinkat(u->fd, u->old, 0);
	__real_close(u->fd);
}

static void undo_name(const struct unsynced *u)
{
	if (*u->from)
		__real_renameat(u->fd, u->to, u->fd, u->from);
	else
		__real_unlinkat(u->fd, u->to, 0);
	if (*u->old)
		__real_renameat(u->fd, u->old, u->fd, u->to);
}

/* The length may be stored, or neither length nor bytes. */
static void lose_bytes(const struct unsynced *u, struct rng *rng)
{
	struct stat64 st;
	if (__real_fstat64(u->fd, &st) < 0 || __real_ftruncate64(u->fd, 0) < 0)
		abort();
	if (rng_chance(rng, 500) && __real_ftruncate64(u->fd, st.st_size) < 0)
		abort();
}

/* What is left after a failure is stored. */
static void forget(int host)
{
	int n = 0;
	for (int i = 0; i < len; i++) {
		if (table[i].host == host)
			__real_close(table[i].fd);
		else
			table[n++] = table[i];
	}
	len = n;
}

void disk_power_fails(int host, struct rng *rng)
{
	/* Any of the bytes may be stored; names are in their order, as in a journal. */
	bool names_lost = true;
	for (int i = len - 1; i >= 0; i--) {
		const struct unsynced *u = &table[i];
		if (u->host != host)
			continue;
		note("power fails", host, i);
		if (*u->to && (names_lost &= rng_chance(rng, 700)))
			undo_name(u);
		else if (!*u->to && rng_chance(rng, 700))
			lose_bytes(u, rng);
	}
	forget(host);
}
