/*
 * collctl invite: one ticket (lib/job/ticket.h) for all ranks of a job. It serves the store where
 * they meet. With COMMAND it is also rank 0, and ends with it. For a minute after COMMAND, or
 * without it after all ranks have joined, others learn that they come too late.
 */
#include "cmd/commands.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cmd/run/run_rank.h"
#include "cmd/text/shell.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/private.h"
#include "lib/job/ticket.h"
#include "lib/net/addr.h"
#include "lib/store/record.h"
#include "lib/store/server/store_server.h"

#define DAY       (24 * 3600 * NS_PER_SEC)
#define LATE_TIME (60 * NS_PER_SEC) /* in which it answers those who come too late */

struct invite {
	const struct options *o;
	int argc; /* of COMMAND; 0: there is none */
	char **argv;
	struct ticket ticket;
	char text[TICKET_TEXT];
	struct store_server *store;
	int signals, epoll;
	sigset_t mask;
	pid_t command; /* 0: none, or it has ended */
	int status;    /* of COMMAND */
	bool has_port; /* --listen names the port */
	bool stopped;  /* a signal has ended it */
	bool over;     /* the record says that nobody can join any more */
	int64_t until; /* clock_ns(): the ticket expires, or then the end */
};

/* ---- the ticket ---- */

/* "HOST[:PORT]" */
static int add_advertised(struct ticket *t, const char *given, struct err *err)
{
	int port = -1;
	if (addr_split(given, t->addresses[0], sizeof t->addresses[0], &port, err) < 0)
		return -1;
	if (!t->addresses[0][0])
		return err_set(err, ERR_USAGE, "--advertise %s: names no host", given);
	if (port > 0)
		t->port = port;
	t->naddresses = 1;
	return 0;
}

/* The address of --listen, if others can use only that, else this machine's addresses. */
static int add_own(struct ticket *t, const struct store_server *store, struct err *err)
{
	struct addr a;
	int port;
	if (addr_split(store_server_address(store), t->addresses[0], ADDR_TEXT, &port, err) < 0 ||
	    addr_resolve(&a, t->addresses[0], port, true, err) < 0)
		return -1;
	t->naddresses = addr_is_any(&a) ? addr_list_own(t->addresses, TICKET_ADDRESSES) : 1;
	if (t->naddresses == 0)
		strcpy(t->addresses[t->naddresses++], "127.0.0.1");
	return 0;
}

static int find_addresses(struct invite *v, struct err *err)
{
	const char *advertise = v->o->request.settings.addresses.advertise;
	v->ticket.port = store_server_port(v->store);
	return advertise ? add_advertised(&v->ticket, advertise, err)
	                 : add_own(&v->ticket, v->store, err);
}

static int make_ticket(struct invite *v, struct err *err)
{
	const int64_t valid = v->o->valid;
	const int64_t end = clock_wall_ns() / NS_PER_SEC + valid / NS_PER_SEC;
	if (end > UINT32_MAX)
		return err_set(err, ERR_USAGE,
		               "--valid: a ticket can be valid until the year 2106 at most");
	v->ticket.size = v->o->request.settings.size;
	v->ticket.expires = (uint32_t)end;
	v->until = clock_ns() + valid;
	return ticket_draw(&v->ticket, err);
}

/* ---- the store ---- */

static int serve(struct invite *v, struct err *err)
{
	const char *listen = v->o->request.settings.addresses.listen;
	char token[TICKET_TOKEN], host[ADDR_TEXT] = "", any_port[ADDR_TEXT + 16];
	int port = -1;
	if (listen && addr_split(listen, host, sizeof host, &port, err) < 0)
		return -1;
	addr_join(host, 0, any_port, sizeof any_port);
	struct store_server_conf conf = {.listen = port < 0 ? any_port : listen, .token = token};
	if (ticket_token(&v->ticket, token, err) < 0)
		return -1;
	v->has_port = port > 0;
	raise_file_limit(NULL);
	v->store = store_server_start(&conf, err);
	wipe(token, sizeof token);
	return v->store ? 0 : -1;
}

/* From now on a rank that comes learns that the ticket is @why, a RECORD_*. */
static int refuse_others(struct invite *v, const char *why, struct err *err)
{
	char job[TICKET_JOB], key[TICKET_JOB + 16];
	struct secret secret;
	struct record record = {0};
	char *text = NULL;
	int ret = -1;
	ticket_job(&v->ticket, job);
	snprintf(key, sizeof key, "collctl/%s", job);
	const struct record_of of = {key, job, &secret};
	if (ticket_secret(&v->ticket, &secret, err) == 0) {
		snprintf(record.addr, sizeof record.addr, "%s", why);
		text = record_encode(&of, &record, err);
	}
	if (text)
		ret = store_server_put(v->store, key, text, strlen(text), err);
	secret_wipe(&secret);
	free(text);
	v->over = true;
	v->until = clock_ns() + LATE_TIME;
	return ret;
}

/* ---- COMMAND ---- */

static int check_command(const struct invite *v, struct err *err)
{
	const struct command *c = v->argc ? command_find(v->argv[0]) : NULL;
	if (v->argc && (!c || c->job == NO_JOB))
		return err_set(err, ERR_USAGE,
		               "%s: is no command of a job: give one such as 'allreduce IN... -o "
		               "OUT', or none",
		               v->argv[0]);
	if (v->argc && v->o->json)
		return err_set(err, ERR_USAGE,
		               "--json: the ticket is in the line for the other ranks: give --json "
		               "after %s for the result of the job",
		               v->argv[0]);
	return 0;
}

static _Noreturn void run_command(struct invite *v)
{
	static char name[] = "collctl";
	/* What the ticket says, and the addresses of the store. */
	static const char *const others[] = {
	        "COLLCTL_TICKET_FILE", "COLLCTL_SIZE",      "COLLCTL_JOB",
	        "COLLCTL_RENDEZVOUS",  "COLLCTL_HOSTFILE",  "COLLCTL_STORE_TOKEN_FILE",
	        "COLLCTL_SECRET_FILE", "COLLCTL_ADVERTISE", "COLLCTL_LISTEN",
	};
	char **argv = calloc((size_t)v->argc + 2, sizeof *argv);
	if (!argv || private_set_variable("COLLCTL_TICKET", v->text) < 0 ||
	    setenv("COLLCTL_RANK", "0", 0) < 0)
		rank_die(ERR_RESOURCE, v->argv[0]);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		unsetenv(others[i]);
	argv[0] = name;
	memcpy(argv + 1, v->argv, (size_t)v->argc * sizeof *argv);
	wipe(v->text, sizeof v->text);
	wipe(&v->ticket, sizeof v->ticket);
	close(v->epoll);
	close(v->signals);
	sigprocmask(SIG_SETMASK, &v->mask, NULL);
	exit(collctl_main(v->argc + 1, argv));
}

static int start_command(struct invite *v, struct err *err)
{
	const pid_t self = getpid();
	fflush(NULL);
	v->command = fork();
	if (v->command < 0)
		return err_errno(err, ERR_RESOURCE, "cannot start %s", v->argv[0]);
	if (v->command == 0) {
		rank_die_with(self, SIGTERM);
		run_command(v);
	}
	return 0;
}

/* Close what the caller may wait for. What this process has opened closes on exec, and stays. */
static void close_inherited(void)
{
	DIR *fds = opendir("/proc/self/fd");
	for (const struct dirent *d; fds && (d = readdir(fds));) {
		const int fd = atoi(d->d_name);
		if (fd > STDERR_FILENO && fcntl(fd, F_GETFD) == 0)
			close(fd);
	}
	if (fds)
		closedir(fds);
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
}

/* Not on a port that the user has chosen, which the next job may need. */
static bool may_answer(const struct invite *v, int code)
{
	return code != ERR_USAGE && !v->has_port;
}

/* This process ends with @code, that of COMMAND, and a child answers those who come too late.
 * Returns true in the child, and false if there can be none. */
static bool leave_answering(struct invite *v, int code)
{
	struct err err = ERR_INIT;
	pid_t child = -1;
	fflush(NULL);
	if (v->over || refuse_others(v, RECORD_ENDED, &err) == 0)
		child = fork();
	err_clear(&err);
	if (child < 0)
		return false;
	if (child > 0)
		_exit(code); /* without a word to the clients of the store, which are the child's
		                now */
	sigprocmask(SIG_SETMASK, &v->mask, NULL);
	close(v->signals);
	v->signals = -1;
	close_inherited();
	v->until = clock_ns() + LATE_TIME;
	return chdir("/") == 0;
}

/* ---- what it prints ---- */

/* This rank is the root unless COMMAND says who is; the others do not know their numbers yet. */
static bool needs_root(const struct invite *v)
{
	enum coll_kind kind;
	if (coll_by_name(v->argv[0], &kind) < 0 || !coll_rules(kind)->rooted)
		return false;
	for (int i = 1; i < v->argc; i++)
		if (strncmp(v->argv[i], "--root", 6) == 0)
			return false;
	return true;
}

/* The ticket alone on stdout, or for COMMAND, whose stdout it is, the line to paste. */
static int announce(struct invite *v)
{
	const int others = v->ticket.size - 1;
	char when[32];
	const time_t end = (time_t)v->ticket.expires;
	struct tm tm;
	strftime(when, sizeof when, v->o->valid < DAY ? "%H:%M:%S" : "%F %T",
	         localtime_r(&end, &tm));
	if (v->o->json)
		return report_json(json_pack("{s:s,s:b,s:s,s:i,s:I,s:n}", "command", "invite", "ok",
		                             1, "ticket", v->text, "size", v->ticket.size,
		                             "expires", (json_int_t)v->ticket.expires, "error"));
	if (v->argc) {
		report_note("run this on the other %d, until %s; whoever has the ticket can join:",
		            others, when);
		fprintf(stderr, "COLLCTL_TICKET=%s collctl", v->text);
		for (int i = 0; i < v->argc; i++)
			shell_print_word(stderr, v->argv[i]);
		if (needs_root(v))
			fputs(" --root 0", stderr);
		fputc('\n', stderr);
		return 0;
	}
	if (v->o->verbose >= 0)
		report_note("a ticket for %d ranks, until %s; whoever has it can join: "
		            "COLLCTL_TICKET=... collctl COMMAND",
		            v->ticket.size, when);
	puts(v->text);
	return fflush(stdout) ? ERR_OUTPUT : 0;
}

/* ---- the loop ---- */

/* A signal: the exit code, or -1 to go on. */
static int take_signal(struct invite *v)
{
	struct signalfd_siginfo info;
	if (io_retry(read(v->signals, &info, sizeof info)) != (ssize_t)sizeof info)
		return -1;
	if (info.ssi_signo == SIGCHLD) {
		if (!v->command || waitpid(v->command, &v->status, WNOHANG) != v->command)
			return -1;
		v->command = 0;
		const int code = rank_exit_code(v->status);
		return !v->stopped && may_answer(v, code) && leave_answering(v, code) ? -1 : code;
	}
	v->stopped = true;
	if (!v->command)
		return 128 + (int)info.ssi_signo;
	if (info.ssi_code != SI_KERNEL) /* a terminal sends ^C to both */
		kill(v->command, (int)info.ssi_signo);
	return -1;
}

/* The ticket has expired, or the time for latecomers is over: the exit code, or -1 to go on. */
static int take_end(struct invite *v, struct err *err)
{
	const bool used = store_server_withdrawn(v->store);
	if (v->over) {
		v->until = INT64_MAX;
		return v->command ? -1 : used ? 0 : ERR_RENDEZVOUS;
	}
	err_set(err, ERR_RENDEZVOUS, "the ticket has expired before all %d ranks had joined",
	        v->ticket.size);
	report(err, -1);
	err_clear(err);
	return refuse_others(v, RECORD_EXPIRED, err) < 0 ? err->code : -1;
}

static int loop(struct invite *v, struct err *err)
{
	struct epoll_event ev;
	for (;;) {
		int ms = store_server_run(v->store);
		if (!v->over && store_server_withdrawn(v->store)) {
			if (refuse_others(v, RECORD_USED, err) < 0)
				return err->code;
			if (!v->command && v->o->verbose >= 0)
				report_note("all %d ranks have joined; this ends in a minute",
				            v->ticket.size);
		}
		int code = clock_ns() >= v->until ? take_end(v, err) : -1;
		code = code < 0 ? take_signal(v) : code;
		if (code >= 0)
			return code;
		const int64_t left = clock_ms_until(v->until);
		if (ms < 0 || left < ms)
			ms = (int)left;
		if (epoll_wait(v->epoll, &ev, 1, ms) < 0 && errno != EINTR)
			return err_errno(err, ERR_OTHER, "epoll_wait"), err->code;
	}
}

static int open_loop(struct invite *v, struct err *err)
{
	struct epoll_event signals = {.events = EPOLLIN}, store = signals;
	v->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (v->epoll < 0 || epoll_ctl(v->epoll, EPOLL_CTL_ADD, v->signals, &signals) < 0 ||
	    epoll_ctl(v->epoll, EPOLL_CTL_ADD, store_server_fd(v->store), &store) < 0)
		return err_errno(err, ERR_RESOURCE, "epoll");
	return 0;
}

int cmd_invite(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct err err = ERR_INIT;
	struct invite v = {.o = o, .argc = argc - 1, .argv = argv + 1, .signals = -1, .epoll = -1};
	int code = -1;
	if (v.argc && strcmp(v.argv[0], "collctl") == 0)
		v.argc--, v.argv++;
	private_process(NULL);
	v.signals = rank_parent_signals(&v.mask);
	if (v.signals < 0)
		err_errno(&err, ERR_RESOURCE, "signals");
	else if (o->request.settings.size < 1)
		err_set(&err, ERR_USAGE, "no size: give --size, the number of ranks");
	else if (o->request.settings.size > TICKET_SIZE_MAX)
		err_set(&err, ERR_USAGE, "--size %d: a ticket is for %d ranks at most",
		        o->request.settings.size, TICKET_SIZE_MAX);
	else if (check_command(&v, &err) == 0 && make_ticket(&v, &err) == 0 &&
	         serve(&v, &err) == 0 && find_addresses(&v, &err) == 0 &&
	         open_loop(&v, &err) == 0) {
		ticket_encode(&v.ticket, v.text);
		code = announce(&v);
		if (code == 0 && (!v.argc || start_command(&v, &err) == 0))
			code = loop(&v, &err);
	}
	store_server_stop(v.store);
	wipe(&v.ticket, sizeof v.ticket);
	wipe(v.text, sizeof v.text);
	if (v.epoll >= 0)
		close(v.epoll);
	if (v.signals >= 0)
		close(v.signals);
	return err.code ? report_failure(cmd->name, o->json && code < 0, &err) : code;
}
