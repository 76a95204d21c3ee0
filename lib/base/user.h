/* Users, as this process sees them: a user namespace may hide some. */
#ifndef COLLCTL_BASE_USER_H
#define COLLCTL_BASE_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Does @uid name one user? The kernel shows all whom this user namespace does not map as 65534. */
bool user_is_known(uid_t uid);
/* Is @uid this process's user? False if that is not known. */
bool user_is_self(uid_t uid);
/* May this process treat the file of @owner as its own (CAP_FOWNER)? */
bool user_may_own(uid_t owner);
/* Can another user than this one, root and @trusted change the file or folder @st? If so @why says
 * how. A group may write that is this process's or root's; in a folder with the sticky bit others
 * may, who can't change its files. Access control lists are not looked at. */
bool user_others_change(const struct stat *st, uid_t trusted, char *why, size_t cap);

#endif
