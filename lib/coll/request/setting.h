/*
 * The settings of a request by name: one table gives the kinds, limits and defaults that the
 * command line and the library (lib/collctl.h) share. A setting has the name of the
 * command's long option, without dashes.
 */
#ifndef COLLCTL_COLL_REQUEST_SETTING_H
#define COLLCTL_COLL_REQUEST_SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

#define SETTING_RANKS_MAX 65536

enum setting_kind {
	SETTING_FLAG,     /* bool: set */
	SETTING_STRING,   /* const char * */
	SETTING_INT,      /* int in [min, max] */
	SETTING_RANK,     /* int: N or "auto" */
	SETTING_THREADS,  /* int in [min, max], or 0: "auto" */
	SETTING_ROOT,     /* int: N; else the name of a host, a const char * at `other` */
	SETTING_SIZE,     /* uint64_t >= min: K, M, G, T or KiB ...: powers of 1024 */
	SETTING_RATE,     /* uint64_t bytes per second >= min: as a size, or Mbit, Gbit ...: powers
	                   * of 1000 bits */
	SETTING_DURATION, /* int64_t ns >= min: ms, s, m, h; a plain number is seconds */
	SETTING_WORD,     /* const char *: one of choices, or of aliases */
	SETTING_PORTS,    /* int, and the upper end at `other`: A-B */
	SETTING_LIST,     /* const char **, malloced, and an int at `other` that counts them */
	SETTING_ROWS,     /* uint64_t *, malloced, and an int at `other`: N,N,... */
	SETTING_WEIGHTS, /* double *, malloced, each >= 0 and finite, and an int at `other`: W,W,...
	                  */
	SETTING_DEVICE,  /* struct device_list: cpu, cuda or cuda:N,N,... */
	/* One of choices, or of aliases, as the type of the member. */
	SETTING_OP,       /* enum reduce_op */
	SETTING_ORDER,    /* bool: rank */
	SETTING_DTYPE,    /* enum dtype */
	SETTING_FORMAT,   /* const struct format * */
	SETTING_INTEGERS, /* enum coll_integers */
	SETTING_GPU_PATH, /* enum gpu_path */
	SETTING_KINDS
};

struct setting {
	const char *name;
	uint8_t kind;
	size_t offset;   /* of the member */
	size_t other;    /* of the second member that some kinds have */
	size_t have;     /* of a bool that is set with the value; 0: none */
	const char *def; /* the default, as on the command line, or NULL */
	int64_t min, max;
	const char *choices; /* "sum|prod|..." */
	const char *aliases; /* also accepted, but not listed */
	/* Given twice on a command line, is it an error? It is where a second value could be meant
	 * in addition to the first. Of others the last one counts; SETTING_LIST keeps all. */
	bool once;
	unsigned groups; /* of a request's: SETTING_FOR_*; every kind of job has some of them */
};

/* The jobs that take a setting of a request. */
#define SETTING_FOR_JOIN    (1u << 0) /* every job */
#define SETTING_FOR_CHOICE  (1u << 1) /* the choice of an algorithm */
#define SETTING_FOR_MOVES   (1u << 2) /* collectives that move arrays */
#define SETTING_FOR_INPUT   (1u << 3) /* how files are read */
#define SETTING_FOR_STATS   (1u << 4)
#define SETTING_FOR_OUTPUT  (1u << 5)
#define SETTING_FOR_REDUCE  (1u << 6)
#define SETTING_FOR_AVERAGE (1u << 7)
#define SETTING_FOR_ROOT    (1u << 8)
#define SETTING_FOR_ROWS    (1u << 9)
#define SETTING_FOR_BYTES   (1u << 10) /* files may be bytes */
#define SETTING_FOR_COPIES  (1u << 11) /* collectives that copy files */
#define SETTING_FOR_RADIX   (1u << 12)
#define SETTING_FOR_STEPS   (1u << 13)
#define SETTING_FOR_BENCH   (1u << 14)
#define SETTING_FOR_CHECK   (1u << 15)
#define SETTING_FOR_VERIFY  (1u << 16)

/* Set the member of *@base to @text (SETTING_FLAG: NULL). The caller owns @text and must keep it.
 * ERR_USAGE if it is malformed; @subject names the setting in the message. */
int setting_read(const struct setting *, void *base, const char *text, const char *subject,
                 struct err *err);
/* Set the member of *@base to the default, if there is one. The bool at `have` stays as it is. */
void setting_default(const struct setting *, void *base);
/* The error for a malformed value. */
int setting_malformed(const struct setting *, const char *text, const char *subject,
                      struct err *err);
/* Is @word one of the words of @list ("a|b|c", or NULL)? */
int setting_in_list(const char *list, const char *word);
/* 1 for 1, true, yes, on; 0 for 0, false, no, off; -1 for any other @text. */
int setting_truth(const char *text);

/* The settings of struct coll_request. */
extern const struct setting request_settings[];
extern const size_t request_settings_len;
/* NULL: there is none. */
const struct setting *request_setting(const char *name);
struct coll_request;
/* Does a job of this work and kind take the setting? */
int request_takes(const struct coll_request *, const struct setting *);

#endif
