/*
 * Settings by name. Each has a row in one of two tables: settings of a request
 * (request_settings.c), which the command line and the library (lib/collctl.h) share, and options
 * of commands (cmd/options/command_settings.c). To add one, add a member to the struct and a row to
 * the table. A name has several rows if its help differs between commands. The tables are constant;
 * one thread uses a struct that is set.
 */
#ifndef COLLCTL_COLL_REQUEST_SETTING_H
#define COLLCTL_COLL_REQUEST_SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"

enum setting_kind {
	SETTING_FLAG,     /* bool: without a value true; else 1, true, yes, on, 0 ... */
	SETTING_STRING,   /* const char * */
	SETTING_INT,      /* int in [min, max] */
	SETTING_RANK,     /* int: N or "auto" */
	SETTING_THREADS,  /* int in [min, max]; "auto": 0 */
	SETTING_ROOT,     /* int: N; or a host's name: a const char * at `other` */
	SETTING_SIZE,     /* uint64_t >= min: K, M, G, T or KiB ...: powers of 1024 */
	SETTING_RATE,     /* uint64_t bytes per second >= min: as a size, or Mbit, Gbit ...: powers
	                   * of 1000 bits */
	SETTING_LINK,     /* uint64_t bytes per second, and another at `other`: UP[,DOWN], each as
	                   * a rate */
	SETTING_RATES,    /* uint64_t *, malloced, two for each of an int at `other`: R,R,..., each
	                   * UP[:DOWN] */
	SETTING_DURATION, /* int64_t ns >= min: ms, s, m, h; a plain number is seconds */
	SETTING_WORD,     /* const char *: one of choices or aliases */
	SETTING_PORTS,    /* A-B: two ints, A and, at `other`, B */
	SETTING_LIST,     /* const char **, malloced, and their number, an int at `other` */
	SETTING_ROWS,     /* uint64_t *, malloced, and an int at `other`: N,N,... */
	SETTING_WEIGHTS, /* double *, malloced, each >= 0 and finite, and an int at `other`: W,W,...
	                  */
	SETTING_NUMBER,  /* double, finite */
	SETTING_OUTER,   /* struct outer: nesterov:LR,MU */
	SETTING_DEVICE,  /* struct device_list: cpu, cuda or cuda:N,N,... */
	/* One of choices or aliases, as the type of the member. */
	SETTING_OP,       /* enum reduce_op, and a struct reduce_param at `other` */
	SETTING_ORDER,    /* bool: rank */
	SETTING_DTYPE,    /* enum dtype */
	SETTING_FORMAT,   /* const struct format * */
	SETTING_INTEGERS, /* enum coll_integers */
	SETTING_CHOICE,   /* an enum; value i is the i-th of choices, from 0 */
	SETTING_LOUDER,   /* int: without a value, 1 is added each time; else in [min, max] */
	SETTING_QUIET,    /* int: -1 if the flag is true */
};

/* The headings under which --help and the manual list them, in this order. */
enum setting_section {
	SECTION_COLLECTIVE,
	SECTION_FILES,
	SECTION_RESOURCES,
	SECTION_JOB,
	SECTION_SECURITY,
	SECTION_ADDRESSES,
	SECTION_LIMITS,
	SECTION_PLAN,
	SECTION_BENCH,
	SECTION_CHECK,
	SECTION_RUN,
	SECTION_STORE,
	SECTION_KEYGEN,
	SECTION_CERTIFICATES,
	SECTION_COMMON,
	SECTIONS
};

/* Groups of settings: the jobs and commands that take them. */
#define FOR_JOIN    (1ull << 0) /* every job */
#define FOR_CHOICE  (1ull << 1) /* the choice of an algorithm */
#define FOR_MOVES   (1ull << 2) /* collectives that move arrays */
#define FOR_INPUT   (1ull << 3) /* who reads files */
#define FOR_STATS   (1ull << 4)
#define FOR_OUTPUT  (1ull << 5)
#define FOR_REDUCE  (1ull << 6)
#define FOR_AVERAGE (1ull << 7)
#define FOR_ROOT    (1ull << 8)
#define FOR_ROWS    (1ull << 9)
#define FOR_BYTES   (1ull << 10) /* files may be bytes */
#define FOR_COPIES  (1ull << 11) /* collectives that copy files */
#define FOR_RADIX   (1ull << 12)
#define FOR_STEPS   (1ull << 13)
#define FOR_BENCH   (1ull << 14)
#define FOR_CHECK   (1ull << 15)
#define FOR_VERIFY  (1ull << 16)
#define FOR_PLAN    (1ull << 17)
#define FOR_RUN     (1ull << 18)
#define FOR_SERVE   (1ull << 19)
#define FOR_KEYGEN  (1ull << 20)
#define FOR_CA      (1ull << 21)
#define FOR_RETRY   (1ull << 22) /* jobs that can begin again */
#define FOR_WAITS   (1ull << 23) /* who waits for ranks and reads no files */
#define FOR_JSON    (1ull << 24) /* who can print JSON */
#define FOR_HELP    (1ull << 25) /* `help`: texts that the build generates; not listed */
#define FOR_COMMON  (1ull << 26) /* every command, and before COMMAND */
#define FOR_BEFORE  (1ull << 27) /* only before COMMAND */
#define FOR_INFO    (1ull << 28) /* `info` */
#define FOR_SETS    (1ull << 29) /* collectives that take named tensors */
#define FOR_SHARDS  (1ull << 30) /* collectives whose output may be a set of files */
#define FOR_CONVERT (1ull << 31) /* collectives whose output may have another element type */
#define FOR_JOINED  (1ull << 32) /* collectives that join what the ranks have */
#define FOR_SCATTER (1ull << 33)
#define FOR_UPDATE  (1ull << 34) /* collectives that send no file of which all have a copy */
#define FOR_CLEAN   (1ull << 35) /* `clean` */
#define FOR_INVITE  (1ull << 36) /* `invite` */
#define FOR_FEWER   (1ull << 37) /* collectives that can do without some of the ranks */

/*
 * A row: a setting of a request or an option of a command. Parsing, limits, default, help, manual,
 * completions, variables and the facts that ranks agree on are made from it.
 */
struct setting {
	const char *name;    /* of the long option, without dashes */
	const char *arg;     /* the argument's name in the help; NULL: takes none */
	const char *help;    /* lower case, no full stop */
	const char *def;     /* the default, as on the command line, or NULL */
	const char *choices; /* "sum|prod|..." */
	const char *aliases; /* also accepted, but not listed */
	int64_t min, max;
	size_t offset;   /* of the member in the struct */
	size_t other;    /* offset of the second member, which some kinds have */
	size_t have;     /* offset of a bool that becomes true when the value is set; 0: none */
	uint64_t groups; /* FOR_*: who takes it */
	uint64_t agree;  /* FOR_*: the jobs whose ranks must all give the same value */
	uint8_t kind;    /* enum setting_kind */
	uint8_t section; /* enum setting_section */
	char letter;     /* of the short option; 0: none */
	bool once;       /* of a kind whose last value counts: see setting_is_once */
	bool action;     /* it has no environment variable */
};

/* Is it an error to give it twice on a command line? So it is where a second value might be meant
 * in addition to the first: of kinds that are a list or describe inputs, and of rows that say so.
 * Of the others the last value counts, and SETTING_LIST keeps all. */
bool setting_is_once(const struct setting *);

/* A row for a member of struct @base_. After the help: other members, as .max = 9. */
#define SETTING(base_, section_, name_, letter_, arg_, kind_, member_, groups_, help_, ...)     \
	{                                                                                       \
		.section = SECTION_##section_, .name = name_, .letter = letter_, .arg = arg_,   \
		.kind = SETTING_##kind_, .offset = offsetof(base_, member_), .groups = groups_, \
		.help = help_, __VA_ARGS__                                                      \
	}

/* Set the member of *base to @text (NULL: a flag without a value). The caller owns @text, which
 * must outlive the struct. ERR_USAGE: @text is malformed; @subject: the setting's name in the
 * message. */
int setting_read(const struct setting *, void *base, const char *text, const char *subject,
                 struct err *err);
/* Set the member of *base to the default, if there is one. Does not set the bool at `have`. */
void setting_default(const struct setting *, void *base);
/* Free the member, if its kind is malloced, and set it to NULL. */
void setting_release(const struct setting *, void *base);
/* Write the choices to @buf[cap]: "sum, prod, min". Returns @buf. */
const char *setting_choices(const struct setting *, char *buf, size_t cap);

/* Append the value as text with a NUL, for messages and for comparison with other ranks: "given",
 * "sum", "4", "a*, b*"; "not given" if there is none. ERR_RESOURCE. */
int setting_text(const struct setting *, const void *base, struct buf *out, struct err *err);

#endif
