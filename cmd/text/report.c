#include "cmd/text/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/text/bar.h"
#include "cmd/text/terminal.h"
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/text.h"

int report(const struct err *e, int rank)
{
	char text[4 * sizeof e->text], host[4 * sizeof e->host], mark[32];

	text_escape(text, sizeof text, e->text);
	rank = err_names_ranks(e) ? -1 : err_blames(e, rank);
	snprintf(mark, sizeof mark, "%s%scollctl:%s", bar_erasure(),
	         terminal_begin(STDERR_FILENO, TERMINAL_ERROR),
	         terminal_end(STDERR_FILENO, TERMINAL_ERROR));
	/* stderr is unbuffered: one call is one write, so messages of ranks that share it do not
	 * mix. */
	if (rank >= 0 && e->host[0])
		fprintf(stderr, "%s rank %d (%s): %s\n", mark, rank,
		        text_escape(host, sizeof host, e->host), text);
	else if (rank >= 0)
		fprintf(stderr, "%s rank %d: %s\n", mark, rank, text);
	else
		fprintf(stderr, "%s %s\n", mark, text);
	return e->code;
}

void report_note(const char *fmt, ...)
{
	char raw[1024], text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(raw, sizeof raw, fmt, ap);
	va_end(ap);
	fprintf(stderr, "%scollctl: %s\n", bar_erasure(), text_escape(text, sizeof text, raw));
}

/* In one write. */
static void print(const char *text, size_t len, struct err *err)
{
	bar_clear();
	if ((fflush(stdout) || write_all(STDOUT_FILENO, text, len) < 0) && stdout_is_read())
		err_errno(err, ERR_OUTPUT, "stdout");
}

/* There is no memory for an object: print that as one. */
static int report_lack(void)
{
	struct err err = ERR_INIT;
	char text[320];

	err_set(&err, ERR_RESOURCE, "out of memory: the JSON result");
	const int len = snprintf(text, sizeof text,
	                         "{\"command\":null,\"ok\":false,\"error\":{\"code\":%d,\"name\":"
	                         "\"%s\",\"rank\":null,\"host\":null,\"phase\":\"run\",\"subject\":"
	                         "null,\"message\":\"%s\"}}\n",
	                         err.code, err_name(err.code), err.text);
	print(text, (size_t)len, &err);
	return report(&err, -1);
}

int report_json(json_t *object)
{
	struct err err = ERR_INIT;
	char *text = json_text(object, JSON_COMPACT);

	json_decref(object);
	if (!text)
		return report_lack();
	size_t len = strlen(text);
	text[len++] = '\n'; /* replaces the terminating NUL */
	print(text, len, &err);
	free(text);
	return err.code ? report(&err, -1) : 0;
}

int report_failure(const char *command, bool json, const struct err *e)
{
	int code = report(e, ERR_RANK_SELF);

	if (json) {
		json_forget_memory(); /* free the memory of what was built before */
		json_t *error = json_error(e, ERR_RANK_SELF, "start");
		json_t *name = command ? json_string(command) : NULL;
		report_json(json_pack("{s:o, s:b, s:o}", "command", name ? name : json_null(), "ok",
		                      0, "error", error));
	}
	return code;
}
