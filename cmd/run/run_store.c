/* The store that `run` serves for the ranks of a program. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/run/run_internal.h"
#include "cmd/run/run_rank.h"
#include "lib/base/io.h"
#include "lib/store/server/store_server.h"

struct store_greeting {
	int port;
	struct err err;
};

static _Noreturn void store_main(struct run *r, int greet)
{
	struct store_greeting hello = {.err = ERR_INIT};
	struct store_server_conf conf = {.token = r->token};

	rank_die_with(r->self, SIGKILL);
	setpgid(0, 0); /* only run handles Ctrl-C, because the ranks still need their store */
	close(r->epoll);
	close(r->signals);
	rank_no_stdin();
	/* A reader of our stdout must not wait for this process. */
	rank_replace_fd(STDOUT_FILENO, STDIN_FILENO);
	sigprocmask(SIG_SETMASK, &r->caller_mask, NULL);
	prctl(PR_SET_NAME, "collctl:store");

	struct store_server *server = store_server_start(&conf, &hello.err);
	run_wipe_secrets(r);
	if (server)
		hello.port = store_server_port(server);
	if (write_all(greet, &hello, sizeof hello) < 0 || !server)
		_exit(ERR_OTHER);
	close(greet);
	for (;;) {
		struct pollfd p = {.fd = store_server_fd(server), .events = POLLIN};
		poll(&p, 1, store_server_run(server));
	}
}

int run_start_store(struct run *r, struct err *err)
{
	struct store_greeting hello;
	int pipe_fds[2];
	ssize_t n;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_errno(err, ERR_RESOURCE, "a pipe for the store");
	r->store = fork();
	if (r->store < 0) {
		r->store = 0;
		err_errno(err, ERR_RESOURCE, "cannot start the store");
		close(pipe_fds[0]);
		close(pipe_fds[1]);
		return -1;
	}
	if (r->store == 0) {
		close(pipe_fds[0]);
		store_main(r, pipe_fds[1]);
	}
	close(pipe_fds[1]);
	n = io_retry(read(pipe_fds[0], &hello, sizeof hello));
	close(pipe_fds[0]);
	if (n != (ssize_t)sizeof hello)
		return err_set(err, ERR_OTHER, "the store ended before it was ready");
	if (hello.err.code) {
		*err = hello.err;
		return -1;
	}
	r->port = hello.port;
	return 0;
}

void run_stop_store(struct run *r)
{
	if (r->store <= 0)
		return;
	kill(r->store, SIGKILL);
	while (waitpid(r->store, NULL, 0) < 0 && errno == EINTR)
		;
	r->store = 0;
}
