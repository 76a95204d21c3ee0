/*
 * libFuzzer over distributed checkpoints: the first byte says whether the rest is the .metadata of
 * the golden pieces, or a .safetensors file of pieces beside a golden one, and whether the pieces
 * are joined. Each tensor of what is accepted can be read. Runs in the root of the repository.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/data/dataset/dataset.h"
#include "tests/fuzz/check.h"

#define GOLDEN "tests/golden/torch/"
#define LIMIT  (1u << 20) /* bytes of a tensor that are read */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dcp[] = "/tmp/fuzz_dcp.XXXXXX", shards[] = "/tmp/fuzz_dcp.XXXXXX";

static const char *at(const char *folder, const char *name)
{
	static char path[128];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static void put(const char *path, const void *bytes, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write_all(fd, bytes, n) == 0);
	close(fd);
}

static void copy(const char *from, const char *to)
{
	static char bytes[1 << 16];
	int fd = open(from, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	const ssize_t n = read_full(fd, bytes, sizeof bytes);
	CHECK(n > 0);
	close(fd);
	put(to, bytes, (size_t)n);
}

static void end(void)
{
	static const char *const names[] = {".metadata", "__0_0.distcp", "__1_0.distcp",
	                                    "1.safetensors", "2.safetensors"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		unlink(at(dcp, names[i]));
		unlink(at(shards, names[i]));
	}
	rmdir(dcp);
	rmdir(shards);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	CHECK(mkdtemp(dcp) && mkdtemp(shards) && atexit(end) == 0);
	copy(GOLDEN "dcp/__0_0.distcp", at(dcp, "__0_0.distcp"));
	copy(GOLDEN "dcp/__1_0.distcp", at(dcp, "__1_0.distcp"));
	copy(GOLDEN "dcp_safetensors/shard-00001-model-00001-of-00001.safetensors",
	     at(shards, "1.safetensors"));
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct array_hints hints = {0};
	const struct dataset_source source = {.hints = &hints, .parts = size && data[0] & 2};
	static uint8_t bytes[LIMIT];
	struct dataset d;
	struct err err = ERR_INIT;
	if (!size)
		return 0;
	const char *folder = data[0] & 1 ? dcp : shards;
	put(at(folder, data[0] & 1 ? ".metadata" : "2.safetensors"), data + 1, size - 1);
	if (dataset_open(&d, folder, &source, &err)) {
		CHECK((err.code == ERR_INPUT || err.code == ERR_RESOURCE) && err.text[0]);
		return 0;
	}
	for (size_t i = 0; i < d.ntensors; i++)
		if (d.tensors[i].bytes <= LIMIT)
			CHECK(dataset_read(&d, &d.tensors[i], bytes, d.tensors[i].bytes, 0, &err) ==
			      0);
	dataset_close(&d);
	return 0;
}
