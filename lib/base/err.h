/*
 * Errors. A library function that can fail returns 0 or -1 (or NULL) and takes a `struct err *`
 * last, which it fills; commands print it. The code is the exit code of the contract (collctl(1),
 * EXIT STATUS).
 */
#ifndef COLLCTL_BASE_ERR_H
#define COLLCTL_BASE_ERR_H

#include <stddef.h>

enum err_code {
	ERR_NONE = 0,
	ERR_OTHER = 1,
	ERR_USAGE = 2,
	ERR_INPUT = 3,
	ERR_OUTPUT = 4,
	ERR_RENDEZVOUS = 5,
	ERR_AUTH = 6,
	ERR_DISAGREE = 7,
	ERR_PEER_LOST = 8,
	ERR_STALLED = 9,
	ERR_INTEGRITY = 10,
	ERR_RESOURCE = 11,
};

#define ERR_RANK_SELF (-1) /* the failure is this process's own */

struct err {
	int code;    /* enum err_code, or 128 + signal */
	int rank;    /* the culprit, or ERR_RANK_SELF */
	int system;  /* errno, if a system call failed; else 0 */
	int subject; /* the first bytes of text that name what it is about: a file, a URL, --NAME;
	                0: none */
	char text[640]; /* the message without "collctl: rank N: ": subject first, no full stop */
	char host[65];  /* of the culprit's rank; "": not known, or the same for all ranks */
};
#define ERR_INIT ((struct err){.rank = ERR_RANK_SELF}) /* not filled */

/* Fill @e and return -1. The first error stays: a filled @e is not overwritten. @e may be NULL.
 * The subject is the first argument of a format that begins with "%s:", or the name of an option if
 * the text begins with it: "--op: ". Of a text that is too long the middle is left out. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same, with ": " and the text of errno appended. If errno means that memory or descriptors
 * ran out, the code is ERR_RESOURCE. The format "%s" names the subject, too. */
int err_errno(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same as err_set, blaming @rank. */
int err_rank(struct err *e, int code, int rank, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));

/* Fill @e with @why, if it is not filled yet, and return -1. */
int err_pass(struct err *e, const struct err *why);

/* The length of the option's name with which @text begins, "--op" in "--op: ..."; 0: none. */
int err_option(const char *text);

/* Allocation failed: ERR_RESOURCE, naming what (@bytes of @what). Returns -1. */
int err_nomem(struct err *e, const char *what, unsigned long long bytes);

/* As malloc, calloc, reallocarray, strdup, strndup and asprintf, where a program has to end if
 * there is no memory for @what: they return NULL and fill @e as err_nomem does. */
void *err_malloc(size_t bytes, const char *what, struct err *e);
void *err_calloc(size_t n, size_t size, const char *what, struct err *e);
void *err_realloc(void *p, size_t n, size_t size, const char *what, struct err *e);
char *err_strdup(const char *text, const char *what, struct err *e);
char *err_strndup(const char *text, size_t max, const char *what, struct err *e);
char *err_asprintf(const char *what, struct err *e, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

/* The list @p of @n elements of @size bytes, with room for one more; NULL: as above, and @p stays.
 * It doubles at each power of two, and no capacity is stored: a list that grows by this function
 * grows by nothing else. */
void *err_grow(void *p, size_t n, size_t size, const char *what, struct err *e);

void err_clear(struct err *e);

/* A short word for the code ("input", "peer-lost"), for --json. */
const char *err_name(int code);

#endif
