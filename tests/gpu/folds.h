/*
 * Folds to compare with the host's (lib/exec/memory_host.c): every operation, type and accumulator,
 * several numbers of inputs, lengths, offsets and alignments, with values that make trouble.
 */
#ifndef COLLCTL_TESTS_FOLDS_H
#define COLLCTL_TESTS_FOLDS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/data/kernels/reduce.h"

#define FOLD_INPUTS 20                   /* at most */
#define FOLD_BYTES  ((size_t)1088 << 10) /* of each buffer: 65536 elements of 16 bytes, and room */

struct fold_case {
	enum reduce_op op;
	enum dtype dtype, acc;
	int ninputs;
	uint64_t n;
	uint64_t offset; /* bytes */
	uint64_t to;     /* bytes from the destination's beginning; in place: offset */
	bool in_place;
};

/* Does @dst[FOLD_BYTES], which it returns as it is after the fold; its first contents are given.
 * @inputs[ninputs] have FOLD_BYTES each and are not changed. -1: it has failed, and said why. */
typedef int fold_run(void *ctx, const struct fold_case *c, const uint8_t *const *inputs,
                     uint8_t *dst);

/* Run every @every-th case. Returns the number of those with other bits, which are printed; *cases:
 * of those that ran. */
int folds_check(fold_run *run, void *ctx, int every, long *cases);

/* A result of @c on the host: what @dst[FOLD_BYTES] has to be. */
void folds_expect(const struct fold_case *c, const uint8_t *const *inputs, uint8_t *dst);
/* The same of an identity of @n elements. */
void identity_expect(enum reduce_op op, enum dtype dtype, uint64_t n, void *dst);

/* The accumulators that a type may have: the type itself and wider ones. */
#define FOLD_ACCS 4
enum dtype fold_acc(enum dtype dtype, int i);

#endif
