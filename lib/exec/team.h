/*
 * A team of executors: each has a thread and a loop, and runs some of a rank's streams, so
 * that encryption and arithmetic use several cores. Streams share nothing but the files, which are
 * read and written by one thread at a time, so the schedules, and with them the bits, stay the
 * same.
 *
 * The caller's thread runs the job's loop meanwhile: heartbeats, aborts, deadlines.
 */
#ifndef COLLCTL_EXEC_TEAM_H
#define COLLCTL_EXEC_TEAM_H

#include "lib/exec/exec.h"
#include "lib/net/loop.h"

struct team;

/* @conf as for exec_new, without devices and repeat; it must outlive the team. 2 <= @members <=
 * conf->streams. The connections are watched by the members until team_free. @home: of the first
 * member (loop_home). */
struct team *team_new(const struct exec_conf *conf, int members, int home, struct err *err);
/* Start the threads. */
int team_start(struct team *, struct err *err);
/* 1: all members have finished; 0: not yet; -1: one has failed. */
int team_state(struct team *, struct err *err);
/* Readable when team_state changes. The caller empties it. */
int team_fd(const struct team *);
/* As exec_stats and exec_waits_for, of all members; waits_for as they were when each last slept. */
void team_stats(struct team *, struct exec_stats *);
int team_waits_for(struct team *, int *peers, int cap);
/* As exec_times, once team_state is 1. */
void team_times(struct team *, struct exec_times *sum);
/* Ends the threads, also before they have finished. NULL: nothing. */
void team_free(struct team *);

#endif
