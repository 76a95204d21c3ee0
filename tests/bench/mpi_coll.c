/*
 * The peer of `collctl bench`: the same loop with MPI. For each size: warm-up iterations, then
 * timed ones, each after a barrier or without; each rank takes the time of each iteration, the
 * iteration's time is the largest of these, and what is printed is their minimum and median.
 *
 *   mpirun -n P mpi_coll COLLECTIVE apart|inplace barrier|free WARMUP ITERS BYTES...
 *
 * Prints "BYTES MIN-US P50-US" a line. f32, MPI_SUM, root 0. BYTES are nccl-tests': those of all
 * blocks together for allgather, reduce-scatter and alltoall.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int size, inplace, barrier;
static float *in, *out;

static void allreduce(int n)
{
	MPI_Allreduce(inplace ? MPI_IN_PLACE : in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void allgather(int n)
{
	MPI_Allgather(inplace ? MPI_IN_PLACE : in, n / size, MPI_FLOAT, out, n / size, MPI_FLOAT,
	              MPI_COMM_WORLD);
}

static void broadcast(int n)
{
	MPI_Bcast(out, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void reduce(int n)
{
	MPI_Reduce(in, out, n, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void reduce_scatter(int n)
{
	MPI_Reduce_scatter_block(inplace ? MPI_IN_PLACE : in, out, n / size, MPI_FLOAT, MPI_SUM,
	                         MPI_COMM_WORLD);
}

static void alltoall(int n)
{
	MPI_Alltoall(inplace ? MPI_IN_PLACE : in, n / size, MPI_FLOAT, out, n / size, MPI_FLOAT,
	             MPI_COMM_WORLD);
}

static void scan(int n)
{
	MPI_Scan(inplace ? MPI_IN_PLACE : in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static const struct {
	const char *name;
	void (*run)(int n);
} collectives[] = {
        {"allreduce", allreduce}, {"allgather", allgather},           {"broadcast", broadcast},
        {"reduce", reduce},       {"reduce-scatter", reduce_scatter}, {"alltoall", alltoall},
        {"scan", scan},
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void measure(void (*run)(int), size_t bytes, int warmup, int iters, int rank)
{
	int n = (int)(bytes / sizeof *in);
	double *times = calloc((size_t)iters, sizeof *times);
	in = calloc(1, bytes + 64);
	out = calloc(1, bytes + 64);
	if (!times || !in || !out)
		MPI_Abort(MPI_COMM_WORLD, 1);
	memset(in, 0, bytes); /* its own pages, not the zero page */
	for (int i = 0; i < n; i++)
		in[i] = out[i] = 1;
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = -warmup; i < iters; i++) {
		if (barrier)
			MPI_Barrier(MPI_COMM_WORLD);
		double began = MPI_Wtime();
		run(n);
		if (i >= 0)
			times[i] = MPI_Wtime() - began;
	}
	MPI_Allreduce(MPI_IN_PLACE, times, iters, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	qsort(times, (size_t)iters, sizeof *times, by_value);
	if (rank == 0)
		printf("%zu %.3f %.3f\n", bytes, times[0] * 1e6, times[(iters - 1) / 2] * 1e6);
	free(times);
	free(in);
	free(out);
}

int main(int argc, char **argv)
{
	int rank;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (size_t k = 0; argc > 6 && k < sizeof collectives / sizeof *collectives; k++) {
		if (strcmp(argv[1], collectives[k].name) != 0)
			continue;
		inplace = strcmp(argv[2], "inplace") == 0;
		barrier = strcmp(argv[3], "barrier") == 0;
		for (int i = 6; i < argc; i++)
			measure(collectives[k].run, strtoull(argv[i], NULL, 10), atoi(argv[4]),
			        atoi(argv[5]), rank);
		MPI_Finalize();
		return 0;
	}
	fprintf(stderr,
	        "usage: mpi_coll COLLECTIVE apart|inplace barrier|free WARMUP ITERS BYTES...\n");
	MPI_Abort(MPI_COMM_WORLD, 2);
	return 2;
}
