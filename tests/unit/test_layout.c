/* Which elements of a vector each rank reads and writes: against what the collectives are by their
 * definition, for even and uneven rows. */
#include <stdlib.h>
#include <string.h>

#include "lib/coll/agreement/layout.h"
#include "tests/unit/unit.h"

#define SIZE 4

static struct array_info array(uint64_t rows, uint64_t columns)
{
	struct array_info info = {.dtype = DTYPE_F32, .ndim = 2, .shape = {rows, columns}};
	assert_int_equal(array_count(&info), 0);
	return info;
}

static struct layout_of of(const struct coll_request *r, const struct array_info *info)
{
	return (struct layout_of){.request = r,
	                          .size = SIZE,
	                          .kind = r->kind,
	                          .ninputs = 1,
	                          .stores = true,
	                          .array = info};
}

/* Rows that divide as numpy.array_split does, or by counts. */
TEST(rows_are_cut)
{
	static const uint64_t counts[SIZE] = {0, 7, 1, 2}, even[SIZE] = {3, 3, 2, 2};
	uint64_t out[SIZE];
	layout_cut_rows(10, NULL, SIZE, out);
	assert_memory_equal(out, even, sizeof even);
	layout_cut_rows(10, counts, SIZE, out);
	assert_memory_equal(out, counts, sizeof counts);
}

/* Elements are cut wherever rows end; the output is as the input. */
TEST(allreduce_cuts_elements)
{
	const struct coll_request r = {.kind = COLL_ALLREDUCE, .base = 3};
	const struct array_info info = array(3, 3);
	const struct layout_of p = of(&r, &info);
	struct vector_layout l = {0};
	struct err err = {0};
	for (int rank = 0; rank < SIZE; rank++) {
		assert_int_equal(layout_make(&l, &p, rank, NULL, NULL, &err), 0);
		assert_int_equal(coll_count(&l.args), 9);
		assert_int_equal(l.off[1], 3); /* 3, 2, 2, 2 */
		assert_int_equal(l.off[2], 5);
		assert_true(l.out.shape[0] == 3 && l.out.count == 9);
		assert_true(l.args.rank == rank && l.args.base == 3 && l.args.esize == 4);
	}
	layout_release(&l);
}

/* Each rank's output is its rows; blocks are whole rows. */
TEST(scatter_and_reduce_scatter_cut_rows)
{
	static const enum coll_kind kinds[] = {COLL_SCATTER, COLL_REDUCE_SCATTER};
	static const uint64_t rows[SIZE] = {1, 0, 4, 2};
	const struct array_info info = array(7, 5);
	struct vector_layout l = {0};
	struct err err = {0};
	for (int k = 0; k < 2; k++) {
		const struct coll_request r = {.kind = kinds[k]};
		const struct layout_of p = of(&r, &info);
		for (int rank = 0; rank < SIZE; rank++) {
			assert_int_equal(layout_make(&l, &p, rank, rows, NULL, &err), 0);
			assert_int_equal(coll_count(&l.args), 35);
			assert_int_equal(l.off[rank + 1] - l.off[rank], rows[rank] * 5);
			assert_int_equal(l.out.shape[0], rows[rank]);
			assert_int_equal(l.out.count, rows[rank] * 5);
			assert_null(l.args.recv_off);
		}
	}
	layout_release(&l);
}

/* The ranks' arrays one behind the other. */
TEST(gather_and_allgather_join_rows)
{
	static const enum coll_kind kinds[] = {COLL_GATHER, COLL_ALLGATHER};
	static const uint64_t rows[SIZE] = {1, 0, 4, 2};
	struct vector_layout l = {0};
	struct err err = {0};
	for (int k = 0; k < 2; k++)
		for (int rank = 0; rank < SIZE; rank++) {
			const struct coll_request r = {.kind = kinds[k]};
			const struct array_info info = array(rows[rank], 5);
			const struct layout_of p = of(&r, &info);
			assert_int_equal(layout_make(&l, &p, rank, rows, NULL, &err), 0);
			assert_int_equal(coll_count(&l.args), 35);
			assert_int_equal(l.out.shape[0], 7);
			assert_int_equal(l.off[2], 5);
			assert_int_equal(l.off[3], 25);
		}
	layout_release(&l);
}

/* What rank i sends to rank j stands in j's output behind what ranks before i send. */
TEST(alltoall_is_a_matrix)
{
	static const uint64_t cuts[SIZE][SIZE] = {
	        {1, 2, 0, 3}, {0, 0, 5, 1}, {2, 2, 2, 2}, {4, 0, 1, 0}};
	const struct coll_request r = {.kind = COLL_ALLTOALL};
	struct vector_layout l[SIZE] = {0};
	struct err err = {0};
	for (int rank = 0; rank < SIZE; rank++) {
		uint64_t from[SIZE], mine = 0, got = 0;
		for (int s = 0; s < SIZE; s++) {
			from[s] = cuts[s][rank];
			mine += cuts[rank][s];
			got += from[s];
		}
		const struct array_info info = array(mine, 3);
		const struct layout_of p = of(&r, &info);
		assert_int_equal(layout_make(&l[rank], &p, rank, cuts[rank], from, &err), 0);
		assert_int_equal(l[rank].out.shape[0], got);
		assert_int_equal(coll_count(&l[rank].args), mine * 3);
	}
	for (int i = 0; i < SIZE; i++)
		for (int j = 0; j < SIZE; j++) {
			const uint64_t n = cuts[i][j] * 3;
			assert_int_equal(l[i].off[j + 1] - l[i].off[j], n);
			assert_int_equal(l[j].recv_off[i + 1] - l[j].recv_off[i], n);
		}
	/* All cut alike: what comes is as much from each. */
	const struct array_info info = array(6, 3);
	const struct layout_of p = of(&r, &info);
	assert_int_equal(layout_make(&l[1], &p, 1, cuts[0], NULL, &err), 0);
	assert_int_equal(l[1].out.shape[0], 2 * SIZE);
	assert_null(l[1].args.recv_off);
	for (int i = 0; i < SIZE; i++)
		layout_release(&l[i]);
}

/* Local inputs are folded only by the collective itself, not by what serves an average of integers
 * in its place. */
TEST(inputs_count_where_they_are_folded)
{
	const struct coll_request r = {.kind = COLL_ALLREDUCE};
	const struct array_info info = array(3, 3);
	struct layout_of p = of(&r, &info);
	struct vector_layout l = {0};
	struct err err = {0};
	p.ninputs = 5;
	assert_int_equal(layout_make(&l, &p, 0, NULL, NULL, &err), 0);
	assert_int_equal(l.args.ninputs, 5);
	p.kind = COLL_BROADCAST;
	p.stores = false;
	assert_int_equal(layout_make(&l, &p, 0, NULL, NULL, &err), 0);
	assert_true(l.args.ninputs == 1 && !l.args.stores);
	layout_release(&l);
}

/* Sums over 63 bits are refused, whoever told the rows. */
TEST(what_is_too_large_is_refused)
{
	static const uint64_t rows[SIZE] = {INT64_MAX, 1, 0, 0}, wide[SIZE] = {1ull << 61, 0, 0, 0};
	const struct coll_request joins = {.kind = COLL_ALLGATHER}, all = {.kind = COLL_ALLTOALL};
	const struct array_info info = array(1, 4);
	const struct layout_of p = of(&joins, &info), q = of(&all, &info);
	struct vector_layout l = {0};
	struct err err = {0};
	assert_int_equal(layout_make(&l, &p, 0, rows, NULL, &err), -1);
	assert_int_equal(err.code, ERR_RESOURCE);
	err_clear(&err);
	assert_int_equal(layout_make(&l, &p, 0, wide, NULL, &err), -1);
	assert_int_equal(err.code, ERR_RESOURCE);
	err_clear(&err);
	assert_int_equal(layout_make(&l, &q, 0, wide, NULL, &err), -1);
	assert_int_equal(err.code, ERR_RESOURCE);
	layout_release(&l);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
