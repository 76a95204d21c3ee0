/*
 * Reports a failed command: one line on stderr and, with --json, one object on stdout. Libraries
 * return errors; only this file prints them.
 */
#ifndef COLLCTL_CMD_TEXT_REPORT_H
#define COLLCTL_CMD_TEXT_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "lib/base/err.h"

/* Print "collctl: [rank N[ (host)]: ]text" to stderr, its first word in colour, and return the exit
 * code of @e. The rank is the culprit if @e names one, else @rank, this process's rank (-1: none);
 * a text that begins with several ranks has none before it. */
int report(const struct err *e, int rank);

/* Print a note, which is not a failure, in the same form. The caller checks --quiet. */
void report_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Print @object and a newline to stdout in a single write, so that the lines of several ranks do
 * not mix. Takes the reference; NULL means out of memory, which is printed as an object, too.
 * Returns 0, also if the reader has gone, or the exit code after reporting an error. */
int report_json(json_t *object);

/* Report a command that failed before it started; with @json also print
 * {"command","ok":false,"error":{...}} on stdout. @command may be NULL. Returns the exit code. */
int report_failure(const char *command, bool json, const struct err *e);

#endif
