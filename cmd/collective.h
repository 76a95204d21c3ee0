/*
 * The body that all collectives over arrays share, by job: collective.c is its life, from the
 * command line to the commit; collective_terms.c is what the ranks agree on, collective_decide.c
 * what rank 0 chooses for them; collective_files.c reads and writes.
 *
 * What differs between the collectives is a row of a table (struct coll_rules) and the layout of
 * their inputs and outputs (coll_layout).
 */
#ifndef COLLCTL_CMD_COLLECTIVE_H
#define COLLCTL_CMD_COLLECTIVE_H

#include "cmd/commands.h"
#include "cmd/joining.h"
#include "cmd/result.h"
#include "lib/data/array.h"
#include "lib/data/digest.h"
#include "lib/data/outfile.h"
#include "lib/exec/drive.h"

/* How arrays become the blocks of the P ranks. */
enum coll_cut {
	CUT_ELEMENTS, /* all arrays are alike: as evenly as can be, wherever rows end */
	CUT_ROWS,     /* along axis 0: as evenly as can be, or by --counts */
	CUT_JOINED,   /* a rank's array is its block: they are joined along axis 0 */
};

struct coll_rules {
	enum coll_cut cut;
	bool replicated; /* every rank has the same result */
};

/* What one rank moves and writes. */
struct layout {
	struct coll_args args; /* off and recv_off are the layout's */
	uint64_t *off, *recv_off;
	struct array_info out; /* of the output file, where there is one */
};

struct output {
	struct outfile file;
	bool open, is_stdout;
	char *path;
};

struct collective {
	const struct command *cmd;
	const struct options *o;
	enum coll_kind kind;
	const struct coll_rules *rules;
	enum reduce_op op; /* sum where the collective has none */
	bool ordered;
	uint64_t *counts; /* --counts, [size]; NULL: not given */
	struct joining joining;
	struct job *job;
	int rank, size;

	struct array_file *inputs; /* none where the rank has no part in the input */
	int ninputs;
	struct output *outputs;
	int noutputs;
	struct array_info info; /* of the inputs; of the root's, where this rank has none */

	struct intent intent;
	struct buf details; /* the intent's */
	struct plan plan;
	const struct coll_algorithm *algorithm; /* what runs */
	enum dtype dtype;                       /* of the buffers and the wire */
	double divisor;
	/* Of every rank: the rows of its part (CUT_ROWS) or of its array (CUT_JOINED); alltoall:
	 * the rows of this rank's array that it gets. NULL: CUT_ELEMENTS. */
	uint64_t *rows;
	uint64_t
	        *from; /* alltoall: rows that come from each rank; NULL: all arrays are cut alike */
	uint64_t *cuts;     /* rank 0's, alltoall not cut alike: [sender * size + receiver] */
	uint64_t *all_rows; /* rank 0's: the rows of every rank's array */
	struct layout layout;

	struct exec_part part;
	struct drive drive;
	char header[ARRAY_HEADER_MAX];
	long header_len;
	struct digest *digest; /* of the output */
	uint8_t digest_bytes[DIGEST_BYTES];
	uint8_t *read_staging, *write_staging;
	struct times times;
	enum phase phase; /* where a failure happened */
};

#define STAGING      (256u << 10) /* bytes of a file thread's conversions */
#define INLINE_BYTES (64u << 10)  /* smaller files are read and written without threads */

/* Has this rank an input, an output? c->rank is known. */
bool collective_reads(const struct collective *);
bool collective_writes(const struct collective *);
/* Bytes of the larger of this rank's input and output. */
uint64_t collective_bytes(const struct collective *);
/* Does the algorithm give the ranks results of different bits? */
bool collective_diverges(const struct collective *, const struct coll_algorithm *);

/* collective_terms.c */

/* The options that need the number of ranks: --counts, --root, --steps. */
int terms_check(struct collective *, struct err *err);
/* Say what this rank is to do, learn what all do, and lay it out: everything in *c but the files
 * is known then. */
int terms_agree(struct collective *, struct err *err);
void terms_release(struct collective *);
/* Lay out @rank, whose rows and what comes to it are told as in struct collective. *l is zeroed, or
 * of another rank. */
int terms_lay_out(const struct collective *, int rank, const uint64_t *rows, const uint64_t *from,
                  struct layout *l, struct err *err);
void terms_layout_release(struct layout *);
/* The parts of an array of @rows: by @counts, else (NULL) as evenly as can be. */
void terms_cut_rows(uint64_t rows, const uint64_t *counts, int size, uint64_t *out);
/* Take the root's array, as it has told it, for this rank's; and its parts, where it is cut. */
int terms_adopt_root(struct collective *, struct view details, struct err *err);
/* @rank told what can't be: *why. Returns -1. */
int terms_malformed(int rank, const struct err *why, struct err *err);

/* collective_decide.c: rank 0's part in job_agree (job_decide, job_details) */

int decide_plan(void *ctx, const struct intent *const *intents, struct plan *plan, struct err *err);
void decide_details(void *ctx, int rank, struct buf *out);

/* collective_files.c */

int files_open_inputs(struct collective *, char **paths, int n, struct err *err);
/* The outputs' names, when the formats are known; and the files with their headers. */
int files_name_outputs(struct collective *, struct err *err);
int files_open_outputs(struct collective *, struct err *err);
/* The executor's side of them, and what they need. */
int files_prepare(struct collective *, struct err *err);
int files_read(void *ctx, int part, int input, void *buf, uint64_t pos, uint64_t n,
               struct err *err);
int files_write(void *ctx, int part, const void *buf, uint64_t pos, uint64_t n, bool final,
                struct err *err);
/* All is written: check, digest and sync it; then give it its name. */
int files_seal(struct collective *, struct err *err);
int files_commit(struct collective *, struct err *err);
void files_release(struct collective *);

#endif
