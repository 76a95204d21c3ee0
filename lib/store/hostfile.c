/*
 * One grammar covers all forms: a line is a list of host expressions, separated by commas, followed
 * by words of the form name=value. A host expression may have Slurm's brackets. The files of Open
 * MPI, PBS and Slurm are special cases, so the format of a file need not be guessed.
 */
#include "lib/store/hostfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/user.h"
#include "lib/net/addr.h"

#define FILE_MAX    ((size_t)16 << 20) /* bytes */
#define HOST_MAX    256                /* of a host, with its port, and its NUL */
#define PATTERN_MAX 1024               /* of a host expression, and its NUL */

struct parser {
	struct hostfile *h;
	const char *path;
	int line; /* 0: the text is a list of the command line */
	struct err *err;
};

/* ---- hosts ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

/* Set the error @text of the place that is parsed. */
static int fail_with(const struct parser *p, const char *text)
{
	if (!p->line)
		return err_set(p->err, ERR_USAGE, "%s: %s", p->path, text);
	return err_set(p->err, ERR_INPUT, "%s:%d: %s", p->path, p->line, text);
}

static int fail(const struct parser *p, const char *what, const char *text, size_t len)
{
	char all[256];

	snprintf(all, sizeof all, "%s%s%.*s", what, len ? ": " : "", len > 80 ? 80 : (int)len,
	         text);
	return fail_with(p, all);
}

static int too_many(const struct parser *p)
{
	char text[64];

	snprintf(text, sizeof text, "more than %d ranks", HOSTFILE_RANKS_MAX);
	return fail_with(p, text);
}

#define PORT_LEAST 1024 /* of a list: below it a number is the slots that mpirun has there */

/* What users of ssh and mpirun write, and what to write here. */
static int refuse_habits(const struct parser *p, const char *text)
{
	const char *at = strchr(text, '@'), *colon = strrchr(text, ':');
	char all[512];

	if (at) {
		snprintf(all, sizeof all,
		         "%.80s: a host has no user here: name the user in ~/.ssh/config, or give "
		         "--ssh 'ssh -l %.*s'",
		         text, (int)(at - text > 80 ? 80 : at - text), text);
		return fail_with(p, all);
	}
	if (p->line || !colon || colon != strchr(text, ':') || !colon[1] ||
	    strspn(colon + 1, "0123456789") != strlen(colon + 1) || strlen(colon + 1) > 4 ||
	    atoi(colon + 1) >= PORT_LEAST || atoi(colon + 1) == 0)
		return 0;
	snprintf(
	        all, sizeof all,
	        "%.80s: a number after the host is its port, from %d on: for %s ranks on the host, "
	        "give a file with the line '%.*s slots=%s'",
	        text, PORT_LEAST, colon + 1, (int)(colon - text > 80 ? 80 : colon - text), text,
	        colon + 1);
	return fail_with(p, all);
}

/* Add one host. The only brackets left in @text are those of an IPv6 address. */
static int add_host(struct parser *p, const char *text)
{
	struct err why = ERR_INIT;
	struct hostfile_host host = {.slots = 1, .first = p->h->size};
	char name[HOST_MAX];

	if (refuse_habits(p, text) < 0)
		return -1;
	if (addr_split(text, name, sizeof name, &host.port, &why) < 0)
		return fail_with(p, why.text);
	if (!*name)
		return fail(p, "a port without a host", text, strlen(text));
	if (host.port == 0)
		return fail(p, "port 0 is not allowed", text, strlen(text));
	if (host.port < 0)
		host.port = 0;
	if (p->h->size >= HOSTFILE_RANKS_MAX)
		return too_many(p);
	void *hosts = err_grow(p->h->hosts, (size_t)p->h->nhosts, sizeof *p->h->hosts,
	                       "the list of hosts", p->err);
	if (!hosts)
		return -1;
	p->h->hosts = hosts;
	if (!(host.name = err_strdup(name, "a host name", p->err)))
		return -1;
	p->h->hosts[p->h->nhosts++] = host;
	p->h->size++;
	return 0;
}

/* ---- Slurm's host expressions ---- */

/* Digits at *s, at most nine, as *value; advances *s. */
static bool take_number(const char **s, unsigned *value, int *width)
{
	*value = 0;
	for (*width = 0; **s >= '0' && **s <= '9'; (*s)++) {
		if (++*width > 9)
			return false;
		*value = *value * 10 + (unsigned)(**s - '0');
	}
	return *width > 0;
}

static int expand(struct parser *p, const char *head, const char *pattern, int depth);

/* Add every number of one range "01-04" at *s, between @head and @tail, with as many zeros as the
 * range's first number has. */
static int expand_range(struct parser *p, const char *head, const char **s, const char *tail,
                        int depth)
{
	char name[HOST_MAX];
	const char *start = *s;
	unsigned lo, hi;
	int width, unused;
	bool ok = take_number(s, &lo, &width);

	hi = lo;
	if (ok && **s == '-') {
		++*s;
		ok = take_number(s, &hi, &unused) && hi >= lo;
	}
	if (!ok || (**s != ',' && **s != ']'))
		return fail(p, "not a range such as [01-04,7]", start, strlen(start));
	for (; lo <= hi; lo++) {
		int n = snprintf(name, sizeof name, "%s%0*u", head, width, lo);
		if (n < 0 || (size_t)n >= sizeof name)
			return fail(p, "the host name is too long", head, strlen(head));
		if (expand(p, name, tail, depth + 1) < 0)
			return -1;
	}
	return 0;
}

/* Add the hosts that @head followed by every expansion of @pattern names. */
static int expand(struct parser *p, const char *head, const char *pattern, int depth)
{
	char name[HOST_MAX];
	const char *open = strchr(pattern, '[');
	size_t plain = open ? (size_t)(open - pattern) : strlen(pattern);

	size_t len = strlen(head);
	if (len + plain >= sizeof name)
		return fail(p, "the host name is too long", head, len);
	memcpy(name, head, len);
	memcpy(name + len, pattern, plain);
	name[len + plain] = '\0';
	if (!open)
		return add_host(p, name);
	const char *close = strchr(open, ']');
	if (!close || depth >= 8)
		return fail(p, close ? "too many brackets" : "a bracket is not closed", pattern,
		            strlen(pattern));
	const char *s = open + 1;
	for (;;) {
		if (expand_range(p, name, &s, close + 1, depth) < 0)
			return -1;
		if (s == close)
			return 0;
		s++; /* the comma */
	}
}

/* A host expression that begins with a bracket is an IPv6 address if it contains a colon. */
static bool is_bracketed_ipv6(const char *s)
{
	const char *close = strchr(s, ']');

	return s[0] == '[' && close && memchr(s, ':', (size_t)(close - s));
}

static int add_expression(struct parser *p, const char *text, size_t len)
{
	char pattern[PATTERN_MAX];

	while (len && is_blank(*text))
		text++, len--;
	while (len && is_blank(text[len - 1]))
		len--;
	if (len == 0)
		return fail(p, "an empty name between commas", "", 0);
	if (len >= sizeof pattern)
		return fail(p, "the host name is too long", text, len);
	memcpy(pattern, text, len);
	pattern[len] = '\0';
	return is_bracketed_ipv6(pattern) ? add_host(p, pattern) : expand(p, "", pattern, 0);
}

/* The hosts of "a,b[1-3],c": commas within brackets do not separate. */
static int add_list(struct parser *p, const char *text, size_t len)
{
	size_t start = 0;
	bool inside = false;

	for (size_t i = 0; i <= len; i++) {
		if (i < len && text[i] == '[')
			inside = true;
		else if (i < len && text[i] == ']')
			inside = false;
		if (i < len && (text[i] != ',' || inside))
			continue;
		if (add_expression(p, text + start, i - start) < 0)
			return -1;
		start = i + 1;
	}
	return 0;
}

/* ---- lines ---- */

/* If the word is @name=NUMBER: 1 and *value; 0 for another word; -1 if the number is malformed. */
static int take_setting(const struct parser *p, const char *word, size_t len, const char *name,
                        int *value)
{
	size_t n = strlen(name);
	long v = 0;

	if (len <= n || memcmp(word, name, n) != 0 || word[n] != '=')
		return 0;
	for (size_t i = n + 1; i < len && v <= HOSTFILE_RANKS_MAX; i++)
		v = word[i] >= '0' && word[i] <= '9' ? v * 10 + (word[i] - '0')
		                                     : HOSTFILE_RANKS_MAX + 1;
	if (v < 1 || v > HOSTFILE_RANKS_MAX) {
		fail(p, "not a number of ranks", word, len);
		return -1;
	}
	*value = (int)v;
	return 1;
}

/* One setting after the hosts of a line. Open MPI's max_slots is accepted and has no effect. */
static int parse_setting(const struct parser *p, const char *word, size_t len, int *slots)
{
	static const char *const ignored[] = {"max_slots", "max-slots"};
	int unused;
	int rc = take_setting(p, word, len, "slots", slots);

	for (size_t i = 0; rc == 0 && i < sizeof ignored / sizeof ignored[0]; i++)
		rc = take_setting(p, word, len, ignored[i], &unused);
	if (rc == 0)
		fail(p, "only slots=N may follow the host", word, len);
	return rc > 0 ? 0 : -1;
}

/* Set the slots of the hosts from @from on, and renumber them. */
static int set_slots(const struct parser *p, int from, int slots)
{
	struct hostfile *h = p->h;

	for (int i = from; i < h->nhosts; i++) {
		struct hostfile_host *host = &h->hosts[i];
		host->slots = slots;
		host->first = i ? host[-1].first + host[-1].slots : 0;
		if (host->first > HOSTFILE_RANKS_MAX - slots)
			return too_many(p);
		h->size = host->first + slots;
	}
	return 0;
}

/* The next word of [*at, end); false at the end of the line. */
static bool next_word(const char **at, const char *end, const char **word, size_t *len)
{
	while (*at < end && is_blank(**at))
		++*at;
	*word = *at;
	while (*at < end && !is_blank(**at))
		++*at;
	*len = (size_t)(*at - *word);
	return *len > 0;
}

/* Extend the first word of a line over the blanks beside its commas. */
static void take_list(const char **at, const char *end, const char *word, size_t *len)
{
	for (const char *next = *at;;) {
		while (next < end && is_blank(*next))
			next++;
		if (next == end || (word[*len - 1] != ',' && *next != ','))
			return;
		while (next < end && !is_blank(*next))
			next++;
		*at = next;
		*len = (size_t)(next - word);
	}
}

static int parse_line(struct parser *p, const char *line, const char *end)
{
	const char *hash = memchr(line, '#', (size_t)(end - line));
	const char *at = line, *word;
	int from = p->h->nhosts, slots = 1;
	size_t len;

	if (memchr(line, '\0', (size_t)(end - line)))
		return fail(p, "a NUL byte; this is not a text file", "", 0);
	if (hash)
		end = hash;
	if (!next_word(&at, end, &word, &len))
		return 0;
	take_list(&at, end, word, &len);
	if (add_list(p, word, len) < 0)
		return -1;
	while (next_word(&at, end, &word, &len))
		if (parse_setting(p, word, len, &slots) < 0)
			return -1;
	return set_slots(p, from, slots);
}

int hostfile_parse(struct hostfile *h, const char *text, size_t len, const char *path,
                   struct err *err)
{
	struct parser p = {.h = h, .path = path, .err = err};
	const char *end = text + len;

	*h = (struct hostfile){0};
	while (text < end) {
		const char *eol = memchr(text, '\n', (size_t)(end - text));
		if (!eol)
			eol = end;
		p.line++;
		if (parse_line(&p, text, eol) < 0)
			goto fail;
		text = eol < end ? eol + 1 : end;
	}
	if (h->nhosts)
		return 0;
	err_set(err, ERR_INPUT, "%s: names no host", path);
fail:
	hostfile_release(h);
	return -1;
}

/* ---- files ---- */

/* Read @fd to its end; it may be a pipe. */
static char *read_all(int fd, const char *path, size_t *len, struct err *err)
{
	char *buf = NULL;
	size_t cap = 0;

	for (*len = 0;;) {
		if (*len == cap) {
			char *more = err_realloc(buf, cap = cap ? 2 * cap : 4096, 1, path, err);
			if (!more)
				break;
			buf = more;
		}
		ssize_t n = read_full(fd, buf + *len, cap - *len);
		if (n < 0) {
			err_errno(err, ERR_INPUT, "%s", path);
			break;
		}
		if (n == 0)
			return buf;
		*len += (size_t)n;
		if (*len > FILE_MAX) {
			err_set(err, ERR_INPUT, "%s: longer than %zu bytes; this is not a hostfile",
			        path, FILE_MAX);
			break;
		}
	}
	free(buf);
	return NULL;
}

/* Whoever can change the file @fd chooses the hosts. */
static int check_own(int fd, const char *path, struct err *err)
{
	struct stat st;
	char why[128];
	if (fstat(fd, &st) < 0)
		return err_errno(err, ERR_INPUT, "%s", path);
	if (!S_ISREG(st.st_mode) || !user_others_change(&st, geteuid(), why, sizeof why))
		return 0;
	return err_set(err, ERR_AUTH, "%s: the hosts in it get the secret, and %s", path, why);
}

int hostfile_read(struct hostfile *h, const char *path, bool own, struct err *err)
{
	bool from_stdin = strcmp(path, "-") == 0;
	size_t len;
	int ret = -1;

	*h = (struct hostfile){0};
	int fd = from_stdin ? STDIN_FILENO : io_retry(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY));
	if (fd < 0)
		return err_errno(err, ERR_INPUT, "%s", path);
	char *text = !own || from_stdin || check_own(fd, path, err) == 0
	                     ? read_all(fd, from_stdin ? "stdin" : path, &len, err)
	                     : NULL;
	if (text)
		ret = hostfile_parse(h, text, len, from_stdin ? "stdin" : path, err);
	free(text);
	if (!from_stdin)
		close(fd);
	return ret;
}

/* ---- a file or a list ---- */

static bool is_file(const char *name)
{
	struct stat st;
	return stat(name, &st) == 0 && !S_ISDIR(st.st_mode);
}

static int read_list(struct hostfile *h, const char *text, struct err *err)
{
	struct parser p = {.h = h, .path = "--hostfile", .err = err};
	size_t len = strlen(text);
	*h = (struct hostfile){0};
	while (len && is_blank(text[len - 1]))
		len--;
	if (len && text[len - 1] == ',')
		len--;
	if (parse_line(&p, text, text + len) == 0 && h->nhosts)
		return 0;
	if (!err->code)
		err_set(err, ERR_USAGE, "--hostfile: names no host");
	hostfile_release(h);
	return -1;
}

int hostfile_find(struct hostfile *h, const char *given, bool hosts, struct err *err)
{
	const size_t len = strlen(given);
	struct err why = ERR_INIT;
	*h = (struct hostfile){0};
	errno = 0;
	if (len && given[len - 1] == ',' && !strchr(given, '/'))
		return read_list(h, given, err);
	if (strcmp(given, "-") == 0 || strchr(given, '/'))
		return hostfile_read(h, given, hosts, err);
	if (hosts && is_file(given))
		return err_set(err, ERR_USAGE,
		               "--hostfile: '%.150s' is a file, but may be meant as a host: "
		               "give -H ./%.150s for the file, or -H '%.150s,' for the host",
		               given, given, given);
	if (hosts || (strpbrk(given, ",[") && !is_file(given)))
		return read_list(h, given, err);
	if (hostfile_read(h, given, hosts, &why) == 0)
		return 0;
	return err_set(err, why.code, "%s%s%.150s%s", why.text,
	               errno == ENOENT ? ": to name one host, give -H '" : "",
	               errno == ENOENT ? given : "", errno == ENOENT ? ",'" : "");
}

void hostfile_release(struct hostfile *h)
{
	for (int i = 0; i < h->nhosts; i++)
		free(h->hosts[i].name);
	free(h->hosts);
	*h = (struct hostfile){0};
}

/* ---- which one is this machine? ---- */

/* Is @name this machine? Judged without the resolver: a numeric address, localhost, or the
 * machine's own name. */
static bool is_local_by_text(const char *name)
{
	char self[HOST_MAX] = "", *dot;

	if (strcasecmp(name, "localhost") == 0)
		return true;
	if (strspn(name, "0123456789.") == strlen(name) || strchr(name, ':'))
		return addr_name_is_local(name);
	if (gethostname(self, sizeof self - 1) < 0 || !*self)
		return false;
	if (strcasecmp(name, self) == 0)
		return true;
	dot = strchr(self, '.');
	if (dot)
		*dot = '\0';
	return dot && strcasecmp(name, self) == 0;
}

/* The ranks of the hosts that are local, as text; returns their number. */
static int find_local(const struct hostfile *h, bool (*is_local)(const char *), int *host,
                      char *ranks, size_t cap)
{
	int found = 0;
	size_t at = 0;

	for (int i = 0; i < h->nhosts; i++) {
		const struct hostfile_host *e = &h->hosts[i];
		if (!is_local(e->name))
			continue;
		if (found++ == 0)
			*host = i;
		if (at + 32 > cap) /* room for ", N-M"; the other ranks are not named */
			continue;
		at += (size_t)snprintf(ranks + at, cap - at, at ? ", %d" : "%d", e->first);
		if (e->slots > 1)
			at += (size_t)snprintf(ranks + at, cap - at, "-%d",
			                       e->first + e->slots - 1);
	}
	return found;
}

const char *hostfile_host(const struct hostfile *h, int rank)
{
	for (int i = 0; i < h->nhosts; i++)
		if (rank >= h->hosts[i].first && rank < h->hosts[i].first + h->hosts[i].slots)
			return h->hosts[i].name;
	return NULL;
}

int hostfile_local_rank(const struct hostfile *h, int *rank, struct err *err)
{
	char ranks[256] = "";
	int host = 0;
	/* The resolver is used only when needed: it is slow, and P ranks would ask it for P
	 * names. */
	int found = find_local(h, is_local_by_text, &host, ranks, sizeof ranks);

	if (!found)
		found = find_local(h, addr_name_is_local, &host, ranks, sizeof ranks);
	if (!found)
		return err_set(err, ERR_USAGE,
		               "none of the hostfile's %d hosts is this machine; give --rank",
		               h->nhosts);
	if (found > 1 || h->hosts[host].slots > 1)
		return err_set(err, ERR_USAGE,
		               "this machine has several ranks of the hostfile (%s); give --rank",
		               ranks);
	*rank = h->hosts[host].first;
	return 0;
}
