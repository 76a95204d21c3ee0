/*
 * `run -H`: a rank on another host. run starts `ssh HOST collctl remote-rank ...`, called remote
 * here, for each rank. The two processes exchange messages over the pipes of ssh:
 *
 * - remote, on stderr: the hello (remote_find_hello): where it listens
 * - run, on stdin: u32 length, the job (remote_encode): what to run, with the secret
 * - remote: REMOTE_READY: it has the job; and whether the folder could be entered
 * - run: REMOTE_GO, once all hosts are ready
 * - run: REMOTE_ALIVE from time to time; REMOTE_CLEARED; REMOTE_SIGNAL and a signal
 * - remote: REMOTE_ALIVE from time to time; REMOTE_VERDICT, REMOTE_ENDED
 *
 * After REMOTE_GO, stdout has the rank's bytes, stderr has the rank's bytes with messages among
 * them, and the exit code of remote is the rank's. If one end receives nothing for
 * remote_job.silence, or its pipe ends, the other end or the connection is lost: then remote ends
 * the rank, and run ends ssh. So no process continues when the network is lost.
 */
#ifndef COLLCTL_CMD_RUN_REMOTE_H
#define COLLCTL_CMD_RUN_REMOTE_H

#include <stdbool.h>

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/crypto/secret.h"
#include "lib/net/addr.h"

#define REMOTE_COMMAND  "remote-rank"     /* not for users, so not listed */
#define REMOTE_LISTENER "listen"          /* its operand on rank 0 of a collective, ... */
#define REMOTE_STORE    "store"           /* ... and of a program; else none */
#define REMOTE_LINK     4                 /* the version of this protocol */
#define REMOTE_EVERY    (5 * NS_PER_SEC)  /* the longest time between two REMOTE_ALIVE */
#define REMOTE_SILENCE  (10 * NS_PER_SEC) /* the least limit of silence */
#define REMOTE_GREETING (60 * NS_PER_SEC) /* for a host to answer */
#define REMOTE_JOB_MAX  (4u << 20)        /* bytes of a job */
#define REMOTE_WORDS    65536             /* the most words of a command, and variables */

/* ---- the hello: "\ncollctl-remote-LINK VERSION ADDRESS PORT TOKEN\n" ---- */

struct remote_hello {
	char version[32];
	char address[ADDR_TEXT]; /* numeric, at which ssh has reached the host; "-": not known */
	int port;                /* 0: it does not listen */
	char token[SECRET_TEXT]; /* the store's; "-": none */
};

/* The line, with its newlines. Returns its length, as snprintf. */
int remote_write_hello(const struct remote_hello *, char *text, size_t cap);
/* Look for a hello in what a host has printed. 1: *h is set; 0: there is none yet; -1: it cannot be
 * used; @why[cap] says why, and *h has no token. */
int remote_find_hello(const char *text, size_t len, struct remote_hello *h, char *why, size_t cap);

/* ---- the job ---- */

struct remote_job {
	int rank, size;
	bool program, json;
	int verbose;
	int64_t silence;       /* ns: the limit of both ends */
	int columns;           /* of run's terminal, for the bar of rank 0; 0: none */
	const char *meeting;   /* the coordinator's ADDRESS:PORT, or the URL of the store */
	const char *directory; /* to work in; "": where ssh begins, the home folder */
	char *secret, *token;
	int argc;
	char **argv; /* ends with NULL */
	int nvariables;
	char **variables; /* "COLLCTL_TIMEOUT=5s" */
};

#define REMOTE_RANK_BYTES \
	4 /* the first bytes of a job are the rank; the rest is the same for all */

/* Append the job to @b, which should be buf_init_secret's. */
void remote_encode(const struct remote_job *, struct buf *b);
/* Decode a job. ERR_INTEGRITY. The caller releases it in either case. */
int remote_decode(struct remote_job *, struct view, struct err *err);
void remote_release(struct remote_job *); /* of remote_decode; wipes the secrets */

/* The time between two REMOTE_ALIVE for that limit of silence. */
int64_t remote_every(int64_t silence);

/* ---- later: bytes of run ---- */

#define REMOTE_GO      'g'
#define REMOTE_CLEARED 'c' /* the bar, as the rank has asked */
#define REMOTE_SIGNAL  's' /* a byte follows: its number */
/* REMOTE_ALIVE in both directions. */

/* ---- later: messages of remote, of three bytes: NUL, one of these, a value ---- */

enum remote_message {
	REMOTE_ALIVE = 'a',   /* 0 */
	REMOTE_READY = 'r',   /* errno of entering the folder, 0: it is there */
	REMOTE_VERDICT = 'v', /* 0: the rank of a collective has got the verdict that all commit */
	REMOTE_ENDED = 'e',   /* the rank's exit code */
};
#define REMOTE_MESSAGE 3

/* Copy @n bytes of the rank to @out[2 * n], and double each NUL, because a single NUL begins a
 * message. Returns the number of bytes in @out. */
size_t remote_stuff(const char *bytes, size_t n, char *out);

struct remote_reader {
	int have;     /* number of bytes of a message that has not fully arrived */
	uint8_t what; /* the message's second byte */
};
/* Called for each message, known or not. */
typedef void remote_heard(void *ctx, int what, int value);
/* Remove the messages from @bytes[n], in place, and call remote_heard for each. Returns the number
 * of bytes that are left, which are the rank's. */
size_t remote_extract(struct remote_reader *, char *bytes, size_t n, remote_heard *, void *ctx);

/* The command: returns the exit code. */
int remote_main(int argc, char **argv);

#endif
