/*
 * Errors. A library function that can fail returns 0 on success and -1 (or NULL) on failure. Its
 * last argument is a `struct err *`, which it fills on failure. Only commands print errors. The
 * code is the exit code of the command (collctl(1), EXIT STATUS).
 *
 * Headers name only the codes that a caller may need to distinguish. Any function may also fail
 * with ERR_RESOURCE if memory, descriptors or threads run out. A struct err is used by one thread
 * at a time; the functions use nothing else.
 */
#ifndef COLLCTL_BASE_ERR_H
#define COLLCTL_BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>

enum err_code {
	ERR_NONE = 0,
	ERR_OTHER = 1,
	ERR_USAGE = 2,      /* an option or setting is wrong or missing */
	ERR_INPUT = 3,      /* an input is malformed, changed or unreadable */
	ERR_OUTPUT = 4,     /* an output cannot be written */
	ERR_RENDEZVOUS = 5, /* the ranks did not meet */
	ERR_AUTH = 6,       /* a secret, certificate or token is missing or wrong */
	ERR_DISAGREE = 7,   /* the settings or the data of the ranks differ */
	ERR_PEER_LOST = 8,  /* a rank or a connection was lost */
	ERR_STALLED = 9,    /* no progress */
	ERR_INTEGRITY = 10, /* received bytes are corrupt or malformed, or results differ */
	ERR_RESOURCE = 11,  /* not enough memory, descriptors or threads; a library is missing */
};

#define ERR_RANK_SELF (-1) /* the failure is this process's own */

struct err {
	int code;       /* enum err_code, or 128 + signal */
	int rank;       /* the culprit, or ERR_RANK_SELF */
	int system;     /* errno, if a system call failed; else 0 */
	int subject;    /* the number of bytes at the start of text that name the subject: a file, a
	                   URL, --NAME; 0: none */
	char text[640]; /* the message without "collctl: rank N: ": subject first, no full stop */
	char host[65];  /* of the culprit; "": not known, or the same for all ranks */
};
#define ERR_INIT ((struct err){.rank = ERR_RANK_SELF}) /* not filled */

/* Fill @e and return -1. The first error stays: a filled @e is not overwritten. @e may be NULL. If
 * @fmt begins with "%s:", the subject is its first argument. Else, if the text begins with an
 * option as in "--op: ", the subject is the option. If the text is too long, its middle is left
 * out. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same, with ": " and the text of errno appended. If errno means that memory or descriptors ran
 * out, the code is ERR_RESOURCE. If @fmt is "%s", its argument is the subject, too. */
int err_errno(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same as err_set, blaming @rank. */
int err_rank(struct err *e, int code, int rank, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));

/* The rank to name: the culprit, else @rank, this process's. */
static inline int err_blames(const struct err *e, int rank)
{
	return e->rank >= 0 ? e->rank : rank;
}

/* Does the text begin with several ranks, "ranks 1-3 did not join"? Then nobody else is to be named
 * before it. */
bool err_names_ranks(const struct err *);

/* Fill @e with @why, if it is not filled yet, and return -1. */
int err_pass(struct err *e, const struct err *why);

/* The length of the option at the beginning of @text: 4 for "--op: ..."; 0: it begins with none. */
int err_option(const char *text);

/* Set ERR_RESOURCE for an allocation that failed: @bytes for @what. Returns -1. */
int err_nomem(struct err *e, const char *what, unsigned long long bytes);

/* As malloc, calloc, reallocarray, strdup, strndup and asprintf. If there is no memory for @what
 * they fill @e as err_nomem does and return NULL. The caller frees the result with free(). */
void *err_malloc(size_t bytes, const char *what, struct err *e);
void *err_calloc(size_t n, size_t size, const char *what, struct err *e);
void *err_realloc(void *p, size_t n, size_t size, const char *what, struct err *e);
char *err_strdup(const char *text, const char *what, struct err *e);
char *err_strndup(const char *text, size_t max, const char *what, struct err *e);
char *err_asprintf(const char *what, struct err *e, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

/* Return the malloced list @p of @n elements of @size bytes, reallocated if needed, with room for
 * one more. NULL: out of memory; @p is unchanged. The capacity is not stored: it is the power of
 * two that @n implies. So only this function may grow the list, by one element at a time. */
void *err_grow(void *p, size_t n, size_t size, const char *what, struct err *e);

void err_clear(struct err *e);

/* A short word for the code ("input", "peer-lost"), for --json. */
const char *err_name(int code);

#endif
