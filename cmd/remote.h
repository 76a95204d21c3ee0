/*
 * `run -H`: a rank on another host. run starts `ssh HOST collctl remote-rank ...` for each rank;
 * the two speak over the pipes of ssh:
 *
 *     remote -> run  stderr  REMOTE_HELLO VERSION ADDRESS PORT TOKEN: where it listens
 *     run -> remote  stdin   u32 length, the job (remote_encode): what to run, with the secret
 *     run -> remote  stdin   bytes: REMOTE_ALIVE from time to time; REMOTE_SIGNAL and a signal
 *
 * Then stdout and stderr are the rank's, and the exit code of the command is the rank's. If stdin
 * ends, or says nothing for REMOTE_SILENCE, run or the connection has gone: the rank is ended. So
 * nothing runs on when the network has gone.
 */
#ifndef COLLCTL_CMD_REMOTE_H
#define COLLCTL_CMD_REMOTE_H

#include <stdbool.h>

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"

#define REMOTE_COMMAND  "remote-rank" /* not for users: not listed */
#define REMOTE_LISTENER "listen"      /* its operand on rank 0 of a collective ... */
#define REMOTE_STORE    "store"       /* ... and of a program; else none */
#define REMOTE_HELLO    "collctl-remote-1"
#define REMOTE_ALIVE    'a'
#define REMOTE_SIGNAL   's'
#define REMOTE_EVERY    (10 * NS_PER_SEC) /* between REMOTE_ALIVE */
#define REMOTE_SILENCE  (60 * NS_PER_SEC)
#define REMOTE_GREETING (60 * NS_PER_SEC) /* for a host to answer */
#define REMOTE_JOB_MAX  (4u << 20)        /* bytes of a job */
#define REMOTE_WORDS    65536             /* of a command, and variables */

struct remote_job {
	int rank, size;
	bool program, json;
	int verbose;
	const char *meeting;   /* the coordinator's ADDRESS:PORT, or the URL of the store */
	const char *directory; /* to run in, if it exists there */
	char *secret, *token;
	int argc;
	char **argv; /* ends with NULL */
	int nvariables;
	char **variables; /* "COLLCTL_TIMEOUT=5s" */
};

/* Append the job to @b, which should be buf_init_secret's. */
void remote_encode(const struct remote_job *, struct buf *b);
/* ERR_INTEGRITY. The texts are malloced; release them in either case. */
int remote_decode(struct remote_job *, struct view, struct err *err);
void remote_release(struct remote_job *); /* of remote_decode; wipes the secrets */

/* The command: returns the exit code. */
int remote_main(int argc, char **argv);

#endif
