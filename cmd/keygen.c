/* collctl keygen [FILE]: a job secret. */
#include "cmd/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/private.h"
#include "lib/job/secret.h"

/* Put a new file in the place of @path, whole or not at all; what is behind a symlink stays. */
static int replace_file(const char *path, const char *text, struct err *err)
{
	char temp[4096];

	if (snprintf(temp, sizeof temp, "%s.%d.tmp", path, (int)getpid()) >= (int)sizeof temp)
		return err_set(err, ERR_OUTPUT, "%.80s...: the name is too long", path);
	if (secret_write_file(temp, text, err) < 0)
		return -1;
	if (io_retry(rename(temp, path)) == 0)
		return 0;
	err_errno(err, ERR_OUTPUT, "%s", path);
	unlink(temp);
	return -1;
}

/* Not by stdio, whose buffer would keep a copy. */
static int write_stdout(const char *text, struct err *err)
{
	size_t len = strlen(text);

	while (len) {
		ssize_t n = write(STDOUT_FILENO, text, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, ERR_OUTPUT, "stdout");
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

int cmd_keygen(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct err err = {.rank = ERR_RANK_SELF};
	const char *path = argc > 1 && strcmp(argv[1], "-") != 0 ? argv[1] : NULL;
	char text[SECRET_TEXT];
	struct secret secret;

	(void)cmd;
	private_process(NULL);
	int rc = secret_generate(&secret, text, &err);
	if (rc == 0 && !path)
		rc = write_stdout(text, &err);
	else if (rc == 0)
		rc = o->force ? replace_file(path, text, &err)
		              : secret_write_file(path, text, &err);
	secret_wipe(&secret);
	wipe(text, sizeof text);
	return rc < 0 ? report(&err, -1) : 0;
}
