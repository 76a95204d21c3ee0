#include "lib/coll/request/paths.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/buf.h"
#include "lib/base/host_name.h"

/* ---- placeholders ---- */

/* The number of letters of the word in "{word}" at @p; 0: @p is not a placeholder. */
static size_t word_at(const char *p)
{
	size_t n = 0;
	while (*p == '{' && isalpha((unsigned char)p[1 + n]))
		n++;
	return n && p[1 + n] == '}' ? n : 0;
}

/* The same of "{{word}}". */
static size_t quoted_at(const char *p)
{
	size_t n = *p == '{' ? word_at(p + 1) : 0;
	return n && p[n + 3] == '}' ? n : 0;
}

static bool is_word(const char *word, size_t n, const char *is)
{
	return n == strlen(is) && memcmp(word, is, n) == 0;
}

struct values {
	int rank, size;
	const char *host;
};

static bool put_value(struct buf *b, const char *word, size_t n, const struct values *v)
{
	char number[16] = "";
	const char *with = number;
	if (is_word(word, n, "rank"))
		snprintf(number, sizeof number, "%d", v->rank);
	else if (is_word(word, n, "size"))
		snprintf(number, sizeof number, "%d", v->size);
	else if (is_word(word, n, "host"))
		with = v->host;
	else
		return false;
	buf_put_text(b, with);
	return true;
}

static int fill(struct buf *b, const char *path, const struct values *v, struct err *err)
{
	const char *p = path;
	while (*p) {
		size_t n = word_at(p), quoted = quoted_at(p);
		if (quoted) {
			buf_put(b, p + 1, quoted + 2);
			p += quoted + 4;
		} else if (n && put_value(b, p + 1, n, v)) {
			p += n + 2;
		} else if (n) {
			return err_set(err, ERR_USAGE,
			               "%s: {%.*s} is unknown: expected {rank}, {size} or {host}; "
			               "{{%.*s}} stands for the name {%.*s}",
			               path, (int)n, p + 1, (int)n, p + 1, (int)n, p + 1);
		} else {
			buf_put(b, p++, 1);
		}
	}
	buf_put(b, "", 1);
	return b->failed ? err_nomem(err, "a file name", b->len) : 0;
}

char *paths_fill(const char *path, int rank, int size, const char *host, struct err *err)
{
	char here[HOST_NAME];
	struct buf b;
	host_name_own(here);
	buf_init(&b, UINT32_MAX);
	const struct values v = {rank, size, host ? host : here};
	if (fill(&b, path, &v, err) == 0)
		return (char *)b.data;
	buf_release(&b);
	return NULL;
}

int paths_check_all(char *const *paths, int n, struct err *err)
{
	for (int i = 0; i < n; i++) {
		char *filled = paths_fill(paths[i], 0, 1, "", err);
		free(filled);
		if (!filled)
			return -1;
	}
	return 0;
}

size_t paths_before_host(const char *path)
{
	const char *p = path;
	while (*p) {
		size_t n = word_at(p), quoted = quoted_at(p);
		if (n && is_word(p + 1, n, "host"))
			break;
		p += quoted ? quoted + 4 : n ? n + 2 : 1;
	}
	while (*p && p > path && p[-1] != '/')
		p--;
	return (size_t)(p - path);
}

bool paths_vary(const char *path)
{
	struct err ignored = ERR_INIT;
	char *one = paths_fill(path, 0, 2, "a", &ignored);
	char *other = paths_fill(path, 1, 2, "b", &ignored);
	bool vary = one && other && strcmp(one, other) != 0;
	free(one);
	free(other);
	return vary;
}

/* ---- patterns ---- */

static int add(struct paths *p, const char *name, struct err *err)
{
	char **names =
	        err_grow(p->names, (size_t)p->n, sizeof *names, "the names of the inputs", err);
	if (!names)
		return -1;
	p->names = names;
	if (!(names[p->n] = err_strdup(name, "the name of an input", err)))
		return -1;
	p->n++;
	return 0;
}

/* Refuse FIFOs, because a reader waits for their writer and the match may be unintended. */
static int check_match(const char *name, const char *pattern, struct err *err)
{
	struct stat st;
	if (stat(name, &st) < 0 || !S_ISFIFO(st.st_mode))
		return 0;
	return err_set(err, ERR_INPUT,
	               "%s: is a FIFO that matches %s: to read it, give its own name", name,
	               pattern);
}

static int add_matches(struct paths *p, const char *pattern, struct err *err)
{
	glob_t found;
	int ret = 0;
	switch (glob(pattern, 0, NULL, &found)) {
	case 0:
		for (size_t i = 0; ret == 0 && i < found.gl_pathc; i++)
			ret = check_match(found.gl_pathv[i], pattern, err) < 0
			              ? -1
			              : add(p, found.gl_pathv[i], err);
		globfree(&found);
		return ret;
	case GLOB_NOMATCH:
		return err_set(err, ERR_INPUT, "%s: no file matches", pattern);
	default:
		return err_nomem(err, "the names of the inputs", strlen(pattern));
	}
}

static int expand(struct paths *p, const char *name, struct err *err)
{
	struct stat st;
	bool pattern = strpbrk(name, "*?[") && lstat(name, &st) < 0 && errno == ENOENT;
	return pattern ? add_matches(p, name, err) : add(p, name, err);
}

int paths_expand(struct paths *p, char *const *names, int n, int rank, int size, struct err *err)
{
	int ret = 0;
	*p = (struct paths){0};
	for (int i = 0; ret == 0 && i < n; i++) {
		char *name = paths_fill(names[i], rank, size, NULL, err);
		ret = name ? expand(p, name, err) : -1;
		free(name);
	}
	return ret;
}

void paths_release(struct paths *p)
{
	for (int i = 0; i < p->n; i++)
		free(p->names[i]);
	free(p->names);
	*p = (struct paths){0};
}
