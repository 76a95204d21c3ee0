/* `run -H`: ranks on other hosts, one ssh for each rank (remote.h): how it is started, what it says
 * while the rank runs, and how it ends. run_greet.c has what comes between start and run. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/commands.h"
#include "cmd/run/remote.h"
#include "cmd/run/run_internal.h"
#include "cmd/run/run_rank.h"
#include "cmd/text/shell.h"
#include "lib/base/io.h"
#include "lib/base/text.h"
#include "lib/net/addr.h"

#define SSH     "ssh -T -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=10"
#define AT_ONCE 8 /* connections of a host that have not answered: sshd refuses more than 10 */
/* Bytes of the JSON of a rank, which run keeps in memory; that of a check of 1000 ranks has 230 MB.
 */
#define RESULT_MAX (512 << 20)

/* ---- the hosts ---- */

int ssh_find_hosts(struct run *r, struct err *err)
{
	const char *given = r->o->request.settings.hostfile;
	if (!given)
		return 0;
	if (hostfile_find(&r->hosts, given, true, err) < 0)
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

const struct hostfile_host *ssh_host(const struct run *r, int rank)
{
	const struct hostfile_host *h = r->hosts.hosts;
	while (rank >= h->first + h->slots)
		h++;
	return h;
}

int ssh_prepare(struct run *r, struct err *err)
{
	for (int i = 0; i < r->size; i++)
		r->ranks[i].host = ssh_host(r, i)->name;
	if (!(r->gates = err_realloc(NULL, 2 * (size_t)r->hosts.nhosts, sizeof *r->gates,
	                             "the hosts", err)))
		return -1;
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

/* The operands of remote-rank, of rank 0 and of those that may become it. */
static void operands(const struct run *r, int rank, char *text, size_t cap)
{
	snprintf(text, cap, " %s %d", r->program ? REMOTE_STORE : REMOTE_LISTENER,
	         rank ? 0 : r->hosts.hosts[0].port);
	if (rank && !r->spares)
		*text = '\0';
}

/*
 * With --copy: what a shell on the host does, with the arguments SYSTEM SECONDS BYTES and the
 * operands of remote-rank. It takes the program of BYTES bytes from its stdin, in SECONDS at most
 * if the host has timeout, runs it, and removes it. One line without single quotes, so that any
 * login shell passes it on.
 */
static const char copy_script[] =
        /* Is it the same system? */
        "test \"$(uname -sm)\" = \"$1\" || {"
        " echo \"--copy: this host is $(uname -sm), not $1: install collctl there\" >&2;"
        " exit 126; };"
        /* A folder, which goes when the shell ends. */
        " d=$(mktemp -d) &&"
        " trap \"rm -rf \\\"$d\\\"\" EXIT && trap exit HUP INT TERM &&"
        /* The program. */
        " { timeout 9 true 2>/dev/null && t=\"timeout $2\" || t=; } &&"
        " $t head -c \"$3\" >\"$d/collctl\" && chmod 700 \"$d/collctl\" &&"
        /* Run it. */
        " shift 3 && \"$d/collctl\" " REMOTE_COMMAND " \"$@\"";

static char *remote_command(const struct run *r, int rank)
{
	struct utsname here;
	struct stat self;
	char more[64], *text = NULL;
	int len;
	operands(r, rank, more, sizeof more);
	if (!r->o->copy)
		len = asprintf(&text, "%s " REMOTE_COMMAND "%s",
		               r->o->remote_path ? r->o->remote_path : "collctl", more);
	else if (uname(&here) < 0 || stat("/proc/self/exe", &self) < 0)
		return NULL;
	else
		len = asprintf(&text, "exec sh -c '%s' sh '%s %s' %d %lld%s", copy_script,
		               here.sysname, here.machine, (int)(REMOTE_GREETING / NS_PER_SEC),
		               (long long)self.st_size, more);
	return len < 0 ? NULL : text;
}

const char *ssh_words(const struct run *r)
{
	return r->o->ssh ? r->o->ssh : SSH;
}

void ssh_print(const struct run *r)
{
	for (int i = 0; i < r->size; i++) {
		printf("rank %d:", i);
		if (r->hosts.nhosts) {
			char *command = remote_command(r, i);
			char host[4 * ADDR_TEXT];
			printf(" %s", ssh_words(r));
			shell_print_word(stdout,
			                 text_escape(host, sizeof host, ssh_host(r, i)->name));
			shell_print_word(stdout, command ? command : "?");
			fputs(" for", stdout);
			free(command);
		}
		for (int k = 0; k < r->argc; k++)
			shell_print_word(stdout, r->argv[k]);
		putchar('\n');
	}
}

/* The first ranks of a host begin at once, each other one when another has been answered. */
static void await_turn(const struct run *r, int rank)
{
	const struct hostfile_host *h = ssh_host(r, rank);
	const int *gate = &r->gates[2 * (h - r->hosts.hosts)];
	char turn;
	if (rank - h->first < AT_ONCE)
		return;
	close(gate[1]);
	if (io_retry(read(gate[0], &turn, 1)) != 1)
		_exit(255);
}

/* With --json ssh writes to a file in memory, as much as the host likes. */
static void limit_output(void)
{
	struct rlimit l;
	signal(SIGXFSZ, SIG_DFL);
	if (getrlimit(RLIMIT_FSIZE, &l) == 0 && l.rlim_cur > RESULT_MAX) {
		l.rlim_cur = RESULT_MAX;
		setrlimit(RLIMIT_FSIZE, &l);
	}
}

_Noreturn void ssh_begin(const struct run *r, int rank, int in)
{
	await_turn(r, rank);
	char *command = remote_command(r, rank), *script = NULL;
	/* If there is no such --ssh, the code is not 127: that is of the shell on the host. */
	if (!command || asprintf(&script, "trap 'exit 126' EXIT; exec %s \"$@\"", ssh_words(r)) < 0)
		rank_die(ERR_RESOURCE, "ssh");
	rank_replace_fd(STDIN_FILENO, in);
	sigprocmask(SIG_SETMASK, &r->caller_mask, NULL);
	setrlimit(RLIMIT_NOFILE, &r->caller_files);
	if (r->json)
		limit_output();
	execl("/bin/sh", "sh", "-c", script, "ssh", ssh_host(r, rank)->name, command, (char *)NULL);
	rank_die(127, "/bin/sh");
}

/* ---- while the ranks run ---- */

void ssh_say(const struct rank *rank, const void *bytes, size_t n)
{
	if (rank->in >= 0 && io_retry(write(rank->in, bytes, n)) < 0)
		errno = 0; /* ssh has ended, which reap notices */
}

static void heard(void *ctx, int what, int value)
{
	struct link *l = ctx;
	if (what == REMOTE_VERDICT)
		l->verdict = true;
	if (what == REMOTE_ENDED) {
		l->ended = true;
		l->code = value;
	}
}

size_t ssh_hear(void *ctx, char *bytes, size_t n)
{
	struct link *l = ctx;
	l->heard = clock_ns();
	return remote_extract(&l->reader, bytes, n, heard, l);
}

/* Whoever has said nothing for too long, and has nothing on the way: run may have been busy. */
static bool is_silent(const struct run *r, const struct rank *rank, int64_t now)
{
	struct pollfd p = {.fd = rank->err.from, .events = POLLIN};
	return rank->pid && !rank->link.ended && rank->link.heard &&
	       now - rank->link.heard >= r->silence && poll(&p, 1, 0) == 0;
}

int ssh_keep_alive(struct run *r)
{
	const char alive = REMOTE_ALIVE;
	const int64_t now = clock_ns();
	if (!r->hosts.nhosts)
		return -1;
	if (now < r->alive_at)
		return clock_ms_until(r->alive_at);
	r->alive_at = now + remote_every(r->silence);
	for (int i = 0; i < r->size; i++) {
		struct rank *rank = &r->ranks[i];
		ssh_say(rank, &alive, 1);
		if (is_silent(r, rank, now)) {
			rank->link.silent = true;
			kill(-rank->pid, SIGKILL);
		}
	}
	return clock_ms_until(r->alive_at);
}

void ssh_cleared(const struct rank *rank)
{
	const char cleared = REMOTE_CLEARED;
	ssh_say(rank, &cleared, 1);
}

void ssh_signal(const struct rank *rank, int sig)
{
	const uint8_t words[] = {REMOTE_SIGNAL, (uint8_t)sig};
	ssh_say(rank, words, sizeof words);
}

/* ---- the end of ssh ---- */

int ssh_status(const struct rank *rank, int status, bool *lost)
{
	*lost = rank->host && (WIFSIGNALED(status) || WEXITSTATUS(status) == 255);
	if (*lost && rank->link.ended && rank->link.code) {
		*lost = false;
		return W_EXITCODE(rank->link.code, 0);
	}
	return status;
}

/* Has rank 0, which gives the verdict, ended without it? If it was killed, it may have given it and
 * not said so. */
static bool without_verdict(const struct rank *first)
{
	const int code = first->code;
	return code >= 0 && (code < 128 || code == 128 + SIGINT || code == 128 + SIGTERM ||
	                     code == 128 + SIGHUP);
}

/* What a rank of a collective whose ssh is lost may have done, by what all have said. */
static void say_what_is_known(const struct run *r, int rank, char *text, size_t cap)
{
	const char *verdict, *outputs;
	bool given = false;
	for (int i = 0; i < r->size; i++)
		given |= r->ranks[i].link.verdict || r->ranks[i].code == 0;
	if (r->ranks[rank].link.ended) {
		verdict = " after its rank had ended with exit code 0";
		outputs = ": the outputs are the new ones";
	} else if (given) {
		verdict = " after the verdict";
		outputs =
		        ": the outputs are the new ones, but that of this rank may be the old one";
	} else if (without_verdict(&r->ranks[0])) {
		verdict = "; there was no verdict";
		outputs = ": all outputs are the old ones";
	} else {
		verdict = "; whether there was a verdict is not known";
		outputs = ": outputs may be old or new";
	}
	snprintf(text, cap, "%s%s", verdict, r->writes ? outputs : "");
}

void ssh_failure(const struct run *r, int rank, int status, struct err *err)
{
	const struct rank *from = &r->ranks[rank];
	const char *host = from->host;
	char known[200] = "";
	bool lost;
	if (!r->program)
		say_what_is_known(r, rank, known, sizeof known);
	status = ssh_status(from, status, &lost);
	if (from->link.silent)
		err_rank(err, ERR_PEER_LOST, rank, "%s: has said nothing for %d s%s", host,
		         (int)(r->silence / NS_PER_SEC), known);
	else if (WIFSIGNALED(status))
		err_rank(err, ERR_PEER_LOST, rank, "%s: ssh was killed by signal %d (%s)%s", host,
		         WTERMSIG(status), strsignal(WTERMSIG(status)), known);
	else if (lost)
		err_rank(err, ERR_PEER_LOST, rank, "%s: ssh has lost the connection%s", host,
		         known);
	else
		err_rank(err, WEXITSTATUS(status), rank, "%s: %s ended with exit code %d", host,
		         r->argv[0], WEXITSTATUS(status));
}
