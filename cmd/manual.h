/* The parts of the manual that the build generates, in mdoc. */
#ifndef COLLCTL_CMD_MANUAL_H
#define COLLCTL_CMD_MANUAL_H

#include <stdio.h>

#include "cmd/commands.h"

/* Print the page of @cmd, with a line @FRAGMENT@ in the place of its hand-written part; NULL: the
 * sections COMMANDS and OPTIONS of collctl(1). */
void manual_print(FILE *, const struct command *cmd);
/* Print the fields of --json, for collctl-json(5). */
void manual_print_json(FILE *);

#endif
