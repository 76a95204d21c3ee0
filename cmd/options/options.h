/*
 * The command line. The parser, --help, the manual and the completions use two tables of rows
 * (struct setting). Every long option, except actions, has a variable COLLCTL_*; an option on the
 * command line overrides the variable. One thread.
 *
 * How to add an option: add a member to struct coll_request and a row to
 * lib/coll/request/setting_rows.h; or, for an option of a command alone, a member to struct options
 * and a row to command_settings.c.
 */
#ifndef COLLCTL_CMD_OPTIONS_OPTIONS_H
#define COLLCTL_CMD_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/text/report.h"
#include "lib/base/err.h"
#include "lib/coll/request/request.h"
#include "lib/coll/request/setting.h"

#define OPTIONS_MAX 256 /* rows of both tables */

struct options {
	/* common */
	int verbose; /* -v count; -q: -1 */
	bool json;
	bool help, version;
	struct coll_request request; /* by the settings' names */
	const char *progress;        /* "auto" */
	int retry;
	/* plan */
	bool have_count, have_bytes, verify, compare;
	const char *hosts; /* NULL: every rank has its own host, or (host_cpus) all have one */
	int host_cpus;     /* 0: not given */
	uint64_t *rates;   /* [2 * nrates]: as SETTING_RATES; NULL: not given */
	int nrates;
	uint64_t count, bytes;
	bool no_digest;
	int64_t older_than;            /* clean: ns */
	bool csv;                      /* bench */
	const char *svg;               /* bench, check, plan */
	const char *trace, *trace_svg; /* collectives */
	/* run */
	bool label, copy, dry_run;
	const char *ssh, *remote_path; /* NULL: ssh; collctl */
	const char *chdir;             /* NULL: the folder of this name */
	/* serve */
	bool once;
	const char *port_file, *token_file, *tls_cert, *tls_key;
	int ready_fd; /* -1 */
	int64_t ttl;
	int64_t valid; /* invite */
	struct {
		const char *name, *host;
		int days; /* 0: as usual */
	} ca;
	/* help */
	bool mdoc, json_schema;
	const char *completions;

	uint64_t given[OPTIONS_MAX / 64]; /* rows given as flags: bit i is option_at(i) */
};

/* The options of commands alone (command_settings.c). The others are in request_settings. */
extern const struct setting command_settings[];
extern const size_t command_settings_len;
/* Both tables as one: row @i of option_count(). */
size_t option_count(void);
const struct setting *option_at(size_t i);
/* The heading of a section. */
const char *option_section(enum setting_section);
/* The help of an option with its choices and its default, in @buf. */
const char *option_explain(const struct setting *, char *buf, size_t cap);

#define NO_JOB (-1)

struct command {
	const char *name;
	const char *synopsis;   /* "IN... -o OUT" */
	const char *help;       /* one line */
	int job;                /* enum coll_work: it takes the settings of this job; or NO_JOB */
	uint64_t groups;        /* FOR_*: the other groups of settings that it takes */
	int min_args, max_args; /* operands; max -1: any number */
	bool stops_at_operand;  /* run: options end at the first operand */
	int (*run)(const struct command *, struct options *, int argc, char **argv);
};

/* The table of commands (commands.c), ended by a NULL name. */
extern const struct command commands[];

/* FOR_*: all groups of settings that it takes. */
uint64_t command_groups(const struct command *cmd);

static inline bool option_applies(const struct setting *row, const struct command *cmd)
{
	return row->groups & command_groups(cmd);
}

/* "COLLCTL_JOIN_TIMEOUT" for "join-timeout"; NULL for actions (--help). */
const char *option_variable(const struct setting *row, char *buf, size_t cap);

/* Was the option of this member given on the command line? */
bool options_given(const struct options *, const void *member);

/* --svg -: is the picture written to stdout, so that nothing else may be printed there? */
bool options_svg_to_stdout(const struct options *);

/* Set the defaults. */
void options_init(struct options *o);

/*
 * Parse @argv (argv[0] is the command's name) for @cmd into *o, which options_init has filled.
 * Options and operands may be mixed ("--" ends options) unless stops_at_operand. On return the
 * operands are argv[1..*argc), and argv[*argc] is NULL. Then it applies environment variables to
 * options that were not given as flags and, unless --help was given, checks the number of operands.
 * ERR_USAGE names an unknown or malformed option and suggests a similar one; o->json, o->verbose
 * and o->help are set even then, at any position.
 */
int options_parse(const struct command *cmd, struct options *o, int *argc, char **argv,
                  struct err *err);

/* The same without the environment. */
int options_parse_words(const struct command *cmd, struct options *o, int *argc, char **argv,
                        struct err *err);

/* The same for options before COMMAND: stops at the first operand and ignores the environment. */
int options_parse_leading(struct options *o, int *argc, char **argv, struct err *err);

/* The source of the value of @member, which is not the default: "--rank" or "COLLCTL_RANK". Returns
 * @buf. */
const char *options_source(const struct options *o, const void *member, char *buf, size_t cap);

void options_release(struct options *o);

/* The help of @cmd, or of the whole program (NULL). */
void options_help(const struct command *cmd, void *file); /* FILE * */
/* Print how to begin: a few commands. */
void options_begin(void *file); /* FILE * */

/* Of the strings that @next(ctx) returns, up to NULL, the one that is nearest to @word, if the
 * difference may be a typing error; else NULL. */
const char *options_near(const char *word, const char *(*next)(void *), void *ctx);

#endif
