/*
 * libFuzzer over whole files of torch.save. Each tensor of what is accepted lies in the file or in
 * the spool, and can be read.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/data/dataset/dataset.h"
#include "tests/fuzz/check.h"

#define LIMIT (1u << 20) /* bytes of a tensor that are read */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Views may repeat elements without end: they are refused by the size of what they make. */
static bool is_small(const struct dataset *d)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < d->ntensors; i++)
		if (__builtin_add_overflow(bytes, d->tensors[i].bytes, &bytes) || bytes > LIMIT)
			return false;
	return true;
}

static void open_it(const char *path, bool heads_only)
{
	static const struct array_hints hints = {.format = &format_torch};
	const struct dataset_source source = {.hints = &hints, .heads_only = heads_only};
	struct dataset d;
	struct err err = ERR_INIT;
	static uint8_t bytes[LIMIT];
	if (dataset_open(&d, path, &source, &err)) {
		CHECK((err.code == ERR_INPUT || err.code == ERR_RESOURCE) && err.text[0]);
		return;
	}
	for (size_t i = 0; i < d.ntensors; i++) {
		const struct tensor *t = &d.tensors[i];
		CHECK(t->count == 0 || t->bytes / t->count == dtype_size(t->dtype));
		if (!heads_only) {
			CHECK(t->offset <= d.files[t->file].size &&
			      t->bytes <= d.files[t->file].size - t->offset);
			CHECK(dataset_pread(&d, t->file, bytes, t->bytes, t->offset, &err) == 0);
		}
	}
	const bool small = is_small(&d);
	dataset_close(&d);
	if (heads_only && small)
		open_it(path, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64];
	int fd = memfd_create("fuzz_torch", MFD_CLOEXEC);
	CHECK(fd >= 0 && write_all(fd, data, size) == 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	open_it(path, true);
	close(fd);
	return 0;
}
