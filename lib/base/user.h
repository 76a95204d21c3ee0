/* Users, as this process sees them: a user namespace may hide some. */
#ifndef COLLCTL_BASE_USER_H
#define COLLCTL_BASE_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Does @uid identify one user? The kernel shows every user that this namespace does not map as
 * 65534. */
bool user_is_known(uid_t uid);
/* Is @uid this process's user? False if that is not known. */
bool user_is_self(uid_t uid);
/* May this process treat the file of @owner as its own (CAP_FOWNER)? */
bool user_may_own(uid_t owner);
/* Can a user other than this one, root and @trusted change the file or folder @st? If so, @why[cap]
 * says how. Two cases are allowed: write access for a group that is this process's or root's, and
 * write access for others in a folder with the sticky bit, because they cannot change its files.
 * Access control lists are not examined. */
bool user_others_change(const struct stat *st, uid_t trusted, char *why, size_t cap);

#endif
