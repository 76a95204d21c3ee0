/*
 * Digests of files that earlier jobs of this user have computed, so that a file that has not
 * changed is not read again. They are in $XDG_CACHE_HOME/collctl/digests, or
 * ~/.cache/collctl/digests, of mode 0600.
 *
 * The file is a table of fixed size, sparse until it is filled. The place of an entry follows from
 * its file and range; where four entries have one place, the oldest is dropped. An entry is
 * accepted only if its tag fits, a hash of the file's device, inode, size, mtime and ctime, of the
 * range and of the digest. So whatever the table contains, it is at worst of no use, and processes
 * need no locks: of two that write to one place at once, one entry may be lost.
 *
 * A file that was changed less than two seconds before it was read is not entered: it could change
 * once more without another time. If the table cannot be used, all digests are computed; that is no
 * error. Thread-safe but for open and close.
 */
#ifndef COLLCTL_DATA_DIGEST_CACHE_H
#define COLLCTL_DATA_DIGEST_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/data/digest.h"

struct digest_cache {
	int fd;        /* -1: not used */
	uint64_t boot; /* devices have their numbers until the machine boots */
};

/* A file in one state. */
struct digest_key {
	bool known;   /* false: it is not looked for, and not entered */
	bool settled; /* it may be entered */
	uint64_t words[8];
};

void digest_cache_open(struct digest_cache *);
void digest_cache_close(struct digest_cache *);

/* Before @fd is read. */
void digest_key_of(const struct digest_cache *, int fd, struct digest_key *);
/* The digest of @n bytes from byte @at on; false: it is not in the table. */
bool digest_cache_get(const struct digest_cache *, const struct digest_key *, uint64_t at,
                      uint64_t n, uint8_t digest[DIGEST_BYTES]);
/* Enter it, unless the file @fd has changed meanwhile. */
void digest_cache_put(const struct digest_cache *, const struct digest_key *, int fd, uint64_t at,
                      uint64_t n, const uint8_t digest[DIGEST_BYTES]);

#endif
