/* `run -H`, from the start of ssh to that of the ranks: every host says hello, and gets its job
 * (remote.h). Hosts that fail are reported, or left out. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/commands.h"
#include "cmd/run/remote.h"
#include "cmd/run/run_internal.h"
#include "cmd/run/run_rank.h"
#include "cmd/text/bar.h"
#include "lib/base/io.h"
#include "lib/base/private.h"
#include "lib/base/text.h"
#include "lib/net/addr.h"

#define GREETED_MAX     16384     /* the last bytes that a host has printed before it answers */
#define PRINTED_MAX     (1 << 20) /* all of them */
#define SHELL_NOT_FOUND 127       /* the exit code of a shell that does not find a command */
#define FAILED_TEXT     740       /* bytes of a host and why it failed */

/* What is sent to a host: `head`, of this host alone, then `body`, the same for all. */
struct outgoing {
	uint8_t head[4 + REMOTE_RANK_BYTES];
	size_t head_size;
	const uint8_t *body;
	size_t size;
	size_t sent; /* of both */
};

struct greeting {
	char text[GREETED_MAX + 1]; /* the last that the host has printed */
	size_t len;
	size_t printed; /* bytes, of all */
	bool done, failed;
	struct remote_hello hello;
	bool ready;
	int folder; /* errno of entering the folder */
	struct outgoing out;
};

/* Look at the @n bytes that the host has printed last. */
typedef void look_fn(struct run *, int rank, struct greeting *, size_t n);

struct copy {
	uint8_t *program;
	size_t size;
};

static int read_program(struct copy *c, struct err *err)
{
	struct stat s;
	const int fd = io_retry(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
	if (fd < 0 || fstat(fd, &s) < 0)
		err_errno(err, ERR_OTHER, "--copy: this program");
	else if ((c->program = err_malloc((size_t)s.st_size, "--copy", err)) &&
	         read_full(fd, c->program, (size_t)s.st_size) != s.st_size)
		err_errno(err, ERR_OTHER, "--copy: this program");
	else
		c->size = (size_t)s.st_size;
	if (fd >= 0)
		close(fd);
	return err->code ? -1 : 0;
}

/* The last line that says something, without what surrounds it. */
static const char *last_line(char *text)
{
	char *end = text + strlen(text);
	while (end > text && strchr(" \t\r\n.", end[-1]))
		*--end = '\0';
	char *line = strrchr(text, '\n');
	return line ? line + 1 : text;
}

static void say_why(struct greeting *g, const char *why)
{
	snprintf(g->text, sizeof g->text, "%s", why);
	g->len = strlen(g->text);
}

/* Has the host said hello? */
static void look_for_hello(struct run *r, int rank, struct greeting *g, size_t n)
{
	char why[200];
	const int found = remote_find_hello(g->text, g->len, &g->hello, why, sizeof why);
	(void)r;
	(void)rank;
	(void)n;
	g->done = found != 0;
	g->failed = found < 0;
	if (g->failed)
		say_why(g, why);
}

static void hear_ready(void *ctx, int what, int value)
{
	struct greeting *g = ctx;
	if (what == REMOTE_READY && !g->ready) {
		g->ready = true;
		g->folder = value;
	}
}

/* Has it taken the job? */
static void look_for_ready(struct run *r, int rank, struct greeting *g, size_t n)
{
	g->len -= n;
	const size_t kept =
	        remote_extract(&r->ranks[rank].link.reader, g->text + g->len, n, hear_ready, g);
	g->len += kept;
	g->text[g->len] = '\0';
	g->done = g->ready;
	g->failed = g->ready && g->out.sent < g->out.head_size + g->out.size;
	if (g->failed)
		say_why(g, "an unknown answer");
}

/* End the ssh of a host that has failed. Nothing that it still prints is a rank's. Returns its wait
 * status. */
static int end_ssh(struct run *r, int rank)
{
	struct rank *of = &r->ranks[rank];
	int status = 0;
	/* All of --ssh's processes: one may be stopped, at a terminal's question. */
	kill(-of->pid, SIGKILL);
	while (waitpid(of->pid, &status, 0) < 0 && errno == EINTR)
		;
	of->pid = 0;
	r->live--;
	lines_release(&of->err);
	return status;
}

/* ssh has ended, or closed its stderr. */
static void fail(struct run *r, int rank, struct greeting *g)
{
	char why[400];
	const int code = rank_exit_code(end_ssh(r, rank));
	const char *line = last_line(g->text);
	g->done = g->failed = true;
	if (!*line) {
		snprintf(g->text, sizeof g->text, "%.100s ended with exit code %d and said nothing",
		         ssh_words(r), code);
	} else if (code == SHELL_NOT_FOUND && !r->o->copy) {
		snprintf(why, sizeof why,
		         "%.200s; collctl was not found there: install it, name it with "
		         "--remote-path, or send it with --copy",
		         line);
		say_why(g, why);
	}
}

/* Another rank of the host may begin. */
static void give_turn(const struct run *r, int rank)
{
	const int gate = r->gates[2 * (ssh_host(r, rank) - r->hosts.hosts) + 1];
	if (gate >= 0 && io_retry(write(gate, "", 1)) < 0)
		errno = 0; /* none waits */
}

static void hear(struct run *r, int rank, struct greeting *g, look_fn *look)
{
	if (g->len == GREETED_MAX) { /* a long banner: only its end matters */
		memmove(g->text, g->text + GREETED_MAX / 2, GREETED_MAX / 2);
		g->len = GREETED_MAX / 2;
	}
	const ssize_t n =
	        io_retry(read(r->ranks[rank].err.from, g->text + g->len, GREETED_MAX - g->len));
	if (n < 0 && errno == EAGAIN)
		return;
	if (n > 0) {
		g->len += (size_t)n;
		g->printed += (size_t)n;
		g->text[g->len] = '\0';
		look(r, rank, g, (size_t)n);
		for (char *c = g->text; c < g->text + g->len; c++)
			if (!*c)
				*c = '\n'; /* the last line is a string */
	}
	if (g->failed)
		end_ssh(r, rank);
	if (!g->done && n <= 0)
		fail(r, rank, g);
	if (!g->done && g->printed > PRINTED_MAX) {
		fail(r, rank, g);
		say_why(g, "has printed more than 1 MiB, and no answer");
	}
	if (g->done && look == look_for_hello)
		give_turn(r, rank);
}

static void send_some(const struct rank *to, struct outgoing *o)
{
	const bool head = o->sent < o->head_size;
	const uint8_t *from = head ? o->head + o->sent : o->body + (o->sent - o->head_size);
	const size_t all = o->head_size + o->size;
	const ssize_t n = io_retry(write(to->in, from, (head ? o->head_size : all) - o->sent));
	if (n > 0)
		o->sent += (size_t)n;
	else if (n < 0 && errno != EAGAIN)
		o->sent = all; /* what it prints says why */
}

/* Has a signal come that ends run? */
static bool took_signal(struct run *r)
{
	struct signalfd_siginfo info;
	while (!r->signal && io_retry(read(r->signals, &info, sizeof info)) == (ssize_t)sizeof info)
		if (info.ssi_signo != SIGCHLD)
			r->signal = (int)info.ssi_signo;
	return r->signal;
}

/* ---- the bar, while hosts have not answered ---- */

#define SHOW_FIRST (500 * NS_PER_MS)
#define SHOW_NEXT  (200 * NS_PER_MS)

struct missing {
	int64_t due; /* clock_ns() of the next bar; INT64_MAX: none, until a host answers */
	int shown;   /* ranks that were missing in the last; 0: there is none */
};

static bool is_missing(const struct greeting *g)
{
	return !g->done;
}

static bool has_failed(const struct greeting *g)
{
	return g->failed;
}

static bool lacks_folder(const struct greeting *g)
{
	return g->folder;
}

/* Is rank @i the first of its host that is so? A list may name a host in several places. */
static bool is_first(const struct run *r, const struct greeting *greetings, int i,
                     bool (*is)(const struct greeting *))
{
	if (!is(&greetings[i]))
		return false;
	for (int k = 0; k < i; k++)
		if (is(&greetings[k]) && strcmp(r->ranks[k].host, r->ranks[i].host) == 0)
			return false;
	return true;
}

static void show_missing(const struct run *r, const struct greeting *greetings, int missing)
{
	char text[BAR_MAX];
	const char *comma = "";
	size_t at = (size_t)snprintf(text, sizeof text,
	                             "run  %d of %d ranks started, missing: ", r->size - missing,
	                             r->size);
	for (int i = 0; i < r->size && at < sizeof text; i++) {
		if (!is_first(r, greetings, i, is_missing))
			continue;
		at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", comma,
		                       r->ranks[i].host);
		comma = ", ";
	}
	bar_draw(text);
}

/* So many ranks are missing. Returns the milliseconds until the next call, at most @left. */
static int look_at_missing(struct missing *m, const struct run *r, const struct greeting *greetings,
                           int missing, int left)
{
	if (!r->bars)
		return left;
	if (m->due == INT64_MAX && missing != m->shown)
		m->due = clock_ns() + SHOW_NEXT;
	if (clock_ns() >= m->due) {
		show_missing(r, greetings, missing);
		*m = (struct missing){INT64_MAX, missing};
	}
	const int next = m->due == INT64_MAX ? left : clock_ms_until(m->due);
	return next < left ? next : left;
}

/* Send each host what it gets, and wait until it has answered, as @look finds, or has failed. -1: a
 * signal has come, or *err. */
static int converse(struct run *r, struct greeting *greetings, look_fn *look, struct err *err)
{
	const int64_t until = clock_ns() + REMOTE_GREETING;
	struct missing missing = {.due = clock_ns() + SHOW_FIRST};
	struct pollfd *p = err_calloc(2 * (size_t)r->size + 1, sizeof *p, "the hosts", err);
	if (!p)
		return -1;
	for (int waiting = r->size; waiting;) {
		waiting = 0;
		for (int i = 0; i < r->size; i++) {
			const struct greeting *g = &greetings[i];
			const bool sent = g->out.sent == g->out.head_size + g->out.size;
			waiting += !g->done;
			p[2 * i] = (struct pollfd){g->done ? -1 : r->ranks[i].err.from, POLLIN, 0};
			p[2 * i + 1] =
			        (struct pollfd){g->done || sent ? -1 : r->ranks[i].in, POLLOUT, 0};
		}
		if (!waiting)
			break;
		p[2 * r->size] = (struct pollfd){r->signals, POLLIN, 0};
		const int left = clock_ms_until(until);
		const int wait = look_at_missing(&missing, r, greetings, waiting, left);
		if (poll(p, 2 * (nfds_t)r->size + 1, wait) < 0) {
			if (errno == EINTR)
				continue;
			err_errno(err, ERR_RESOURCE, "the hosts");
			break;
		}
		if (p[2 * r->size].revents && took_signal(r))
			break;
		for (int i = 0; i < r->size; i++) {
			struct greeting *g = &greetings[i];
			if (!g->done && p[2 * i + 1].revents)
				send_some(&r->ranks[i], &g->out);
			if (!g->done && p[2 * i].revents)
				hear(r, i, g, look);
			if (!g->done && left == 0) {
				fail(r, i, g);
				snprintf(g->text, sizeof g->text, "no answer for %d s",
				         (int)(REMOTE_GREETING / NS_PER_SEC));
			}
		}
	}
	bar_clear();
	free(p);
	return r->signal || err->code ? -1 : 0;
}

/* "HOST", or, if ranks there have not failed, "HOST (1 of its 2 ranks)". */
static void failed_text(const struct run *r, const struct greeting *greetings, const char *host,
                        char *text, size_t cap)
{
	int all = 0, failed = 0;
	for (int i = 0; i < r->size; i++)
		if (strcmp(r->ranks[i].host, host) == 0) {
			all++;
			failed += greetings[i].failed;
		}
	if (failed < all)
		snprintf(text, cap, "%.255s (%d of its %d ranks)", host, failed, all);
	else
		snprintf(text, cap, "%.255s", host);
}

/* Find the first rank from @i on that has failed, and is the first of its host that has.
 * @line[cap]: which host, and why. -1: there is none. */
static int find_failed(const struct run *r, struct greeting *greetings, int i, char *line,
                       size_t cap)
{
	char who[320], why[400];
	while (i < r->size && !is_first(r, greetings, i, has_failed))
		i++;
	if (i == r->size)
		return -1;
	failed_text(r, greetings, r->ranks[i].host, who, sizeof who);
	snprintf(line, cap, "%s: %s", who,
	         text_escape(why, sizeof why, last_line(greetings[i].text)));
	return i;
}

/* One message for each host that has failed: the first is *err, the others are printed. */
static int report_failures(const struct run *r, struct greeting *greetings, struct err *err)
{
	char line[FAILED_TEXT];
	for (int i = 0; (i = find_failed(r, greetings, i, line, sizeof line)) >= 0; i++) {
		struct err e = ERR_INIT, *to = err->code ? &e : err;
		err_set(to, ERR_RENDEZVOUS, "%s", line);
		to->subject = (int)strnlen(r->ranks[i].host, 255);
		if (e.code)
			report(&e, -1);
	}
	return err->code ? -1 : 0;
}

/* ---- hosts that are left out ---- */

/* Tell the ranks which hosts are left out, and why: a line for each host. */
static int tell_absent(const struct run *r, struct greeting *greetings, struct err *err)
{
	char line[FAILED_TEXT];
	struct buf text;
	buf_init(&text, REMOTE_JOB_MAX / 2);
	for (int i = 0; (i = find_failed(r, greetings, i, line, sizeof line)) >= 0; i++) {
		buf_put(&text, line, strlen(line));
		buf_put_u8(&text, '\n');
	}
	buf_put_u8(&text, '\0');
	if (text.failed || setenv(RANK_ABSENT, (char *)text.data, 1) < 0)
		err_nomem(err, "the names of hosts", 0);
	buf_release(&text);
	return err->code ? -1 : 0;
}

/* The ranks of hosts that have answered get the numbers from 0. */
static void close_ranks(struct run *r, struct greeting *greetings)
{
	int n = 0;
	for (int i = 0; i < r->size; i++) {
		if (greetings[i].failed) {
			close(r->ranks[i].in);
			lines_release(&r->ranks[i].out);
			if (r->ranks[i].json >= 0)
				close(r->ranks[i].json);
			continue;
		}
		if (n < i) {
			r->ranks[n] = r->ranks[i];
			greetings[n] = greetings[i];
			run_place(r, n);
		}
		n++;
	}
	r->size = r->echoes.ranks = n;
}

/* Have all hosts said hello? Without those that have not, a check of at least two ranks goes on. */
static int take_hellos(struct run *r, struct greeting *greetings, struct err *err)
{
	int failed = 0;
	for (int i = 0; i < r->size; i++)
		failed += greetings[i].failed;
	if (!failed || !r->spares || r->size - failed < 2)
		return report_failures(r, greetings, err);
	if (tell_absent(r, greetings, err) < 0)
		return -1;
	close_ranks(r, greetings);
	return 0;
}

/* ---- the folder ---- */

/* One message for each host that could not enter @folder. @has: a host that could, or NULL. */
static int report_folder(const struct run *r, const struct greeting *greetings, const char *folder,
                         const char *has, struct err *err)
{
	char also[ADDR_TEXT + 128] = "";
	if (has)
		snprintf(also, sizeof also,
		         ", but %s has it: create it there, or name a folder that all hosts "
		         "have with --chdir",
		         has);
	for (int i = 0; i < r->size; i++) {
		struct err e = ERR_INIT;
		const char *host = r->ranks[i].host;
		if (!is_first(r, greetings, i, lacks_folder))
			continue;
		err_set(err->code ? &e : err, ERR_OUTPUT, "%s: %s%s: %s%s", host,
		        r->o->chdir ? "--chdir " : "", folder, strerror(greetings[i].folder), also);
		if (e.code)
			report(&e, -1);
	}
	return -1;
}

/* Do all ranks work in @folder, or, unless --chdir names it, all in their home folders? */
static int check_folder(const struct run *r, const struct greeting *greetings, const char *folder,
                        struct err *err)
{
	const char *has = NULL;
	int without = 0;
	for (int i = 0; i < r->size; i++)
		if (greetings[i].folder)
			without++;
		else if (!has)
			has = r->ranks[i].host;
	if (without && (has || r->o->chdir))
		return report_folder(r, greetings, folder, r->o->chdir ? NULL : has, err);
	if (without && r->o->verbose >= 0)
		report_note("no host has the folder %s: the ranks work in their home folders",
		            folder);
	return 0;
}

/* ---- jobs ---- */

/* Where the ranks meet: at the address by which ssh has reached rank 0's host, if it is known and
 * not only that host's own. */
static void find_meeting(const struct run *r, const struct remote_hello *h, char *text, size_t cap)
{
	const char *address = h->address;
	const bool own = strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
	if (strcmp(address, "-") == 0 || (own && r->hosts.nhosts > 1))
		address = r->ranks[0].host;
	const size_t n = (size_t)snprintf(text, cap, "%s", r->program ? "http://" : "");
	addr_join(address, h->port, text + n, cap - n);
}

/* The caller's COLLCTL_* variables go along; rank_begin removes those of another job. */
static int list_variables(struct remote_job *j, struct err *err)
{
	int n = 0;
	while (environ[n])
		n++;
	if (!(j->variables =
	              err_calloc((size_t)n + 1, sizeof *j->variables, "the environment", err)))
		return -1;
	for (char **v = environ; *v; v++)
		if (strncmp(*v, "COLLCTL_", 8) == 0)
			j->variables[j->nvariables++] = *v;
	return 0;
}

/* One encoding serves all ranks: only its first bytes differ. */
static int encode_job(const struct remote_job *j, struct buf *b, struct err *err)
{
	buf_init_secret(b, REMOTE_JOB_MAX);
	remote_encode(j, b);
	if (b->failed || j->argc > REMOTE_WORDS || j->nvariables > REMOTE_WORDS)
		return err_set(err, ERR_USAGE, "the command is too long to send to another host");
	return 0;
}

static void give_job(struct greeting *g, int rank, const struct buf *b)
{
	struct outgoing *o = &g->out;
	*o = (struct outgoing){.head_size = sizeof o->head,
	                       .body = b->data + REMOTE_RANK_BYTES,
	                       .size = b->len - REMOTE_RANK_BYTES};
	put_u32(o->head, (uint32_t)b->len);
	put_u32(o->head + 4, (uint32_t)rank);
	g->done = false;
	g->len = g->printed = 0;
	*g->text = '\0';
}

static int send_jobs(struct run *r, struct greeting *greetings, const char *folder, struct err *err)
{
	char meeting[ADDR_TEXT + 32];
	struct buf b = {0};
	struct remote_job j = {.size = r->size,
	                       .program = r->program,
	                       .json = r->o->json,
	                       .verbose = r->o->verbose,
	                       .silence = r->silence,
	                       .columns = r->ranks[0].err.bars ? bar_width() : 0,
	                       .meeting = meeting,
	                       .directory = folder,
	                       .secret = r->secret,
	                       .token = greetings[0].hello.token,
	                       .argc = r->argc,
	                       .argv = r->argv};
	int ret = list_variables(&j, err);
	find_meeting(r, &greetings[0].hello, meeting, sizeof meeting);
	if (ret == 0)
		ret = encode_job(&j, &b, err);
	for (int i = 0; ret == 0 && i < r->size; i++)
		give_job(&greetings[i], i, &b);
	if (ret == 0)
		ret = converse(r, greetings, look_for_ready, err);
	buf_release(&b);
	free(j.variables);
	return ret;
}

static void begin_all(struct run *r)
{
	const char go = REMOTE_GO;
	const int64_t now = clock_ns();
	for (int i = 0; i < r->size; i++) {
		r->ranks[i].link.heard = now;
		ssh_say(&r->ranks[i], &go, 1);
	}
	r->alive_at = now + remote_every(r->silence);
}

int ssh_greet(struct run *r, struct err *err)
{
	struct greeting *greetings =
	        err_calloc((size_t)r->size, sizeof *greetings, "the hosts", err);
	struct copy copy = {0};
	char *here = r->o->chdir ? NULL : getcwd(NULL, 0);
	const char *folder = r->o->chdir ? r->o->chdir : here ? here : "";
	int ret = greetings ? 0 : -1;
	if (ret == 0 && r->o->copy)
		ret = read_program(&copy, err);
	for (int i = 0; ret == 0 && i < r->size; i++)
		greetings[i].out = (struct outgoing){.body = copy.program, .size = copy.size};
	if (ret == 0)
		ret = converse(r, greetings, look_for_hello, err);
	if (ret == 0)
		ret = take_hellos(r, greetings, err);
	if (ret == 0)
		ret = send_jobs(r, greetings, folder, err);
	if (ret == 0)
		ret = report_failures(r, greetings, err);
	if (ret == 0)
		ret = check_folder(r, greetings, folder, err);
	if (ret == 0)
		begin_all(r);
	if (greetings)
		wipe_text(greetings[0].hello.token);
	free(copy.program);
	free(here);
	free(greetings);
	return ret;
}
