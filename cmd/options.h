/*
 * The command line: one table of options (options.c) gives the parser, --help, the man page's
 * synopsis and the completions. Every long option has its COLLCTL_* variable; flags win.
 *
 * How to add an option: a member in struct options and a row in the table. Nothing else.
 */
#ifndef COLLCTL_CMD_OPTIONS_H
#define COLLCTL_CMD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/report.h"
#include "lib/base/err.h"

#define RANK_AUTO (-2)
#define RANKS_MAX 65536

/* Which commands take an option: bits in the option's row and in the command's. */
#define OPTS_JOB    (1u << 0) /* rank, size, rendezvous, secrets, addresses, timeouts */
#define OPTS_ALGO   (1u << 1) /* --algorithm */
#define OPTS_ARRAY  (1u << 2) /* --streams, --explain */
#define OPTS_REDUCE (1u << 3) /* --op, --order, --allow-divergent */
#define OPTS_ROOT   (1u << 4)
#define OPTS_PLAN   (1u << 5)
#define OPTS_RUN    (1u << 6)
#define OPTS_SERVE  (1u << 7)
#define OPTS_JSON   (1u << 8)  /* commands that can print JSON */
#define OPTS_HELP   (1u << 9)  /* of `help` alone: what the build generates; not listed */
#define OPTS_COMMON (1u << 10) /* -v, -q, --help: every command, and before COMMAND */
#define OPTS_BEFORE (1u << 11) /* --version: before COMMAND alone */
#define OPTS_ACTS   (1u << 12) /* in a row only: it does something once, so it has no variable */
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
#define OPTS_TIMES (1u << 23) /* --times: commands that copy files */

#define OPTIONS_MAX 256 /* rows of the table */

struct options {
	/* common */
	int verbose; /* -v count; -q: -1 */
	bool json;
	bool help, version;
	/* job */
	int size, rank; /* -1: not given; RANK_AUTO */
	const char *rendezvous, *hostfile;
	const char *job; /* NULL: the launcher's id, or "default" */
	const char *secret_file;
	int secret_fd; /* -1 */
	const char *store_token_file;
	bool insecure;
	const char *listen, *advertise, *iface;
	int port_lo, port_hi;          /* --port-range; 0: any */
	int64_t join_timeout, timeout; /* ns */
	/* algorithm, reduction, data */
	const char *algorithm; /* "auto" */
	const char *tuning;    /* NULL: the built-in rates */
	int root;              /* unless root_host names it */
	const char *root_host; /* --root HOST */
	bool have_root;
	int base;           /* 0: the algorithm's own */
	int steps;          /* 0: not given */
	const char *counts; /* "3,4,5"; NULL: as evenly as can be */
	bool raw_file, times;
	const char *op;    /* "sum" */
	const char *order; /* "any" */
	bool allow_divergent;
	const char *dtype, *shape, *format;
	uint64_t memory; /* bytes */
	int streams;     /* 0: chosen */
	bool no_sync, force, explain;
	const char **outputs; /* -o, in order */
	int noutputs;
	double weight;        /* --weight; 1 */
	const char *integers; /* "first", "equal", "round"; NULL: integers have no average */
	const char **include; /* --include, in order */
	int ninclude;
	const char **exclude;
	int nexclude;
	bool each, stats;
	const char *progress; /* "auto" */
	/* plan */
	bool have_count, have_bytes, verify, compare;
	int host_cpus; /* 0: the ranks are on hosts of their own */
	uint64_t count, bytes;
	/* bench */
	uint64_t minbytes, maxbytes;
	int stepfactor, warmup, iters;
	bool check, csv;
	const char *tuning_out;
	/* run */
	bool label;
	/* serve */
	bool once;
	const char *port_file, *token_file, *tls_cert, *tls_key;
	int ready_fd; /* -1 */
	int64_t ttl;
	/* help */
	bool mdoc;
	const char *completions;

	uint64_t given[OPTIONS_MAX / 64]; /* rows given as flags: bit i is option_rows[i] */
};

enum option_kind {
	OPT_SECTION,  /* no option: `name` is the heading of those that follow */
	OPT_FLAG,     /* bool: set */
	OPT_LOUDER,   /* int: 0 or more, one more each time; the variable holds the number */
	OPT_QUIET,    /* int: -1 */
	OPT_STRING,   /* const char * */
	OPT_INT,      /* int in [min, max] */
	OPT_RANK,     /* int: N or "auto" */
	OPT_ROOT,     /* int: N; else the name of a host, in root_host */
	OPT_SIZE,     /* uint64_t >= min: K, M, G, T or KiB ...: powers of 1024 */
	OPT_DURATION, /* int64_t ns >= min: ms, s, m, h; a plain number is seconds */
	OPT_ENUM,     /* const char *: one of choices, or of aliases */
	OPT_PORTS,    /* int[2]: A-B */
	OPT_LIST,     /* const char **, and an int that counts them (outputs) */
	OPT_WEIGHT,   /* double >= 0, finite */
};

struct option_row {
	const char *name;
	char letter; /* 0: none */
	uint8_t kind;
	size_t offset;    /* of the member in struct options */
	const char *arg;  /* name of the argument in the help; NULL: takes none */
	const char *help; /* lower case, no full stop */
	unsigned groups;  /* OPTS_*: the commands that take it */
	const char *def;  /* the default as one would type it, or NULL */
	int64_t min, max;
	const char *choices; /* OPT_ENUM: "sum|prod|..."; others: what completions offer */
	const char *aliases; /* OPT_ENUM: taken too, but not listed */
	size_t have;         /* offset of a bool that is set with the value; 0: none */
};

/* The table. A name may stand in several rows if no command takes two of them. */
extern const struct option_row option_rows[];
extern const size_t option_rows_len;

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
	return row->kind != OPT_SECTION && (row->groups & (cmd->opts | OPTS_COMMON));
}

/* "COLLCTL_JOIN_TIMEOUT" for "join-timeout"; NULL for the options that only act (--help). */
const char *option_variable(const struct option_row *row, char *buf, size_t cap);

/* Defaults. */
void options_init(struct options *o);

/*
 * Parse @argv (argv[0] is the command's name) for @cmd into *o, which options_init has filled.
 * Options and operands may be mixed ("--" ends options) unless stops_at_operand. On return the
 * operands are argv[1..*argc), and argv[*argc] is NULL. Then the variables of the environment are
 * applied to what no flag gave, and the number of operands is checked, unless --help was given.
 * ERR_USAGE on an unknown or malformed option, naming it and, where one is near, the option meant;
 * o->json, o->verbose and o->help hold nevertheless, wherever they stood.
 */
int options_parse(const struct command *cmd, struct options *o, int *argc, char **argv,
                  struct err *err);

/* The same for what may stand before COMMAND: stops at the first operand, leaves environment and
 * operands alone. */
int options_parse_leading(struct options *o, int *argc, char **argv, struct err *err);

/* The source of the value at @member, which is not the default: "--rank" or "COLLCTL_RANK". */
const char *options_source(const struct options *o, const void *member, char *buf, size_t cap);

void options_release(struct options *o);

/* The help of @cmd, or of the whole program (NULL). */
void options_help(const struct command *cmd, void *file); /* FILE * */

/* Of the strings of @next(ctx), ended by NULL, the one nearest to @word within the distance of a
 * typing error, or NULL. */
const char *options_near(const char *word, const char *(*next)(void *), void *ctx);

#endif
