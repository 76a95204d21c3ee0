/* collctl keygen [FILE]: makes a job secret. */
#include "cmd/commands.h"

#include <string.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/private.h"
#include "lib/base/write_file.h"
#include "lib/crypto/secret.h"

/* Does not use stdio, whose buffer would keep a copy. */
static int write_stdout(const char *text, struct err *err)
{
	return write_all(STDOUT_FILENO, text, strlen(text)) < 0
	               ? err_errno(err, ERR_OUTPUT, "stdout")
	               : 0;
}

int cmd_keygen(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct err err = ERR_INIT;
	const char *path = argc > 1 && strcmp(argv[1], "-") != 0 ? argv[1] : NULL;
	char text[SECRET_TEXT];
	struct secret secret;

	(void)cmd;
	private_process(NULL);
	int rc = secret_generate(&secret, text, &err);
	if (rc == 0 && !path)
		rc = write_stdout(text, &err);
	else if (rc == 0)
		rc = write_file(path, text,
		                (struct write_how){.secret = true, .replace = o->request.force},
		                &err);
	secret_wipe(&secret);
	wipe(text, sizeof text);
	return rc < 0 ? report(&err, -1) : 0;
}
