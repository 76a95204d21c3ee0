/* The JSON Schema (draft 2020-12) of what commands print with --json, made from the rows of
 * fields.h. It describes this version: other fields than these are not valid. */
#ifndef COLLCTL_CMD_JSON_SCHEMA_H
#define COLLCTL_CMD_JSON_SCHEMA_H

/* Print it on stdout. Returns the exit code. */
int schema_print(void);

#endif
