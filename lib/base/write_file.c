#include "lib/base/write_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"

static int write_synced(int fd, const char *text)
{
	if (write_all(fd, text, strlen(text)) < 0)
		return -1;
	/* A descriptor that cannot be synced (a pipe's end named in /dev/fd) has the bytes
	 * nevertheless. */
	return io_retry(fsync(fd)) < 0 && errno != EINVAL && errno != EROFS ? -1 : 0;
}

/* @path is the name for messages. */
static int write_new(const char *file, const char *path, const char *text, bool secret,
                     struct err *err)
{
	int fd = io_retry(open(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	                       secret ? 0600 : 0666));
	if (fd < 0 && errno == EEXIST)
		return err_set(err, ERR_OUTPUT, "%s: exists and is not overwritten", path);
	if (fd < 0)
		return err_errno(err, ERR_OUTPUT, "%s", path);
	/* fchmod: the umask may have removed the owner's bits. */
	int failed = (secret && fchmod(fd, 0600) < 0) || write_synced(fd, text) < 0;
	if (failed)
		err_errno(err, ERR_OUTPUT, "%s", path);
	if (close(fd) < 0 && errno != EINTR && !failed)
		failed = err_errno(err, ERR_OUTPUT, "%s", path);
	if (!failed)
		return 0;
	unlink(file);
	return -1;
}

/* The new file could not get its name. */
static void refuse(const char *path, struct err *err)
{
	const int error = errno;
	struct stat st;
	if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
		err_set(err, ERR_OUTPUT,
		        "%s: is a symbolic link of user %u, which is not followed, and cannot be "
		        "replaced: name the file itself",
		        path, (unsigned)st.st_uid);
		return;
	}
	errno = error;
	err_errno(err, ERR_OUTPUT, "%s", path);
}

int write_file(const char *path, const char *text, struct write_how how, struct err *err)
{
	char temp[4096];
	if (!how.replace)
		return write_new(path, path, text, how.secret, err);
	if (snprintf(temp, sizeof temp, "%s.%d.tmp", path, (int)getpid()) >= (int)sizeof temp)
		return err_set(err, ERR_OUTPUT, "%.80s...: the name is too long", path);
	(void)unlink(temp); /* of a process that had this number and was killed */
	if (write_new(temp, path, text, how.secret, err) < 0)
		return -1;
	if (io_retry(rename(temp, path)) == 0)
		return 0;
	refuse(path, err);
	unlink(temp);
	return -1;
}
