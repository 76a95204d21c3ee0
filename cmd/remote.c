/* The far end of `run -H`: says that it is there, takes the job, runs the rank, and ends it when
 * run has gone (remote.h). */
#include "cmd/remote.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/report.h"
#include "cmd/run_rank.h"
#include "lib/base/io.h"
#include "lib/base/private.h"
#include "lib/base/version.h"
#include "lib/job/secret.h"
#include "lib/job/store_server.h"
#include "lib/net/addr.h"

#define GRACE (5 * NS_PER_SEC) /* from the first signal to SIGKILL */

struct remote {
	struct remote_job job;
	pid_t self, rank;           /* rank 0: it has ended */
	int listener;               /* for rank 0; -1: none */
	struct store_server *store; /* for the programs of all ranks; NULL: none */
	char token[SECRET_TEXT];    /* the store's; "-": none */
	char address[ADDR_TEXT];    /* at which ssh has reached this host; "-": not known */
	int signals;
	sigset_t mask;
	struct rlimit files, core;
	int64_t heard;
	int64_t kill_at;     /* 0: no signal has been sent to the rank; INT64_MAX: SIGKILL has */
	bool gone;           /* stdin has ended */
	bool expects_signal; /* the next byte is a signal's number */
};

/* ---- the beginning ---- */

/* SSH_CONNECTION: the client's address and port, this host's address and port. */
static void find_address(struct remote *r)
{
	const char *given = getenv("SSH_CONNECTION");
	char address[ADDR_TEXT];
	if (given && sscanf(given, "%*s %*s %60s", address) == 1)
		snprintf(r->address, sizeof r->address, "%s", address);
	else
		strcpy(r->address, "-");
}

/* Listen at @port (0: any) of the address that ssh has used; of any, if that is not known. */
static int open_listener(struct remote *r, int port, int *got, struct err *err)
{
	const bool known = strcmp(r->address, "-") != 0;
	struct addr a;
	if (addr_resolve(&a, known ? r->address : "0.0.0.0", port, true, err) < 0)
		return -1;
	r->listener = addr_listen(&a, 0, 0, SOMAXCONN, err);
	*got = addr_port(&a);
	return r->listener < 0 ? -1 : 0;
}

static int open_store(struct remote *r, int port, int *got, struct err *err)
{
	const bool known = strcmp(r->address, "-") != 0;
	char listen[ADDR_TEXT + 16];
	if (secret_random_text(r->token, err) < 0)
		return -1;
	addr_join(known ? r->address : "0.0.0.0", port, listen, sizeof listen);
	const struct store_server_conf conf = {.listen = listen, .token = r->token};
	r->store = store_server_start(&conf, err);
	if (r->store)
		*got = store_server_port(r->store);
	return r->store ? 0 : -1;
}

static int say_hello(const struct remote *r, int port, struct err *err)
{
	char line[512];
	const int n = snprintf(line, sizeof line, "\n" REMOTE_HELLO " %s %s %d %s\n",
	                       COLLCTL_VERSION, r->address, port, r->token);
	const int ret = write_all(STDERR_FILENO, line, (size_t)n);
	wipe(line, sizeof line);
	return ret < 0 ? err_errno(err, ERR_OTHER, "stderr") : 0;
}

/* Read @n bytes from run, which may wait for other hosts before it sends them. */
static int hear_run(void *to, size_t n, int64_t until, struct err *err)
{
	for (size_t at = 0; at < n;) {
		struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
		const int ready = io_retry(poll(&p, 1, clock_ms_until(until)));
		const ssize_t got =
		        ready > 0 ? io_retry(read(STDIN_FILENO, (char *)to + at, n - at)) : 0;
		if (ready == 0)
			return err_set(err, ERR_OTHER, "run sent no job");
		if (got <= 0)
			return err_set(err, ERR_OTHER, "run has gone before it sent a job");
		at += (size_t)got;
	}
	return 0;
}

static int take_job(struct remote *r, struct err *err)
{
	const int64_t until = clock_ns() + REMOTE_GREETING + REMOTE_SILENCE;
	uint8_t head[4];
	uint8_t *body = NULL;
	int ret = -1;
	if (hear_run(head, sizeof head, until, err) < 0)
		return -1;
	const size_t n = get_u32(head);
	if (n > REMOTE_JOB_MAX || !(body = malloc(n + 1)))
		return err_set(err, ERR_INTEGRITY, "a job of %zu bytes from run", n);
	if (hear_run(body, n, until, err) == 0)
		ret = remote_decode(&r->job, view_of(body, n), err);
	wipe(body, n);
	free(body);
	return ret;
}

/* ---- the rank ---- */

/* A program finds this collctl first. */
static void lead_path(void)
{
	char self[PATH_MAX], *slash;
	const char *path = getenv("PATH");
	const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	char *all;
	if (n <= 0)
		return;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash || slash == self)
		return;
	*slash = '\0';
	if (asprintf(&all, "%s:%s", self, path ? path : "/usr/bin:/bin") < 0 ||
	    setenv("PATH", all, 1) < 0)
		rank_die(ERR_RESOURCE, "PATH");
	free(all);
}

static _Noreturn void rank_main(struct remote *r)
{
	const struct remote_job *j = &r->job;
	char **argv = calloc((size_t)j->argc + 1, sizeof *argv); /* parsing sorts it */
	if (!argv)
		rank_die(ERR_RESOURCE, "the command");
	memcpy(argv, j->argv, (size_t)j->argc * sizeof *argv);
	const struct rank_setup setup = {.rank = j->rank,
	                                 .size = j->size,
	                                 .secret = j->secret,
	                                 .listener = r->listener,
	                                 .coordinator = j->meeting,
	                                 .program = j->program,
	                                 .rendezvous = j->meeting,
	                                 .token = j->token,
	                                 .json = j->json,
	                                 .verbose = j->verbose,
	                                 .argc = j->argc,
	                                 .argv = argv,
	                                 .mask = &r->mask,
	                                 .files = &r->files,
	                                 .core = &r->core};
	rank_die_with(r->self, SIGTERM);
	setpgid(0, 0);
	close(r->signals);
	rank_no_stdin();
	for (int i = 0; i < j->nvariables; i++)
		if (putenv(j->variables[i]) < 0)
			rank_die(ERR_RESOURCE, j->variables[i]);
	lead_path();
	rank_begin(&setup);
}

static int start_rank(struct remote *r, struct err *err)
{
	r->signals = rank_parent_signals(&r->mask);
	if (r->signals < 0)
		return err_errno(err, ERR_RESOURCE, "signals");
	if (*r->job.directory && chdir(r->job.directory) < 0)
		errno = 0; /* the home directory then */
	r->rank = fork();
	if (r->rank == 0)
		rank_main(r);
	if (r->rank < 0)
		return err_errno(err, ERR_RESOURCE, "cannot start rank %d", r->job.rank);
	setpgid(r->rank, r->rank);
	wipe_text(r->job.secret);
	if (r->listener >= 0)
		close(r->listener);
	return 0;
}

/* ---- until it ends ---- */

static void end_rank(struct remote *r, int sig)
{
	kill(-r->rank, sig);
	if (!r->kill_at)
		r->kill_at = clock_ns() + GRACE;
}

static void take_words(struct remote *r)
{
	uint8_t words[256];
	const ssize_t n = io_retry(read(STDIN_FILENO, words, sizeof words));
	if (n <= 0) {
		r->gone = true;
		end_rank(r, SIGTERM);
		return;
	}
	r->heard = clock_ns();
	for (ssize_t i = 0; i < n; i++) {
		if (r->expects_signal)
			end_rank(r, words[i]);
		r->expects_signal = !r->expects_signal && words[i] == REMOTE_SIGNAL;
	}
}

/* Returns the wait status once the rank has ended; -1: not yet. */
static int take_signals(struct remote *r)
{
	struct signalfd_siginfo info;
	int status;
	while (io_retry(read(r->signals, &info, sizeof info)) == (ssize_t)sizeof info)
		if (info.ssi_signo != SIGCHLD)
			end_rank(r, (int)info.ssi_signo);
	/* What is left of its group ends with it, while the group's number is still its own. */
	siginfo_t ended = {0};
	if (waitid(P_PID, (id_t)r->rank, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	    ended.si_pid && r->kill_at)
		kill(-r->rank, SIGKILL);
	return waitpid(r->rank, &status, WNOHANG) == r->rank ? status : -1;
}

static int64_t next_deadline(const struct remote *r)
{
	return r->kill_at ? r->kill_at : r->heard + REMOTE_SILENCE;
}

static void end_silent(struct remote *r)
{
	report_note("run has said nothing for %d s: its rank %d here is ended",
	            (int)(REMOTE_SILENCE / NS_PER_SEC), r->job.rank);
	end_rank(r, SIGTERM);
}

static int supervise(struct remote *r)
{
	int status = -1;
	r->heard = clock_ns();
	while (status < 0) {
		const int served = r->store ? store_server_run(r->store) : -1;
		int wait = clock_ms_until(next_deadline(r));
		if (served >= 0 && served < wait)
			wait = served;
		struct pollfd p[] = {
		        {.fd = r->signals, .events = POLLIN},
		        {.fd = r->gone ? -1 : STDIN_FILENO, .events = POLLIN},
		        {.fd = r->store ? store_server_fd(r->store) : -1, .events = POLLIN}};
		poll(p, 3, wait);
		if (p[1].revents)
			take_words(r);
		if (p[0].revents)
			status = take_signals(r);
		if (status < 0 && clock_ns() >= next_deadline(r)) {
			if (r->kill_at) {
				kill(-r->rank, SIGKILL);
				r->kill_at = INT64_MAX;
			} else {
				end_silent(r);
			}
		}
	}
	return rank_exit_code(status);
}

int remote_main(int argc, char **argv)
{
	struct remote r = {.self = getpid(), .listener = -1, .signals = -1, .token = "-"};
	struct err err = {.rank = ERR_RANK_SELF};
	const char *what = argc > 1 ? argv[1] : "";
	const int wanted = argc > 2 ? atoi(argv[2]) : 0;
	int port = 0, code;
	(void)signal(SIGPIPE, SIG_IGN);
	raise_file_limit(&r.files);
	private_process(&r.core);
	find_address(&r);
	if (strcmp(what, REMOTE_LISTENER) == 0)
		open_listener(&r, wanted, &port, &err);
	else if (strcmp(what, REMOTE_STORE) == 0)
		open_store(&r, wanted, &port, &err);
	if (!err.code && say_hello(&r, port, &err) == 0 && take_job(&r, &err) == 0 &&
	    start_rank(&r, &err) == 0)
		code = supervise(&r);
	else
		code = report(&err, -1);
	store_server_stop(r.store);
	remote_release(&r.job);
	return code;
}
