/*
 * Files and folders below a folder that a list does not have, which a copy of the list removes. The
 * folder is walked once; later exactly what was found is removed, if it is still there and the
 * same. No symbolic link is followed below the folder, and no other file system is entered. One
 * thread.
 *
 * These stay, and so do the folders that hold them: what is neither a file nor a folder (nor, with
 * extra_rules.links, a symbolic link that stays in the folder: path_link_stays); what jobs write or
 * have left (outfile.h, part.h); what extra_rules protects; mount points.
 */
#ifndef COLLCTL_DATA_FILES_EXTRA_H
#define COLLCTL_DATA_FILES_EXTRA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "lib/base/err.h"

/* Paths are relative to the folder. */
struct extra_rules {
	bool (*listed)(void *ctx, const char *path); /* the list has it */
	bool (*protects)(void *ctx, const char *path, bool folder);
	/* What is in the folder stays, whether or not it is protected itself. */
	bool (*shuts)(void *ctx, const char *path);
	/* The folder @fd is about to be walked, also the top folder. False ends the walk. */
	bool (*enters)(void *ctx, int fd);
	bool links; /* symbolic links are removed as files are */
	void *ctx;
};

struct extra {
	char *path; /* relative to the folder; malloced */
	struct stat was;
};

struct extras {
	int fd;             /* the folder; -1: there is none */
	struct extra *list; /* [n]; what is in a folder is before it */
	size_t n;
	size_t removed;
	size_t failed; /* could not be removed; the first of them: */
	struct extra_failure {
		const char *path;
		int error; /* errno */
	} failures[10];
};

/* Find them below @folder, which need not exist. *ended: `enters` has ended the walk, and the list
 * is empty. ERR_OUTPUT: a folder cannot be listed. Release in either case. */
int extras_find(struct extras *, const char *folder, const struct extra_rules *, bool *ended,
                struct err *err);
/* Remove them. One that is gone, or is another file now, is left, and so is a folder in which there
 * is something now. */
void extras_remove(struct extras *);
/* May be called on a zeroed struct, with fd -1 or 0 and no list. */
void extras_release(struct extras *);

#endif
