/* The far end of `run -H`: says that it is there, takes the job, runs the rank, and ends it when
 * run has gone (remote.h). */
#include "cmd/run/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/run/run_rank.h"
#include "cmd/text/bar.h"
#include "cmd/text/report.h"
#include "lib/base/io.h"
#include "lib/base/private.h"
#include "lib/base/version.h"
#include "lib/crypto/secret.h"
#include "lib/net/addr.h"
#include "lib/store/server/store_server.h"

#define GRACE (5 * NS_PER_SEC)      /* for a program that no run can kill, to end */
#define BEGIN (2 * REMOTE_GREETING) /* for run's next step: it asks all hosts meanwhile */
#define CHUNK 32768                 /* bytes of the rank's stderr, at once */
#define REST  (1 << 20)             /* what is read of it after its end: others may have it open */

/* What is on the way to run. Nothing else writes to stderr meanwhile. */
struct out {
	char bytes[2 * CHUNK + 512]; /* a stuffed chunk, a note and messages */
	size_t at, len;              /* bytes[at..len) */
};

struct remote {
	struct remote_job job;
	pid_t self, rank;
	int listener;               /* for rank 0, or a rank that might have become it; -1: none */
	struct store_server *store; /* for the programs of all ranks; NULL: none */
	struct remote_hello hello;
	int signals;
	sigset_t mask;
	struct rlimit files, core;
	int errors,
	        verdict; /* from the rank: its stderr, and a byte after the verdict; -1: ended */
	int cleared;     /* an eventfd, to tell the rank that its bar is cleared; -1: it has none */
	struct out out;
	size_t rest;         /* bytes of `errors` that are still read */
	int status;          /* of the rank; -1: it has not ended */
	int64_t heard;       /* when run said something */
	int64_t say_at;      /* the next REMOTE_ALIVE */
	bool signalled;      /* the rank has got a signal */
	int64_t kill_at;     /* when the rank gets SIGKILL unless run says so before; 0: never */
	bool gone;           /* run has gone: its pipes have ended, or it is silent */
	bool expects_signal; /* the next byte is a signal's number */
};

/* ---- the beginning ---- */

/* SSH_CONNECTION: the client's address and port, this host's address and port. */
static void find_address(struct remote *r)
{
	const char *given = getenv("SSH_CONNECTION");
	char address[ADDR_TEXT];
	if (given && sscanf(given, "%*s %*s %60s", address) == 1)
		snprintf(r->hello.address, sizeof r->hello.address, "%s", address);
	else
		strcpy(r->hello.address, "-");
}

/* Listen at @port (0: any) of the address that ssh has used; of all, IPv4 and IPv6, if that is not
 * known. */
static int open_listener(struct remote *r, int port, struct err *err)
{
	const bool known = strcmp(r->hello.address, "-") != 0;
	struct addr a;
	if (addr_resolve(&a, known ? r->hello.address : "", port, true, err) < 0)
		return -1;
	r->listener = addr_listen(&a, 0, 0, SOMAXCONN, err);
	r->hello.port = addr_port(&a);
	return r->listener < 0 ? -1 : 0;
}

static int open_store(struct remote *r, int port, struct err *err)
{
	const bool known = strcmp(r->hello.address, "-") != 0;
	char listen[ADDR_TEXT + 16];
	if (secret_random_text(r->hello.token, err) < 0)
		return -1;
	addr_join(known ? r->hello.address : "", port, listen, sizeof listen);
	const struct store_server_conf conf = {.listen = listen, .token = r->hello.token};
	r->store = store_server_start(&conf, err);
	if (r->store)
		r->hello.port = store_server_port(r->store);
	return r->store ? 0 : -1;
}

static int say_hello(struct remote *r, struct err *err)
{
	char line[512];
	const int n = remote_write_hello(&r->hello, line, sizeof line);
	wipe_text(r->hello.token);
	const int ret = write_all(STDERR_FILENO, line, (size_t)n);
	wipe(line, sizeof line);
	return ret < 0 ? err_errno(err, ERR_OTHER, "stderr") : 0;
}

/* Read @n bytes from run, which may wait for other hosts before it sends them. @what they are. */
static int hear_run(void *to, size_t n, int64_t until, const char *what, struct err *err)
{
	for (size_t at = 0; at < n;) {
		struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
		const int ready = io_retry(poll(&p, 1, clock_ms_until(until)));
		const ssize_t got =
		        ready > 0 ? io_retry(read(STDIN_FILENO, (char *)to + at, n - at)) : 0;
		if (ready == 0)
			return err_set(err, ERR_OTHER, "run has sent no %s for %d s", what,
			               (int)(BEGIN / NS_PER_SEC));
		if (got <= 0)
			return err_set(err, ERR_OTHER, "run ended before it sent a %s", what);
		at += (size_t)got;
	}
	return 0;
}

static int take_job(struct remote *r, struct err *err)
{
	const int64_t until = clock_ns() + BEGIN;
	uint8_t head[4];
	uint8_t *body = NULL;
	int ret = -1;
	if (hear_run(head, sizeof head, until, "job", err) < 0)
		return -1;
	const size_t n = get_u32(head);
	if (n > REMOTE_JOB_MAX || !(body = malloc(n + 1)))
		return err_set(err, ERR_INTEGRITY, "a job of %zu bytes from run", n);
	if (hear_run(body, n, until, "job", err) == 0)
		ret = remote_decode(&r->job, view_of(body, n), err);
	wipe(body, n);
	free(body);
	return ret;
}

static int send_message(int what, int value, struct err *err)
{
	const char bytes[REMOTE_MESSAGE] = {'\0', (char)what, (char)value};
	if (write_all(STDERR_FILENO, bytes, sizeof bytes) < 0)
		return err_errno(err, ERR_OTHER, "stderr");
	return 0;
}

/* Enter the job's folder; run knows whether all hosts have, and says whether to begin. */
static int await_go(const struct remote *r, struct err *err)
{
	char go;
	const char *folder = r->job.directory;
	const int cause = *folder && chdir(folder) < 0 ? errno : 0;
	if (send_message(REMOTE_READY, cause, err) < 0 ||
	    hear_run(&go, 1, clock_ns() + BEGIN, "word to begin", err) < 0)
		return -1;
	if (go != REMOTE_GO)
		return err_set(err, ERR_INTEGRITY, "the first word from run is unknown");
	return 0;
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

static _Noreturn void rank_main(struct remote *r, int errors, int verdict)
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
	                                 .verdict = verdict,
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
	close(r->errors);
	close(r->verdict);
	if (j->rank != 0 && r->listener >= 0)
		close(r->listener);
	rank_no_stdin();
	rank_replace_fd(STDERR_FILENO, errors);
	close(errors);
	if (r->cleared >= 0)
		bar_launched_far(j->columns, r->cleared);
	for (int i = 0; i < j->nvariables; i++)
		if (putenv(j->variables[i]) < 0)
			rank_die(ERR_RESOURCE, j->variables[i]);
	lead_path();
	rank_begin(&setup);
}

/* A pipe from the rank, which this end reads without waiting. */
static int open_pipe(int *from, int *to, struct err *err)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_errno(err, ERR_RESOURCE, "a pipe for the rank");
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	*from = fds[0];
	*to = fds[1];
	return 0;
}

static int start_rank(struct remote *r, struct err *err)
{
	int errors = -1, verdict = -1;
	r->signals = rank_parent_signals(&r->mask);
	if (r->signals < 0)
		return err_errno(err, ERR_RESOURCE, "signals");
	if (r->job.rank == 0 && !r->job.program && r->job.columns > 0 &&
	    (r->cleared = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
		return err_errno(err, ERR_RESOURCE, "eventfd");
	if (open_pipe(&r->errors, &errors, err) < 0 || open_pipe(&r->verdict, &verdict, err) < 0)
		return -1;
	r->rank = fork();
	if (r->rank == 0)
		rank_main(r, errors, verdict);
	close(errors);
	close(verdict);
	if (r->rank < 0)
		return err_errno(err, ERR_RESOURCE, "cannot start rank %d", r->job.rank);
	setpgid(r->rank, r->rank);
	wipe_text(r->job.secret);
	if (r->listener >= 0)
		close(r->listener);
	return 0;
}

/* ---- until it ends ---- */

static void signal_rank(struct remote *r, int sig)
{
	kill(-r->rank, sig);
	r->signalled = true;
}

/* As run does it, when no run is there to do it. */
static void end_alone(struct remote *r, int sig)
{
	signal_rank(r, sig);
	signal_rank(r, SIGCONT); /* it may be stopped */
	if (!r->kill_at)
		r->kill_at = clock_ns() + (r->job.program ? GRACE : r->job.silence);
}

static void run_has_gone(struct remote *r)
{
	if (!r->gone && r->status < 0)
		end_alone(r, SIGTERM);
	r->gone = true;
}

static void take_words(struct remote *r)
{
	uint8_t words[256];
	const ssize_t n = io_retry(read(STDIN_FILENO, words, sizeof words));
	if (n <= 0) {
		run_has_gone(r);
		return;
	}
	r->heard = clock_ns();
	for (ssize_t i = 0; i < n; i++) {
		if (r->expects_signal && r->status < 0)
			signal_rank(r, words[i]);
		if (!r->expects_signal && words[i] == REMOTE_CLEARED && r->cleared >= 0)
			event_signal(r->cleared);
		r->expects_signal = !r->expects_signal && words[i] == REMOTE_SIGNAL;
	}
}

/* ---- to run ---- */

static void put_message(struct remote *r, enum remote_message what, int value)
{
	const char bytes[REMOTE_MESSAGE] = {'\0', (char)what, (char)value};
	struct out *o = &r->out;
	if (sizeof o->bytes - o->len < sizeof bytes)
		return; /* more than a rank has to say */
	memcpy(o->bytes + o->len, bytes, sizeof bytes);
	o->len += sizeof bytes;
}

static void put_note(struct remote *r, const char *text)
{
	struct out *o = &r->out;
	const int n = snprintf(o->bytes + o->len, sizeof o->bytes - o->len, "collctl: %s\n", text);
	if (n > 0 && (size_t)n < sizeof o->bytes - o->len)
		o->len += (size_t)n;
}

static void send_out(struct remote *r)
{
	struct out *o = &r->out;
	const ssize_t n = io_retry(write(STDERR_FILENO, o->bytes + o->at, o->len - o->at));
	if (n < 0 && errno != EAGAIN) {
		*o = (struct out){0};
		run_has_gone(r);
		return;
	}
	o->at += n > 0 ? (size_t)n : 0;
	if (o->at == o->len)
		o->at = o->len = 0;
}

static void close_pipe(int *fd)
{
	close(*fd);
	*fd = -1;
}

/* Take a chunk of the rank's stderr, when run has taken the last. */
static void take_errors(struct remote *r)
{
	char bytes[CHUNK];
	const size_t most = r->rest < sizeof bytes ? r->rest : sizeof bytes;
	const ssize_t n = io_retry(read(r->errors, bytes, most));
	if (n > 0) {
		r->out.len += remote_stuff(bytes, (size_t)n, r->out.bytes + r->out.len);
		if (r->status >= 0)
			r->rest -= (size_t)n;
	} else if (n == 0 || errno != EAGAIN || r->status >= 0) {
		close_pipe(&r->errors);
	}
}

static void take_verdict(struct remote *r)
{
	char byte;
	const ssize_t n = io_retry(read(r->verdict, &byte, 1));
	if (n < 0 && errno == EAGAIN)
		return;
	if (n > 0)
		put_message(r, REMOTE_VERDICT, 0);
	close_pipe(&r->verdict);
}

/* ---- signals and time ---- */

static void take_end(struct remote *r)
{
	/* What is left of its group ends with it, while the group's number is still its own. */
	siginfo_t ended = {0};
	if (waitid(P_PID, (id_t)r->rank, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	    ended.si_pid && r->signalled)
		kill(-r->rank, SIGKILL);
	if (waitpid(r->rank, &r->status, WNOHANG) != r->rank)
		return;
	if (r->verdict >= 0)
		take_verdict(r);
	put_message(r, REMOTE_ENDED, rank_exit_code(r->status));
	r->kill_at = 0;
}

static void take_signals(struct remote *r)
{
	struct signalfd_siginfo info;
	while (io_retry(read(r->signals, &info, sizeof info)) == (ssize_t)sizeof info) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		if (r->status < 0)
			end_alone(r, (int)info.ssi_signo);
		else
			r->gone = true;
	}
	if (r->status < 0)
		take_end(r);
}

static int64_t next_deadline(const struct remote *r)
{
	int64_t at = r->gone ? INT64_MAX : r->heard + r->job.silence;
	if (r->kill_at && r->kill_at < at)
		at = r->kill_at;
	return r->out.len == 0 && r->say_at < at ? r->say_at : at;
}

static void end_silent(struct remote *r)
{
	char text[128];
	snprintf(text, sizeof text,
	         "run has said nothing for %d s: rank %d on this host is "
	         "ended",
	         (int)(r->job.silence / NS_PER_SEC), r->job.rank);
	put_note(r, text);
	run_has_gone(r);
}

static void keep_time(struct remote *r)
{
	const int64_t now = clock_ns();
	if (r->kill_at && now >= r->kill_at) {
		kill(-r->rank, SIGKILL);
		r->kill_at = 0;
	} else if (!r->gone && now >= r->heard + r->job.silence) {
		end_silent(r);
	}
	if (now >= r->say_at) {
		/* What run has not taken yet shows as well that this end is there. */
		if (r->out.len == 0)
			put_message(r, REMOTE_ALIVE, 0);
		r->say_at = now + remote_every(r->job.silence);
	}
}

/* Has all been said, or is nobody there to hear it? */
static bool is_over(const struct remote *r)
{
	return r->status >= 0 && (r->gone || (r->errors < 0 && r->out.len == 0));
}

static int supervise(struct remote *r)
{
	const int flags = fcntl(STDERR_FILENO, F_GETFL);
	fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
	r->heard = r->say_at = clock_ns();
	while (!is_over(r)) {
		const int served = r->store ? store_server_run(r->store) : -1;
		int wait = clock_ms_until(next_deadline(r));
		const bool full = r->out.len > 0;
		if (served >= 0 && served < wait)
			wait = served;
		if (r->status >= 0 && r->errors >= 0 && !full)
			wait = 0; /* the rest: what is there now */
		struct pollfd p[] = {
		        {.fd = r->signals, .events = POLLIN},
		        {.fd = r->gone ? -1 : STDIN_FILENO, .events = POLLIN},
		        {.fd = r->store ? store_server_fd(r->store) : -1, .events = POLLIN},
		        {.fd = full ? -1 : r->errors, .events = POLLIN},
		        {.fd = r->verdict, .events = POLLIN},
		        {.fd = full ? STDERR_FILENO : -1, .events = POLLOUT}};
		poll(p, 6, wait);
		if (p[1].revents)
			take_words(r);
		if (p[3].revents || (r->status >= 0 && r->errors >= 0 && !full))
			take_errors(r);
		if (p[4].revents)
			take_verdict(r);
		if (p[0].revents)
			take_signals(r);
		keep_time(r);
		if (r->out.len)
			send_out(r);
	}
	fcntl(STDERR_FILENO, F_SETFL, flags);
	return rank_exit_code(r->status);
}

int remote_main(int argc, char **argv)
{
	struct remote r = {.listener = -1,
	                   .signals = -1,
	                   .errors = -1,
	                   .verdict = -1,
	                   .cleared = -1,
	                   .status = -1,
	                   .rest = REST};
	struct err err = ERR_INIT;
	const char *what = argc > 1 ? argv[1] : "";
	const int wanted = argc > 2 ? atoi(argv[2]) : 0;
	int code;
	r.self = getpid();
	strcpy(r.hello.version, COLLCTL_VERSION);
	strcpy(r.hello.token, "-");
	(void)signal(SIGPIPE, SIG_IGN);
	raise_file_limit(&r.files);
	private_process(&r.core);
	find_address(&r);
	if (strcmp(what, REMOTE_LISTENER) == 0)
		open_listener(&r, wanted, &err);
	else if (strcmp(what, REMOTE_STORE) == 0)
		open_store(&r, wanted, &err);
	if (!err.code && say_hello(&r, &err) == 0 && take_job(&r, &err) == 0 &&
	    await_go(&r, &err) == 0 && start_rank(&r, &err) == 0)
		code = supervise(&r);
	else
		code = report(&err, -1);
	store_server_stop(r.store);
	remote_release(&r.job);
	return code;
}
