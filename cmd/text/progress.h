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
	bool counts;                /* the job does not count bytes; set after the start */
	const struct coll *coll;    /* whose files move; NULL: use the job's count */
	bool comparing;             /* its data do not move yet */
	uint64_t bytes;             /* of its files */
	struct coll_progress files; /* as shown */
	uint64_t moved;             /* the largest value so far */
	struct files_meters meters;
	struct meter slowest; /* of the slowest rank's progress (METER_WHOLE) */
	int slowest_rank;
};

/* Will a command with these options show a bar? */
bool progress_has_bar(const struct options *);
/* @what, @ctx and @loop (NULL: progress_step is called) must live until progress_stop. */
void progress_start(struct progress *, const struct options *, const char *what, struct loop *loop,
                    progress_look *look, void *ctx);
/* The same for a job, from job_open to job_close: shows job_progress. */
void progress_start_job(struct progress *, const struct options *, const char *what, struct job *);
/* The ranks compare files, before data move. @coll must live until progress_stop. */
void progress_compares(struct progress *, const struct coll *coll);
/* Data start to move. Progress is shown in the @bytes of this rank's files: those that are through
 * all stages (pipeline.h). @coll must live until progress_stop. */
void progress_files(struct progress *, uint64_t bytes, const struct coll *coll);
/* Show the progress if it is due. Cheap enough to call for every piece. */
void progress_step(struct progress *);
/* Clear the bar and print the last line or object. Call it before printing the result or the error.
 * May be called repeatedly or on a zeroed struct. */
void progress_stop(struct progress *);

#endif
