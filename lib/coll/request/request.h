/*
 * The request: what the job does. setting.h sets its members by name; afterwards it is constant,
 * and any thread may read it. request_check finds the errors that this rank can find alone. Checks
 * return 0, or -1: ERR_USAGE, unless they say otherwise.
 */
#ifndef COLLCTL_COLL_REQUEST_REQUEST_H
#define COLLCTL_COLL_REQUEST_REQUEST_H

#include "lib/base/err.h"
#include "lib/coll/request/inputs.h"
#include "lib/coll/request/setting.h"
#include "lib/job/job_settings.h"
#include "lib/data/kernels/reduce.h"
#include "lib/exec/device.h"
#include "lib/sched/sched.h"

/* The kinds of jobs; each has a row in coll.c. */
enum coll_work { WORK_COLLECTIVE, WORK_BARRIER, WORK_VERIFY, WORK_BENCH, WORK_CHECK };

/* How to average integers. */
enum coll_integers {
	INTEGERS_NONE,  /* not given */
	INTEGERS_FIRST, /* rank 0's values */
	INTEGERS_EQUAL, /* rank 0's values, which must equal those of all ranks */
	INTEGERS_ROUND, /* the exact average, rounded to the nearest integer */
};
/* "first"; "not given" for INTEGERS_NONE. */
const char *integers_name(enum coll_integers);

/* How data travel between hosts: as they are; as coded pieces (coded.h); in blocks of 8-bit codes
 * (q8.h); as coded pieces where that is faster. */
enum coll_wire { COLL_WIRE_RAW, COLL_WIRE_LOSSLESS, COLL_WIRE_Q8, COLL_WIRE_AUTO };

struct bench_request {
	enum dtype dtype;
	uint64_t minbytes, maxbytes;
	int factor; /* from one size to the next */
	int warmup, iters;
	bool check;
	bool barrier; /* the ranks wait for each other before each iteration */
};

struct check_request {
	int64_t time;           /* ns for which each bandwidth is measured */
	uint64_t min_bandwidth; /* bytes per second; 0: any will do */
	int64_t max_latency;    /* ns of a median round trip; 0: any */
	const char *hosts_out;  /* file for the list of hosts that reach each other, or NULL */
	/* On the coordinator's rank, hosts that have no rank or too few, for which the check fails
	 * at its end: "HOST: WHY\n" for each, or NULL */
	const char *absent;
};

/* Stochastic gradient descent with Nesterov's momentum. */
struct outer {
	double rate, momentum;
};

#define COLL_ALSO 3

struct sink_capture;

struct coll_request {
	enum coll_work work;
	enum coll_kind kind; /* the collective that runs or that bench measures */
	const char *command; /* for messages: "allreduce", "verify" */
	struct job_settings settings;

	char *const *inputs; /* names with placeholders and patterns expanded */
	int ninputs;
	const char **outputs;
	int noutputs;
	/* [narrays]: the inputs that are arrays in memory; the file @path has its head alone. */
	const struct input_array {
		const char *path;
		const void *data;
	} * arrays;
	int narrays;
	struct sink_capture *capture; /* of the output "-"; NULL: it goes to stdout */
	struct input_options files;
	enum dtype output_dtype; /* of the outputs; DTYPE_NONE: that of the inputs */
	uint64_t max_shard; /* bytes of tensors in a file of the output; 0: the files are as the
	                       input's */
	bool with_files;  /* the output's folder also gets the files beside the tensors of rank 0's
	                     or the root's first input (dataset_beside.h) */
	bool each;        /* process each input separately; the output is a folder */
	bool consolidate; /* gather the pieces of checkpoints into whole tensors */
	bool check_replicas; /* compare pieces that several ranks have */
	int shard_dim;       /* scatter: the axis along which tensors are cut into shards */
	bool have_shard_dim;
	bool times;  /* copies get the modification times of the originals */
	bool update; /* broadcast and gather of files: what the receivers have is not sent; implies
	              * times */
	const char *delta; /* the root's old version of the input: implies update, and pieces are
	                      sent as differences to it; NULL: none */
	bool resume;   /* broadcast of files: outputs are written to parts (part.h), and what all
	                  ranks' parts have is not sent */
	bool deletes;  /* broadcast of a folder: remove what it does not have from the outputs */
	bool links;    /* broadcast and gather of folders: copy symbolic links that stay in them */
	bool checksum; /* with update: compare digests, and not sizes and times */
	bool force;    /* replace the target of an output that is a symbolic link; replace existing
	                  files whose names another rank chooses */
	bool no_digest_cache; /* without digest_cache.h */
	bool no_sync;         /* do not wait until the output is on disk */
	bool stats;           /* look for NaN and Inf in the inputs */
	bool same; /* verify: all files of all ranks must be equal, not only those with one index */

	enum reduce_op op;         /* REDUCE_SUM if the collective has no operation */
	struct reduce_param param; /* the operation's numbers */
	const char *origin; /* file of the origin of the contributions; NULL: they are the inputs */
	double scale;       /* with origin: the factor of what is added to it */
	bool have_scale;
	struct outer outer; /* with origin: the result is a step of this optimiser */
	bool have_outer;
	const char *momentum; /* file of its momentum; NULL: not given */
	bool ordered;         /* reduce in rank order, and floats in f64 */
	bool divergent;       /* allow results whose last bits differ between ranks */
	double *weights; /* [nweights] of this rank's inputs in an average: one for all, or one for
	                  * each; NULL: 1 */
	int nweights;
	enum coll_integers integers;

	const char *algorithm; /* "auto"; bench: several, or "all" */
	const char *tuning;    /* tuning file; NULL: the built-in rates */
	bool explain;          /* report the predicted times (coll_observer.selected) */
	bool trace;            /* record what all ranks do (coll_observer.traced) */
	bool dry_run;          /* only agree, and report what would be done (coll_preview) */
	int root;
	bool have_root;
	const char *root_host; /* the root is the rank on this host; NULL: `root` */
	int base;              /* 0: the algorithm's default */
	int steps;             /* 0: not given */
	uint64_t *counts;      /* [ncounts] rows of each rank's part; NULL: as even as possible */
	int ncounts;
	int streams; /* 0: automatic */
	enum coll_wire wire;
	double max_error; /* with COLL_WIRE_Q8: the most that an element of the result may be off */
	bool have_max_error;
	int threads;                /* 0: automatic */
	struct device_list devices; /* in whose memory inputs and outputs are */
	bool have_devices;          /* the user has given them */
	enum gpu_path device_path;
	uint64_t device_memory; /* bytes that this rank may use on each device; 0: three quarters of
	                           the free bytes */

	const char *tuning_out; /* file for the measurements of bench and check, or NULL */
	/* Files that the caller writes, traces and a picture, so that they are compared with the
	 * files of the job (written.h). */
	struct coll_also {
		const char *option; /* "--trace" */
		const char *path;   /* NULL: none */
	} also[COLL_ALSO];
	struct bench_request bench;
	struct check_request check;
};

/* Set the defaults. The caller owns the texts that members point to; they must outlive the
 * request. */
void request_init(struct coll_request *, enum coll_work);
void request_release(struct coll_request *);

/* The settings (setting.h). */
extern const struct setting request_settings[];
extern const size_t request_settings_len;
/* The groups (FOR_*) of settings that a job takes; does a job take this setting? */
uint64_t request_groups(enum coll_work work, enum coll_kind kind);
bool request_takes(const struct coll_request *, const struct setting *);
/* The row with this name that the job takes; else the first row with this name; NULL: there is
 * none. */
const struct setting *request_setting(const struct coll_request *, const char *name);
/* The option by which the ranks compare files, or their parts, before they broadcast them; NULL:
 * none. */
const char *request_compares(const struct coll_request *);

/* Is the request valid for some number of ranks? */
int request_check(const struct coll_request *, struct err *err);
/* Is it valid for @size ranks? */
int request_check_size(const struct coll_request *, int size, struct err *err);
/* Are settings.min_ranks enough of @size ranks? @one: only one of them can ever coordinate the job:
 * they meet at a store, and have numbers. */
int request_check_fewest(const struct job_settings *, int size, bool one, struct err *err);
/* Does the collective take the inputs @paths[n]? */
int request_check_inputs(const struct coll_request *, int n, char *const *paths, struct err *err);
/* Does --weight fit @n local inputs? */
int request_check_weights(const struct coll_request *, int n, struct err *err);
/* The weight of local input @input in an average. */
double request_weight(const struct coll_request *, int input);
/* The element type of the output for elements of @dtype. */
enum dtype request_output_dtype(const struct coll_request *, enum dtype);
/* Does the request add and average in blocks of 8-bit codes (q8.h)? */
static inline bool request_is_q8(const struct coll_request *r)
{
	return r->wire == COLL_WIRE_Q8;
}
/* Are all contributions to an element needed at once, and not added in pairs? */
bool request_is_joint(const struct coll_request *);
/* The operation that the executor runs, and its part. */
enum reduce_op request_run_op(const struct coll_request *);
double request_run_part(const struct coll_request *);
/* Is the result a mean of some kind, which integers seldom have? */
bool request_runs_mean(const struct coll_request *);
/* Is some weight not 1? */
bool request_is_weighted(const struct coll_request *);

/* Set *out to the algorithm @name; "auto": NULL. ERR_USAGE lists the names. */
int request_algorithm(enum coll_kind kind, const char *name, const struct coll_algorithm **out,
                      struct err *err);
/* Does the request have the devices that @alg (NULL: auto) needs? */
int request_check_device(const struct coll_request *, const struct coll_algorithm *alg,
                         struct err *err);
/* Can @alg reduce in rank order? ERR_USAGE lists the algorithms that can. */
int request_check_order(const struct coll_algorithm *alg, struct err *err);
/* Is the operation defined for @kind? */
int request_check_op(enum coll_kind kind, enum reduce_op op, struct err *err);
/* Can the operation have @n contributions of all ranks? ERR_USAGE. */
int request_check_contributions(const struct coll_request *, uint64_t n, struct err *err);
/* Does the job compute on devices? Joint operations are computed in host memory. */
bool request_uses_devices(const struct coll_request *);
/* If it is joint: can @alg (NULL: auto) run it? ERR_USAGE lists
 * the algorithms that can. */
int request_check_joint(const struct coll_request *, const struct coll_algorithm *alg,
                        struct err *err);
/* Are the root and, for an exchange, steps (> 0) valid for @size ranks? */
int request_check_ranks(enum coll_kind kind, int root, int steps, int size, struct err *err);

/* ---- properties of the collectives ---- */

/* How arrays are divided into blocks. */
enum coll_cut {
	CUT_ELEMENTS, /* all arrays have the same shape; the elements are divided as evenly as
	                 possible */
	CUT_ROWS,     /* the rows (axis 0) are divided as evenly as possible, or by counts */
	CUT_JOINED,   /* a rank's array is its block; the arrays are joined along axis 0 */
};

struct coll_rules {
	enum coll_cut cut;
	bool replicated; /* every rank has the same result */
	bool sets;       /* takes inputs of named tensors (.safetensors, .npz) */
	bool bytes;      /* can treat files as bytes */
	bool averages;   /* takes weights, and averages integers */
	bool rooted;     /* one rank is the root */
	bool radix;      /* has algorithms that take a base */
};
const struct coll_rules *coll_rules(enum coll_kind);

/* Does @rank read an input? Write an output? */
bool coll_reads(enum coll_kind kind, int rank, int size, int root);
bool coll_writes(enum coll_kind kind, int rank, int size, int root);

/* Does the request copy files of all ranks to the root? */
static inline bool request_gathers_files(const struct coll_request *r)
{
	return r->kind == COLL_GATHER && r->files.raw_file;
}
/* Are the inputs checkpoints, whose tensors are moved as bytes? */
static inline bool request_moves_pieces(const struct coll_request *r)
{
	return r->consolidate || r->have_shard_dim;
}
/* May the ranks' arrays have different numbers of rows? */
static inline bool request_any_rows(const struct coll_request *r)
{
	return coll_rules(r->kind)->cut == CUT_JOINED || r->kind == COLL_ALLTOALL;
}
/* Does only the root have an input? */
static inline bool request_root_offers(const struct coll_request *r)
{
	return r->kind == COLL_BROADCAST || r->kind == COLL_SCATTER;
}

#endif
