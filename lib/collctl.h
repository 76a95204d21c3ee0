/*
 * libcollctl: runs the jobs of the command collctl from a program. Each rank of a job is a process
 * that calls
 *
 *     collctl_new, collctl_set ..., collctl_input, collctl_output, collctl_run, collctl_free
 *
 * Settings have the names and values of the command's long options, without dashes: collctl(1)
 * describes them. Every rank of a job calls collctl_run, as every rank runs the command, and the
 * settings of all ranks must agree.
 *
 * The library does not touch signals, stdin and stdout (unless "-" names them), stderr, locale and
 * working directory, and never ends the process. It may raise the limit of open files to its hard
 * limit. No environment variable configures a job, unless the program calls
 * collctl_use_environment; TMPDIR, CURL_CA_BUNDLE and SSL_CERT_FILE have their usual effect.
 *
 * Messages name settings as options of the command: --timeout is the setting "timeout".
 *
 * A process runs one job at a time, on the thread that calls collctl_run. Meanwhile any thread or
 * signal handler may call collctl_cancel, and nothing else. The library copies the strings that it
 * gets. Those that it returns are valid until the next call for the same job.
 *
 * If the driver of a GPU, a device or NCCL hangs, the job ends without it, and its threads stay
 * behind. exit() may then wait for locks that they hold; _exit() does not. NCCL listens on the
 * interfaces that NCCL_SOCKET_IFNAME names; the command sets it to "lo", the library does not.
 * After a job with devices, the calling thread's current CUDA device may be another one.
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

/* The codes are the exit codes of the command. */
enum collctl_code {
	COLLCTL_OK = 0,
	COLLCTL_OTHER = 1,
	COLLCTL_USAGE = 2,      /* a setting is wrong or missing */
	COLLCTL_INPUT = 3,      /* an input is malformed, changed or unreadable */
	COLLCTL_OUTPUT = 4,     /* an output cannot be written */
	COLLCTL_RENDEZVOUS = 5, /* the ranks did not meet */
	COLLCTL_AUTH = 6,       /* the secret is missing or differs */
	COLLCTL_DISAGREE = 7,   /* the settings or the data of the ranks differ */
	COLLCTL_PEER_LOST = 8,
	COLLCTL_STALLED = 9, /* no progress */
	COLLCTL_INTEGRITY = 10,
	COLLCTL_RESOURCE = 11,   /* not enough memory, descriptors or threads */
	COLLCTL_CANCELLED = 130, /* collctl_cancel */
};

typedef struct collctl collctl;

/* "0.1.0" */
COLLCTL_API const char *collctl_version(void);

/* A job of the command @name: a collective ("allreduce", ...), "barrier" or "verify". NULL: the
 * command does not exist, or memory is exhausted. */
COLLCTL_API collctl *collctl_new(const char *name);
COLLCTL_API void collctl_free(collctl *);

/* Each returns 0 or a code; collctl_message says what is wrong. A flag has the @value "1" or "0". A
 * setting that is set again has the new value; "include", "exclude", inputs and outputs are added.
 */
COLLCTL_API int collctl_set(collctl *, const char *setting, const char *value);
COLLCTL_API int collctl_input(collctl *, const char *path);
COLLCTL_API int collctl_output(collctl *, const char *path);

/* Read the variables of a launcher (mpirun, srun, torchrun, `collctl run`), COLLCTL_SECRET,
 * COLLCTL_STORE_TOKEN and COLLCTL_HOST_ID, as the command does. The library never reads others,
 * such as COLLCTL_OP; only where its parts are found or made (COLLCTL_PLUGIN_PATH,
 * COLLCTL_TLS_RECORDS) it always reads from there. */
COLLCTL_API void collctl_use_environment(collctl *);

/* Call @note for each remark while the job runs. @level 0: for every user; 1 and 2: more detail.
 * @rank: this rank, or -1 before it is known. */
typedef void collctl_note(void *ctx, int level, int rank, const char *text);
COLLCTL_API void collctl_notes(collctl *, collctl_note *note, void *ctx);

/* Run the job, once. 0, or a code. */
COLLCTL_API int collctl_run(collctl *);

/* End the job, now or as soon as it runs: collctl_run returns COLLCTL_CANCELLED, unless the outcome
 * is already settled. */
COLLCTL_API void collctl_cancel(collctl *);

/* The last call that failed: its code, the message without the culprit, the rank that caused the
 * failure (-1: not known; of a failure of this rank, its number or -1) and the host of that rank
 * ("": not known). */
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
