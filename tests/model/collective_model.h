/*
 * What a collective means: the elements of every rank's output, from the inputs of all. It says so
 * of each element alone and in the plainest way; it knows no schedules, windows or layouts. Of the
 * product it uses only the conversions of narrow floats, which test_convert.c checks. oracle.py
 * says the same in numpy, and each checks the other (model.bats).
 *
 * Without allocations, errors or state. Types: integers and floats with arithmetic, and complex;
 * not bool.
 */
#ifndef COLLCTL_TESTS_COLLECTIVE_MODEL_H
#define COLLCTL_TESTS_COLLECTIVE_MODEL_H

#include <complex.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/data/kernels/reduce.h"
#include "lib/sched/coll_args.h"

#define MODEL_RANKS   24
#define MODEL_INPUTS  3
#define MODEL_ELEMENT 16 /* bytes of an element, at most */

struct model {
	enum coll_kind kind; /* a barrier makes what an allreduce does; an exchange has no output */
	int size, root;
	uint64_t rows[MODEL_RANKS]; /* elements of each input of a rank */
	const uint64_t
	        *cut[MODEL_RANKS]; /* [r][j] to [r][j + 1]: what of rank r's input is for rank j,
	                              where the collective divides inputs. Borrowed */
	/* What follows is for the values alone. */
	enum dtype dtype;
	enum reduce_op op;
	double divisor; /* of an average */
	double trim;    /* of a trimmed mean: the part that is left out at either end */
	int ninputs[MODEL_RANKS];
	const uint8_t *in[MODEL_RANKS][MODEL_INPUTS]; /* borrowed */
};

/* A collective on blocks, of which rank r's begins at @off[r]: what it gathers or gets. One input
 * each. */
struct model model_of_blocks(enum coll_kind, int size, int root, const uint64_t *off);

/* off[0] to off[size]: @n elements in parts that are as even as can be, the larger ones first. */
void model_split(uint64_t n, int size, uint64_t *off);

/* ---- which elements ---- */

/* Does rank @r have an output (even if it has no elements), and of how many elements? */
bool model_has_output(const struct model *, int r);
uint64_t model_rows(const struct model *, int r);

/* The sum of element @at of the inputs of the ranks [lo, hi); of none: the identity. */
struct model_source {
	int lo, hi;
	uint64_t at;
};

/* Where element @pos of rank @r's output comes from. */
struct model_source model_source(const struct model *, int r, uint64_t pos);

/* ---- their values ---- */

/* Do the bits of the output depend on the order in which it is added? */
bool model_rounds(const struct model *);

/* Element @pos of rank @r's output. What rounds is added in rank order, in f64, and rounded once.
 */
void model_element(const struct model *, int r, uint64_t pos, void *out);

/* The median or, if @op is that, the trimmed mean of the @n elements at @values[n], at most
 * MODEL_JOINT. */
#define MODEL_JOINT 1024
void model_joint(enum dtype, enum reduce_op op, double trim, const uint8_t *const *values, int n,
                 void *out);

/* The same of what rounds, as a number, if it is added in any order; *@slack: how far a result may
 * be from it. */
double complex model_near(const struct model *, int r, uint64_t pos, double *slack);

/* The type of the two parts of a complex number; of another type the type itself. */
enum dtype model_part(enum dtype);
/* The number that an element is, and the element of a number that the type has. */
double complex model_number(enum dtype, const void *);
void model_encode(enum dtype, double complex, void *out);

#endif
