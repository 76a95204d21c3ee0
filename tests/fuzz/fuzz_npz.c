/*
 * libFuzzer over .npz archives. Members that come out are packed again, and come out as they were.
 * What they are unpacked to takes no more than LIMIT, as a disk that is full.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/data/formats/npz.h"
#include "tests/fuzz/check.h"

#define LIMIT   (4u << 20)
#define MEMBERS 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static int archive, spool, packed, spool2;

static int memory_file(void)
{
	int fd = memfd_create("fuzz_npz", MFD_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const struct rlimit limit = {LIMIT, LIMIT};
	(void)argc;
	(void)argv;
	signal(SIGXFSZ, SIG_IGN);
	archive = memory_file();
	spool = memory_file();
	packed = memory_file();
	spool2 = memory_file();
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	return 0;
}

struct members {
	struct npz_member v[MEMBERS];
	size_t n;
	uint64_t end;
};

static int take(void *ctx, const char *name, uint64_t offset, uint64_t bytes, struct err *err)
{
	struct members *m = ctx;
	CHECK(offset == m->end);
	CHECK(*name != '/' && strncmp(name, "../", 3) != 0 && !strstr(name, "/../"));
	if (bytes > LIMIT) /* as it declares: the rest is not unpacked yet */
		return err_set(err, ERR_OTHER, "that is too much");
	m->end += bytes;
	if (m->n == MEMBERS)
		return err_set(err, ERR_OTHER, "that is enough");
	m->v[m->n++] = (struct npz_member){strdup(name), offset, bytes};
	return 0;
}

static void release(struct members *m)
{
	for (size_t i = 0; i < m->n; i++)
		free((void *)(uintptr_t)m->v[i].name);
}

static void same_bytes(const struct npz_member *a, const struct npz_member *b)
{
	char x[4096], y[4096];
	CHECK(a->bytes == b->bytes && !strcmp(a->name, b->name));
	for (uint64_t at = 0; at < a->bytes; at += sizeof x) {
		size_t n = a->bytes - at < sizeof x ? (size_t)(a->bytes - at) : sizeof x;
		CHECK(pread(spool, x, n, (off_t)(a->offset + at)) == (ssize_t)n);
		CHECK(pread(spool2, y, n, (off_t)(b->offset + at)) == (ssize_t)n);
		CHECK(!memcmp(x, y, n));
	}
}

static void round_trip(const struct members *m)
{
	struct members back = {0};
	struct err err = {0};
	if (npz_pack(spool, m->v, m->n, packed, &err)) {
		CHECK(err.code == ERR_OUTPUT && err.text[0]);
		return;
	}
	CHECK(ftruncate(spool2, 0) == 0);
	CHECK(npz_unpack(packed, "packed", spool2, false, UINT64_MAX, take, &back, &err) == 0);
	CHECK(back.n == m->n);
	for (size_t i = 0; i < m->n; i++)
		same_bytes(&m->v[i], &back.v[i]);
	release(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct members m = {0};
	struct err err = {0};
	CHECK(ftruncate(archive, 0) == 0 && ftruncate(spool, 0) == 0);
	CHECK(pwrite_all(archive, data, size, 0) == 0);
	int ret = npz_unpack(archive, "fuzzed", spool, false, UINT64_MAX, take, &m, &err);
	CHECK((ret < 0) == (err.code != 0));
	CHECK(ret == 0 || err.text[0]);
	if (ret == 0)
		round_trip(&m);
	release(&m);
	return 0;
}
