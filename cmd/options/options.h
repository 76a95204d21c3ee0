/*
 * The command line: one table of options (options.c) gives the parser, --help, the man page's
 * synopsis and the completions. Every long option has its COLLCTL_* variable; flags win.
 *
 * How to add an option: a member in struct options and a row in the table. An option of a request
 * has its member in struct coll_request and its setting in lib/coll/request/request_settings.c; the
 * row here has its help.
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

/* The commands that take an option: bits in the option's row and in the command's. */
#define OPTS_JOB    (1u << 0) /* rank, size, rendezvous, secrets, addresses, timeouts */
#define OPTS_ALGO   (1u << 1) /* --algorithm */
#define OPTS_ARRAY  (1u << 2) /* --streams, --limit-rate, --explain, --dry-run */
#define OPTS_REDUCE (1u << 3) /* --op, --order, --allow-divergent */
#define OPTS_ROOT   (1u << 4)
#define OPTS_PLAN   (1u << 5)
#define OPTS_RUN    (1u << 6)
#define OPTS_SERVE  (1u << 7)
#define OPTS_JSON   (1u << 8)  /* commands that can print JSON */
#define OPTS_HELP   (1u << 9)  /* only of `help`: texts that the build generates; not listed */
#define OPTS_COMMON (1u << 10) /* -v, -q, --help: every command, and before COMMAND */
#define OPTS_BEFORE (1u << 11) /* --version: only before COMMAND */
#define OPTS_ACTS   (1u << 12) /* only in rows: an action, which has no variable */
#define OPTS_KEYGEN (1u << 13)
#define OPTS_BENCH  (1u << 14)
#define OPTS_OUTPUT (1u << 15) /* -o, --each, --no-sync, --force */
#define OPTS_ROWS   (1u << 16) /* --counts */
#define OPTS_BYTES  (1u << 17) /* --raw-file */
#define OPTS_BASE   (1u << 18) /* --base */
#define OPTS_STEPS  (1u << 19) /* --steps */
#define OPTS_AVG    (1u << 20) /* --weight, --integers: allreduce, reduce, reduce-scatter */
#define OPTS_INPUT                                                                         \
	(1u << 21) /* --dtype, --shape, --format, --memory, --include, --progress ...: who \
	            * reads files, in a job or not */
#define OPTS_STATS (1u << 22)
#define OPTS_WAITS (1u << 24) /* only --progress: commands that wait for ranks */
#define OPTS_CHECK (1u << 25)
#define OPTS_TIMES (1u << 23) /* --times: commands that copy files */

#define OPTS_CA    (1u << 26)
#define OPTS_RETRY (1u << 27)
#define OPTS_SAME  (1u << 28) /* --same */

#define OPTIONS_MAX 256 /* rows of the table */

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
	uint64_t count, bytes;
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
	struct {
		const char *name, *host;
		int days; /* 0: as usual */
	} ca;
	/* help */
	bool mdoc;
	const char *completions;

	uint64_t given[OPTIONS_MAX / 64]; /* rows given as flags: bit i is option_rows[i] */
};

/* Kinds of rows in addition to those of setting.h. */
enum option_kind {
	OPT_SECTION =
	        SETTING_KINDS, /* not an option: `name` is the heading of the following rows */
	OPT_LOUDER,            /* int: incremented each time; the variable has the number */
	OPT_QUIET,             /* int: -1 */
	OPT_REQUEST,           /* the setting of a request that has this name */
};

struct option_row {
	struct setting own; /* of a member of struct options, unless its kind is OPT_REQUEST */
	char letter;        /* 0: none */
	const char *arg;    /* name of the argument in the help; NULL: takes none */
	const char *help;   /* lower case, no full stop */
	unsigned groups;    /* OPTS_*: the commands that take it */
};

/* The table. Several rows may have the same name if no command takes two of them. */
extern const struct option_row option_rows[];
extern const size_t option_rows_len;
/* Kind, limits, default and choices of a row's value. */
const struct setting *option_setting(const struct option_row *);
/* Its help with its choices and its default, in @buf. */
const char *option_explain(const struct option_row *, char *buf, size_t cap);

struct command {
	const char *name;
	const char *synopsis;   /* "IN... -o OUT" */
	const char *help;       /* one line */
	unsigned opts;          /* OPTS_* that it takes */
	int min_args, max_args; /* operands; max -1: any number */
	bool stops_at_operand;  /* run: options end at the first operand */
	int (*run)(const struct command *, struct options *, int argc, char **argv);
};

/* The table of commands (commands.c), ended by a NULL name. */
extern const struct command commands[];

/* Does @cmd take the option of @row? */
static inline bool option_applies(const struct option_row *row, const struct command *cmd)
{
	return row->own.kind != OPT_SECTION && (row->groups & (cmd->opts | OPTS_COMMON));
}

/* "COLLCTL_JOIN_TIMEOUT" for "join-timeout"; NULL for actions (--help). */
const char *option_variable(const struct option_row *row, char *buf, size_t cap);

/* Was the option of this member given as a flag? */
bool options_given(const struct options *, const void *member);

/* Defaults. */
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

/* The source of the value at @member, which is not the default: "--rank" or "COLLCTL_RANK". */
const char *options_source(const struct options *o, const void *member, char *buf, size_t cap);

void options_release(struct options *o);

/* The help of @cmd, or of the whole program (NULL). */
void options_help(const struct command *cmd, void *file); /* FILE * */

/* The string of @next(ctx), which ends with NULL, that is nearest to @word within the distance of a
 * typing error, or NULL. */
const char *options_near(const char *word, const char *(*next)(void *), void *ctx);

#endif
