/* The process of a rank that `run` starts, on this or another host. */
#ifndef COLLCTL_CMD_RUN_RUN_RANK_H
#define COLLCTL_CMD_RUN_RUN_RANK_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "lib/base/err.h"

/* The variable in which run tells the ranks of a check which hosts have none, or
 * too few (check_request.absent).
 */
#define RANK_ABSENT "COLLCTL_ABSENT"

struct rank_setup {
	int rank, size;
	char *secret; /* 64 hex digits; rank_begin wipes it */
	/* For a collective, where the ranks meet: of rank 0, the listening socket; of others, rank
	 * 0's "ADDRESS:PORT". */
	int listener;
	const char *coordinator;
	int verdict; /* the descriptor for job_tell_verdict; -1: none */
	/* For another program: a store. */
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

/* For the parent of ranks: block SIGCHLD and the signals that end it, and open a signalfd for them.
 * *mask: the signals that were blocked before. Returns the descriptor; -1: errno gives the
 * cause. */
int rank_parent_signals(sigset_t *mask);
/* Report a failure between fork and the rank's code, where no struct err can be returned. */
_Noreturn void rank_die(int code, const char *what);
void rank_replace_fd(int fd, int with);
void rank_no_stdin(void);
/* Get the signal @sig when @parent ends; also if it has ended before this call. */
void rank_die_with(pid_t parent, int sig);
/* The exit code of a child by its status: 128 + N if signal N has killed it. */
int rank_exit_code(int status);
/* Set the environment and run the rank in this process, a child. */
_Noreturn void rank_begin(const struct rank_setup *);

#endif
