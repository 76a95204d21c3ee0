/*
 * collctl serve: the store of lib/store/server/store_server.h in the foreground, until a signal or,
 * with
 * --once, until the first record is withdrawn.
 */
#include "cmd/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/private.h"
#include "lib/coll/files/written.h"
#include "lib/data/files/outfile.h"
#include "lib/store/server/store_server.h"

#define TOKEN_MAX 512

/* The token is the file's first line. */
static int read_token(const char *path, char token[TOKEN_MAX], struct err *err)
{
	if (private_line(path, "write the token to a file", token, TOKEN_MAX, err) < 0)
		return -1;
	return *token ? 0 : err_set(err, ERR_AUTH, "%s: contains no token", path);
}

/* Announce that the store listens, and where. */
static int announce(const struct options *o, const struct store_server *s, struct err *err)
{
	char text[16];
	bool https = o->tls_cert != NULL;

	if (o->verbose >= 0)
		report_note("serving the store at %s://%s", https ? "https" : "http",
		            store_server_address(s));
	if (o->verbose >= 0 && store_server_is_loopback(s) && !o->request.settings.addresses.listen)
		report_note("only this host reaches it: --listen 0.0.0.0:%d serves other hosts, "
		            "too",
		            store_server_port(s));
	if (o->verbose >= 0 && !store_server_is_loopback(s) && !o->token_file)
		report_note("every process that can reach this store can write to it; require a "
		            "token with --token-file");
	if (o->verbose >= 0 && !store_server_is_loopback(s) && o->token_file && !https)
		report_note("clients send the token in plain text, and whoever reads it can write "
		            "to the store: serve https with --tls-cert and --tls-key");
	snprintf(text, sizeof text, "%d\n", store_server_port(s));
	/* In one step: a reader never sees an incomplete port. */
	if (o->port_file && outfile_put(o->port_file, text, strlen(text), err) < 0)
		return -1;
	if (o->ready_fd >= 0) {
		if (write_all(o->ready_fd, text, strlen(text)) < 0)
			return err_errno(err, ERR_OUTPUT, "--ready-fd %d", o->ready_fd);
		close(o->ready_fd);
	}
	return 0;
}

/* Open a descriptor for the signals that end the process. */
static int open_signals(struct err *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		err_errno(err, ERR_RESOURCE, "signalfd");
	return fd;
}

static int watch(int epoll_fd, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

/* Serve until a signal and return its number, or 0 when --once is done. */
static int loop(struct store_server *s, bool once, int epoll_fd, int signal_fd, struct err *err)
{
	struct signalfd_siginfo info;
	struct epoll_event ev;

	for (;;) {
		int ms = store_server_run(s);
		if (once && store_server_withdrawn(s))
			return 0;
		if (io_retry(read(signal_fd, &info, sizeof info)) == (ssize_t)sizeof info)
			return (int)info.ssi_signo;
		if (epoll_wait(epoll_fd, &ev, 1, ms) < 0 && errno != EINTR)
			return err_errno(err, ERR_OTHER, "epoll_wait");
	}
}

static struct store_server *start(const struct options *o, struct err *err)
{
	char token[TOKEN_MAX] = "";
	struct store_server_conf conf = {
	        .listen = o->request.settings.addresses.listen
	                          ? o->request.settings.addresses.listen
	                          : "127.0.0.1",
	        .tls_cert = o->tls_cert,
	        .tls_key = o->tls_key,
	        .ttl_ns = o->ttl,
	};

	if (o->token_file || o->tls_key)
		private_process(NULL);
	if (o->token_file && read_token(o->token_file, token, err) < 0)
		return NULL;
	conf.token = *token ? token : NULL;
	raise_file_limit(NULL); /* every waiting rank has a connection */
	struct store_server *s = store_server_start(&conf, err);
	wipe(token, sizeof token);
	return s;
}

int cmd_serve(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct err err = ERR_INIT;
	struct store_server *s = NULL;
	int epoll_fd = -1, signo = -1;
	/* First, so that any later signal ends the process cleanly. */
	int signal_fd = open_signals(&err);

	(void)cmd, (void)argc, (void)argv;
	const struct named_file files[] = {{"--token-file", o->token_file, false},
	                                   {"--tls-cert", o->tls_cert, false},
	                                   {"--tls-key", o->tls_key, false},
	                                   {"--port-file", o->port_file, true}};
	if (signal_fd < 0 || written_compare(files, 4, &err) < 0)
		goto out;
	s = start(o, &err);
	if (!s)
		goto out;
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0 || watch(epoll_fd, signal_fd) < 0 ||
	    watch(epoll_fd, store_server_fd(s)) < 0) {
		err_errno(&err, ERR_RESOURCE, "epoll");
		goto out;
	}
	if (announce(o, s, &err) == 0)
		signo = loop(s, o->once, epoll_fd, signal_fd, &err);
out:
	store_server_stop(s);
	if (epoll_fd >= 0)
		close(epoll_fd);
	if (signal_fd >= 0)
		close(signal_fd);
	if (signo < 0)
		return report(&err, -1);
	return signo ? 128 + signo : 0;
}
