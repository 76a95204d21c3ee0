/*
 * `collctl run`: N ranks on this host with a new secret.
 *
 * For a command of collctl it only forks: the child calls collctl_main, so that a hundred ranks
 * start in the time of a few execs. It needs no store: rank 0 inherits a listening socket
 * (COLLCTL_LISTEN_FD), the others get its address (COLLCTL_COORDINATOR). Any other COMMAND is a
 * program, which may call collctl any number of times; for programs `run` serves a store.
 *
 * One epoll loop watches signals and the ranks' stderr. The first rank that fails determines the
 * exit code. The others learn of the failure through the job and get time to report it and to clean
 * up.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/commands.h"
#include "cmd/run/run_internal.h"
#include "cmd/run/run_rank.h"
#include "cmd/text/bar.h"
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/private.h"
#include "lib/base/text.h"
#include "lib/crypto/crypto.h"
#include "lib/crypto/secret.h"
#include "lib/net/addr.h"
#include "lib/net/tls/tls.h"

/* ---- in the child ---- */

static void close_inherited(const struct run *r, int rank)
{
	close(r->epoll);
	close(r->signals);
	for (int i = 0; i <= rank; i++) {
		if (r->ranks[i].in >= 0)
			close(r->ranks[i].in);
		if (r->ranks[i].err.from >= 0)
			close(r->ranks[i].err.from);
		if (r->o->label && r->ranks[i].out.from >= 0)
			close(r->ranks[i].out.from);
		if (r->ranks[i].json >= 0)
			close(r->ranks[i].json);
		if (r->ranks[i].cleared >= 0 && i != rank)
			close(r->ranks[i].cleared);
	}
}

/* run draws the bar on the terminal, which is still stderr here. */
static void send_bars(int cleared)
{
	int terminal = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

	if (terminal < 0)
		rank_die(ERR_RESOURCE, "the terminal");
	bar_launched(terminal, cleared);
}

void run_wipe_secrets(struct run *r)
{
	wipe(r->secret, sizeof r->secret);
	wipe(r->token, sizeof r->token);
}

/* @in, @out, @err: the pipes' ends for this rank, or -1. */
static _Noreturn void rank_main(struct run *r, int rank, int in, int out, int err)
{
	char address[64];
	struct rank_setup setup = {.rank = rank,
	                           .size = r->size,
	                           .secret = r->secret,
	                           .listener = r->listener,
	                           .verdict = -1,
	                           .coordinator = address,
	                           .program = r->program,
	                           .rendezvous = address,
	                           .token = r->token,
	                           .json = r->o->json,
	                           .verbose = r->o->verbose,
	                           .argc = r->argc,
	                           .argv = r->argv,
	                           .mask = &r->caller_mask,
	                           .files = &r->caller_files,
	                           .core = &r->caller_core};

	rank_die_with(r->self, SIGTERM);
	if (r->ranks[rank].own_group)
		setpgid(0, 0);
	close_inherited(r, rank);
	if (rank != 0 && in < 0)
		rank_no_stdin();
	if (out >= 0)
		rank_replace_fd(STDOUT_FILENO, out);
	if (r->ranks[rank].err.bars)
		send_bars(r->ranks[rank].cleared);
	rank_replace_fd(STDERR_FILENO, err);
	if (out >= 0)
		close(out);
	close(err);
	if (in >= 0)
		ssh_begin(r, rank, in);
	snprintf(address, sizeof address, "%s127.0.0.1:%d", r->program ? "http://" : "", r->port);
	rank_begin(&setup);
}

static bool await_reader(void *ctx, int fd); /* a lines_wait */

/* ---- starting ---- */

static int open_listener(struct run *r, struct err *err)
{
	struct addr addr;

	if (addr_resolve(&addr, "127.0.0.1", 0, true, err) < 0)
		return -1;
	r->listener = addr_listen(&addr, 0, 0, SOMAXCONN, err);
	if (r->listener < 0)
		return -1;
	r->port = addr_port(&addr);
	return 0;
}

static int open_loop(struct run *r, struct err *err)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

	r->signals = rank_parent_signals(&r->caller_mask);
	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (r->signals < 0 || r->epoll < 0 ||
	    epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->signals, &event) < 0)
		return err_errno(err, ERR_RESOURCE, "the event loop");
	return 0;
}

static int watch(const struct run *r, struct lines *l, struct err *err)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = l};

	if (epoll_ctl(r->epoll, EPOLL_CTL_ADD, l->from, &event) < 0)
		return err_errno(err, ERR_RESOURCE, "the event loop");
	return 0;
}

static int watch_rank(const struct run *r, struct rank *rank, struct err *err)
{
	if (watch(r, &rank->err, err) < 0)
		return -1;
	return rank->out.from < 0 ? 0 : watch(r, &rank->out, err);
}

/* The rank's bar is cleared, as it has asked. */
static void bar_cleared(void *ctx)
{
	const struct rank *rank = ctx;

	if (rank->host)
		ssh_cleared(rank);
	else
		event_signal(rank->cleared);
}

void run_place(struct run *r, int i)
{
	struct rank *rank = &r->ranks[i];
	char host[81];

	rank->err.rank = rank->out.rank = i;
	rank->err.filter_ctx = &rank->link;
	rank->err.progress = i == 0 ? LINES_PROGRESS_PASS : LINES_PROGRESS_DROP;
	rank->err.bars = i == 0 && !r->program && bar_possible();
	rank->err.cleared = bar_cleared;
	rank->err.cleared_ctx = rank;
	if (rank->host)
		snprintf(rank->err.prefix, sizeof rank->err.prefix, "[%d %s] ", i,
		         text_escape(host, sizeof host, rank->host));
	if (r->o->label)
		memcpy(rank->out.prefix, rank->err.prefix, sizeof rank->out.prefix);
}

static int start_rank(struct run *r, int i, struct err *err)
{
	struct rank *rank = &r->ranks[i];
	int in[2] = {-1, -1}, out = -1, errors = -1, ret = -1;

	/* A terminal's reader must stay in the terminal's own group. */
	rank->own_group = i != 0 || r->hosts.nhosts || !isatty(STDIN_FILENO);
	if (r->hosts.nhosts && pipe2(in, O_CLOEXEC) < 0)
		return err_errno(err, ERR_RESOURCE, "a pipe to rank %d", i);
	rank->in = in[1];
	if (in[1] >= 0)
		fcntl(in[1], F_SETFL, O_NONBLOCK);
	if (lines_open(&rank->err, i, STDERR_FILENO, &errors, err) < 0)
		goto done;
	rank->err.echoes = &r->echoes;
	rank->err.wait = await_reader;
	rank->err.wait_ctx = r;
	rank->err.filter = r->hosts.nhosts ? ssh_hear : NULL;
	if (r->json) {
		rank->json = memfd_create("stdout of a rank", MFD_CLOEXEC);
		out = rank->json < 0 ? -1 : fcntl(rank->json, F_DUPFD_CLOEXEC, 0);
		if (out < 0) {
			err_errno(err, ERR_RESOURCE, "a file for the result of rank %d", i);
			goto done;
		}
	} else if (r->o->label && lines_open(&rank->out, i, STDOUT_FILENO, &out, err) < 0)
		goto done;
	run_place(r, i);
	if (!r->hosts.nhosts && watch_rank(r, rank, err) < 0)
		goto done;
	if (rank->err.bars && !rank->host &&
	    (rank->cleared = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
		err_errno(err, ERR_RESOURCE, "eventfd");
		goto done;
	}
	rank->pid = fork();
	if (rank->pid == 0)
		rank_main(r, i, in[0], out, errors);
	if (rank->pid < 0) {
		rank->pid = 0;
		err_errno(err, ERR_RESOURCE, "cannot start rank %d of %d", i, r->size);
		goto done;
	}
	if (rank->own_group)
		setpgid(rank->pid, rank->pid); /* in both processes, because either may be first */
	r->live++;
	ret = 0;
done:
	if (in[0] >= 0)
		close(in[0]);
	if (out >= 0)
		close(out);
	if (errors >= 0)
		close(errors);
	return ret;
}

/* Only rank 0 keeps the listener: if it dies, the others must not wait in its queue. */
static void drop_listener(struct run *r)
{
	if (r->listener >= 0)
		close(r->listener);
	r->listener = -1;
}

/* Each host answers before any rank begins. */
static int start_elsewhere(struct run *r, struct err *err)
{
	if (ssh_greet(r, err) < 0)
		return -1;
	for (int i = 0; i < r->size; i++)
		if (watch_rank(r, &r->ranks[i], err) < 0)
			return -1;
	return 0;
}

/* The ranks of a collective inherit what OpenSSL has loaded: this would take most of the
 * processors' time of a small job. A failure is left to them, who begin in the same way. */
static void begin_crypto(const struct run *r)
{
	struct err ignored = {0};

	if (crypto_begin(&ignored) == 0 && !r->insecure)
		tls_free(tls_new(&ignored));
}

static int start_ranks(struct run *r, struct err *err)
{
	if (!r->program && !r->hosts.nhosts && r->size > 1)
		begin_crypto(r);
	fflush(NULL); /* else each child would print stdio's buffer again */
	for (int i = 0; i < r->size; i++) {
		if (start_rank(r, i, err) < 0)
			return -1;
		drop_listener(r);
	}
	int ret = r->hosts.nhosts ? start_elsewhere(r, err) : 0;
	run_wipe_secrets(r);
	return ret;
}

static int prepare(struct run *r, struct err *err)
{
	if (r->program && r->o->json)
		return err_set(err, ERR_USAGE,
		               "run: --json needs a collective: run does not change the output of "
		               "a program");
	if (r->program && !r->hosts.nhosts && run_check_program(r->argv[0], err) < 0)
		return -1;
	r->ranks = err_calloc((size_t)r->size, sizeof *r->ranks, "the table of ranks", err);
	/* The ranks of a program may work in different folders and fail for different reasons:
	 * messages are equivalent only if they name the rank. */
	r->echoes.mark = r->program ? "collctl: rank" : "collctl: ";
	r->echoes.ranks = r->size;
	if (!r->ranks)
		return -1;
	for (int i = 0; i < r->size; i++)
		r->ranks[i].out.from = r->ranks[i].err.from = r->ranks[i].json = r->ranks[i].in =
		        r->ranks[i].code = r->ranks[i].cleared = -1;
	/* Needed for one or two pipes per rank, and in each rank for connections to many others. */
	raise_file_limit(&r->caller_files);
	char outputs[64];
	snprintf(outputs, sizeof outputs, "the output of %d ranks", r->size);
	const int each = (r->json || r->o->label ? 2 : 1) + (r->hosts.nhosts ? 1 : 0);
	if (need_descriptors(r->size * each + SPARE_DESCRIPTORS, outputs, err) < 0)
		return -1;
	private_process(&r->caller_core);
	/* run makes a new secret for its ranks. */
	wipe_free(private_variable("COLLCTL_SECRET", err));
	wipe_free(private_variable("COLLCTL_STORE_TOKEN", err));
	if (err->code)
		return -1;
	if (open_loop(r, err) < 0 || secret_random_text(r->secret, err) < 0)
		return -1;
	if (r->hosts.nhosts)
		return ssh_prepare(r, err);
	if (!r->program)
		return open_listener(r, err);
	return secret_random_text(r->token, err) < 0 ? -1 : run_start_store(r, err);
}

/* ---- ending ---- */

static int find_rank(const struct run *r, pid_t pid)
{
	for (int i = 0; i < r->size; i++)
		if (r->ranks[i].pid == pid)
			return i;
	return -1;
}

static void describe_failure(const struct run *r, int rank, int status, struct err *err)
{
	if (r->ranks[rank].host)
		ssh_failure(r, rank, status, err);
	else if (WIFSIGNALED(status))
		err_rank(err, 128 + WTERMSIG(status), rank, "killed by signal %d (%s)",
		         WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		err_rank(err, WEXITSTATUS(status), rank, "%s ended with exit code %d", r->argv[0],
		         WEXITSTATUS(status));
}

/* Handle the first failure: report it if the rank could not, and let the others end. */
static void first_failure(struct run *r, int rank, int status, bool lost)
{
	struct err err = ERR_INIT;

	describe_failure(r, rank, status, &err);
	r->code = err.code;
	r->failure = err;
	/* A collective has reported its failure; a program may not have. */
	if (r->ending == NOT_ENDING)
		end_ranks(r, ENDING_BY_THEMSELVES);
	if (lost && !r->program) { /* report_loss reports it, when all have said what they know */
		r->lost = rank;
		r->lost_status = status;
		return;
	}
	if (!r->signal && (lost || WIFSIGNALED(status) || (r->program && r->o->verbose >= 0)) &&
	    await_reader(r, STDERR_FILENO))
		report(&err, -1);
}

/* All ranks of a collective have ended, and the first failure was the loss of one: how did the job
 * end? */
static void report_loss(struct run *r)
{
	if (r->lost < 0)
		return;
	r->failure = ERR_INIT;
	ssh_failure(r, r->lost, r->lost_status, &r->failure);
	if (!r->signal && await_reader(r, STDERR_FILENO))
		report(&r->failure, -1);
}

/* May the job go on without @rank, which has failed? A rank that was killed could not say why. */
static bool is_spared(struct run *r, int rank, int status, bool lost)
{
	struct err why = ERR_INIT;

	if (!r->fewest || (r->ending != NOT_ENDING && !r->over) || rank == 0 || rank == r->root ||
	    r->size - r->spared - 1 < r->fewest)
		return false;
	r->spared++;
	if (WIFSIGNALED(status) && r->killed < 0) {
		r->killed = rank;
		r->killed_status = status;
	}
	describe_failure(r, rank, status, &why);
	if ((lost || WIFSIGNALED(status)) && r->o->verbose >= 0)
		report_note("rank %d: %s; the job may go on without it (--min-ranks)", rank,
		            why.text);
	return true;
}

/* @rank has succeeded. Rank 0 ends after all that take part in the job: another rank may stand
 * still.
 */
static void look_at_end(struct run *r, int rank)
{
	if (rank || !r->fewest || r->ending != NOT_ENDING)
		return;
	r->over = true;
	end_ranks(r, ENDING_BY_THEMSELVES);
}

/*
 * Reap all ended ranks. Among several failures a death by a signal counts as the first, because the
 * other failures are its consequences.
 */
static void reap(struct run *r)
{
	int failed = -1, failed_status = 0, status;
	bool lost, failed_lost = false;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == r->store) {
			r->store = 0;
			report_note("the store has ended; ranks may fail to find each other");
			continue;
		}
		int rank = find_rank(r, pid);
		if (rank < 0)
			continue;
		r->ranks[rank].pid = 0;
		r->live--;
		if (r->ranks[rank].host)
			lines_fetch(&r->ranks[rank].err); /* the rank's code may be there */
		status = ssh_status(&r->ranks[rank], status, &lost);
		if (!lost)
			r->ranks[rank].code = rank_exit_code(status);
		if (status == 0)
			look_at_end(r, rank);
		if (status == 0 || is_spared(r, rank, status, lost))
			continue;
		if (failed < 0 || (WIFSIGNALED(status) && !WIFSIGNALED(failed_status))) {
			failed = rank;
			failed_status = status;
			failed_lost = lost;
		}
	}
	if (failed < 0 || r->code)
		return;
	/* A rank that lost another one because that was killed: it could not be done without. */
	if (r->killed >= 0 && rank_exit_code(failed_status) == ERR_PEER_LOST)
		first_failure(r, r->killed, r->killed_status, false);
	else
		first_failure(r, failed, failed_status, failed_lost);
}

static void take_signals(struct run *r)
{
	struct signalfd_siginfo info;

	while (io_retry(read(r->signals, &info, sizeof info)) == (ssize_t)sizeof info)
		if (info.ssi_signo != SIGCHLD)
			end_by_signal(r, (int)info.ssi_signo, info.ssi_code == SI_KERNEL);
	reap(r);
}

/* Milliseconds until the next deadline, also of the next sign of life to other hosts, which it
 * sends if it is time. -1: none. */
static int next_wait(struct run *r)
{
	const int left = end_wait(r), alive = ssh_keep_alive(r);

	return left < 0 || (alive >= 0 && alive < left) ? alive : left;
}

/*
 * Wait until @fd is writable, and handle signals and ended ranks meanwhile. False, without waiting,
 * after a signal that ends run.
 */
static bool await_reader(void *ctx, int fd)
{
	struct run *r = ctx;

	for (;;) {
		struct pollfd p[] = {{.fd = fd, .events = POLLOUT},
		                     {.fd = r->signals, .events = POLLIN}};
		poll(p, 2, r->signal ? 0 : next_wait(r));
		if (p[0].revents)
			return true;
		if (r->signal)
			return false;
		if (p[1].revents)
			take_signals(r);
		else
			end_keep_time(r);
	}
}

static void pump(const struct run *r, struct lines *l)
{
	if (l->from < 0 || lines_pump(l))
		return;
	/* close() ends the watch only if no other process has the pipe open. */
	epoll_ctl(r->epoll, EPOLL_CTL_DEL, l->from, NULL);
	lines_release(l);
}

/* What reap has fetched: the pipe may be empty, and another process may have it open. */
static void pump_fetched(const struct run *r)
{
	for (int i = 0; i < r->size; i++)
		while (r->ranks[i].err.nahead)
			pump(r, &r->ranks[i].err);
}

static void supervise(struct run *r)
{
	struct epoll_event events[64];

	reap(r); /* ssh_greet may have taken the signal of one that has ended */
	while (r->live > 0) {
		int n = epoll_wait(r->epoll, events, 64, next_wait(r));
		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr)
				pump(r, events[i].data.ptr);
			else
				take_signals(r);
		}
		pump_fetched(r);
		if (r->live > 0)
			end_keep_time(r);
	}
	for (int i = 0; i < r->size; i++) {
		lines_drain(&r->ranks[i].out);
		lines_drain(&r->ranks[i].err);
	}
	if (await_reader(r, STDERR_FILENO))
		bar_clear(); /* the bar of a killed rank */
	report_loss(r);
}

/* What the rank has printed with --json, to be read from the start; NULL: nothing. */
static FILE *take_result(struct rank *rank)
{
	FILE *f = rank->json < 0 ? NULL : fdopen(rank->json, "r");

	rank->json = -1;
	if (f)
		rewind(f);
	return f;
}

/* With --json after `run`: print the objects of the ranks, which have ended, in their order. */
static void print_objects(struct run *r)
{
	char *line = NULL;
	size_t cap = 0;

	for (int i = 0; i < r->size; i++) {
		FILE *f = take_result(&r->ranks[i]);
		while (f && getline(&line, &cap, f) > 0)
			printf("%s%s", r->o->label ? r->ranks[i].err.prefix : "", line);
		if (f)
			fclose(f);
	}
	free(line);
}

/* With --json before `run`: print one object for all ranks, with the output of each rank; null if
 * it printed none. */
static int print_results(struct run *r)
{
	json_t *ranks = json_array(), *error = NULL;

	for (int i = 0; i < r->size; i++) {
		FILE *f = take_result(&r->ranks[i]);
		json_t *result = f ? json_loadf(f, 0, NULL) : NULL;
		if (f)
			fclose(f);
		json_t *why = json_object_get(result, "error");
		if (!error && json_is_object(why) &&
		    json_integer_value(json_object_get(why, "code")) == r->code)
			error = json_incref(why);
		json_array_append_new(ranks, result ? result : json_null());
	}
	if (!error && r->failure.code && !r->signal)
		error = json_error(&r->failure, -1, "run");
	if (!error && (r->code || r->signal)) {
		struct err err = ERR_INIT;
		err_set(&err, r->signal ? 128 + r->signal : r->code, "a signal ended a rank");
		error = json_error(&err, -1, "run");
	}
	return report_json(json_pack("{s:s, s:b, s:i, s:o, s:o}", "command", "run", "ok",
	                             !r->code && !r->signal, "size", r->size, "ranks", ranks,
	                             "error", error ? error : json_null()));
}

static void release(struct run *r)
{
	run_stop_store(r);
	drop_listener(r);
	if (r->epoll >= 0)
		close(r->epoll);
	if (r->signals >= 0)
		close(r->signals);
	for (int i = 0; r->ranks && i < r->size; i++) {
		if (r->ranks[i].in >= 0)
			close(r->ranks[i].in);
		if (r->ranks[i].cleared >= 0)
			close(r->ranks[i].cleared);
	}
	free(r->ranks);
	ssh_release(r);
	echoes_release(&r->echoes);
	run_wipe_secrets(r);
}

int cmd_run(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct run r = {.o = o,
	                .self = getpid(),
	                .size = o->request.settings.size,
	                .epoll = -1,
	                .signals = -1,
	                .listener = -1,
	                .lost = -1,
	                .killed = -1};
	struct err err = ERR_INIT;
	bool json = false;

	run_understand(&r, argc, argv);
	unsetenv(RANK_ABSENT);
	if (ssh_find_hosts(&r, &err) == 0 && r.size <= 0)
		err_set(&err, ERR_USAGE,
		        "run: give the number of ranks to start: -n N, or their hosts: -H "
		        "HOST,...");
	if (!err.code && !r.hosts.nhosts &&
	    (options_given(o, &o->ssh) || options_given(o, &o->remote_path) ||
	     options_given(o, &o->copy) || options_given(o, &o->chdir)))
		err_set(&err, ERR_USAGE,
		        "run: --ssh, --remote-path, --copy and --chdir need -H HOST,...");
	if (!err.code && !r.program && run_check_collective(&r, &json, &err) > 0) {
		ssh_release(&r);
		return 0;
	}
	if (!err.code && o->dry_run && o->json)
		err_set(&err, ERR_USAGE, "run: --dry-run prints text: leave --json out");
	if (!err.code && o->dry_run) {
		ssh_print(&r);
		ssh_release(&r);
		return 0;
	}
	r.json = o->json || json;
	bool started = !err.code && prepare(&r, &err) == 0 && start_ranks(&r, &err) == 0;
	if (err.code)
		r.code = report_failure(cmd->name, o->json || json, &err);
	if (!started && r.live)
		end_ranks(&r, r.hosts.nhosts ? ENDING_BY_CUT : ENDING_BY_TERM);
	if (r.ranks)
		supervise(&r);
	if (o->json && !err.code) {
		int printed = print_results(&r);
		if (!r.code)
			r.code = printed;
	} else if (json && !err.code) {
		print_objects(&r);
	}
	release(&r);
	return r.signal ? 128 + r.signal : r.code;
}
