/*
 * The command line: one table of options (options.c) gives the parser, --help, the man page's
 * synopsis and the completions. Every long option has its COLLCTL_* variable; flags win.
 */
#ifndef COLLCTL_CMD_OPTIONS_H
#define COLLCTL_CMD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

#define RANK_AUTO (-2)

/* Which commands take an option: bits in the option's row and in the command's. */
#define OPTS_JOB      (1u << 0) /* rank, size, rendezvous, secrets, addresses, timeouts */
#define OPTS_ALGO     (1u << 1) /* --algorithm */
#define OPTS_ARRAY    (1u << 2) /* -o, --dtype, --shape, --format, --memory, --no-sync, --force ... */
#define OPTS_REDUCE   (1u << 3) /* --op, --order, --allow-divergent */
#define OPTS_ROOT     (1u << 4)
#define OPTS_PLAN     (1u << 5)
#define OPTS_RUN      (1u << 6)
#define OPTS_SERVE    (1u << 7)
#define OPTS_JSON     (1u << 8) /* commands that can print JSON */

struct options {
	/* common */
	int verbose; /* -v count; -q: -1 */
	bool json;
	bool help;
	/* job */
	int size, rank; /* -1: not given; RANK_AUTO */
	const char *rendezvous, *hostfile, *job;
	const char *secret_file;
	int secret_fd; /* -1 */
	const char *store_token_file;
	bool insecure;
	const char *listen, *advertise, *iface;
	int port_lo, port_hi; /* --port-range; 0: any */
	int64_t join_timeout, timeout; /* ns */
	/* algorithm, reduction, data */
	const char *algorithm; /* "auto" */
	int root;
	const char *op;	   /* "sum" */
	const char *order; /* "any" */
	bool allow_divergent;
	const char *dtype, *shape, *format;
	uint64_t memory; /* bytes */
	int streams;	 /* 0: chosen */
	bool no_sync, force, explain;
	const char **outputs; /* -o, in order */
	int noutputs;
	/* plan */
	bool have_count, have_bytes, verify;
	uint64_t count, bytes;
	/* run */
	bool label;
	/* serve */
	bool once;
	const char *port_file, *token_file, *tls_cert, *tls_key;
	int ready_fd; /* -1 */
	int64_t ttl;
};

struct command {
	const char *name;
	const char *synopsis; /* "IN... -o OUT" */
	const char *help;     /* one line */
	unsigned opts;	      /* OPTS_* that it takes */
	int min_args, max_args; /* operands; max -1: any number */
	bool stops_at_operand; /* run: options end at the first operand */
	int (*run)(const struct command *, struct options *, int argc, char **argv);
};

/* The table of commands (main.c), ended by a NULL name. */
extern const struct command commands[];

/*
 * Parse @argv (argv[0] is the command's name) for @cmd into *o, which options_init has filled.
 * Options and operands may be mixed ("--" ends options) unless stops_at_operand. On return the
 * operands are argv[1..*argc). ERR_USAGE on an unknown or malformed option, naming it and, where
 * one is near, the option meant.
 */
void options_init(struct options *o);
int options_parse(const struct command *cmd, struct options *o, int *argc, char **argv,
		  struct err *err);
void options_help(const struct command *cmd, void *file); /* FILE * */
void options_release(struct options *o);

/* Print "collctl: [rank N: ]text" to stderr for @e and return its exit code. With o->json also the
 * failure's JSON object is the caller's to print. */
int report(const struct err *e, int rank);

#endif
