/* `run -H`: ranks on other hosts, one ssh for each rank (remote.h). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/commands.h"
#include "cmd/remote.h"
#include "cmd/run_internal.h"
#include "cmd/run_rank.h"
#include "lib/base/io.h"
#include "lib/base/private.h"
#include "lib/net/addr.h"

#define SSH         "ssh -T -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=10"
#define AT_ONCE     8 /* connections of a host that have not answered: sshd refuses more than 10 */
#define GREETED_MAX 16384 /* bytes that a host may print before it answers */

/* ---- the hosts ---- */

static bool is_list(const char *text)
{
	struct stat s;
	return !strchr(text, '/') && stat(text, &s) < 0;
}

int ssh_find_hosts(struct run *r, struct err *err)
{
	const char *given = r->o->request.settings.hostfile;
	if (!given)
		return 0;
	if (is_list(given)) {
		if (hostfile_parse(&r->hosts, given, strlen(given), "--hostfile", err) < 0) {
			err->code = ERR_USAGE;
			return -1;
		}
	} else if (hostfile_read(&r->hosts, given, err) < 0)
		return -1;
	for (int i = 0; i < r->hosts.nhosts; i++)
		if (r->hosts.hosts[i].name[0] == '-')
			return err_set(err, ERR_USAGE,
			               "--hostfile: '%.80s' is not the name of a host",
			               r->hosts.hosts[i].name);
	if (r->size > r->hosts.size)
		return err_set(err, ERR_USAGE,
		               "--size: %d ranks, but the hosts have %d slots (slots=N in the "
		               "hostfile gives a host more)",
		               r->size, r->hosts.size);
	if (r->size <= 0)
		r->size = r->hosts.size;
	return 0;
}

static const struct hostfile_host *host_of(const struct run *r, int rank)
{
	const struct hostfile_host *h = r->hosts.hosts;
	while (rank >= h->first + h->slots)
		h++;
	return h;
}

int ssh_prepare(struct run *r, struct err *err)
{
	for (int i = 0; i < r->size; i++)
		r->ranks[i].host = host_of(r, i)->name;
	r->gates = malloc(2 * (size_t)r->hosts.nhosts * sizeof *r->gates);
	if (!r->gates)
		return err_nomem(err, "the hosts", 2 * (size_t)r->hosts.nhosts * sizeof *r->gates);
	for (int i = 0; i < 2 * r->hosts.nhosts; i++)
		r->gates[i] = -1;
	for (int i = 0; i < r->hosts.nhosts; i++)
		if (r->hosts.hosts[i].slots > AT_ONCE && pipe2(&r->gates[2 * i], O_CLOEXEC) < 0)
			return err_errno(err, ERR_RESOURCE, "a pipe for a host");
	return 0;
}

void ssh_release(struct run *r)
{
	for (int i = 0; r->gates && i < 2 * r->hosts.nhosts; i++)
		if (r->gates[i] >= 0)
			close(r->gates[i]);
	free(r->gates);
	r->gates = NULL;
	hostfile_release(&r->hosts);
}

/* ---- the command that ssh starts ---- */

/* The operands of remote-rank, of rank 0. */
static void operands(const struct run *r, int rank, char *text, size_t cap)
{
	snprintf(text, cap, " %s %d", r->program ? REMOTE_STORE : REMOTE_LISTENER,
	         r->hosts.hosts[0].port);
	if (rank)
		*text = '\0';
}

/* With --copy the shell there first takes the program from its stdin. */
static char *remote_command(const struct run *r, int rank)
{
	struct utsname here;
	struct stat self;
	char more[64], *text = NULL;
	operands(r, rank, more, sizeof more);
	if (!r->o->copy)
		return asprintf(&text, "%s " REMOTE_COMMAND "%s",
		                r->o->remote_path ? r->o->remote_path : "collctl", more) < 0
		               ? NULL
		               : text;
	if (uname(&here) < 0 || stat("/proc/self/exe", &self) < 0)
		return NULL;
	/* For any login shell: without single quotes inside. */
	if (asprintf(&text,
	             "exec sh -c 'test \"$(uname -sm)\" = \"%s %s\" || { echo \"--copy: this host "
	             "is "
	             "$(uname -sm), not %s %s: install collctl there\" >&2; exit 126; }; "
	             "d=$(mktemp -d) && trap \"rm -rf \\\"$d\\\"\" EXIT && trap exit HUP INT TERM "
	             "&& "
	             "head -c %lld >\"$d/collctl\" && chmod 700 \"$d/collctl\" && "
	             "\"$d/collctl\" " REMOTE_COMMAND "%s'",
	             here.sysname, here.machine, here.sysname, here.machine,
	             (long long)self.st_size, more) < 0)
		return NULL;
	return text;
}

static const char *ssh_of(const struct run *r)
{
	return r->o->ssh ? r->o->ssh : SSH;
}

/* As a shell would read it. */
static void print_word(const char *word)
{
	const char *plain =
	        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%{}";
	if (*word && !word[strspn(word, plain)]) {
		printf(" %s", word);
		return;
	}
	fputs(" '", stdout);
	for (; *word; word++)
		if (*word == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*word);
	putchar('\'');
}

void ssh_print(const struct run *r)
{
	for (int i = 0; i < r->size; i++) {
		printf("rank %d:", i);
		if (r->hosts.nhosts) {
			char *command = remote_command(r, i);
			printf(" %s %s '%s' for", ssh_of(r), host_of(r, i)->name,
			       command ? command : "?");
			free(command);
		}
		for (int k = 0; k < r->argc; k++)
			print_word(r->argv[k]);
		putchar('\n');
	}
}

/* The first ranks of a host begin at once, each other one when another has been answered. */
static void await_turn(const struct run *r, int rank)
{
	const struct hostfile_host *h = host_of(r, rank);
	const int *gate = &r->gates[2 * (h - r->hosts.hosts)];
	char turn;
	if (rank - h->first < AT_ONCE)
		return;
	close(gate[1]);
	if (io_retry(read(gate[0], &turn, 1)) != 1)
		_exit(255);
}

_Noreturn void ssh_begin(const struct run *r, int rank, int in)
{
	await_turn(r, rank);
	char *command = remote_command(r, rank), *script = NULL;
	if (!command || asprintf(&script, "exec %s \"$@\"", ssh_of(r)) < 0)
		rank_die(ERR_RESOURCE, "ssh");
	rank_replace_fd(STDIN_FILENO, in);
	sigprocmask(SIG_SETMASK, &r->caller_mask, NULL);
	setrlimit(RLIMIT_NOFILE, &r->caller_files);
	execl("/bin/sh", "sh", "-c", script, "ssh", host_of(r, rank)->name, command, (char *)NULL);
	rank_die(127, "/bin/sh");
}

/* ---- greetings ---- */

struct greeting {
	char text[GREETED_MAX + 1]; /* what the host has printed */
	size_t len;
	bool done, failed;
	char version[32], address[ADDR_TEXT], token[SECRET_TEXT];
	int port;
	size_t sent; /* bytes of the program, with --copy */
};

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
	else if (!(c->program = malloc((size_t)s.st_size)))
		err_nomem(err, "--copy", (unsigned long long)s.st_size);
	else if (read_full(fd, c->program, (size_t)s.st_size) != s.st_size)
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

static bool is_token(const char *text)
{
	return strcmp(text, "-") == 0 ||
	       (strlen(text) == SECRET_TEXT - 2 && !text[strspn(text, "0123456789abcdef")]);
}

_Static_assert(sizeof((struct greeting *)0)->version == 32 &&
                       sizeof((struct greeting *)0)->address == 128 &&
                       sizeof((struct greeting *)0)->token == 66,
               "the widths in look");

/* Has the host said hello? */
static void look(struct greeting *g)
{
	static const char mark[] = "\n" REMOTE_HELLO " ";
	char *hello = memmem(g->text, g->len, mark, sizeof mark - 1);
	if (!hello || !memchr(hello + 1, '\n', g->len - (size_t)(hello + 1 - g->text)))
		return;
	g->done = true;
	g->failed = sscanf(hello, "\n" REMOTE_HELLO " %31s %127s %d %65s", g->version, g->address,
	                   &g->port, g->token) != 4 ||
	            g->port < 0 || g->port > 65535 || !is_token(g->token);
	if (g->failed)
		snprintf(g->text, sizeof g->text, "an unknown answer");
	else if (strcmp(g->version, COLLCTL_VERSION) != 0) {
		g->failed = true;
		snprintf(g->text, sizeof g->text,
		         "has collctl %.31s, this is %s: install the same version, or give --copy",
		         g->version, COLLCTL_VERSION);
	}
	if (g->failed)
		wipe_text(g->token);
}

/* ssh has ended, or closed its stderr. */
static void fail(struct run *r, int rank, struct greeting *g)
{
	int status = 0;
	g->done = g->failed = true;
	/* All of --ssh's processes: one may be stopped, at a terminal's question. */
	kill(-r->ranks[rank].pid, SIGKILL);
	while (waitpid(r->ranks[rank].pid, &status, 0) < 0 && errno == EINTR)
		;
	r->ranks[rank].pid = 0;
	r->live--;
	if (!*last_line(g->text))
		snprintf(g->text, sizeof g->text, "%.100s ended with exit code %d and said nothing",
		         ssh_of(r), rank_exit_code(status));
}

/* Another rank of the host may begin. */
static void give_turn(const struct run *r, int rank)
{
	const int gate = r->gates[2 * (host_of(r, rank) - r->hosts.hosts) + 1];
	if (gate >= 0 && io_retry(write(gate, "", 1)) < 0)
		errno = 0; /* none waits */
}

static void hear(struct run *r, int rank, struct greeting *g)
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
		g->text[g->len] = '\0';
		look(g);
	}
	if (!g->done && n <= 0)
		fail(r, rank, g);
	if (g->done)
		give_turn(r, rank);
}

static void send_program(struct run *r, int rank, struct greeting *g, const struct copy *c)
{
	const ssize_t n =
	        io_retry(write(r->ranks[rank].in, c->program + g->sent, c->size - g->sent));
	if (n > 0)
		g->sent += (size_t)n;
	else if (n < 0 && errno != EAGAIN)
		g->sent = c->size; /* what it prints says why */
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

/* Wait until each host has said hello or has failed. -1: a signal has come. */
static int hear_all(struct run *r, struct greeting *greetings, const struct copy *c,
                    struct err *err)
{
	const int64_t until = clock_ns() + REMOTE_GREETING;
	struct pollfd *p = calloc(2 * (size_t)r->size + 1, sizeof *p);
	if (!p)
		return err_nomem(err, "the hosts", (size_t)r->size * sizeof *p);
	for (int waiting = r->size; waiting;) {
		waiting = 0;
		for (int i = 0; i < r->size; i++) {
			const struct greeting *g = &greetings[i];
			waiting += !g->done;
			p[2 * i] = (struct pollfd){g->done ? -1 : r->ranks[i].err.from, POLLIN, 0};
			p[2 * i + 1] = (struct pollfd){
			        g->done || g->sent == c->size ? -1 : r->ranks[i].in, POLLOUT, 0};
		}
		if (!waiting)
			break;
		p[2 * r->size] = (struct pollfd){r->signals, POLLIN, 0};
		const int left = clock_ms_until(until);
		if (poll(p, 2 * (nfds_t)r->size + 1, left) < 0 && errno != EINTR)
			break;
		if (p[2 * r->size].revents && took_signal(r))
			break;
		for (int i = 0; i < r->size; i++) {
			struct greeting *g = &greetings[i];
			if (!g->done && p[2 * i + 1].revents)
				send_program(r, i, g, c);
			if (!g->done && p[2 * i].revents)
				hear(r, i, g);
			if (!g->done && left == 0) {
				fail(r, i, g);
				snprintf(g->text, sizeof g->text, "no answer for %d s",
				         (int)(REMOTE_GREETING / NS_PER_SEC));
			}
		}
	}
	free(p);
	return r->signal ? -1 : 0;
}

/* One message for each host that has failed: the first is *err, the others are printed. */
static int report_failures(const struct run *r, struct greeting *greetings, struct err *err)
{
	const char *last = "";
	for (int i = 0; i < r->size; i++) {
		struct err e = {.rank = ERR_RANK_SELF};
		const char *host = r->ranks[i].host;
		char line[400];
		if (!greetings[i].failed || strcmp(host, last) == 0)
			continue;
		last = host;
		report_escape(line, sizeof line, last_line(greetings[i].text));
		err_set(err->code ? &e : err, ERR_RENDEZVOUS, "%s: %s", host, line);
		if (e.code)
			report(&e, -1);
	}
	return err->code ? -1 : 0;
}

/* ---- jobs ---- */

/* Where the ranks meet: at the address by which ssh has reached rank 0's host, if it is known and
 * not only that host's own. */
static void find_meeting(const struct run *r, const struct greeting *g, char *text, size_t cap)
{
	const char *address = g->address;
	const bool own = strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
	if (strcmp(address, "-") == 0 || (own && r->hosts.nhosts > 1))
		address = r->hosts.hosts[0].name;
	const size_t n = (size_t)snprintf(text, cap, "%s", r->program ? "http://" : "");
	addr_join(address, g->port, text + n, cap - n);
}

extern char **environ;

/* The caller's COLLCTL_* variables go along; rank_begin removes those of another job. */
static int list_variables(struct remote_job *j, struct err *err)
{
	int n = 0;
	while (environ[n])
		n++;
	j->variables = calloc((size_t)n + 1, sizeof *j->variables);
	if (!j->variables)
		return err_nomem(err, "the environment", (size_t)n * sizeof *j->variables);
	for (char **v = environ; *v; v++)
		if (strncmp(*v, "COLLCTL_", 8) == 0)
			j->variables[j->nvariables++] = *v;
	return 0;
}

static int encode_job(const struct remote_job *j, struct buf *b, struct err *err)
{
	uint8_t head[4] = {0};
	buf_init_secret(b, REMOTE_JOB_MAX);
	buf_put(b, head, sizeof head);
	remote_encode(j, b);
	if (b->failed || j->argc > REMOTE_WORDS || j->nvariables > REMOTE_WORDS)
		return err_set(err, ERR_USAGE, "the command is too long to send to another host");
	put_u32(b->data, (uint32_t)(b->len - sizeof head));
	return 0;
}

/* Send the bytes, unless the host takes none for REMOTE_SILENCE, or a signal comes. */
static int send_job(struct run *r, int rank, const struct buf *b, struct err *err)
{
	const struct rank *to = &r->ranks[rank];
	int64_t until = clock_ns() + REMOTE_SILENCE;
	for (size_t at = 0; at < b->len;) {
		struct pollfd p[] = {{to->in, POLLOUT, 0}, {r->signals, POLLIN, 0}};
		const int left = clock_ms_until(until);
		poll(p, 2, left);
		if (p[1].revents && took_signal(r))
			return -1;
		const ssize_t n =
		        p[0].revents ? io_retry(write(to->in, b->data + at, b->len - at)) : -1;
		if (n > 0) {
			at += (size_t)n;
			until = clock_ns() + REMOTE_SILENCE;
		} else if (p[0].revents && errno != EAGAIN)
			return err_rank(err, ERR_PEER_LOST, rank, "%s: ssh has ended", to->host);
		else if (left == 0)
			return err_rank(err, ERR_STALLED, rank, "%s: takes no job for %d s",
			                to->host, (int)(REMOTE_SILENCE / NS_PER_SEC));
	}
	return 0;
}

static int send_jobs(struct run *r, struct greeting *greetings, struct err *err)
{
	char meeting[ADDR_TEXT + 32], *folder = getcwd(NULL, 0);
	struct remote_job j = {.size = r->size,
	                       .program = r->program,
	                       .json = r->o->json,
	                       .verbose = r->o->verbose,
	                       .meeting = meeting,
	                       .directory = folder ? folder : "",
	                       .secret = r->secret,
	                       .token = greetings[0].token,
	                       .argc = r->argc,
	                       .argv = r->argv};
	int ret = list_variables(&j, err);
	find_meeting(r, &greetings[0], meeting, sizeof meeting);
	for (j.rank = 0; ret == 0 && j.rank < r->size; j.rank++) {
		struct buf b;
		ret = encode_job(&j, &b, err);
		if (ret == 0)
			ret = send_job(r, j.rank, &b, err);
		buf_release(&b);
	}
	free(j.variables);
	free(folder);
	r->alive_at = clock_ns() + REMOTE_EVERY;
	return ret;
}

int ssh_greet(struct run *r, struct err *err)
{
	struct greeting *greetings = calloc((size_t)r->size, sizeof *greetings);
	struct copy copy = {0};
	int ret = greetings ? 0 : err_nomem(err, "the hosts", (size_t)r->size * sizeof *greetings);
	if (ret == 0 && r->o->copy)
		ret = read_program(&copy, err);
	if (ret == 0)
		ret = hear_all(r, greetings, &copy, err);
	if (ret == 0)
		ret = report_failures(r, greetings, err);
	if (ret == 0)
		ret = send_jobs(r, greetings, err);
	if (greetings)
		wipe_text(greetings[0].token);
	free(copy.program);
	free(greetings);
	return ret;
}

/* ---- later ---- */

static void say(const struct rank *rank, const void *bytes, size_t n)
{
	if (rank->in >= 0 && io_retry(write(rank->in, bytes, n)) < 0)
		errno = 0; /* ssh has ended, which reap notices */
}

int ssh_keep_alive(struct run *r)
{
	const char alive = REMOTE_ALIVE;
	const int64_t now = clock_ns();
	if (!r->hosts.nhosts)
		return -1;
	if (now >= r->alive_at) {
		r->alive_at = now + REMOTE_EVERY;
		for (int i = 0; i < r->size; i++)
			say(&r->ranks[i], &alive, 1);
	}
	return clock_ms_until(r->alive_at);
}

void ssh_signal(const struct rank *rank, int sig)
{
	const uint8_t words[] = {REMOTE_SIGNAL, (uint8_t)sig};
	say(rank, words, sizeof words);
}

void ssh_failure(const struct run *r, int rank, int status, struct err *err)
{
	const char *host = r->ranks[rank].host;
	if (WIFSIGNALED(status))
		err_rank(err, ERR_PEER_LOST, rank, "%s: ssh was killed by signal %d (%s)", host,
		         WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) == 255)
		err_rank(err, ERR_PEER_LOST, rank, "%s: ssh has lost the connection", host);
	else
		err_rank(err, WEXITSTATUS(status), rank, "%s: %s ended with exit code %d", host,
		         r->argv[0], WEXITSTATUS(status));
}
