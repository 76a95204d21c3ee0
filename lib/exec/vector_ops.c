/* Vectors: the types and kernels of each, the schedules of its windows, and the edges, buffers and
 * elements that those use. See exec_internal.h. */
#include "algorithms/table.h"
#include "lib/exec/exec_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/offload.h"
#include "lib/data/kernels/joint.h"

/* ---- schedules ---- */

static struct sched *build(const struct coll_algorithm *alg, const struct coll_args *args,
                           struct err *err)
{
	enum sched_error e = SCHED_OK;
	struct sched *sched = coll_build(alg, args, &e);
	if (!sched)
		err_set(err, e == SCHED_NOMEM || e == SCHED_TOO_LARGE ? ERR_RESOURCE : ERR_OTHER,
		        "the schedule of %s cannot be built: %s", alg->name, sched_strerror(e));
	return sched;
}

static int add_edges(struct sched *sched, uint8_t *used)
{
	if (!sched)
		return -1;
	for (uint32_t i = 0; i < sched->nsteps; i++)
		if (sched->steps[i].peer >= 0)
			used[sched->steps[i].peer] |=
			        sched->steps[i].op == SCHED_SEND ? EXEC_OUT : EXEC_IN;
	sched_free(sched);
	return 0;
}

int exec_edges(const struct coll_algorithm *alg, const struct coll_args *args, uint8_t *used,
               struct err *err)
{
	return add_edges(build(alg, args, err), used);
}

int exec_footprint(const struct coll_algorithm *alg, const struct coll_args *args,
                   enum reduce_op op, enum dtype dtype, bool ordered, uint64_t *bytes,
                   struct err *err)
{
	struct sched *sched = build(alg, args, err);
	if (!sched)
		return -1;
	size_t acc = dtype_size(reduce_acc_dtype(op, dtype, ordered));
	*bytes = 0;
	for (uint32_t b = 0; b < sched->nbufs; b++)
		*bytes += sched->bufs[b].len *
		          (sched->bufs[b].type == SCHED_ACC ? acc : dtype_size(dtype));
	sched_free(sched);
	return 0;
}

/* Add the bytes that the steps move. */
static void add_moves(const struct sched *sched, size_t esize, uint64_t moves[EXEC_MOVES])
{
	for (uint32_t i = 0; i < sched->nsteps; i++) {
		const struct sched_step *step = &sched->steps[i];
		const uint64_t bytes = step->len * esize;
		if (step->peer >= 0)
			moves[EXEC_WIRE] += bytes;
		else if (step->op == SCHED_READ)
			moves[EXEC_READ] += bytes;
		else if (step->op == SCHED_WRITE)
			moves[EXEC_WRITE] += bytes;
	}
}

/* ---- windows ---- */

int window_init(struct window *w, int size, struct err *err)
{
	size_t n = (size_t)size + 1;
	*w = (struct window){0};
	w->off = err_calloc(n, sizeof *w->off, "a window", err);
	w->recv_off = err_calloc(n, sizeof *w->recv_off, "a window", err);
	return w->off && w->recv_off ? 0 : -1;
}

void window_release(struct window *w)
{
	free(w->off);
	free(w->recv_off);
}

/* Set @off so that block j of window @k is its share of block j of @whole. True: @off changed.
 */
static bool cut(const struct exec_vector *p, uint32_t k, const uint64_t *whole, uint64_t *off)
{
	bool moved = false;
	for (int j = 0; j < p->args.size; j++) {
		uint64_t len = whole[j + 1] - whole[j];
		uint64_t end = off[j] + exec_share(len, k + 1, p->windows) -
		               exec_share(len, k, p->windows);
		moved |= off[j + 1] != end;
		off[j + 1] = end;
	}
	return moved;
}

static bool alike(const struct coll_args *a, const struct coll_args *b)
{
	return a->rank == b->rank && a->size == b->size && a->root == b->root &&
	       a->ninputs == b->ninputs && a->joint == b->joint && a->stores == b->stores &&
	       a->devices == b->devices && a->unlinked == b->unlinked &&
	       !a->recv_off == !b->recv_off && a->base == b->base && a->steps == b->steps &&
	       a->esize == b->esize;
}

bool window_set(struct window *w, const struct exec_vector *p, uint32_t k)
{
	bool other =
	        w->algorithm != p->algorithm || w->ranks != p->ranks || !alike(&w->args, &p->args);
	w->algorithm = p->algorithm;
	w->ranks = p->ranks;
	w->args = p->args;
	w->args.off = w->off;
	other |= cut(p, k, p->args.off, w->off);
	if (p->args.recv_off) {
		w->args.recv_off = w->recv_off;
		other |= cut(p, k, p->args.recv_off, w->recv_off);
	}
	return other;
}

struct sched *window_sched(const struct window *w, struct err *err)
{
	struct sched *sched = build(w->algorithm, &w->args, err);
	for (uint32_t i = 0; sched && w->ranks && i < sched->nsteps; i++)
		if (sched->steps[i].peer >= 0)
			sched->steps[i].peer = w->ranks[sched->steps[i].peer];
	return sched;
}

/* The first window from @k on that has elements of one of the blocks @off[0..size]; @most: none. */
static uint32_t next_window(const uint64_t *off, int size, uint32_t k, uint32_t windows,
                            uint32_t most)
{
	for (int j = 0; off && j < size; j++) {
		const uint64_t len = off[j + 1] - off[j];
		if (!len)
			continue;
		const unsigned __int128 end = (unsigned __int128)exec_share(len, k, windows) + 1;
		const uint32_t at = (uint32_t)((end * windows + len - 1) / len) - 1;
		most = at < most ? at : most;
	}
	return most;
}

/* The last window from @k on that is like window @k, which is empty. */
static uint32_t last_empty(const struct exec_vector *p, uint32_t k)
{
	const uint32_t next = next_window(p->args.off, p->args.size, k, p->windows, p->windows);
	return next_window(p->args.recv_off, p->args.size, k, p->windows, next) - 1;
}

static bool is_empty(const struct window *w)
{
	const int n = w->args.size;
	return !w->off[n] && (!w->args.recv_off || !w->recv_off[n]);
}

int exec_window_edges(const struct exec_conf *conf, uint8_t *used, struct err *err)
{
	struct window w;
	int ret = window_init(&w, exec_ranks(conf), err);
	for (int i = 0; ret == 0 && i < conf->nvectors; i++) {
		const struct exec_vector *p = &conf->vectors[i];
		for (uint32_t k = 0; ret == 0 && k < p->windows; k++) {
			ret = offload_stopped(err);
			if (ret == 0 && window_set(&w, p, k))
				ret = add_edges(window_sched(&w, err), used);
			if (is_empty(&w)) /* more windows than elements */
				k = last_empty(p, k);
		}
	}
	window_release(&w);
	return ret;
}

static int foresee_window(const struct window *w, size_t esize, struct exec_stats *once,
                          struct err *err)
{
	struct sched *sched = window_sched(w, err);
	if (!sched)
		return -1;
	*once = (struct exec_stats){0};
	for (uint32_t i = 0; i < sched->nsteps; i++) {
		const struct sched_step *step = &sched->steps[i];
		if (step->peer < 0)
			continue;
		*(step->op == SCHED_SEND ? &once->bytes_sent : &once->bytes_received) +=
		        step->len * esize;
		once->messages += step->op == SCHED_SEND;
	}
	sched_free(sched);
	return 0;
}

int exec_foresee(const struct exec_conf *conf, struct exec_stats *out, struct err *err)
{
	struct exec_stats once = {0};
	struct window w;
	int ret = window_init(&w, exec_ranks(conf), err);
	*out = (struct exec_stats){0};
	for (int p = 0; ret == 0 && p < conf->nvectors; p++) {
		const struct exec_vector *v = &conf->vectors[p];
		for (uint32_t k = 0; ret == 0 && k < v->windows; k++) {
			if (window_set(&w, v, k))
				ret = foresee_window(&w, dtype_size(v->dtype), &once, err);
			out->bytes_sent += once.bytes_sent;
			out->bytes_received += once.bytes_received;
			out->messages += once.messages;
		}
	}
	window_release(&w);
	return ret;
}

/* ---- vectors ---- */

static bool computes(enum coll_kind kind)
{
	return coll_reduces(kind) || kind == COLL_BARRIER;
}

static int joint_init(struct vector_ops *p, struct err *err)
{
	const struct exec_vector *conf = p->conf;
	const uint64_t n = coll_contributions(&conf->args);
	const bool defined = p->dtype == DTYPE_Q8 || reduce_op_defined(conf->op, p->dtype);
	if (!defined || n < 1 || n > JOINT_MOST)
		return err_set(err, ERR_OTHER,
		               "%s of %" PRIu64 " contributions of %s cannot be computed",
		               reduce_op_name(conf->op), n, dtype_name(p->dtype));
	p->cut = conf->op == REDUCE_TRIMMED ? joint_cut(conf->trim, (int)n) : 0;
	return 0;
}

static int vector_ops_init(struct vector_ops *p, const struct exec_vector *conf, uint64_t first,
                           struct err *err)
{
	const struct coll_args *a = &conf->args;
	enum coll_kind kind = conf->algorithm->kind;
	*p = (struct vector_ops){.conf = conf, .first = first, .dtype = conf->dtype};
	p->layout = coll_layout(kind, a->rank, a->size, a->root);
	p->acc = computes(kind) ? reduce_acc_dtype(conf->op, conf->dtype, conf->ordered)
	                        : conf->dtype;
	p->esize = dtype_size(p->dtype);
	p->acc_esize = dtype_size(p->acc);
	if (p->esize == 0)
		return err_set(err, ERR_OTHER, "an element of %s is not a whole number of bytes",
		               dtype_name(p->dtype));
	if (computes(kind) && (reduce_is_joint(conf->op) || p->dtype == DTYPE_Q8))
		return joint_init(p, err);
	for (int swapped = 0; swapped < 2 && computes(kind); swapped++) {
		if (!reduce_kernel(conf->op, p->dtype, p->dtype, swapped) ||
		    !reduce_kernel(conf->op, p->acc, p->dtype, swapped))
			return err_set(err, ERR_OTHER, "%s of %s cannot be computed",
			               reduce_op_name(conf->op), dtype_name(p->dtype));
	}
	return 0;
}

int exec_init_parts(struct exec *x, struct err *err)
{
	int n = x->conf.nvectors;
	if (!(x->vectors = err_calloc((size_t)n, sizeof *x->vectors, "the vectors", err)))
		return -1;
	for (int p = 0; p < n; p++) {
		if (vector_ops_init(&x->vectors[p], &x->conf.vectors[p], x->windows, err) < 0)
			return -1;
		x->windows += x->conf.vectors[p].windows;
	}
	return 0;
}

/* Add what vector @p moves from window conf.first on, computed as if it were one window. */
static int count_moves(struct exec *x, const struct vector_ops *p, struct err *err)
{
	const uint32_t windows = p->conf->windows;
	const uint64_t past = x->conf.first > p->first ? x->conf.first - p->first : 0;
	bool begun = windows == 1 && !x->conf.members && !x->conf.first &&
	             p->first < (uint64_t)x->nstreams;
	uint64_t moves[EXEC_MOVES] = {0};
	if (past >= windows)
		return 0;
	struct sched *sched =
	        begun ? x->streams[p->first].sched : build(p->conf->algorithm, &p->conf->args, err);
	if (!sched)
		return -1;
	add_moves(sched, p->esize, moves);
	for (int k = 0; k < EXEC_MOVES; k++)
		x->moves_once[k] += moves[k] - exec_share(moves[k], (uint32_t)past, windows);
	if (!begun)
		sched_free(sched);
	return 0;
}

int exec_count_moves(struct exec *x, struct err *err)
{
	for (int p = 0; p < x->conf.nvectors; p++)
		if (count_moves(x, &x->vectors[p], err) < 0)
			return -1;
	memcpy(x->stats.total, x->moves_once, sizeof x->stats.total);
	return 0;
}
