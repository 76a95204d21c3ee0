/* The steps that stay within a rank, and the arithmetic of those that don't. See exec_internal.h.
 */
#include "lib/exec/exec_internal.h"

#include <string.h>

#define PIECE 512 /* elements worked on at a time where types differ */

/* Is the operation's last function to be applied by @step? */
static bool is_final(const struct part *p, const struct sched_step *step)
{
	return (step->flags & SCHED_FINAL) && p->conf->op == REDUCE_AVG && !p->conf->late;
}

/* dst = left op right (@swapped: right op left) where the types differ or the result is final: in
 * the wider type, rounded once, in pieces that stay in the cache. */
static void combine_wide(const struct part *p, const struct sched_step *step, enum dtype to,
                         enum dtype of, enum dtype with, uint8_t *dst, const uint8_t *left,
                         const uint8_t *right, uint64_t n)
{
	_Alignas(ELEMENT_MAX) uint8_t piece[PIECE * ELEMENT_MAX];
	bool final = is_final(p, step);
	convert_fn *widen = convert_kernel(p->acc, of);
	reduce_fn *reduce = reduce_kernel(p->conf->op, p->acc, with, step->flags & SCHED_WIRE_LEFT);
	convert_fn *narrow = convert_kernel(to, p->acc);
	for (uint64_t i = 0; i < n; i += PIECE) {
		size_t len = n - i < PIECE ? (size_t)(n - i) : PIECE;
		uint8_t *at = dst + i * dtype_size(to);
		widen(piece, left + i * dtype_size(of), len);
		reduce(piece, piece, right + i * dtype_size(with), len);
		if (final)
			final_kernel(to, p->acc)(at, piece, p->conf->divisor, len);
		else
			narrow(at, piece, len);
	}
}

void exec_combine(const struct stream *s, const struct sched_step *step, uint8_t *dst,
                  const uint8_t *left, const uint8_t *right, uint64_t n)
{
	const struct part *p = s->part;
	enum dtype to = buf_dtype(s, step->dst.buf), src = buf_dtype(s, step->src.buf);
	enum dtype of = step->op == SCHED_REDUCE ? to : src;
	enum dtype with = step->op == SCHED_REDUCE ? src : p->dtype;
	bool swapped = step->flags & SCHED_WIRE_LEFT;
	bool final = is_final(p, step);
	if (to == of && with == p->dtype && !final)
		(to == p->acc ? p->reduce_acc : p->reduce)[swapped](dst, left, right, n);
	else
		combine_wide(p, step, to, of, with, dst, left, right, n);
}

/* dst <- IN[0] op ... op IN[N-1], 16-bit floats through f32 and rounded once, in pieces that stay
 * in the cache. */
static void local_reduce(struct exec *x, struct stream *s, const struct sched_step *step,
                         uint64_t pos, uint64_t end)
{
	const struct part *p = s->part;
	size_t piece = QUANTUM / p->acc_esize;
	bool acc = p->acc != p->dtype; /* else dst itself holds the sum */
	for (; pos < end; pos += piece) {
		size_t n = end - pos < piece ? (size_t)(end - pos) : piece;
		uint8_t *dst = at(s, span_add(step->dst, pos));
		uint8_t *sum = acc ? x->scratch : dst;
		for (int k = 0; k < s->sched->ninputs; k++) {
			struct sched_span in = {(uint32_t)k, step->src.off + pos};
			const uint8_t *from = at(s, in);
			if (k == 0 && acc)
				convert_kernel(p->acc, p->dtype)(sum, from, n);
			else if (k == 0)
				memmove(sum, from, n * p->esize);
			else
				(acc ? p->reduce_acc : p->reduce)[0](sum, sum, from, n);
		}
		if (acc)
			convert_kernel(p->dtype, p->acc)(dst, sum, n);
	}
}

static void copy(struct stream *s, const struct sched_step *step, uint64_t from, uint64_t n)
{
	uint8_t *dst = at(s, span_add(step->dst, from));
	const uint8_t *src = at(s, span_add(step->src, from));
	enum dtype to = buf_dtype(s, step->dst.buf);
	enum dtype of = buf_dtype(s, step->src.buf);
	if (is_final(s->part, step))
		final_kernel(to, of)(dst, src, s->part->conf->divisor, n);
	else
		convert_kernel(to, of)(dst, src, n);
}

void exec_run_local(struct exec *x, struct stream *s, uint32_t i)
{
	const struct sched_step *step = &s->sched->steps[i];
	uint64_t done = s->progress[i], limit = done < step->len ? exec_limit(s, i) : done;
	if (done == limit)
		return;
	if (step->op == SCHED_COPY)
		copy(s, step, done, limit - done);
	else if (step->op == SCHED_IDENTITY)
		reduce_identity(s->part->conf->op, buf_dtype(s, step->dst.buf),
		                at(s, span_add(step->dst, done)), limit - done);
	else if (step->op == SCHED_REDUCE)
		exec_combine(s, step, at(s, span_add(step->dst, done)),
		             at(s, span_add(step->dst, done)), at(s, span_add(step->src, done)),
		             limit - done);
	else
		local_reduce(x, s, step, done, limit);
	exec_progress(s, i, limit);
}
