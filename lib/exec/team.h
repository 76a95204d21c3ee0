/*
 * A team of executors, its members: each member has a thread and a loop, and runs some of a rank's
 * streams, so that encryption and arithmetic use several cores. Streams share only the files, which
 * one thread reads and one thread writes at a time. The schedules are the same as with one
 * executor, and so are the bits of the results.
 *
 * One thread, the job's, calls these functions; it runs the job's loop while the members work.
 */
#ifndef COLLCTL_EXEC_TEAM_H
#define COLLCTL_EXEC_TEAM_H

#include "lib/exec/device.h"
#include "lib/exec/exec.h"
#include "lib/net/loop.h"

struct team;

/* Make @members executors for @conf, which must outlive the team. 2 <= @members <= conf->streams.
 * @devices: the first of at least @members sets, one for each member; NULL: none. Until team_free
 * the members' loops watch the connections; afterwards no loop does. @home: the rank's index on its
 * host; members @home * @members and following are spread over processors (loop_home). NULL:
 * ERR_RESOURCE. */
struct team *team_new(const struct exec_conf *conf, int members, struct devices *devices, int home,
                      struct err *err);
/* Start the threads. ERR_RESOURCE: some threads may run; call team_free. */
int team_start(struct team *, struct err *err);
/* 1: all members have finished; 0: not yet; -1: a member has failed: as exec_advance. */
int team_state(struct team *, struct err *err);
/* An eventfd that is readable when the state of a member has changed. The caller makes it
 * unreadable (event_clear). */
int team_fd(const struct team *);
/* As exec_stats, exec_waits_for and exec_waits_for_device, of all members, as of each member's last
 * turn. */
void team_stats(struct team *, struct exec_stats *);
int team_waits_for(struct team *, int *peers, int cap);
void team_waits_for_device(struct team *, char *text, size_t cap);
/* As exec_times, once team_state is 1. */
void team_times(struct team *, struct exec_times *sum);
/* Stop the threads, even if they have not finished. Then as exec_complete, of all members. */
uint64_t team_stop(struct team *);
/* Stop the threads and free the team. NULL: nothing. */
void team_free(struct team *);

#endif
