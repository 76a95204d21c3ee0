/*
 * The peer in comparisons: what one writes with MPI for the same job. Reads a .npy of float32 with
 * plain reads into memory, MPI_Allreduce with MPI_SUM, writes the .npy. Nothing is synced.
 *
 *   mpirun -n P mpi_allreduce PREFIX OUT-PREFIX      reads PREFIX.R.npy, writes OUT-PREFIX.R.npy
 *
 * Assumes what numpy.save writes: version 1.0, C order.
 */
#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

static void transfer(int fd, char *buf, size_t len, int writing, const char *path)
{
	while (len > 0) {
		ssize_t n = writing ? write(fd, buf, len) : read(fd, buf, len);
		if (n <= 0)
			die(path);
		buf += n;
		len -= (size_t)n;
	}
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	int rank;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (argc != 3)
		die("usage: mpi_allreduce PREFIX OUT-PREFIX");

	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s.%d.npy", argv[1], rank);
	int fd = open(path, O_RDONLY);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0)
		die(path);
	size_t size = (size_t)st.st_size;
	char *file = malloc(size);
	if (!file || size < 10)
		die(path);
	transfer(fd, file, size, 0, path);
	close(fd);

	size_t header = 10 + (size_t)((unsigned char)file[8] | (unsigned char)file[9] << 8);
	float *data = (float *)(void *)(file + header); /* numpy aligns the data to 64 bytes */
	size_t count = (size - header) / sizeof *data;
	if (memcmp(file, "\x93NUMPY\x01", 7) != 0 || header > size || count > INT_MAX)
		die(path);
	MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);

	snprintf(path, sizeof path, "%s.%d.npy", argv[2], rank);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	if (fd < 0)
		die(path);
	transfer(fd, file, size, 1, path);
	if (close(fd) != 0)
		die(path);
	free(file);
	MPI_Finalize();
	return 0;
}
