/*
 * Prints what the model says of a grid of cases, one a line in JSON: every collective, every
 * operation on every type, even and uneven parts, empty ones among them. `oracle.py model` reads
 * it.
 *
 * Floats are added in rank order. Where another order would be right too, the model's own two
 * answers are compared here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/model/collective_model.h"

#define ROWS 11 /* of an input, at most */
#define SIZE 7  /* ranks, at most */

static uint64_t state = 1;

static uint64_t draw(void)
{
	uint64_t z = (state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

struct answer {
	struct model m;
	bool even;
	uint64_t cuts[SIZE][SIZE + 1];
	uint8_t values[SIZE][MODEL_INPUTS][ROWS * MODEL_ELEMENT];
};

/* ---- cases ---- */

/* Products stay in the range of every type. numpy may multiply complex numbers with other
 * roundings: of theirs all sums and products are exact. */
static void draw_element(const struct model *m, uint8_t *out)
{
	static const double factors[] = {-2, -1, 1, 1, 2, 0.5};
	const double unit = (double)(draw() >> 11) * 0x1p-53, factor = factors[draw() % 6];
	const uint64_t bits = draw();

	if (dtype_is_complex(m->dtype))
		model_encode(m->dtype, factor * (2 + (double complex)I), out);
	else if (dtype_is_float(m->dtype))
		model_encode(m->dtype, m->op == REDUCE_PROD ? 0.8 + 0.45 * unit : 4 * unit - 2,
		             out);
	else
		memcpy(out, &bits, dtype_size(m->dtype));
}

static void draw_cuts(struct answer *a, int r, uint64_t rows)
{
	uint64_t left = rows;

	if (a->even) {
		model_split(rows, a->m.size, a->cuts[r]);
		return;
	}
	a->cuts[r][0] = 0;
	for (int j = 0; j < a->m.size; j++) {
		const uint64_t n = j == a->m.size - 1 ? left : draw() % 3 ? draw() % (left + 1) : 0;

		a->cuts[r][j + 1] = a->cuts[r][j] + n;
		left -= n;
	}
}

/* Do the ranks' inputs have the same rows, cut in the same way? */
static bool is_alike(enum coll_kind kind)
{
	return kind != COLL_GATHER && kind != COLL_ALLGATHER && kind != COLL_ALLTOALL;
}

static void draw_case(struct answer *a, enum coll_kind kind, enum reduce_op op, enum dtype d)
{
	struct model *m = &a->m;
	const uint64_t rows = draw() % (ROWS + 1);
	const bool several =
	        coll_takes_several(kind) && (!dtype_is_float(d) || reduce_is_joint(op));

	*m = (struct model){.kind = kind, .size = 1 + (int)(draw() % SIZE), .dtype = d, .op = op};
	m->root = (int)(draw() % (uint64_t)m->size);
	m->divisor = m->size;
	m->trim = 0.125 * (double)(draw() % 4);
	a->even = draw() % 2;
	for (int r = 0; r < m->size; r++) {
		const bool reads = r == m->root || (kind != COLL_BROADCAST && kind != COLL_SCATTER);

		m->rows[r] = is_alike(kind) ? rows : draw() % (ROWS + 1);
		m->ninputs[r] = reads ? several ? 1 + (int)(draw() % MODEL_INPUTS) : 1 : 0;
		if (r && is_alike(kind))
			memcpy(a->cuts[r], a->cuts[0], sizeof(a->cuts[0]));
		else
			draw_cuts(a, r, m->rows[r]);
		m->cut[r] = a->cuts[r];
		for (int k = 0; k < m->ninputs[r]; k++) {
			m->in[r][k] = a->values[r][k];
			for (uint64_t i = 0; i < m->rows[r]; i++)
				draw_element(m, a->values[r][k] + i * dtype_size(d));
		}
	}
}

/* ---- answers ---- */

static void print_bytes(const uint8_t *p, size_t n)
{
	putchar('"');
	for (size_t i = 0; i < n; i++)
		printf("%02x", p[i]);
	putchar('"');
}

/* The parts of each rank's input; null: even ones. */
static void print_counts(const struct answer *a)
{
	if (a->even) {
		printf("null");
		return;
	}
	for (int r = 0; r < a->m.size; r++) {
		printf(r ? ", [" : "[[");
		for (int j = 0; j < a->m.size; j++)
			printf("%s%d", j ? "," : "", (int)(a->cuts[r][j + 1] - a->cuts[r][j]));
		printf("]");
	}
	printf("]");
}

static void print_output(const struct model *m, int r)
{
	const size_t size = dtype_size(m->dtype);
	uint8_t out[SIZE * ROWS * MODEL_ELEMENT];
	double slack;

	for (uint64_t i = 0; i < model_rows(m, r); i++) {
		model_element(m, r, i, out + i * size);
		if (model_rounds(m) && !(cabs(model_near(m, r, i, &slack) -
		                              model_number(m->dtype, out + i * size)) <= slack)) {
			fprintf(stderr, "%s %s %s: element %d of rank %d is not near itself\n",
			        coll_name(m->kind), reduce_op_name(m->op), dtype_name(m->dtype),
			        (int)i, r);
			exit(1);
		}
	}
	if (model_has_output(m, r))
		print_bytes(out, model_rows(m, r) * size);
	else
		printf("null");
}

static void print_answer(const struct answer *a)
{
	const struct model *m = &a->m;
	char op[REDUCE_OP_TEXT];

	printf("{\"kind\": \"%s\", \"size\": %d, \"root\": %d, \"op\": \"%s\", \"dtype\": \"%s\", "
	       "\"counts\": ",
	       coll_name(m->kind), m->size, m->root,
	       reduce_op_text(m->op, &(struct reduce_param){.part = m->trim}, op),
	       dtype_name(m->dtype));
	print_counts(a);
	printf(", \"inputs\": [");
	for (int r = 0; r < m->size; r++) {
		printf("%s[", r ? ", " : "");
		for (int k = 0; k < m->ninputs[r]; k++) {
			printf("%s", k ? ", " : "");
			print_bytes(m->in[r][k], m->rows[r] * dtype_size(m->dtype));
		}
		printf("]");
	}
	printf("], \"outputs\": [");
	for (int r = 0; r < m->size; r++) {
		printf("%s", r ? ", " : "");
		print_output(m, r);
	}
	printf("]}\n");
}

static const enum dtype dtypes[] = {DTYPE_I8,     DTYPE_I16,    DTYPE_I32, DTYPE_I64,
                                    DTYPE_U8,     DTYPE_U16,    DTYPE_U32, DTYPE_U64,
                                    DTYPE_F16,    DTYPE_BF16,   DTYPE_F32, DTYPE_F64,
                                    DTYPE_F8E4M3, DTYPE_F8E5M2, DTYPE_C64, DTYPE_C128};

int main(void)
{
	static struct answer a; /* large */

	for (enum coll_kind kind = 0; kind < COLL_BARRIER; kind++)
		for (enum reduce_op op = 0; op < REDUCE_OPS; op++)
			for (size_t i = 0; i < sizeof(dtypes) / sizeof(*dtypes); i++) {
				const bool prefix = kind == COLL_SCAN || kind == COLL_EXSCAN;

				/* numpy has ties where it has differences: tests/cli/merge.py */
				if (op == REDUCE_TIES || !reduce_op_defined(op, dtypes[i]) ||
				    (prefix && (op == REDUCE_AVG || reduce_is_joint(op))) ||
				    (!coll_reduces(kind) && op != REDUCE_SUM))
					continue;
				for (int k = 0; k < 2; k++) {
					draw_case(&a, kind, op, dtypes[i]);
					print_answer(&a);
				}
			}
	return 0;
}
