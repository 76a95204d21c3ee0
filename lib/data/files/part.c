#include "lib/data/files/part.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/user.h"

#define END ".collctl-part"

char *part_name(const char *name)
{
	char *part = NULL;
	if (strlen(name) + sizeof END > NAME_MAX || asprintf(&part, ".%s" END, name) < 0)
		return NULL;
	return part;
}

bool part_is_name(const char *name)
{
	const size_t n = strlen(name), end = sizeof END - 1;
	return n > end + 1 && name[0] == '.' && strcmp(name + n - end, END) == 0;
}

bool part_is_at(int dirfd, const char *name, int fd)
{
	struct stat ours, there;
	return fstat(fd, &ours) == 0 && fstatat(dirfd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       io_same_file(&ours, &there);
}

/* Why the open file @fd cannot be a part; NULL: it can. */
static const char *judge(int fd)
{
	struct stat st;
	if (fstat(fd, &st))
		return strerror(errno);
	if (!S_ISREG(st.st_mode))
		return "it is no regular file";
	if (!user_is_self(st.st_uid))
		return "it belongs to another user";
	if (st.st_nlink > 1)
		return "it has other names, too (hard links)";
	if (io_retry(flock(fd, LOCK_EX | LOCK_NB)))
		return errno == EWOULDBLOCK ? "another job uses it"
		                            : "the file system cannot lock it";
	return io_retry(fchmod(fd, S_IRUSR | S_IWUSR)) ? strerror(errno) : NULL;
}

int part_open(int dirfd, const char *name, bool create, const char **why)
{
	const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	const int fd = io_retry(openat(dirfd, name, flags | (create ? O_CREAT : 0), 0600));
	*why = NULL;
	if (fd < 0) {
		*why = errno == ENOENT && !create ? NULL
		       : errno == ELOOP           ? "it is a symbolic link"
		       : errno == EISDIR          ? "it is a folder"
		                                  : strerror(errno);
		return -1;
	}
	*why = judge(fd);
	/* Its last user may have renamed it to the output since it was opened here. */
	if (!*why && !part_is_at(dirfd, name, fd))
		*why = "another job uses it";
	if (!*why)
		return fd;
	close(fd);
	return -1;
}

bool part_left_folder(int parent, const char *name)
{
	struct stat st;
	return fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
	       user_is_self(st.st_uid) &&
	       (st.st_mode & (S_ISUID | S_ISVTX | 0777)) == PART_FOLDER_MODE;
}
