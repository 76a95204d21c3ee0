/*
 * Internal to lib/coll: a collective over files. collective.c has its stages (task.h), agree.c the
 * agreement, input_files.c, output_files.c and gathered.c the files, elements.c the conversions
 * between files and executor, input_stats.c the statistics. One thread, the job's; only
 * elements_read and elements_write run on the executor's file threads. Functions return 0, or -1
 * with *err. A struct collective has three parts:
 *
 *     request    constant
 *     agreed     the agreement; constant after `adopt`
 *     transfer   files, executor, digests
 */
#ifndef COLLCTL_COLL_COLLECTIVE_H
#define COLLCTL_COLL_COLLECTIVE_H

#include <sys/stat.h>

#include "lib/coll/agreement/agreement.h"
#include "lib/coll/agreement/planner.h"
#include "lib/coll/drive.h"
#include "lib/coll/files/clones.h"
#include "lib/coll/files/deletes.h"
#include "lib/coll/files/gather_update.h"
#include "lib/coll/files/host_room.h"
#include "lib/coll/files/origin.h"
#include "lib/coll/files/outer.h"
#include "lib/coll/files/slerp.h"
#include "lib/coll/files/tensor_table.h"
#include "lib/coll/files/update.h"
#include "lib/coll/task.h"
#include "lib/data/files/extents.h"
#include "lib/data/kernels/stats.h"

/* A tensor of a broadcast with --include or --exclude: where it is in the inputs and in the
 * outputs. */
struct selected_tensor {
	struct place to;
	int set; /* index of the input */
	const struct tensor *tensor;
};

/* Where a vector's bytes are in this rank's files, their digests and their statistics. */
struct vector_files {
	struct extents *in;    /* [ninputs of the vector]; NULL: no input */
	struct extents *out;   /* [copies], in the sink; NULL: no output */
	struct digest *digest; /* of the output */
	struct stats *stats;   /* request.stats: [ninputs * ntensors] */
};

struct transfer {
	struct dataset *inputs; /* empty if this rank reads no input */
	int ninputs;
	struct file_list gives; /* gather of files: this rank's, as the inputs */
	const char **input_names;
	struct selected_tensor *selected; /* at the root of a broadcast with include or exclude */
	size_t nselected;
	struct tensor *beside; /* with request.with_files: [nbeside of the input], as its files */

	struct origin origin; /* with request.origin */
	struct outer_state outer;
	struct slerp slerp;

	struct sink *sink;    /* NULL: no output */
	int copies;           /* number of outputs with the same bytes */
	char *output;         /* name of the first output */
	struct place *places; /* [copies * ntensors]: where each tensor begins in each output */
	/* Gathered files in the sink: [vector * size + rank], the first of a folder, which the
	 * others follow; NULL: one output. */
	int *split;

	struct vector_files *files;  /* [nvectors] */
	struct exec_vector *vectors; /* [nvectors], for the executor */
	struct drive drive;
	bool moves;        /* data have begun to move */
	bool stores;       /* all outputs must be on disk in the end */
	uint64_t to_write; /* bytes of all outputs, about */
	/* [STAGING]: of the reading thread; what the writing thread writes, and what it reads. */
	uint8_t *read_staging, *write_staging, *compare_staging;

	bool sealing;                     /* the table's entries are digests */
	bool in_place;                    /* this rank's outputs have their final names */
	uint8_t (*digests)[DIGEST_BYTES]; /* of the tensors */
	uint8_t digest[DIGEST_BYTES];     /* of all */

	struct coll_preview preview;
	struct update update; /* of a broadcast: with request.update */
	struct gather_update gather_update;
	struct deletes deletes;     /* with request.deletes */
	struct host_room host_room; /* with request.dry_run */
	struct clones clones;

	struct stats **scanned; /* input_stats_scan: per input, [ntensors] */
	struct coll_found *found;
	size_t nfound;
	struct stats found_all;
	double *bounds;      /* --wire q8: [entries]: how much an element of each tensor may be off;
	                        else NULL */
	float max_error;     /* the greatest of them, rounded up */
	uint64_t overflowed; /* as in struct coll_result; the writing thread counts */
};

struct consolidated;

struct collective {
	struct coll *life;
	const struct coll_request *request;
	struct agreement agreed;
	struct transfer transfer;
	/* during the agreement */
	struct buf details;        /* this rank's offer */
	struct tensor_table table; /* of the tensors */
	int prepared; /* on the coordinator: ranks that know that all are prepared (await_prepared)
	               */
	struct planner planner;            /* at rank 0 */
	struct view root_offer;            /* at rank 0 in a broadcast or scatter */
	struct consolidated *consolidated; /* consolidated.h; NULL: not requested */
};

/* Where the collective has a root. */
static inline bool collective_is_root(const struct collective *c)
{
	return c->agreed.rank == c->agreed.root;
}

/* The threads that this rank may use at a time: --threads, or its share of the processors, perhaps
 * 0. */
int collective_threads(const struct collective *);
/* The processors that this process may use; 0: not known. */
int collective_processors(void);

#define STAGING      (256u << 10) /* bytes of a file thread's conversion buffer */
#define INLINE_BYTES (64u << 10)  /* smaller files are read and written without threads */

/* ---- collective_progress.c ---- */

/* Ranks start to compare files. */
void progress_compare(const struct collective *);
/* Data start to move, of which each output has @out bytes: set transfer.to_write, and predict how
 * long a byte takes in each stage. */
void progress_begin(struct collective *, uint64_t out);

/* ---- preview.c: request.dry_run ---- */

/* Fill transfer.preview, and the numbers of transfer.drive, once the outputs are checked. */
int preview_make(struct collective *, struct err *err);
void preview_release(struct collective *);

/* ---- agree.c ---- */

/* facts.c: add the facts, and make c->table. */
int agree_facts(struct collective *, struct intent *, struct err *err);
/* Fill the intent with the facts and, as its details, the offer. */
int agree_offer(struct collective *, struct err *err);
/* job_decide and job_details (job.h); @ctx is the struct coll. */
int agree_decide(void *ctx, const struct intent *const *intents, struct plan *plan,
                 struct err *err);
void agree_terms(void *ctx, int rank, struct buf *out);
/* network_notes.c: tell the user, at rank 0, what the planner knows of the network. */
void network_notes(const struct collective *, const struct plan *);
/* Adopt the terms. Completes c->agreed. */
int agree_adopt(struct collective *, struct err *err);
/* Lay out vector @v anew, whose info or numbers of rows have changed. */
int agree_layout(struct collective *, struct vector *v, struct err *err);
/* Change agreed.tensors to describe the outputs, as they are laid out. */
void agree_describe_outputs(struct collective *);
void agree_release(struct collective *);

/* ---- input_files.c ---- */

/* Open the inputs, unless they are, and make the vectors. */
int files_open_inputs(struct collective *, struct err *err);
void files_close_inputs(struct collective *);
/* Convert inputs from Fortran order to C order unless that order is kept. */
int files_settle_order(struct collective *, struct err *err);
/* A hash of the identities of the inputs: equal on ranks that read the same files. 0: not known, or
 * not needed, because the result does not depend on how many ranks read the same files. */
uint64_t files_identity(const struct collective *);
/* The base name of input @i. */
const char *files_name(const struct collective *, int i);
/* Check that the other ranks can create a file of this name in their folders. */
int files_check_name(const char *name, struct err *err);
/* @folder joined with the last component of @path. Malloced; NULL: an error. */
char *files_in_folder(const char *folder, const char *path, struct err *err);
/* --each: the output of @d in @folder, of the same name; model.safetensors of model.pt, because the
 * tensors are written in another format. Malloced; NULL: an error. */
char *files_each_output(const char *folder, const struct dataset *d, struct err *err);
/* The list entry of the file or folder @st (NULL: a pipe). It owns @copy, its malloced name. */
struct listed_file files_describe(char *copy, uint64_t bytes, const struct stat *st);
/* Find the holes of the file @fd (-1: it has none), whose entry in the list @l is @f. */
int files_find_holes(struct file_list *l, struct listed_file *f, int fd, struct err *err);
/* Does @d have the tensors of @first? The error names both files. */
int files_check_alike(const struct dataset *d, const struct dataset *first, struct err *err);
/* Append the places of the tensor's bytes, in file set @set. */
int files_map_tensor(struct extents *in, int set, const struct tensor *t, bool swapped,
                     struct err *err);
/* List the files and folders of the input, a folder. */
int files_list_tree(const struct collective *, struct file_list *l, struct err *err);
/* Append the places in file @file of set @set of what is sent of @f (listed_bytes). */
int files_map_data(struct extents *e, int set, int file, const struct listed_file *f,
                   struct err *err);
/* Append the places in file @file of set @set, which begins at @offset there, of what is sent of
 * the root's file number @listed. */
int files_map_listed(const struct collective *, struct extents *e, int set, int file, size_t listed,
                     uint64_t offset, struct err *err);
/* Set vector_files.in: the extents that this rank reads. */
int files_map_inputs(struct collective *, struct err *err);

/* ---- output_files.c ---- */

/* Where tensor number @tensor begins in copy @copy of the output. */
struct place *files_place(const struct collective *, int copy, size_t tensor);
/* The root's input that is file @f of its list; NULL: there is none, or this is another rank. */
const struct dataset_file *files_listed_input(const struct collective *, int f);
/* Add the outputs to the sink, once their formats are known; set vector_files.out; create them. */
int files_name_outputs(struct collective *, struct err *err);
int files_map_outputs(struct collective *, struct err *err);
int files_open_outputs(struct collective *, struct err *err);
/* request.dry_run: check the outputs instead of opening them. */
int files_check_outputs(struct collective *, struct err *err);
/* Broadcast with --include or --exclude: lay out the root's outputs early, because all ranks get
 * the bytes of these files. */
int files_select_outputs(struct collective *, struct err *err);
/* The attributes of a copy of @f. */
struct sink_attributes files_attributes(const struct collective *, const struct listed_file *f);
/* Add a copy of @rank's folder @t, with all its files and folders, at @rest (a path; "": none) in
 * the user's folder @top. Returns the first of its files in the sink, which are in the order of the
 * list; -1. */
int files_name_tree(struct collective *, const struct file_list *t, int rank, const char *top,
                    const char *rest, struct err *err);
/* Check, digest and sync the complete outputs; rename them. */
int files_seal(struct collective *, struct err *err);
int files_commit(struct collective *, struct err *err);
void files_release(struct collective *);

/* ---- output_digests.c ---- */

/* The digest of a vector's output. NULL: no memory. */
struct digest *output_digest_new(const struct collective *, const struct vector *);
/* On the writing thread: @bytes at @pos of the vector with @files are added to its digest and
 * written. */
int output_digest_settle(const struct collective *, const struct vector_files *files, uint64_t pos,
                         uint64_t bytes, struct err *err);
/* Finish the digests of all tensors, and that of all. */
int output_digests_finish(struct collective *, struct err *err);

/* ---- outputs_claimed.c: outputs that several ranks name ---- */

/* Encode the places that this rank writes. */
int outputs_claim(struct collective *, struct buf *, struct err *err);
/* Output number @at is the sink's files from @first on. Drop them (sink_drop) if another rank
 * writes it. */
void outputs_drop(struct collective *, int first, int at);

/* ---- gathered.c: gather of whole files ---- */

/* List this rank's files, and make the vectors: one for each file, or one for a folder. */
int gathered_begin(struct collective *, struct err *err);
/* What this rank says of its files, which it borrows. */
struct rank_files gathered_offer(const struct collective *);
/* At the coordinator: do the lists of all ranks fit the message to the root? ERR_RESOURCE. */
int gathered_fits(const struct agreement *, const struct rank_files *of, struct err *err);
/* At the root: the file in the sink of @rank's file number @f. */
int gathered_file(const struct collective *, int rank, int f);
/* At the root: check that the ranks' files match the vectors. */
int gathered_check(const struct agreement *, struct err *err);
/* Does the root write one file or folder per rank to the output @name, or else one file for all
 * ranks? */
bool gathered_split(const struct collective *, const char *name);
/* Add one file or folder per rank to the sink. @name: as given, with placeholders. */
int gathered_name(struct collective *, const char *name, struct err *err);
/* Set the extents of the vector that this rank reads, if its input is a folder; that the root
 * writes. */
int gathered_map_input(const struct collective *, struct extents *in, struct err *err);
int gathered_map(struct collective *, int vector, struct err *err);

/* ---- elements.c: fileio_ops ---- */

int elements_prepare(struct collective *, struct err *err);
/* The ranks go back (drive.h): forget what was computed of the elements that are read and written
 * once more. @collective: the struct collective. */
void elements_go_back(void *collective);
/* After the transfer, of --wire q8: say by how much elements may be off. ERR_DISAGREE: by more than
 * request.max_error. All ranks find the same. */
int elements_check_error(struct collective *, struct err *err);
/* Write @bytes to the @places in the sink, from byte @pos of them on. On the writing thread. */
int elements_put(const struct collective *, const struct extents *places, const void *buf,
                 uint64_t pos, uint64_t bytes, struct err *err);
/* The parts of elements @pos to @pos + @n - 1 of a vector that are in one tensor each, in order:
 * for (struct tensor_run r = {0}; elements_run(c, v, pos, n, &r);). An array that is divided is one
 * tensor. */
struct tensor_run {
	size_t i;      /* index among the vector's tensors */
	uint64_t at;   /* its first element, in the tensor */
	uint64_t from; /* the same, after @pos */
	uint64_t n;    /* elements, at least 1 */
};
bool elements_run(const struct collective *, const struct vector *, uint64_t pos, uint64_t n,
                  struct tensor_run *);
int elements_read(void *ctx, int vector, int input, void *buf, uint64_t pos, uint64_t n,
                  struct err *err);
int elements_write(void *ctx, int vector, const void *buf, uint64_t pos, uint64_t n, bool final,
                   struct err *err);
void elements_release(struct collective *);

/* ---- input_stats.c: NaN and Inf in the inputs ---- */

/* Scan the inputs before the transfer, if it moves bytes and not elements. */
int input_stats_scan(struct collective *, struct err *err);
/* Put the counts into the result. */
void input_stats_report(struct collective *, struct coll_result *);
void input_stats_release(struct collective *);

#endif
