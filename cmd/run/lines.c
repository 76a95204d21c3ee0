#include "cmd/run/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <xxhash.h>

#include "cmd/text/bar.h"

#define LINES_START 4096u

int lines_open(struct lines *l, int rank, int to, int *write_end, struct err *err)
{
	int fds[2];

	*l = (struct lines){.rank = rank, .from = -1, .to = to};
	snprintf(l->prefix, sizeof l->prefix, "[%d] ", rank);
	if (!(l->buf = err_malloc(LINES_START, "a line of output", err)))
		return -1;
	l->cap = LINES_START;
	if (pipe2(fds, O_CLOEXEC) < 0) {
		err_errno(err, ERR_RESOURCE, "a pipe for rank %d", rank);
		free(l->buf);
		l->buf = NULL;
		return -1;
	}
	/* Only this end: the other is the process's stderr, which programs expect to block. */
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	l->from = fds[0];
	*write_end = fds[1];
	return 0;
}

void lines_release(struct lines *l)
{
	if (l->from >= 0)
		close(l->from);
	free(l->buf);
	free(l->ahead);
	l->from = -1;
	l->buf = l->ahead = NULL;
	l->len = l->cap = l->nahead = 0;
}

/* ---- echoes ---- */

struct echo {
	uint64_t sum;      /* of the line */
	unsigned printed;  /* times */
	unsigned *by_rank; /* how often each rank has printed it */
};

void echoes_release(struct echoes *e)
{
	for (int i = 0; i < e->n; i++)
		free(e->said[i].by_rank);
	free(e->said);
	*e = (struct echoes){0};
}

/* The entry of a line, in place of the oldest one if there are many; NULL: out of memory. */
static struct echo *find_echo(struct echoes *e, uint64_t sum)
{
	for (int i = 0; i < e->n; i++)
		if (e->said[i].sum == sum)
			return &e->said[i];
	if (!e->said)
		e->said = calloc(ECHOES_MAX, sizeof *e->said);
	unsigned *by_rank = e->said ? calloc((size_t)e->ranks, sizeof *by_rank) : NULL;
	if (!by_rank)
		return NULL;
	bool full = e->n == ECHOES_MAX;
	struct echo *new = &e->said[full ? e->oldest : e->n++];
	if (full)
		e->oldest = (e->oldest + 1) % ECHOES_MAX;
	free(new->by_rank);
	*new = (struct echo){.sum = sum, .by_rank = by_rank};
	return new;
}

static bool is_echo(const struct lines *l, const char *line, size_t len)
{
	const char *mark = l->echoes ? l->echoes->mark : "";
	size_t n = strlen(mark);

	if (!n || len <= n || memcmp(line, mark, n) != 0)
		return false;
	struct echo *e = find_echo(l->echoes, XXH3_64bits(line, len));
	if (!e || ++e->by_rank[l->rank] > e->printed) {
		if (e)
			e->printed++;
		return false;
	}
	return true;
}

/* ---- forwarding ---- */

/* Can output be written now? */
static bool may_write(const struct lines *l)
{
	return !l->wait || l->wait(l->wait_ctx, l->to);
}

/* Write everything, in one system call if possible. With l->wait writes at most the bytes that a
 * writable pipe accepts at once. Dropping lines is not an error. */
static int write_vector(const struct lines *l, struct iovec *v, int n)
{
	int fd = l->to;

	while (n > 0) {
		if (!may_write(l))
			return 0;
		struct iovec first = *v;
		bool large = first.iov_len > PIPE_BUF;
		size_t sum = 0;
		int together = 0;
		while (together < n && sum + v[together].iov_len <= PIPE_BUF)
			sum += v[together++].iov_len;
		if (large)
			first.iov_len = PIPE_BUF;
		ssize_t done = large ? writev(fd, &first, 1) : writev(fd, v, together);
		if (done < 0 && errno == EAGAIN) {
			/* Another process made the shared terminal or pipe non-blocking. */
			struct pollfd p = {.fd = fd, .events = POLLOUT};
			poll(&p, 1, -1);
			continue;
		}
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -1;
		size_t left = (size_t)done;
		while (n > 0 && left >= v->iov_len) {
			left -= v->iov_len;
			v++;
			n--;
		}
		if (n > 0) {
			v->iov_base = (char *)v->iov_base + left;
			v->iov_len -= left;
		}
	}
	return 0;
}

static bool is_line(const char *line, size_t len, const char *text)
{
	return len == strlen(text) && memcmp(line, text, len) == 0;
}

/* "\rTEXT" shows a bar. */
static void emit_bar(const struct lines *l, const char *line, size_t len)
{
	const bool tell = is_line(line, len, BAR_TELL);
	char text[BAR_MAX];

	snprintf(text, sizeof text, "%.*s", (int)(len - 1), line + 1);
	if (tell || is_line(line, len, BAR_CLEAR))
		bar_clear();
	else
		bar_draw(text);
	if (tell && l->cleared)
		l->cleared(l->cleared_ctx);
}

/* Does the line come from --progress json? (progress_json) */
static bool is_progress(const char *line, size_t len)
{
	static const char start[] = "{\"progress\":{\"rank\":";

	return len > sizeof start - 1 && memcmp(line, start, sizeof start - 1) == 0;
}

/* Forward one line: @len bytes without the newline. */
static int emit(const struct lines *l, char *line, size_t len)
{
	char newline = '\n';

	if (l->bars && len > 0 && *line == BAR_MARK) {
		emit_bar(l, line, len);
		return 0;
	}
	const bool progress = l->progress != LINES_PROGRESS_ANY && is_progress(line, len);
	if ((progress && l->progress == LINES_PROGRESS_DROP) || is_echo(l, line, len) ||
	    !may_write(l))
		return 0;
	bar_clear();
	struct iovec v[] = {
	        {.iov_base = (char *)l->prefix, .iov_len = progress ? 0 : strlen(l->prefix)},
	        {.iov_base = line, .iov_len = len},
	        {.iov_base = &newline, .iov_len = 1},
	};

	return write_vector(l, v, 3);
}

/* Forward the complete lines of the buffer; @all: also the incomplete rest, as a line. */
static int emit_lines(struct lines *l, bool all)
{
	char *at = l->buf, *stop = l->buf + l->len, *newline;

	while (at < stop && (newline = memchr(at, '\n', (size_t)(stop - at)))) {
		if (emit(l, at, (size_t)(newline - at)) < 0)
			return -1;
		at = newline + 1;
	}
	if (all && at < stop) {
		if (emit(l, at, (size_t)(stop - at)) < 0)
			return -1;
		at = stop;
	}
	l->len = (size_t)(stop - at);
	memmove(l->buf, at, l->len);
	return 0;
}

/* Grow the buffer for more of the line, or break a line that has the maximum length. */
static int make_room(struct lines *l)
{
	if (l->len < l->cap)
		return 0;
	char *grown = l->cap < LINES_MAX ? realloc(l->buf, 2 * l->cap) : NULL;
	if (!grown)
		return emit_lines(l, true);
	l->buf = grown;
	l->cap *= 2;
	return 0;
}

static size_t filtered(const struct lines *l, char *bytes, size_t n)
{
	return l->filter ? l->filter(l->filter_ctx, bytes, n) : n;
}

void lines_fetch(struct lines *l)
{
	int there = 0;

	if (l->from < 0 || ioctl(l->from, FIONREAD, &there) < 0 || there <= 0)
		return;
	char *grown = realloc(l->ahead, l->nahead + (size_t)there);
	if (!grown)
		return;
	l->ahead = grown;
	ssize_t n = read(l->from, grown + l->nahead, (size_t)there);
	if (n > 0)
		l->nahead += filtered(l, grown + l->nahead, (size_t)n);
}

/* Move fetched bytes to the buffer. Returns their number. */
static ssize_t take_ahead(struct lines *l)
{
	const size_t room = l->cap - l->len, n = l->nahead < room ? l->nahead : room;

	memcpy(l->buf + l->len, l->ahead, n);
	memmove(l->ahead, l->ahead + n, l->nahead - n);
	l->nahead -= n;
	l->len += n;
	return (ssize_t)n;
}

/* Bytes read, 0 if there are none now, -1 if the pipe has ended. */
static ssize_t pump_once(struct lines *l)
{
	ssize_t n;

	if (make_room(l) < 0)
		return -1;
	if (l->nahead) {
		n = take_ahead(l);
	} else {
		n = read(l->from, l->buf + l->len, l->cap - l->len);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		if (n > 0)
			l->len += filtered(l, l->buf + l->len, (size_t)n);
	}
	if (emit_lines(l, n == 0) < 0 || n == 0)
		return -1;
	return n;
}

bool lines_pump(struct lines *l)
{
	return pump_once(l) >= 0;
}

void lines_drain(struct lines *l)
{
	/* A process that outlives its rank may write forever: read at most a pipe's capacity. */
	size_t most = 1u << 20;
	ssize_t n;

	if (l->from < 0)
		return;
	while (most > 0 && (n = pump_once(l)) > 0)
		most -= (size_t)n < most ? (size_t)n : most;
	if (l->len)
		emit_lines(l, true);
	lines_release(l);
}
