/* collctl keygen [FILE]: makes a job secret. */
#include "cmd/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/private.h"
#include "lib/job/secret.h"

/* Replace @path by a new file, all or nothing. Does not follow a symlink. */
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

/* Does not use stdio, whose buffer would keep a copy. */
static int write_stdout(const char *text, struct err *err)
{
	return write_all(STDOUT_FILENO, text, strlen(text)) < 0
	               ? err_errno(err, ERR_OUTPUT, "stdout")
	               : 0;
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
		rc = o->request.force ? replace_file(path, text, &err)
		                      : secret_write_file(path, text, &err);
	secret_wipe(&secret);
	wipe(text, sizeof text);
	return rc < 0 ? report(&err, -1) : 0;
}
