/* Shared by run.c (the ranks' life, and ranks on this host), run_command.c (what they run),
 * run_store.c (the store of programs), run_end.c (the ranks' end), run_ssh.c and run_greet.c (ranks
 * on other hosts). */
#ifndef COLLCTL_CMD_RUN_RUN_INTERNAL_H
#define COLLCTL_CMD_RUN_RUN_INTERNAL_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "cmd/options/options.h"
#include "cmd/run/lines.h"
#include "cmd/run/remote.h"
#include "lib/crypto/secret.h"
#include "lib/store/hostfile.h"

/* What was received from a rank's host. */
struct link {
	struct remote_reader reader;
	int64_t heard; /* clock_ns() of the last message; 0: not started */
	bool verdict;  /* the rank has received the verdict */
	bool ended;    /* the rank has ended with `code` */
	int code;
	bool silent; /* it was silent for too long, and ssh was ended */
};

struct rank {
	pid_t pid;      /* 0: not started, or ended. With hosts: of ssh */
	bool own_group; /* signals go to its process group, which includes its children */
	struct lines out, err;
	int json;         /* with --json: an unnamed file for its stdout; -1: none */
	const char *host; /* with hosts: where it is; else NULL */
	int in;           /* with hosts: to ssh's stdin; -1: none */
	struct link link; /* with hosts */
	int code;         /* with which it has ended; -1: it has not, or its ssh was lost */
	int cleared;      /* of a rank with a bar: an eventfd, to tell it that the bar is cleared */
};

/* The stage of ending the ranks. */
enum ending {
	NOT_ENDING,
	ENDING_BY_THEMSELVES, /* they learn of the failure by the job, or have got the signal */
	ENDING_BY_TERM,
	ENDING_BY_KILL,
	ENDING_BY_CUT, /* other hosts do not answer: their ssh is killed */
};

struct run {
	const struct options *o;
	int argc;
	char **argv; /* of collctl_main, or of the program */
	bool program;
	bool writes;   /* a collective that writes files */
	bool bars;     /* a collective that shows a bar */
	bool json;     /* a collective with --json, before or after `run` */
	bool insecure; /* a collective with --insecure */
	bool spares;   /* check: the others begin without hosts that cannot be reached */
	pid_t self;

	struct rank *ranks;
	int size, live;
	struct echoes echoes;
	int epoll, signals;
	sigset_t caller_mask;
	struct rlimit caller_files, caller_core;

	char secret[SECRET_TEXT], token[SECRET_TEXT];
	struct hostfile hosts; /* nhosts 0: all ranks are on this host */
	int64_t silence;       /* ns: a host that is silent for longer is lost, and a rank of a
	                          collective that has not ended so long after SIGTERM is killed */
	int64_t alive_at;      /* with hosts: when to send REMOTE_ALIVE to the ranks */
	int *gates; /* [2 * nhosts]: pipes by which the processes of ranks wait for their turn to
	               start ssh */

	/* --min-ranks of the collective: the job may go on without ranks that have failed, if as
	 * many are left, but not without rank 0 and the root; 0: it ends with the first that fails.
	 */
	int fewest, root;
	int spared; /* number of ranks that have failed, and without which it may go on */
	int killed, killed_status; /* the first of them that a signal has ended; -1 */
	bool over; /* rank 0 has succeeded: whoever still runs is such a rank, and is ended */

	int listener; /* for rank 0; -1: given to rank 0, or a store is served */
	int port;     /* of the listener or of the store */
	pid_t store;

	enum ending ending;
	int64_t deadline; /* of the current stage of ending; INT64_MAX: none */
	int64_t say_at;   /* when to say which ranks are awaited; 0: never */
	int code;         /* of the first rank that failed, or of run itself; 0: no failure */
	int lost; /* a rank of a collective, the first to fail, whose ssh is lost; -1: none */
	int lost_status;    /* of that ssh */
	struct err failure; /* the first one, as far as it is known */
	int signal;         /* that ended run; 0: none */
};

/* Set r->argv, r->program and r->silence from run's options and operands, argv[1..argc). */
void run_understand(struct run *, int argc, char **argv);
/* Report errors and help of a collective once, instead of in every rank, and set what run has to
 * know of it. -1: an error, 1: help, 0: neither. *@json: the command line has --json. */
int run_check_collective(struct run *, bool *json, struct err *err);
/* Is there such a program? Asked before the ranks start, so that a typing error is reported once.
 */
int run_check_program(const char *name, struct err *err);

/* Begin a stage of ending the ranks. */
void end_ranks(struct run *, enum ending stage);
/* run has got SIGINT, SIGTERM or SIGHUP: forward it. A second signal kills the ranks.
 * @from_terminal: ranks in run's process group have got it, too. */
void end_by_signal(struct run *, int sig, bool from_terminal);
/* Milliseconds until end_keep_time has something to do; -1: it has not. */
int end_wait(const struct run *);
/* Begin the next stage if the deadline of this one has passed; say which ranks are awaited. */
void end_keep_time(struct run *);

/* Start a store for the ranks of a program, on r->port, in a separate process: a reader of stderr
 * that blocks run must not block the store. */
int run_start_store(struct run *, struct err *err);
void run_stop_store(struct run *); /* idempotent */
/* When all ranks are started. */
void run_wipe_secrets(struct run *);

/* Set what depends on the place of a rank in r->ranks. */
void run_place(struct run *, int rank);

/* Read -H into r->hosts, and set r->size. ERR_USAGE, ERR_INPUT. */
int ssh_find_hosts(struct run *, struct err *err);
/* Before the first rank. ERR_RESOURCE. */
int ssh_prepare(struct run *, struct err *err);
void ssh_release(struct run *);
/* Print what would be started, without secrets. */
void ssh_print(const struct run *);
/* Exec ssh for a rank, in its process. @in: the pipe's end for its stdin. */
_Noreturn void ssh_begin(const struct run *, int rank, int in);
/* The host of a rank, and the words that start ssh. */
const struct hostfile_host *ssh_host(const struct run *, int rank);
const char *ssh_words(const struct run *);
/* Send to a rank's host. */
void ssh_say(const struct rank *, const void *bytes, size_t n);
/* run_greet.c: wait until every host has answered, and send each rank its job. -1: hosts have
 * failed; each has been reported, and *err has the code. */
int ssh_greet(struct run *, struct err *err);
/* A lines_filter for stderr; @ctx is a struct link: removes and handles the host's messages. */
size_t ssh_hear(void *ctx, char *bytes, size_t n);
/* Send REMOTE_ALIVE if it is time, and end the ssh of hosts that were silent for too long. Returns
 * the milliseconds until the next call. */
int ssh_keep_alive(struct run *);
/* Tell a rank that its bar is cleared. */
void ssh_cleared(const struct rank *);
/* Send a signal to a rank. */
void ssh_signal(const struct rank *, int sig);
/* The wait status of the rank whose ssh has ended with @status. *lost: the connection to the rank
 * was lost, and it is the status of ssh. */
int ssh_status(const struct rank *, int status, bool *lost);
/* Describe in *err the failure of a rank whose ssh has ended with @status. */
void ssh_failure(const struct run *, int rank, int status, struct err *err);

#endif
