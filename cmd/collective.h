/*
 * The body that all collectives over files share, by job: collective.c is its life, from the
 * command line to the commit; collective_terms.c is what the ranks agree on, collective_decide.c
 * what rank 0 chooses for them; collective_parts.c turns inputs into the executor's parts;
 * collective_files.c opens inputs and outputs, collective_move.c moves elements between them and
 * the executor.
 *
 * What differs between the collectives is a row of a table (struct coll_rules) and the layout of
 * their inputs and outputs (coll_layout).
 */
#ifndef COLLCTL_CMD_COLLECTIVE_H
#define COLLCTL_CMD_COLLECTIVE_H

#include <sys/stat.h>

#include "cmd/commands.h"
#include "cmd/inputs.h"
#include "cmd/joining.h"
#include "cmd/progress.h"
#include "cmd/result.h"
#include "cmd/tensor_table.h"
#include "lib/data/dataset.h"
#include "lib/data/digest.h"
#include "lib/data/extents.h"
#include "lib/data/sink.h"
#include "lib/data/stats.h"
#include "lib/exec/drive.h"
#include "lib/job/claims.h"
#include "lib/job/details.h"

/* How arrays become the blocks of the P ranks. */
enum coll_cut {
	CUT_ELEMENTS, /* all arrays are alike: as evenly as can be, wherever rows end */
	CUT_ROWS,     /* along axis 0: as evenly as can be, or by --counts */
	CUT_JOINED,   /* a rank's array is its block: they are joined along axis 0 */
};

struct coll_rules {
	enum coll_cut cut;
	bool replicated; /* every rank has the same result */
	bool sets;       /* takes inputs of named tensors (.safetensors, .npz) */
};

/* How inputs become parts. */
enum shape {
	OF_TENSORS, /* a part for each type: the tensors of that type, of one input or of each */
	OF_ARRAYS,  /* a part for each input, which is one array */
	OF_BYTES,   /* one part: the bytes of all files, as they are */
};

/* What one rank moves of a part, and writes. */
struct layout {
	struct coll_args args; /* off and recv_off are the layout's */
	uint64_t *off, *recv_off;
	struct array_info out; /* OF_ARRAYS: the output array, where there is one */
};

/* A tensor of the job, as all ranks have it; of OF_BYTES a file. */
struct item {
	struct tensor tensor; /* of the output; name and shape are the dataset's, or the part's */
	int input;            /* with --each: which */
	size_t index;         /* among the tensors of a dataset */
	int part;
	uint64_t at; /* its first byte in the part's output */
};

/* A tensor of a broadcast of selected tensors: from where to where. */
struct made {
	struct place to;
	int set; /* the input */
	const struct tensor *tensor;
};

/* One vector of the job (exec.h). */
struct part {
	enum coll_kind kind; /* the collective's; of --integers first rank 0's broadcast or scatter,
	                      * of equal its broadcast */
	enum reduce_op op;
	int root;
	enum dtype dtype, wire; /* in the files; in the buffers and on the wire */
	struct array_info info; /* OF_ARRAYS: the inputs', of the root's where this rank has none;
	                         * else as if it were one array, of one dimension */
	bool equal;             /* --integers equal: what comes must be what this rank has */
	bool stores_block;      /* of what comes, this rank's block alone */
	bool late;              /* the average is divided when it is written (exec.h) */
	const struct coll_algorithm *algorithm; /* what runs */
	uint32_t windows;
	/* Of every rank: the rows of its block (CUT_ROWS) or of its array (CUT_JOINED); alltoall:
	 * the rows of this rank's array that it gets. NULL: CUT_ELEMENTS. */
	uint64_t *rows;
	uint64_t *from;     /* alltoall: rows that come from each; NULL: all arrays are cut alike */
	uint64_t *cuts;     /* rank 0's, alltoall not cut alike: [sender * size + receiver] */
	uint64_t *all_rows; /* rank 0's: the rows of every rank's array */
	struct layout layout;

	struct extents *in; /* [nin]: of the local inputs that it takes */
	int nin;
	struct extents *out; /* [copies]: in the sink */
	uint32_t *items;     /* [nitems], in the order in which they lie */
	size_t nitems;
	struct digest *digest; /* of the output */
	struct stats *stats;   /* --stats: [nin * nitems] */
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
	int root; /* with --rank auto or --root HOST: known after job_enter */

	enum shape shape;
	struct dataset *inputs; /* none where the rank has no part in the input */
	int ninputs;
	struct told told;          /* OF_BYTES: the root's files */
	struct view *sources_told; /* rank 0, gather --raw-file: [size], encoded, as received */
	struct source *sources;    /* [size], at the root of a gather of whole files */
	int *split;   /* their files in the sink: [part * size + rank]; NULL: one output */
	char **names; /* OF_ARRAYS with --each: the inputs' base names, the root's */
	struct part *parts;
	int nparts;
	struct item *items; /* in canonical order: by input, then by name */
	size_t nitems;

	struct intent intent;
	struct buf details; /* the intent's */
	struct plan plan;
	struct view root_told; /* rank 0's, of a broadcast or scatter: what its root has told */
	bool weighted;         /* some rank has a --weight other than 1 */
	bool keeps_order;      /* all ranks have the same arrays in Fortran's order: they stay so */
	double divisor;        /* of avg: the weights of all inputs */
	double weight;         /* this rank's; both by the same power of two */
	struct tensor_table table; /* of the items, for the ranks to compare */

	struct claims claims; /* rank 0: the claims of all ranks */
	uint32_t nclaims;     /* this rank's */
	bool *dropped;        /* [nclaims]: another rank writes this output */
	struct sink *sink;    /* NULL: this rank writes nothing */
	int copies;           /* outputs of the same bytes: -o given several times */
	char *output;         /* the first one's name */
	struct place *places; /* of the items: [copies * nitems] */
	struct made *made;    /* the root's, of a broadcast with --include or --exclude */
	size_t nmade;

	struct drive drive;
	struct exec_part *exec_parts;
	bool sealing;                     /* the table has digests */
	bool in_place;                    /* this rank's outputs have their names */
	uint8_t (*digests)[DIGEST_BYTES]; /* of the items */
	uint8_t digest[DIGEST_BYTES];     /* of all */
	uint8_t *read_staging, *write_staging, *compare_staging;
	struct stats **scanned; /* stats_scan: of each input, [ntensors] */
	struct progress progress;
	struct times times;
	enum phase phase; /* where a failure happened */
};

#define STAGING      (256u << 10) /* bytes of a file thread's conversions */
#define INLINE_BYTES (64u << 10)  /* smaller files are read and written without threads */

/* Is it gather --raw-file, whose output may be a file for each rank? */
static inline bool collective_collects(const struct collective *c)
{
	return c->kind == COLL_GATHER && c->o->raw_file;
}
/* Has this rank an input, an output? c->rank is known. */
bool collective_reads(const struct collective *);
bool collective_writes(const struct collective *);
/* ERR_USAGE if the collective does not take @n inputs. */
int collective_check_inputs(const struct collective *, int n, char **paths, struct err *err);
/* Does every rank get the same bits? Once the algorithms are known. */
bool collective_replicates(const struct collective *);
/* "shard.safetensors: tensor 'a.b'", or the file alone, of an item as input @k has it. */
const char *item_text(const struct collective *, const struct item *, int k, char *buf, size_t cap);

/* collective_parts.c: from the inputs, or what the root has told, to parts and items */

int parts_of_inputs(struct collective *, struct err *err);
int parts_of_told(struct collective *, struct err *err); /* OF_BYTES */
/* @n parts of arrays, whose info is then the caller's to fill. */
int parts_of_arrays(struct collective *, int n, struct err *err);
/* The extents of what this rank reads; once its layouts are known and its order is settled. */
int parts_map_inputs(struct collective *, struct err *err);
/* The extents of what it writes, from c->places. */
int parts_map_outputs(struct collective *, struct err *err);
void parts_release(struct collective *);

/* collective_terms.c */

/* The options that need the number of ranks: --counts, --root, --steps. */
int terms_check(struct collective *, struct err *err);
/* Say what this rank is to do, learn what all do, and lay it out: everything in *c but the files
 * is known then. */
int terms_agree(struct collective *, struct err *err);
void terms_release(struct collective *);
/* Lay out @rank's part, whose rows and what comes to it are told as in struct part. *l is zeroed,
 * or of another rank. */
int terms_lay_out(const struct collective *, const struct part *, int rank, const uint64_t *rows,
                  const uint64_t *from, struct layout *l, struct err *err);
void terms_layout_release(struct layout *);
/* The parts of an array of @rows: by @counts, else (NULL) as evenly as can be. */
void terms_cut_rows(uint64_t rows, const uint64_t *counts, int size, uint64_t *out);
/* Take the root's arrays or files, as it has told them, for this rank's. */
int terms_adopt_root(struct collective *, struct view *details, struct err *err);
/* What a rank's details tell behind its weight and its order. */
enum tells { TELLS_NOTHING, TELLS_ARRAYS, TELLS_FILES };
/* The order of a rank whose local inputs differ in theirs. */
#define ORDER_MIXED UINT64_MAX
/* @rank told what can't be: *why. Returns -1. */
int terms_malformed(int rank, const struct err *why, struct err *err);

/* collective_decide.c: rank 0's part in job_agree (job_decide, job_details) */

int decide_plan(void *ctx, const struct intent *const *intents, struct plan *plan, struct err *err);
void decide_details(void *ctx, int rank, struct buf *out);

/* collective_files.c */

/* @names: as on the command line; {rank} and patterns are expanded here. */
int files_open_inputs(struct collective *, char **names, int n, struct err *err);
/* The outputs' files, when the formats are known; then create them. */
int files_name_outputs(struct collective *, struct err *err);
int files_open_outputs(struct collective *, struct err *err);
/* What lies in Fortran's order where that can't stay is turned. */
int files_settle_order(struct collective *, struct err *err);
/* The name of input @i, which is a file. */
const char *files_name(const struct collective *, int i);
/* May a file of this name be made in the other ranks' folders? */
int files_check_name(const char *name, struct err *err);
/* @folder/NAME, NAME being the last one in @path. Malloced; NULL: an error. */
char *files_in_folder(const char *folder, const char *path, struct err *err);
/* All is written: check, digest and sync it; then give it its name. */
int files_seal(struct collective *, struct err *err);
int files_commit(struct collective *, struct err *err);
void files_release(struct collective *);

/* collective_gathered.c: gather --raw-file */

/* Append the names and attributes of this rank's files to the details. */
int gathered_tell(struct collective *, struct buf *, struct err *err);
/* Rank 0: keep what @rank sent, and pass it on to the root. */
int gathered_note(struct collective *, int rank, struct view *, struct err *err);
void gathered_put(const struct collective *, struct buf *);
/* The root: read the files of all ranks. */
int gathered_hear(struct collective *, struct view *, struct err *err);
/* Add a file for each rank to the sink, named by @name (-o as given). */
int gathered_name(struct collective *, const char *name, struct err *err);
int gathered_map(const struct collective *, struct part *, int part, struct err *err);
/* Is there a file for each rank, and not one of all? */
bool gathered_split(const struct collective *, const char *name);
void gathered_release(struct collective *);
/* Describe output array @i as a whole, also if it is split over several files. */
void files_describe_array(struct collective *, int i);
/* The attributes that a copy of @f gets. */
struct sink_attributes files_attributes(const struct collective *, const struct told_file *f);
/* A file or folder as @st describes it (NULL: a pipe), under the name @copy, which is malloced. */
struct told_file files_describe(char *copy, uint64_t bytes, const struct stat *st);

/* collective_claims.c: outputs that several ranks name */

/* Append the places that this rank writes to its details. */
int claims_tell(struct collective *, struct buf *, struct err *err);
int claims_hear(struct collective *, struct view *, struct err *err);
/* Output @at is file @first of the sink and all files added since: drop them if another rank writes
 * it. */
void claims_drop(struct collective *, int first, int at);

/* collective_move.c: fileio_ops, and what they need */

int move_prepare(struct collective *, struct err *err);
int move_read(void *ctx, int part, int input, void *buf, uint64_t pos, uint64_t n, struct err *err);
int move_write(void *ctx, int part, const void *buf, uint64_t pos, uint64_t n, bool final,
               struct err *err);
void move_release(struct collective *);

/* collective_stats.c: --stats */

/* Where elements move as mere bytes: look at the inputs' tensors before. */
int stats_scan(struct collective *, struct err *err);
/* Say which tensors of the inputs have NaN or Inf, and return it for --json (NULL: no memory). */
json_t *stats_tell(const struct collective *);
void stats_release(struct collective *);

#endif
