/* The job that `run` sends to a rank on another host. */
#include <stdlib.h>
#include <string.h>

#include "cmd/run/remote.h"
#include "lib/base/private.h"

static void put_text(struct buf *b, const char *s)
{
	const size_t n = s ? strlen(s) : 0;
	buf_put_u32(b, (uint32_t)n);
	buf_put(b, s, n);
}

void remote_encode(const struct remote_job *j, struct buf *b)
{
	buf_put_u32(b, (uint32_t)j->rank);
	buf_put_u32(b, (uint32_t)j->size);
	buf_put_u8(b, j->program);
	buf_put_u8(b, j->json);
	buf_put_u8(b, (uint8_t)(j->verbose + 1));
	buf_put_u32(b, (uint32_t)(j->silence / NS_PER_MS));
	buf_put_u32(b, (uint32_t)j->columns);
	put_text(b, j->meeting);
	put_text(b, j->directory);
	put_text(b, j->secret);
	put_text(b, j->token);
	buf_put_u32(b, (uint32_t)j->argc);
	for (int i = 0; i < j->argc; i++)
		put_text(b, j->argv[i]);
	buf_put_u32(b, (uint32_t)j->nvariables);
	for (int i = 0; i < j->nvariables; i++)
		put_text(b, j->variables[i]);
}

/* A string of any bytes but NUL: view_str would escape some. NULL: malformed, or no memory. */
static char *get_text(struct view *v)
{
	const size_t n = view_u32(v);
	const uint8_t *p = view_bytes(v, n);
	if (!p || memchr(p, '\0', n))
		return NULL;
	return strndup((const char *)p, n);
}

static char **get_list(struct view *v, int *count)
{
	const uint32_t n = view_u32(v);
	if (v->failed || n > REMOTE_WORDS || n > view_left(v))
		return NULL;
	char **list = calloc((size_t)n + 1, sizeof *list);
	for (*count = 0; list && *count < (int)n; ++*count) {
		list[*count] = get_text(v);
		if (!list[*count]) { /* a shorter list is another job */
			v->failed = true;
			break;
		}
	}
	return list;
}

int remote_decode(struct remote_job *j, struct view v, struct err *err)
{
	*j = (struct remote_job){0};
	j->rank = (int)view_u32(&v);
	j->size = (int)view_u32(&v);
	j->program = view_u8(&v);
	j->json = view_u8(&v);
	j->verbose = (int)view_u8(&v) - 1;
	j->silence = view_u32(&v) * NS_PER_MS;
	j->columns = (int)view_u32(&v);
	j->meeting = get_text(&v);
	j->directory = get_text(&v);
	j->secret = get_text(&v);
	j->token = get_text(&v);
	j->argv = get_list(&v, &j->argc);
	j->variables = get_list(&v, &j->nvariables);
	const bool whole = j->meeting && j->directory && j->secret && j->token && j->argv &&
	                   j->variables && !v.failed && !view_left(&v) && j->argc > 0;
	if (!whole || j->size < 1 || j->rank < 0 || j->rank >= j->size || !j->silence)
		return err_set(err, ERR_INTEGRITY, "a malformed job from run");
	return 0;
}

static void free_list(char **list)
{
	for (char **p = list; p && *p; p++)
		free(*p);
	free(list);
}

void remote_release(struct remote_job *j)
{
	free((char *)j->meeting);
	free((char *)j->directory);
	wipe_free(j->secret);
	wipe_free(j->token);
	free_list(j->argv);
	free_list(j->variables);
	*j = (struct remote_job){0};
}
