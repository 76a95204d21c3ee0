/*
 * libcollctl: runs the jobs of the command collctl from a program. Each rank of a job is a process
 * or a thread that calls
 *
 *     collctl_new, collctl_set ..., collctl_input, collctl_output, collctl_run, collctl_free
 *
 * Settings have the names and values of the command's long options, without dashes: collctl(1)
 * describes them. Every rank of a job must call collctl_run, and the settings of all ranks must
 * agree.
 *
 * The library never ends the process. It does not touch signals, stderr, locale and working
 * directory. It uses stdin and stdout only if an input or output is "-". It may raise the limit of
 * open files to its hard limit. Environment variables configure a job only after
 * collctl_use_environment; TMPDIR, CURL_CA_BUNDLE and SSL_CERT_FILE always have their usual effect.
 *
 * Messages name settings as options of the command: "--timeout" is the setting "timeout".
 *
 * Threads: a job runs on the thread that calls collctl_run. A process may run several jobs at a
 * time, each on another thread; they may be the ranks of one job. During collctl_run, any
 * thread or signal handler may call collctl_cancel; no other function may be called for this job. A
 * job that does not run is used by one thread at a time.
 *
 * Ownership: the program frees a job with collctl_free. The library copies the strings that it
 * gets. The strings that it returns belong to the job; they are valid until the next call for it
 * that is not a getter.
 *
 * GPUs: if a driver, a device or NCCL hangs, the job ends without waiting for it, and the threads
 * that hang continue to exist. exit() may then wait for locks that they hold; _exit() does not.
 * NCCL listens on the interfaces that NCCL_SOCKET_IFNAME names; the command sets this variable to
 * "lo", the library does not. A job with devices may change the calling thread's current CUDA
 * device.
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
	COLLCTL_OTHER = 1,      /* any other failure */
	COLLCTL_USAGE = 2,      /* a setting is wrong or missing */
	COLLCTL_INPUT = 3,      /* an input is malformed, changed or unreadable */
	COLLCTL_OUTPUT = 4,     /* an output cannot be written */
	COLLCTL_RENDEZVOUS = 5, /* the ranks did not meet */
	COLLCTL_AUTH = 6,       /* the secret is missing or differs */
	COLLCTL_DISAGREE = 7,   /* the settings or the data of the ranks differ */
	COLLCTL_PEER_LOST = 8,  /* a rank or a connection was lost */
	COLLCTL_STALLED = 9,    /* no progress for the setting "timeout" */
	COLLCTL_INTEGRITY = 10, /* received bytes are corrupt, or results differ */
	COLLCTL_RESOURCE = 11, /* not enough memory, descriptors or threads; a library is missing */
	COLLCTL_CANCELLED = 130, /* by collctl_cancel */
};

typedef struct collctl collctl;

/* The version of the library, "0.1.0". */
COLLCTL_API const char *collctl_version(void);

/* Make a job of the command @name: a collective ("allreduce", ...), "barrier" or "verify". NULL:
 * there is no such command, or memory or descriptors ran out. */
COLLCTL_API collctl *collctl_new(const char *name);
/* NULL: nothing. */
COLLCTL_API void collctl_free(collctl *);

/* Set a setting; add an input; add an output. Each returns 0 or a code; collctl_message describes
 * the failure. A flag has the @value "1" or "0". Setting a setting again replaces its value; but
 * "include", "exclude" and "output" are lists, and each call adds to them. */
COLLCTL_API int collctl_set(collctl *, const char *setting, const char *value);
COLLCTL_API int collctl_input(collctl *, const char *path);
COLLCTL_API int collctl_output(collctl *, const char *path);

/* Arrays in memory, in C order, whose little-endian elements have a type of the setting "dtype"
 * ("f32"). The other files of such a job are .npy files. Each function returns 0 or a code.
 *
 * collctl_input_memory adds an input: an array of @shape[@ndim]. The job reads it in its place, so
 * it must stay, and may not change, until collctl_run returns.
 *
 * collctl_output_memory: after a success, @data has the result, which must have @bytes bytes, and
 * elements of @dtype: "u8" is any type's bytes, "u16" also f16 and bf16, NULL any type. After a
 * failure @data is unchanged. With COLLCTL_IN_PLACE it is undefined: the job writes the result
 * there, and not to a copy first. It may be the memory of an input, which changes after the verdict
 * alone. collctl_output_kept: the job keeps the result until it is freed. A job has one output in
 * memory. On ranks that get no result they do nothing. */
#define COLLCTL_IN_PLACE 1u
COLLCTL_API int collctl_input_memory(collctl *, const void *data, const char *dtype,
                                     const uint64_t *shape, int ndim);
COLLCTL_API int collctl_output_memory(collctl *, void *data, const char *dtype, uint64_t bytes,
                                      unsigned flags);
COLLCTL_API int collctl_output_kept(collctl *);
/* After a success, output @i in memory, from 0. The array, the program's or the job's, may be
 * written; that of the job and the shape are valid until collctl_free. COLLCTL_USAGE: there is
 * none. */
COLLCTL_API int collctl_result(collctl *, unsigned i, const void **data, uint64_t *bytes,
                               const char **dtype, const uint64_t **shape, int *ndim);

/* Read the variables of a launcher (mpirun, srun, torchrun), those of `collctl run` (COLLCTL_RANK,
 * COLLCTL_SIZE, COLLCTL_RENDEZVOUS; settings have priority, and a job of one rank needs no store),
 * COLLCTL_SECRET, COLLCTL_STORE_TOKEN, COLLCTL_TICKET and COLLCTL_HOST_ID, as the command does.
 * They stay as they are. Two more variables are always read: COLLCTL_PLUGIN_PATH and
 * COLLCTL_TLS_RECORDS. No other COLLCTL_ variable is read, such as COLLCTL_OP. */
COLLCTL_API void collctl_use_environment(collctl *);

/* Call @note for each remark while the job runs, on the thread of collctl_run. @level 0: of
 * interest to every user; 1 and 2: more detail. @rank: this rank, or -1 before it is known. @text
 * is valid during the call. */
typedef void collctl_note(void *ctx, int level, int rank, const char *text);
COLLCTL_API void collctl_notes(collctl *, collctl_note *note, void *ctx);

/* Call @progress while the job runs, on the thread of collctl_run: when it begins to join, when
 * data start to move, at the end, and some five times a second meanwhile. @phase, valid during the
 * call: "join", "connect", "run" or "commit". @done of @total bytes of this rank's inputs and
 * outputs are read, exchanged and written; 0 of 0: not known. @seconds_left: negative: not known.
 */
typedef void collctl_progress_fn(void *ctx, const char *phase, uint64_t done, uint64_t total,
                                 double seconds_left);
COLLCTL_API void collctl_progress(collctl *, collctl_progress_fn *progress, void *ctx);

/* Run the job; a second call fails (COLLCTL_USAGE). Returns 0 or a code. Blocks until the job has
 * ended. */
COLLCTL_API int collctl_run(collctl *);

/* Cancel the job. collctl_run, running or called later, returns COLLCTL_CANCELLED, unless the
 * outcome is already decided. Async-signal-safe. */
COLLCTL_API void collctl_cancel(collctl *);

/* About the last call of collctl_set, _input, _output or _run, if it failed: the code (0: it
 * succeeded); the message, without the culprit's name; the rank that caused the failure (-1: not
 * known; if it is this rank, its number or -1); and that rank's host ("": not known). */
COLLCTL_API int collctl_code(const collctl *);
COLLCTL_API const char *collctl_message(const collctl *);
COLLCTL_API int collctl_culprit(const collctl *);
COLLCTL_API const char *collctl_culprit_host(const collctl *);
/* The subject of the message: the path of a file, a URL, the command, or the name of a setting,
 * without dashes; "": none, or not known. */
COLLCTL_API const char *collctl_subject(const collctl *);

/* About the job, after collctl_run. Not known: rank -1, algorithm and digest "", others 0. The
 * digest, as the command prints it, is known if all ranks have the same result. */
COLLCTL_API int collctl_rank(const collctl *);
COLLCTL_API int collctl_size(const collctl *);
COLLCTL_API uint64_t collctl_bytes(const collctl *); /* of the result's data */
COLLCTL_API const char *collctl_digest(const collctl *);
COLLCTL_API const char *collctl_algorithm(const collctl *);
COLLCTL_API double collctl_seconds(const collctl *); /* from the call to the commit */
/* The outcome, also a failure, as the line of JSON without its newline that the command prints with
 * --json: collctl-json(5) has its members. An array in memory has the name of a file of /proc. "":
 * the job has not run, or memory ran out. */
COLLCTL_API const char *collctl_json(const collctl *);

#ifdef __cplusplus
}
#endif

#endif
