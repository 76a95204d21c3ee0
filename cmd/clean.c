/* collctl clean DIR...: removes what jobs that were ended have left. */
#include "cmd/commands.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/base/units.h"
#include "lib/data/files/leftovers.h"

struct cleaning {
	const struct options *o;
	json_t *lists[LEFTOVER_FAILED + 1]; /* --json: of each fate */
	uint64_t files, bytes;
	int failed;
	struct err err; /* of the first */
};

static const char *const list_names[] = {[LEFTOVER_REMOVED] = "removed",
                                         [LEFTOVER_USED] = "in_use",
                                         [LEFTOVER_KEPT] = "kept",
                                         [LEFTOVER_FAILED] = "failed"};

static void print(const struct cleaning *c, const struct leftover *l)
{
	char shown[4096], bytes[UNITS_TEXT];
	text_escape(shown, sizeof shown, l->path);
	switch (l->fate) {
	case LEFTOVER_REMOVED:
		printf("%s %s, %s\n", c->o->dry_run ? "would remove" : "removed", shown,
		       size_text(l->bytes, bytes));
		break;
	case LEFTOVER_USED:
		report_note("%s: a job uses it", shown);
		break;
	case LEFTOVER_KEPT:
		report_note("%s: the old version of a file, from a job that was ended while it "
		            "renamed its outputs: remove it if you do not need it",
		            shown);
		break;
	case LEFTOVER_FAILED:
		break;
	}
}

static void tell(void *ctx, const struct leftover *l)
{
	struct cleaning *c = ctx;
	const bool quiet = c->o->verbose < 0 && l->fate != LEFTOVER_REMOVED;
	if (l->fate == LEFTOVER_REMOVED) {
		c->files++;
		c->bytes += l->bytes;
	}
	if (l->fate == LEFTOVER_FAILED && c->failed++ == 0)
		err_set(&c->err, ERR_OUTPUT, "%s: cannot be cleaned: %s", l->path, l->why);
	if (!c->o->json && !quiet)
		print(c, l);
	else if (c->o->json)
		json_array_append_new(c->lists[l->fate],
		                      json_pack("{s:o, s:o, s:s?}", "path", json_path(l->path),
		                                "bytes", json_u64(l->bytes), "why", l->why));
}

static int print_json(const struct cleaning *c, const char *command)
{
	const bool ok = c->err.code == 0;
	json_t *j = json_pack("{s:s, s:b, s:b, s:o, s:o}", "command", command, "ok", (int)ok,
	                      "dry_run", (int)c->o->dry_run, "files", json_u64(c->files), "bytes",
	                      json_u64(c->bytes));
	for (size_t i = 0; i < sizeof list_names / sizeof *list_names; i++)
		json_object_set(j, list_names[i], c->lists[i]);
	json_object_set_new(j, "error",
	                    ok ? json_null() : json_error(&c->err, ERR_RANK_SELF, "run"));
	return report_json(j);
}

int cmd_clean(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct cleaning c = {.o = o, .err = ERR_INIT};
	const struct leftovers l = {
	        .age = o->older_than, .dry_run = o->dry_run, .tell = tell, .ctx = &c};
	char bytes[UNITS_TEXT];
	for (size_t i = 0; o->json && i < sizeof c.lists / sizeof *c.lists; i++)
		c.lists[i] = json_array();
	for (int i = 1; i < argc; i++) {
		struct err err = ERR_INIT;
		if (leftovers_remove(&l, argv[i], &err) < 0 && c.err.code == 0)
			c.err = err;
	}
	if (c.failed > 1) {
		const size_t len = strlen(c.err.text);
		snprintf(c.err.text + len, sizeof c.err.text - len, "; and %d other%s",
		         c.failed - 1, c.failed == 2 ? "" : "s");
	}
	if (!o->json)
		printf("%llu file%s, %s%s\n", (unsigned long long)c.files, c.files == 1 ? "" : "s",
		       size_text(c.bytes, bytes), o->dry_run ? " would be removed" : " removed");
	int rc = o->json ? print_json(&c, cmd->name) : 0;
	for (size_t i = 0; i < sizeof c.lists / sizeof *c.lists; i++)
		json_decref(c.lists[i]);
	return c.err.code ? report(&c.err, -1) : rc;
}
