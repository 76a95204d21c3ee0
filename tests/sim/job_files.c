/* The files of a job: its inputs, and what its outputs must be. */
#include "tests/model/collective_model.h"
#include "tests/sim/job.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define OLD    "the old output"
#define SECRET "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"

/* ---- what must come out ---- */

/* Of the ranks @came, which it numbers from 0. */
static struct model model_of(unsigned came)
{
	struct model m = {.kind = job.kind, .dtype = job.dtype, .op = job.op};
	for (int r = 0; r < job.size; r++) {
		if (!(came >> r & 1))
			continue;
		const int k = m.size++;
		if (r == job.root)
			m.root = k;
		m.rows[k] = job.rows[r];
		m.cut[k] = job.cuts[r];
		m.ninputs[k] = job.ninputs[r];
		m.divisor += job.ninputs[r];
		for (int i = 0; i < job.ninputs[r]; i++)
			m.in[k][i] = job.in[r][i];
	}
	return m;
}

void expect(unsigned came)
{
	const struct model m = model_of(came);
	job.came = came;
	for (int r = 0, k = 0; r < job.size; r++) {
		job.want[r] = NULL;
		job.nwant[r] = 0;
		if (!(came >> r & 1))
			continue;
		if (job.kind != COLL_BARRIER && model_has_output(&m, k)) {
			job.nwant[r] = model_rows(&m, k);
			job.want[r] = world_alloc(bytes_of(job.nwant[r] + 1));
			for (uint64_t n = 0; n < job.nwant[r]; n++)
				model_element(&m, k, n, job.want[r] + bytes_of(n));
		}
		k++;
	}
}

static bool is_right(void)
{
	for (int r = 0; r < job.size; r++)
		if (look_at_output(r) == FOUND_WRONG)
			return false;
	return true;
}

/* Those that have ended with 0, or have another output than the old one, must be among them. */
static unsigned ranks_that_must(void)
{
	unsigned must = job.automatic ? 0 : 1u | 1u << job.root;
	expect(0);
	for (int r = 0; r < job.size; r++) {
		const struct proc *p = job.procs[r];
		if ((p->state == PROC_ENDED && p->code == 0) || look_at_output(r) != FOUND_OLD)
			must |= 1u << r;
	}
	return must;
}

bool find_came(void)
{
	const unsigned must = ranks_that_must();
	/* Fewest first: who left no trace took no part, if the outputs may be without it. */
	for (int n = job.fewest; n <= job.size; n++)
		for (unsigned came = must; came <= all_ranks(); came = (came + 1) | must) {
			if (__builtin_popcount(came) != n || (came & job.absent))
				continue;
			expect(came);
			if (is_right())
				return true;
		}
	expect(all_ranks() & ~job.absent);
	return false;
}

/* ---- files ---- */

static void write_file(const char *path, const void *data, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, data, n) != (ssize_t)n || close(fd) < 0) {
		perror(path);
		exit(2);
	}
}

static void write_input(int r, int i)
{
	size_t n = bytes_of(job.rows[r]);
	uint8_t *file = world_alloc(128 + n);
	char path[32];
	memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
	int len = snprintf((char *)file + 10, 118,
	                   "{'descr': '%s', 'fortran_order': False, 'shape': (%llu,), }", job.descr,
	                   (unsigned long long)job.rows[r]);
	memset(file + 10 + len, ' ', (size_t)(117 - len));
	file[127] = '\n';
	memcpy(file + 128, job.in[r][i], n);
	snprintf(path, sizeof path, "r%d/in%d.npy", r, i);
	write_file(path, file, 128 + n);
}

/* Remove all files of rank @r; how many names were there besides the inputs and the output? */
int clear_folder(int r)
{
	char path[400];
	int strange = 0;
	snprintf(path, sizeof path, "r%d", r);
	mkdir(path, 0700);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		strange += strncmp(e->d_name, "in", 2) != 0 && strcmp(e->d_name, "out.npy") != 0;
		snprintf(path, sizeof path, "r%d/%s", r, e->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
	return strange;
}

void write_files(void)
{
	char path[32], text[512] = "";
	for (int r = 0; r < job.size; r++) {
		clear_folder(r);
		for (int i = 0; has_input(r) && job.kind != COLL_BARRIER && i < job.ninputs[r]; i++)
			write_input(r, i);
		snprintf(path, sizeof path, "r%d/out.npy", r);
		job.had_old[r] = chance(500);
		if (job.had_old[r])
			write_file(path, OLD, strlen(OLD));
		size_t at_ = strlen(text);
		snprintf(text + at_, sizeof text - at_, "h%d%s\n", job.hosts[r], r ? "" : ":7766");
	}
	write_file("hosts", text, strlen(text));
	write_file("secret", SECRET, strlen(SECRET));
}

enum found look_at_output(int r)
{
	char path[32], shape[64], descr[32];
	snprintf(path, sizeof path, "r%d/out.npy", r);
	FILE *f = fopen(path, "r");
	if (!f)
		return job.had_old[r] ? FOUND_WRONG : FOUND_OLD;
	size_t n = job.want[r] ? bytes_of(job.nwant[r]) : 0, cap = n + 4096;
	uint8_t *file = world_alloc(cap + 1);
	size_t got = fread(file, 1, cap, f);
	fclose(f);
	if (job.had_old[r] && got == strlen(OLD) && memcmp(file, OLD, got) == 0)
		return FOUND_OLD;
	if (!job.want[r] || got < 10 + n || memcmp(file, "\x93NUMPY", 6) != 0)
		return FOUND_WRONG;
	size_t header = 10 + (size_t)file[8] + 256 * (size_t)file[9];
	snprintf(shape, sizeof shape, "(%llu,)", (unsigned long long)job.nwant[r]);
	snprintf(descr, sizeof descr, "'%s'", job.descr);
	if (got != header + n || memcmp(file + header, job.want[r], n) != 0)
		return FOUND_WRONG;
	file[header] = '\0';
	return strstr((char *)file + 10, shape) && strstr((char *)file + 10, descr) ? FOUND_NEW
	                                                                            : FOUND_WRONG;
}

/* A whole .npy file, whatever is in it? *@sum then identifies its bytes. An insider may have given
 * any input. */
bool is_whole(int r, uint64_t *sum)
{
	char path[32], *shape, *descr;
	uint64_t n = 1;
	struct stat st;
	snprintf(path, sizeof path, "r%d/out.npy", r);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > 64 << 20)
		return fd >= 0 && close(fd) != 0;
	const size_t len = (size_t)st.st_size;
	uint8_t *file = world_alloc(len + 1);
	bool whole = read(fd, file, len) == (ssize_t)len && len > 10 &&
	             memcmp(file, "\x93NUMPY", 6) == 0;
	close(fd);
	const size_t header = 10 + (whole ? (size_t)file[8] + 256 * (size_t)file[9] : 0);
	if (!whole || header > len)
		return false;
	*sum = 14695981039346656037u;
	for (size_t i = 0; i < len; i++)
		*sum = (*sum ^ file[i]) * 0x100000001b3u;
	file[header - 1] = '\0';
	shape = strstr((char *)file + 10, "'shape': (");
	descr = strstr((char *)file + 10, "'descr': '");
	if (!shape || !descr)
		return false;
	for (char *p = shape + 10; *p != ')';) {
		n *= strtoull(p, &p, 10);
		p += strspn(p, ", ");
	}
	return len - header == n * strtoull(descr + 12, NULL, 10);
}
