#include "lib/base/err.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int err_option(const char *text)
{
	if (strncmp(text, "--", 2) != 0)
		return 0;
	const size_t len = 2 + strspn(text + 2, "-abcdefghijklmnopqrstuvwxyz");
	return len > 2 && strchr(" :", text[len]) ? (int)len : 0;
}

/* The length of the first of the arguments @ap, a string. */
static size_t first_argument(va_list ap)
{
	va_list args;
	va_copy(args, ap);
	const char *first = va_arg(args, const char *);
	const size_t len = first ? strlen(first) : 0;
	va_end(args);
	return len;
}

/* Format into @text. False: it is too short and the middle is left out, for the end says what is
 * wrong. */
__attribute__((format(printf, 3, 0))) static bool format(char *text, size_t cap, const char *fmt,
                                                         va_list ap)
{
	va_list again;
	char *all = NULL;
	va_copy(again, ap);
	const int n = vsnprintf(text, cap, fmt, ap);
	const bool whole = n >= 0 && (size_t)n < cap;
	if (!whole && vasprintf(&all, fmt, again) >= 0) {
		const size_t half = cap / 2, len = strlen(all);
		snprintf(text + half, cap - half, "...%s", all + len - (cap - half - 4));
		free(all);
	}
	va_end(again);
	return whole;
}

__attribute__((format(printf, 4, 0))) static int fill(struct err *e, int code, int rank,
                                                      const char *fmt, va_list ap, int errnum)
{
	if (!e || e->code)
		return -1;
	bool lacking = errnum == ENOMEM || errnum == EMFILE || errnum == ENFILE;
	e->code = lacking ? ERR_RESOURCE : code;
	e->rank = rank;
	e->system = errnum;
	const bool named = strncmp(fmt, "%s:", 3) == 0 || (errnum && strcmp(fmt, "%s") == 0);
	const size_t first = named ? first_argument(ap) : 0;
	char reason[128] = "", buf[100];
	if (errnum)
		snprintf(reason, sizeof reason, ": %s", strerror_r(errnum, buf, sizeof buf));
	const bool whole = format(e->text, sizeof e->text - strlen(reason), fmt, ap);
	e->subject = !whole ? 0 : named ? (int)first : err_option(e->text);
	const size_t n = strlen(e->text);
	snprintf(e->text + n, sizeof e->text - n, "%s", reason);
	return -1;
}

bool err_names_ranks(const struct err *e)
{
	static const char begin[] = "ranks ";
	const size_t len = sizeof begin - 1;
	return strncmp(e->text, begin, len) == 0 && e->text[len] >= '0' && e->text[len] <= '9';
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fill(e, code, ERR_RANK_SELF, fmt, ap, 0);
	va_end(ap);
	return -1;
}

int err_errno(struct err *e, int code, const char *fmt, ...)
{
	int errnum = errno;
	va_list ap;
	va_start(ap, fmt);
	fill(e, code, ERR_RANK_SELF, fmt, ap, errnum);
	va_end(ap);
	errno = errnum;
	return -1;
}

int err_rank(struct err *e, int code, int rank, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fill(e, code, rank, fmt, ap, 0);
	va_end(ap);
	return -1;
}

int err_pass(struct err *e, const struct err *why)
{
	if (e && !e->code)
		*e = *why;
	return -1;
}

int err_nomem(struct err *e, const char *what, unsigned long long bytes)
{
	return err_set(e, ERR_RESOURCE, "out of memory: %s needs %llu bytes", what, bytes);
}

/* @p, allocated or not: @n elements of @size bytes of @what. */
static void *allocated(void *p, size_t n, size_t size, const char *what, struct err *e)
{
	unsigned long long bytes;
	if (__builtin_mul_overflow(n, size, &bytes))
		bytes = ULLONG_MAX;
	if (!p)
		err_nomem(e, what, bytes);
	return p;
}

void *err_malloc(size_t bytes, const char *what, struct err *e)
{
	return allocated(malloc(bytes), bytes, 1, what, e);
}

void *err_calloc(size_t n, size_t size, const char *what, struct err *e)
{
	return allocated(calloc(n, size), n, size, what, e);
}

void *err_realloc(void *p, size_t n, size_t size, const char *what, struct err *e)
{
	return allocated(reallocarray(p, n, size), n, size, what, e);
}

void *err_grow(void *p, size_t n, size_t size, const char *what, struct err *e)
{
	return n & (n - 1) ? p : err_realloc(p, n ? 2 * n : 1, size, what, e);
}

char *err_strdup(const char *text, const char *what, struct err *e)
{
	return allocated(strdup(text), strlen(text) + 1, 1, what, e);
}

char *err_strndup(const char *text, size_t max, const char *what, struct err *e)
{
	return allocated(strndup(text, max), strnlen(text, max) + 1, 1, what, e);
}

char *err_asprintf(const char *what, struct err *e, const char *fmt, ...)
{
	char *text;
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	if (vasprintf(&text, fmt, ap) < 0)
		text = allocated(NULL, (size_t)vsnprintf(NULL, 0, fmt, again) + 1, 1, what, e);
	va_end(again);
	va_end(ap);
	return text;
}

void err_clear(struct err *e)
{
	*e = ERR_INIT;
}

const char *err_name(int code)
{
	static const char *const names[] = {
	        [ERR_NONE] = "ok",
	        [ERR_OTHER] = "failure",
	        [ERR_USAGE] = "usage",
	        [ERR_INPUT] = "input",
	        [ERR_OUTPUT] = "output",
	        [ERR_RENDEZVOUS] = "rendezvous",
	        [ERR_AUTH] = "auth",
	        [ERR_DISAGREE] = "disagree",
	        [ERR_PEER_LOST] = "peer-lost",
	        [ERR_STALLED] = "stalled",
	        [ERR_INTEGRITY] = "integrity",
	        [ERR_RESOURCE] = "resource",
	};
	if (code >= 0 && code < (int)(sizeof names / sizeof names[0]))
		return names[code];
	return code > 128 ? "signal" : "failure";
}
