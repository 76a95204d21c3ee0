/*
 * libcollctl: what the command collctl does, for programs. A rank of a job is one process that
 * calls
 *
 *     collctl_new, collctl_set ..., collctl_input, collctl_output, collctl_run, collctl_free
 *
 * Settings have the names and values of the command's long options, without dashes: collctl(1)
 * describes them. Every rank of a job calls collctl_run with settings that fit, as every rank runs
 * the command.
 *
 * What stays the program's: signals, stdin and stdout (unless "-" names them), stderr, locale and
 * working directory. No variable of the environment configures a job (unless
 * collctl_use_environment); TMPDIR, CURL_CA_BUNDLE and SSL_CERT_FILE count as usual. The limit of
 * open files may rise to its hard limit. The library never ends the process.
 *
 * Messages name options as the command does: --timeout is the setting "timeout".
 *
 * One job runs at a time in a process, on the thread that calls collctl_run; only collctl_cancel
 * may be called meanwhile, from any thread or signal handler. Strings that are passed are copied;
 * those returned live until the next call for the same job, or its collctl_free.
 */
#ifndef COLLCTL_H
#define COLLCTL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined __GNUC__
#define COLLCTL_API __attribute__((visibility("default")))
#else
#define COLLCTL_API
#endif

/* Codes, those of the command's exit status. */
enum collctl_code {
	COLLCTL_OK = 0,
	COLLCTL_OTHER = 1,
	COLLCTL_USAGE = 2,      /* a setting is wrong or missing */
	COLLCTL_INPUT = 3,      /* an input is malformed, changed or unreadable */
	COLLCTL_OUTPUT = 4,     /* an output cannot be written */
	COLLCTL_RENDEZVOUS = 5, /* the ranks did not meet */
	COLLCTL_AUTH = 6,       /* the secret is missing or differs */
	COLLCTL_DISAGREE = 7,   /* the ranks were asked for different things */
	COLLCTL_PEER_LOST = 8,
	COLLCTL_STALLED = 9, /* no progress */
	COLLCTL_INTEGRITY = 10,
	COLLCTL_RESOURCE = 11,   /* memory, descriptors or threads are lacking */
	COLLCTL_CANCELLED = 130, /* collctl_cancel */
};

typedef struct collctl collctl;

/* "0.1.0" */
COLLCTL_API const char *collctl_version(void);

/* A job of the command @name: a collective ("allreduce", ...), "barrier" or "verify". NULL: there
 * is no such command, or no memory. */
COLLCTL_API collctl *collctl_new(const char *name);
COLLCTL_API void collctl_free(collctl *);

/* Each returns 0 or a code; collctl_message says what is wrong. A flag has the @value "1" or "0".
 */
COLLCTL_API int collctl_set(collctl *, const char *setting, const char *value);
COLLCTL_API int collctl_input(collctl *, const char *path);
COLLCTL_API int collctl_output(collctl *, const char *path);

/* Let variables count as for the command: a launcher's (mpirun, srun, torchrun, `collctl run`),
 * COLLCTL_SECRET and COLLCTL_STORE_TOKEN. The others, such as COLLCTL_OP, never count. */
COLLCTL_API void collctl_use_environment(collctl *);

/* @note hears remarks while the job runs. @level 0: for every user; 1 and 2: more detail. @rank:
 * this rank, or -1 before it is known. */
typedef void collctl_note(void *ctx, int level, int rank, const char *text);
COLLCTL_API void collctl_notes(collctl *, collctl_note *note, void *ctx);

/* Run the job, once. 0, or a code. */
COLLCTL_API int collctl_run(collctl *);

/* End the running job, or the one that will run: collctl_run returns COLLCTL_CANCELLED, unless the
 * outcome was settled before. */
COLLCTL_API void collctl_cancel(collctl *);

/* Of the last call that failed: its code, the message without the culprit, the rank that caused it
 * (-1: this one, or not known) and its host ("": not known). */
COLLCTL_API int collctl_code(const collctl *);
COLLCTL_API const char *collctl_message(const collctl *);
COLLCTL_API int collctl_culprit(const collctl *);
COLLCTL_API const char *collctl_culprit_host(const collctl *);
/* What the message is about: the path of a file, a URL, the command, or a setting's name without
 * dashes; "": nothing of these, or not known. A message writes the name of a setting as the command
 * does, with dashes: --op. */
COLLCTL_API const char *collctl_subject(const collctl *);

/* After collctl_run. -1, 0, "": not known. */
COLLCTL_API int collctl_rank(const collctl *);
COLLCTL_API int collctl_size(const collctl *);
COLLCTL_API uint64_t collctl_bytes(const collctl *); /* of the result's data */
COLLCTL_API const char *collctl_algorithm(const collctl *);
COLLCTL_API double collctl_seconds(const collctl *); /* from the call to the commit */

#ifdef __cplusplus
}
#endif

#endif
