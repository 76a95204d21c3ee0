#include "lib/base/user.h"

#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNMAPPED_UID 65534

static bool maps_all_users(void)
{
	FILE *f = fopen("/proc/self/uid_map", "re");
	unsigned inside, outside, count;
	bool all = f && fscanf(f, "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 &&
	           count == UINT32_MAX;
	if (f)
		fclose(f);
	return all;
}

bool user_is_known(uid_t uid)
{
	return uid != UNMAPPED_UID || maps_all_users();
}

bool user_is_self(uid_t uid)
{
	return uid == geteuid() && user_is_known(uid);
}

bool user_may_own(uid_t owner)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3] = {0};
	return syscall(SYS_capget, &head, has) == 0 && has[0].effective & 1u << CAP_FOWNER &&
	       user_is_known(owner);
}

bool user_others_change(const struct stat *st, uid_t trusted, char *why, size_t cap)
{
	const bool sticky = S_ISDIR(st->st_mode) && st->st_mode & S_ISVTX;
	const bool group = st->st_gid != 0 && st->st_gid != getegid();
	if (st->st_uid != geteuid() && st->st_uid != 0 && st->st_uid != trusted)
		snprintf(why, cap, "its owner is user %u: expected user %u or root",
		         (unsigned)st->st_uid, (unsigned)geteuid());
	else if (!sticky && st->st_mode & (S_IWOTH | (group ? S_IWGRP : 0u)))
		snprintf(why, cap, "mode %04o lets other users change it: chmod go-w",
		         (unsigned)st->st_mode & 07777);
	else
		return false;
	return true;
}
