#include "cmd/run/run_rank.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/commands.h"
#include "cmd/job_command.h"
#include "lib/base/io.h"
#include "lib/base/private.h"

_Noreturn void rank_die(int code, const char *what)
{
	fprintf(stderr, "collctl: %s: %s\n", what, strerror(errno));
	_exit(code);
}

static void set_variable(const char *name, const char *value)
{
	if (setenv(name, value, 1) < 0)
		rank_die(ERR_RESOURCE, name);
}

static void set_private(const char *name, const char *value)
{
	if (private_set_variable(name, value) < 0)
		rank_die(ERR_RESOURCE, name);
}

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof text, "%d", value);
	set_variable(name, text);
}

/* Remove the variables of the caller's job, which must not reach the ranks. */
static void clear_environment(void)
{
	static const char *const foreign[] = {
	        "COLLCTL_RENDEZVOUS",
	        "COLLCTL_TICKET",
	        "COLLCTL_TICKET_FILE",
	        "COLLCTL_HOSTFILE",
	        "COLLCTL_SECRET_FILE",
	        "COLLCTL_SECRET_FD",
	        "COLLCTL_STORE_TOKEN_FILE",
	        "COLLCTL_STORE_TOKEN",
	        "COLLCTL_LISTEN",
	        "COLLCTL_ADVERTISE",
	        "COLLCTL_IFACE",
	        "COLLCTL_PORT_RANGE",
	        "COLLCTL_COORDINATOR",
	        "COLLCTL_LISTEN_FD",
	        "COLLCTL_QUIET",
	        "COLLCTL_VERBOSE",
	        "COLLCTL_SSH",
	        "COLLCTL_REMOTE_PATH",
	        "COLLCTL_COPY",
	        "COLLCTL_CHDIR",
	        "COLLCTL_DRY_RUN",
	        "COLLCTL_LABEL",
	};

	for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
		unsetenv(foreign[i]);
}

/*
 * A rank that runs collctl_main never execs: values set here stay in its heap and are visible
 * neither in its arguments nor in /proc/PID/environ. A program gets them as its environment, which
 * only its user can read.
 */
static void set_environment(const struct rank_setup *s)
{
	clear_environment();
	set_number("COLLCTL_RANK", s->rank);
	set_number("COLLCTL_SIZE", s->size);
	set_private("COLLCTL_SECRET", s->secret);
	if (s->program) {
		set_variable("COLLCTL_RENDEZVOUS", s->rendezvous);
		set_private("COLLCTL_STORE_TOKEN", s->token);
	} else if (s->rank == 0) {
		set_number("COLLCTL_LISTEN_FD", s->listener);
	} else {
		set_variable("COLLCTL_COORDINATOR", s->coordinator);
	}
	if (s->json)
		set_variable("COLLCTL_JSON", "1");
	if (s->verbose > 0)
		set_number("COLLCTL_VERBOSE", s->verbose);
	if (s->verbose < 0)
		set_variable("COLLCTL_QUIET", "1");
}

void rank_die_with(pid_t parent, int sig)
{
	prctl(PR_SET_PDEATHSIG, sig);
	if (getppid() != parent)
		_exit(128 + sig);
}

int rank_exit_code(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int rank_parent_signals(sigset_t *mask)
{
	static const int watched[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++)
		sigaddset(&set, watched[i]);
	sigprocmask(SIG_BLOCK, &set, mask);
	/* With an inherited SIG_IGN the kernel would reap the ranks before their parent could. */
	signal(SIGCHLD, SIG_DFL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

void rank_replace_fd(int fd, int with)
{
	if (dup2(with, fd) < 0)
		rank_die(ERR_RESOURCE, "dup2");
}

void rank_no_stdin(void)
{
	int null = io_retry(open("/dev/null", O_RDONLY | O_CLOEXEC));

	if (null < 0)
		rank_die(ERR_RESOURCE, "/dev/null");
	rank_replace_fd(STDIN_FILENO, null);
	close(null);
}

static _Noreturn void exec_program(const struct rank_setup *s)
{
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	/* Programs that use select() rely on their original limit. */
	setrlimit(RLIMIT_NOFILE, s->files);
	setrlimit(RLIMIT_CORE, s->core);
	execvp(s->argv[0], s->argv);
	rank_die(errno == ENOENT ? 127 : 126, s->argv[0]);
}

_Noreturn void rank_begin(const struct rank_setup *s)
{
	char title[32]; /* the kernel keeps 15 characters */

	set_environment(s);
	wipe_text(s->secret);
	if (s->token)
		wipe_text(s->token);
	sigprocmask(SIG_SETMASK, s->mask, NULL);
	if (s->program)
		exec_program(s);
	job_tell_verdict(s->verdict);
	snprintf(title, sizeof title, "collctl:%d", s->rank);
	prctl(PR_SET_NAME, title);
	exit(collctl_main(s->argc, s->argv));
}
