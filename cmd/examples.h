/* Examples of the commands, for `collctl help COMMAND` and the manual pages. A test runs each. */
#ifndef COLLCTL_CMD_EXAMPLES_H
#define COLLCTL_CMD_EXAMPLES_H

struct example {
	const char *command; /* of the table of commands */
	const char *what;    /* a sentence without its full stop */
	const char *lines;   /* for a shell */
};

extern const struct example examples[]; /* by command; the last has no command */

/* The first of @command, or NULL. The others follow it. */
const struct example *examples_of(const char *command);

#endif
