/*
 * --progress: shows how far a command is, on stderr.
 *
 *   auto    a bar, where stderr is a terminal (and not with -q)
 *   always  a bar there too with -q; elsewhere a line every few seconds, and one at the end
 *   json    an object a line, every second and at the end
 *   never   nothing
 *
 * A command with an event loop has a timer on it; one without calls progress_step as it goes.
 * Nothing costs anything where nothing is shown. A bar waits half a second: what is done sooner
 * shows none.
 */
#ifndef COLLCTL_CMD_PROGRESS_H
#define COLLCTL_CMD_PROGRESS_H

#include "cmd/options.h"
#include "cmd/progress_text.h"
#include "lib/data/sink.h"
#include "lib/job/job.h"

enum progress_mode { PROGRESS_NONE, PROGRESS_BAR, PROGRESS_LINES, PROGRESS_JSON };

/* Says how far it is; *@now comes as {.rank = -1, .slowest = -1, .phase = "run", .doing = "run"}.
 */
typedef void progress_look(void *ctx, struct progress_now *now);

struct progress {
	enum progress_mode mode;
	const char *what; /* the command's name */
	progress_look *look;
	void *ctx;
	struct loop *loop;
	struct loop_timer timer;
	int64_t due;          /* clock_ns() */
	struct joined joined; /* as shown */
	struct meter meter;
	/* of a job */
	struct job *job;
	uint64_t bytes;          /* of the user's files; 0: as the job counts */
	const struct sink *sink; /* NULL: nothing is written */
	uint64_t moved;          /* the most so far */
	struct meter early;      /* of what has moved, on the disk or not */
	struct meter slowest;    /* of its fraction, in METER_WHOLE */
	int slowest_rank;
};
#define METER_WHOLE 1e12

/* @what, @ctx and @loop (NULL: progress_step is called) must live until progress_stop. */
void progress_start(struct progress *, const struct options *, const char *what, struct loop *loop,
                    progress_look *look, void *ctx);
/* The same for a job, from job_open to job_close: as job_progress tells. */
void progress_start_job(struct progress *, const struct options *, const char *what, struct job *);
/* Data move from here on. Progress is shown in the @bytes of this rank's files; bytes of @sink
 * (NULL: none) count once they are on disk. @sink must live until progress_stop. */
void progress_files(struct progress *, uint64_t bytes, const struct sink *sink);
/* Show what is due, if anything: cheap enough to be called for every piece. */
void progress_step(struct progress *);
/* The bar goes; the last line or object comes. Before the result or the error is printed.
 * Idempotent; nothing for one that is zeroed. */
void progress_stop(struct progress *);

#endif
