/*
 * What a command says when it fails: one line on stderr for people and, with --json, one object on
 * stdout for scripts. Libraries return errors; only this file prints them.
 */
#ifndef COLLCTL_CMD_REPORT_H
#define COLLCTL_CMD_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "lib/base/err.h"

/* Print "collctl: [rank N[ (host)]: ]text" to stderr and return the exit code of @e. The rank is
 * the culprit's where @e names one, else @rank, the process's own (-1: it has none). */
int report(const struct err *e, int rank);

/* A remark that is no failure, in the same form; nothing with --quiet (the caller's to check). */
void report_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Copy @src to @dst so that it can do no harm on a terminal: control characters and bytes that are
 * not UTF-8 become \xNN. Text that came from a peer or from a file name goes through it. Cuts at
 * @cap, never inside an escape or a character. Returns @dst. */
char *report_escape(char *dst, size_t cap, const char *src);

/* The value of "error" in --json: {"code","name","rank","host","phase","message"}. @rank as for
 * report; host: null unless the ranks are on several and the culprit's is known;
 * @phase: "start", "join", "connect", "run", "commit". A new reference; NULL: out of memory. */
json_t *report_error_json(const struct err *e, int rank, const char *phase);

/* A file's name, which need not be text, as JSON can hold it. A new reference. */
json_t *report_path_json(const char *path);

/* Print @object (whose reference it takes; NULL counts as out of memory) and a newline to stdout
 * in a single write, so that the lines of several ranks don't mix. Returns 0, or the exit code
 * after reporting why it could not. */
int report_json(json_t *object);

/* The whole of a command that failed before it began: report, and with @json also
 * {"command","ok":false,"error":{...}} on stdout. @command may be NULL. Returns the exit code. */
int report_failure(const char *command, bool json, const struct err *e, int rank,
                   const char *phase);

#endif
