/* A rank's process: what `run` gives it, here or on another host, and how it begins. */
#ifndef COLLCTL_CMD_RUN_RUN_RANK_H
#define COLLCTL_CMD_RUN_RUN_RANK_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "lib/base/err.h"

struct rank_setup {
	int rank, size;
	char *secret; /* 64 hex digits; rank_begin wipes it */
	/* A collective meets at rank 0, which listens here, or is at "ADDRESS:PORT". */
	int listener;
	const char *coordinator;
	int verdict; /* a collective writes a byte here after its verdict; -1: nowhere */
	/* A program gets a store. */
	bool program;
	const char *rendezvous;
	char *token; /* rank_begin wipes it */
	bool json;
	int verbose;
	int argc;
	char **argv; /* of collctl_main, or of the program */
	/* Before run changed them: */
	const sigset_t *mask;
	const struct rlimit *files, *core;
};

/* For the parent of ranks: block the signals that end it, and SIGCHLD, and open a descriptor for
 * them. @mask: what was blocked before. -1: errno. */
int rank_parent_signals(sigset_t *mask);
/* Report a failure between fork and the rank's code, where no struct err can be returned. */
_Noreturn void rank_die(int code, const char *what);
void rank_replace_fd(int fd, int with);
void rank_no_stdin(void);
/* A child never outlives @parent, even if that was killed before this call. */
void rank_die_with(pid_t parent, int sig);
/* The exit code of a child by its status: 128 + N if signal N has killed it. */
int rank_exit_code(int status);
/* Set the environment and run the rank in this process, a child. */
_Noreturn void rank_begin(const struct rank_setup *);

#endif
