/*
 * A whole cluster in one thread: the real commands of P ranks, a virtual clock, and a world of
 * links, disks and a store that fail as a seed says. The linker hands the product's calls of libc
 * to this folder (--wrap, wrap.h); the product has no hooks.
 *
 *   sched.c  processes and threads as coroutines, the clock, locks
 *   net.c    sockets, epoll
 *   talks.c  connections between them, and strangers
 *   links.c  hosts, and the links that all goes over
 *   files.c  files: real ones in a folder in memory, with faults
 *   disk.c   what a failure of the power loses of them
 *   store.c  libcurl, and the store behind it
 *   world.c  what else a process asks its host: time, random numbers, names
 *   insider.c  a process that sends what it likes
 *   job.c    draws a job from a seed, and runs it
 *   job_files.c  its files, and what its outputs must be
 *   faults.c draws its faults, and brings them
 *   judge.c  judges how it ended
 *   entry.c  how a rank's command is called
 *   main.c   options, workers, the report
 *
 * Everything of a run follows from its seed: same seed, same trace.
 */
#ifndef COLLCTL_TESTS_SIM_H
#define COLLCTL_TESTS_SIM_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define US    1000LL
#define MS    1000000LL
#define SEC   1000000000LL
#define NEVER INT64_MAX

#define RANKS_MOST    8
#define PROCS_MOST    (2 * RANKS_MOST)
#define HOSTS_MOST    (RANKS_MOST + 2) /* one for the store, one for a stranger */
#define STORE_HOST    RANKS_MOST
#define STRANGER_HOST (RANKS_MOST + 1)
#define ARGS_MOST     48
#define FILES_MOST    64

/* ---- random numbers ---- */

struct rng {
	uint64_t s;
};

uint64_t rng_next(struct rng *);
uint64_t rng_below(struct rng *, uint64_t n); /* 0 to n-1 */
int64_t rng_range(struct rng *, int64_t lo, int64_t hi);
bool rng_chance(struct rng *, unsigned per_mille);
int64_t rng_scale(struct rng *, int64_t lo, int64_t hi); /* every magnitude is as likely */
void rng_bytes(struct rng *, void *p, size_t n);

/* ---- processes, threads and time (sched.c) ---- */

enum proc_state { PROC_NEW, PROC_RUNS, PROC_ENDED, PROC_KILLED };

struct file_faults {
	uint64_t fail_at;  /* fail this call that changes files, counted from 1; 0: none */
	int fail_errno;    /* with this */
	bool fail_on;      /* and all that follow */
	uint64_t room;     /* bytes until the disk is full; UINT64_MAX: never */
	int64_t slow;      /* ns at most that a call takes */
	int64_t slow_sync; /* ns at most that an fsync takes */
	uint64_t read_fails_at;
	bool struck; /* a call has failed */
};

/* What a process wrote: the end of it, if it does not fit. */
struct said {
	char text[2000];
	size_t len;
};

struct proc {
	int id, rank, host;
	enum proc_state state;
	int code; /* exit code; 128 + signal if killed by one */
	int argc;
	char *argv[ARGS_MOST + 1]; /* owned; the product permutes a copy */
	FILE *out, *err;
	uint8_t *variables; /* of the product, while another process runs */
	struct said said_out, said;
	int64_t started, ended, paused_until, clock_base;
	uint64_t steps, kill_at; /* system calls; at which of them it is killed, 0: never */
	unsigned signals;        /* pending: bits */
	bool blocks_signals;
	struct sock *signalfd;
	int fds[FILES_MOST], nfds; /* real descriptors */
	struct file_faults disk;
	uint64_t changes, reads;
	bool again;       /* with --retry it would begin again */
	bool redialled;   /* it dialled again where it had reached a listener */
	bool sealed;      /* its output is whole and has a temporary name */
	int64_t named_at; /* its output got its name; 0: no */
	/* What it has said and was told (insider.c). */
	int given, number;  /* its rank: by its command line, by WELCOME; -1: none */
	bool moved;         /* it has sent its MOVED, in this session */
	bool all_moved;     /* it has received MOVED: all ranks have sent theirs */
	bool voted;         /* it has sent its VOTE */
	bool decided;       /* it was told the VERDICT, or an ABORT */
	const char *misled; /* a message after which it must not commit; NULL: none */
	bool kept;          /* the insider has held it up before its vote, and may not */
};

struct task;

extern struct proc procs[PROCS_MOST];
extern int nprocs;
extern struct proc *current; /* NULL: the simulator itself */
extern int64_t now;
extern uint64_t trace; /* hash of all that happened */
extern bool tracing;   /* print it */
extern uint64_t switches;
extern struct rng sched_rng, net_rng, product_rng;

void sched_begin(void);                    /* a new job */
struct proc *proc_new(int rank, int host); /* argv to be filled */
void proc_start(struct proc *);
void proc_kill(struct proc *, int code); /* may be the current one: then does not return */
void proc_signal(struct proc *, int sig);
void proc_pause(struct proc *, int64_t until);
/* A system call of the current process: time passes; it may be killed here. */
void step(void);
/* The same, and others may run. */
void step_and_yield(void);
void task_yield(void);
void task_sleep(int64_t ns);
/* Wait for task_wake or @until. */
struct task *task_current(void);
void task_wait(int64_t until);
void task_wake(struct task *);
/* Run until all processes have ended. false: at @deadline, or after @most switches, some had not.
 */
bool sched_run(int64_t *deadline, uint64_t most);

void at(int64_t when, void (*fn)(void *a, uint64_t b), void *a, uint64_t b);
void note(const char *what, int64_t a, int64_t b); /* into the trace */

/* Memory of the simulated world, freed at the end of the job. */
void *world_alloc(size_t n);
void world_free_all(void);

/* ---- the network (net.c, talks.c, links.c) ---- */

struct link {
	int64_t least, most; /* latency */
	unsigned tail;       /* per mille of the packets take up to 200 times as long */
	int blocked;         /* number of faults that stop it */
	struct held *held, **held_end;
};

struct net_conf {
	size_t send_most, receive_most; /* bytes of socket buffers */
	unsigned short_io;        /* per mille of reads and writes that move less than they could */
	unsigned flips;           /* of a million segments have a flipped bit */
	bool replays;             /* a stranger repeats what others opened connections with */
	bool replays_hellos_only; /* without TLS */
	int64_t replay_after;
	bool struck; /* a bit was flipped */
};

extern struct link links[HOSTS_MOST][HOSTS_MOST];
extern struct net_conf net;

void net_begin(void);
void net_end_proc(struct proc *); /* the kernel closes its sockets */
void net_host_dies(int host);
void net_wake(const struct proc *); /* let its epoll_wait look again */
void link_block(int from, int to);
void link_release(int from, int to);
/* Call fn(a, b) when a packet that leaves now arrives. */
void link_send(int from, int to, void (*fn)(void *a, uint64_t b), void *a, uint64_t b);
int64_t link_latency(int from, int to);
int net_connections(void);
int net_number_of(int fd);      /* of a connection of the current process; -1: it is none */
void break_lane(void);          /* data move: if that is drawn (LANES) */
void break_new_lane(int which); /* its acceptor has answered, which the dialler may not hear */
void break_link(int fd);        /* of a rank that sends its vote: if that is drawn (BREAKS) */
int net_lane(uint64_t which);   /* the number of some lane that has not ended; -1: there is none */
bool net_reset(int which);      /* a connection, by its number; false: it had ended */
void net_scan(int which, bool garbage); /* a stranger connects to a listener */
/* A stranger listens at its host: closes what connects, is silent, or talks. */
enum stranger { STRANGER_NONE, STRANGER_CLOSES, STRANGER_SILENT, STRANGER_TALKS };
void net_stranger(int port, enum stranger);
struct sock *sock_of(int fd);
void sock_signal(struct sock *); /* a signalfd is readable now */
void sock_close(struct sock *);
ssize_t sock_read(struct sock *, void *buf, size_t n);
ssize_t sock_write(struct sock *, const void *buf, size_t n);

/* ---- disks (disk.c) ---- */

/* Of the current process's host. @fd: a real descriptor. */
void disk_begin(void);
void disk_wrote(int fd);  /* or changed its length */
void disk_synced(int fd); /* a file, or a folder with its names */
void disk_linked(int dir, const char *to);
void disk_renamed(int dir, const char *from, const char *to);
void disk_will_rename(int dir, const char *from, const char *to);
void disk_rename_failed(void); /* after disk_will_rename */
void disk_power_fails(int host, struct rng *);

/* ---- the store (store.c) ---- */

struct store_conf {
	/* per mille of the requests ... */
	unsigned errors;       /* are answered 500 */
	unsigned refuses;      /* find nobody */
	unsigned breaks;       /* are done, but the connection breaks before the answer */
	unsigned loses;        /* are done, but the answer never comes */
	unsigned drops;        /* never arrive */
	unsigned lies;         /* are answered wrongly: an old value, true for false, other bytes */
	unsigned forgets;      /* find that the store has begun anew */
	unsigned forgets_puts; /* are PUTs after which it begins anew */
	int64_t heals;         /* when all of that ends */
	int64_t slow;          /* ns at most until it answers */
	bool struck;           /* one of them has happened */
};

extern struct store_conf store_faults;
extern uint64_t store_puts; /* that succeeded */

void store_begin(void);
void store_end(void);
void store_plant(const char *key, const char *value);

/* ---- an insider (insider.c) ---- */

struct insider {
	struct proc *proc; /* NULL: nobody */
	bool coordinates;
	int size;            /* of the job */
	uint64_t once;       /* after so many messages it says one of its own, and is honest else */
	unsigned alters;     /* per mille of its control messages are altered */
	unsigned dials;      /* per mille of its openings and keys name another rank */
	uint8_t mute;        /* every other message of this type is not sent */
	uint64_t sent, said; /* messages of the product, and what it did */
	bool poses;          /* it has joined as another rank, or tried to */
	struct rng rng;
};

extern struct insider insider;

void insider_begin(void);
void insider_draw(struct proc *, int size, bool coordinates); /* from insider.rng */
void insider_turn(void); /* the current process looks at its connections */

/* ---- jobs (job.c) ---- */

struct verdict {
	bool ok;
	bool bounded, succeeded;
	unsigned faults; /* kinds that were injected: bits */
	uint64_t trace, switches;
	int64_t virtual_ns;
	char text[2000];
};

extern unsigned insiders; /* per mille of the jobs have one */

void job_simulate(uint64_t seed, struct verdict *);
const char *fault_name(int bit);
int fault_names(void);

/* ---- entry.c ---- */

/* Run the command of one rank; returns its exit code. */
int entry(int argc, char **argv);

#endif
