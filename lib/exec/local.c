/* The steps that stay within a rank, and the arithmetic of those that don't. See exec_internal.h.
 */
#include "lib/exec/exec_internal.h"

#include <string.h>

#define PIECE 512 /* elements worked on at a time where types differ */

/* dst = left op right (@swapped: right op left) where the types differ or the result is final: in
 * the wider type, rounded once, in pieces that stay in the cache. */
void exec_combine(struct exec *x, const struct sched *sched, const struct sched_step *step,
                  uint8_t *dst, const uint8_t *left, const uint8_t *right, uint64_t n)
{
	enum dtype to = buf_dtype(x, sched, step->dst.buf);
	enum dtype src = buf_dtype(x, sched, step->src.buf);
	enum dtype of = step->op == SCHED_REDUCE ? to : src;
	enum dtype with = step->op == SCHED_REDUCE ? src : x->conf.dtype;
	bool swapped = step->flags & SCHED_WIRE_LEFT;
	bool final = (step->flags & SCHED_FINAL) && x->conf.op == REDUCE_AVG;
	if (to == of && with == x->conf.dtype && !final) {
		(to == x->acc ? x->reduce_acc : x->reduce)[swapped](dst, left, right, n);
		return;
	}
	double piece[PIECE];
	for (uint64_t i = 0; i < n; i += PIECE) {
		size_t len = n - i < PIECE ? (size_t)(n - i) : PIECE;
		convert_kernel(x->acc, of)(piece, left + i * dtype_size(of), len);
		reduce_kernel(x->conf.op, x->acc, with, swapped)(piece, piece,
		                                                 right + i * dtype_size(with), len);
		if (final)
			final_kernel(to, x->acc)(dst + i * dtype_size(to), piece, x->conf.divisor,
			                         len);
		else
			convert_kernel(to, x->acc)(dst + i * dtype_size(to), piece, len);
	}
}

/* dst <- IN[0] op ... op IN[N-1], 16-bit floats through f32 and rounded once, in pieces that stay
 * in the cache. */
static void local_reduce(struct exec *x, struct stream *s, const struct sched_step *step,
                         uint64_t from, uint64_t to)
{
	size_t wide = dtype_size(x->acc), piece = QUANTUM / wide;
	bool acc = x->acc != x->conf.dtype; /* else dst itself holds the sum */
	for (uint64_t pos = from; pos < to; pos += piece) {
		size_t n = to - pos < piece ? (size_t)(to - pos) : piece;
		uint8_t *dst = at(x, s, span_add(step->dst, pos));
		uint8_t *sum = acc ? x->scratch : dst;
		for (int k = 0; k < s->sched->ninputs; k++) {
			struct sched_span in = {(uint32_t)k, step->src.off + pos};
			const uint8_t *p = at(x, s, in);
			if (k == 0 && acc)
				convert_kernel(x->acc, x->conf.dtype)(sum, p, n);
			else if (k == 0)
				memmove(sum, p, n * x->esize);
			else
				(acc ? x->reduce_acc : x->reduce)[0](sum, sum, p, n);
		}
		if (acc)
			convert_kernel(x->conf.dtype, x->acc)(dst, sum, n);
	}
}

static void copy(struct exec *x, struct stream *s, const struct sched_step *step, uint64_t from,
                 uint64_t n)
{
	const struct sched *sched = s->sched;
	uint8_t *dst = at(x, s, span_add(step->dst, from));
	const uint8_t *src = at(x, s, span_add(step->src, from));
	enum dtype to = buf_dtype(x, sched, step->dst.buf);
	enum dtype of = buf_dtype(x, sched, step->src.buf);
	if ((step->flags & SCHED_FINAL) && x->conf.op == REDUCE_AVG)
		final_kernel(to, of)(dst, src, x->conf.divisor, n);
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
		copy(x, s, step, done, limit - done);
	else if (step->op == SCHED_IDENTITY)
		reduce_identity(x->conf.op, buf_dtype(x, s->sched, step->dst.buf),
		                at(x, s, span_add(step->dst, done)), limit - done);
	else if (step->op == SCHED_REDUCE)
		exec_combine(x, s->sched, step, at(x, s, span_add(step->dst, done)),
		             at(x, s, span_add(step->dst, done)),
		             at(x, s, span_add(step->src, done)), limit - done);
	else
		local_reduce(x, s, step, done, limit);
	exec_progress(s, i, limit);
}
