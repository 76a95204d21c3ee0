/* What the build generates of the manual, in mdoc. */
#ifndef COLLCTL_CMD_MANUAL_H
#define COLLCTL_CMD_MANUAL_H

#include <stdio.h>

#include "cmd/commands.h"

/* The page of @cmd, with a line @FRAGMENT@ where its hand-written part goes; NULL: the sections
 * COMMANDS and OPTIONS of collctl(1). */
void manual_print(FILE *, const struct command *cmd);

#endif
