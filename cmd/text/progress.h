/*
 * --progress: shows the progress of a command on stderr.
 *
 *   auto    a bar, where stderr is a terminal (and not with -q)
 *   always  a bar there too with -q; elsewhere a line every few seconds, and one at the end
 *   json    an object a line, every second and at the end
 *   never   nothing
 *
 * A command with an event loop uses a timer on it; one without calls progress_step regularly. If
 * nothing is shown, there is no cost. A bar appears after half a second, so short commands show
 * none.
 */
#ifndef COLLCTL_CMD_TEXT_PROGRESS_H
#define COLLCTL_CMD_TEXT_PROGRESS_H

#include "cmd/options/options.h"
#include "cmd/text/progress_text.h"
#include "lib/data/files/sink.h"
#include "lib/job/job.h"

enum progress_mode { PROGRESS_NONE, PROGRESS_BAR, PROGRESS_LINES, PROGRESS_JSON };

/* Fills in the progress; *@now is initialised to {.rank = -1, .slowest = -1, .phase = "run", .doing
 * = "run"}.
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
	bool counts;             /* the job does not count bytes; set after the start */
	uint64_t bytes;          /* of the user's files; 0: use the job's count */
	const struct sink *sink; /* NULL: nothing is written */
	uint64_t moved;          /* the largest value so far */
	struct meter early;      /* of moved bytes, also of those that are not on disk */
	struct meter slowest;    /* of the slowest rank's fraction, in units of METER_WHOLE */
	int slowest_rank;
};
#define METER_WHOLE 1e12

/* @what, @ctx and @loop (NULL: progress_step is called) must live until progress_stop. */
void progress_start(struct progress *, const struct options *, const char *what, struct loop *loop,
                    progress_look *look, void *ctx);
/* The same for a job, from job_open to job_close: shows job_progress. */
void progress_start_job(struct progress *, const struct options *, const char *what, struct job *);
/* Data start to move. Progress is shown in the @bytes of this rank's files; bytes of @sink (NULL:
 * none) count once they are on disk. @sink must live until progress_stop. */
void progress_files(struct progress *, uint64_t bytes, const struct sink *sink);
/* Show the progress if it is due. Cheap enough to call for every piece. */
void progress_step(struct progress *);
/* Clear the bar and print the last line or object. Call it before printing the result or the error.
 * May be called repeatedly or on a zeroed struct. */
void progress_stop(struct progress *);

#endif
