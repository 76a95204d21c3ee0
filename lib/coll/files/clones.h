/*
 * Outputs that are written once for the ranks of a host. If all ranks have the same results, ranks
 * of one host whose outputs have the same bytes on one file system make a chain, in the order of
 * ranks. The first writes its files, seals them, and passes their descriptors over a memory lane to
 * the next one, which passes them on and makes its own files clones of them, before it seals them
 * and votes. A rank to which there is no memory lane writes its files, as ever, and passes those
 * on.
 *
 *     rank 0: run, write ─ seal ─ pass ──────────────────────────── vote
 *     rank 1: run ──────────────────── take, pass on ─ clone ─ seal ─ vote
 *
 * Every rank still gets all data and computes their digest, so the vote proves that the rank which
 * wrote the files had the same data as those that clone them. What a digest does not show is
 * trusted: that the files have what that rank wrote, their heads, and pieces that have come in
 * parts, which are read back. The lane reaches only processes of the same user on the same host,
 * who could change the files anyway. A rank that is lost ends the job as ever: nobody has voted
 * before it has its files. Internal to lib/coll; see collective.h.
 */
#ifndef COLLCTL_COLL_FILES_CLONES_H
#define COLLCTL_COLL_FILES_CLONES_H

#include "lib/base/fields.h"
#include "lib/net/conn.h"

struct collective;

/* A rank's part of the round. */
struct clone_part {
	uint8_t like[16]; /* the same: the outputs have the same bytes, on one file system of a
	                     host; zeros: it neither clones nor can be cloned */
	bool leaves;      /* another rank writes one of its outputs (sink_drop) */
};
extern const struct message clone_part_message;

/* The answer: the neighbours in the chain; -1: none. */
struct clone_chain {
	int from, to;
};
extern const struct message clone_chain_message;

struct clones {
	bool deferred; /* the outputs were created empty */
	struct clone_chain chain;
	bool takes; /* this rank makes its files clones of those that chain.from passes */
	int copied; /* files that could not be cloned and were copied */
	int error;  /* why the last of them could not, errno */
	/* on the coordinator */
	struct clone_place {
		struct clone_part part;
		int host, rank;
	} * places;                 /* [size]; malloced */
	struct clone_chain *chains; /* [size], by rank; malloced */
	int taken, told;            /* ranks */
};

/* Does the coordinator wait for this round? If so, clones_take and clones_answer are its
 * callbacks (job_collect, job_answer). */
bool clones_exchanges(const struct collective *);
int clones_take(struct collective *, int rank, struct view part, struct err *err);
void clones_answer(struct collective *, int rank, struct buf *out);

/* Before the outputs are opened: create them empty, if they may be clones. */
void clones_prepare(struct collective *);
/* Once they are open: find this rank's place in a chain. */
int clones_agree(struct collective *, struct err *err);
/* Connect the lanes of the schedules and of the chain; then decide whether this rank writes its
 * files, and fill them if so. */
int clones_connect(struct collective *, struct err *err);
/* Before this rank's files are sealed: take those of the others. After: pass its own. */
int clones_receive(struct collective *, struct err *err);
int clones_pass(struct collective *, struct err *err);
/* Are this rank's files, or those of another rank, clones over lanes of the chain? */
bool clones_are_chained(const struct collective *);
/* Are all of this rank's files clones? */
bool clones_made(const struct collective *);
void clones_release(struct collective *);

#endif
