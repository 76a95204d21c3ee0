/* libFuzzer over a sharded set's index. What parses is sorted, found, and names no other folder. */
#include <stdlib.h>
#include <string.h>

#include "lib/data/shard_index.h"

#define CHECK(x)                 \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct shard_index x;
	struct err err = {0};
	int ret = shard_index_parse(&x, (const char *)data, size, &err);
	CHECK((ret < 0) == (err.code != 0));
	if (ret) {
		CHECK(err.code == ERR_INPUT && err.text[0]);
		return 0;
	}
	CHECK(x.nentries > 0 && x.nfiles > 0 && (size_t)x.nfiles <= x.nentries);
	for (int i = 0; i < x.nfiles; i++) {
		CHECK(x.files[i][0] && x.files[i][0] != '.' && !strchr(x.files[i], '/'));
		CHECK(!i || strcmp(x.files[i - 1], x.files[i]) < 0);
	}
	for (size_t i = 0; i < x.nentries; i++) {
		CHECK(!i || strcmp(x.entries[i - 1].tensor, x.entries[i].tensor) < 0);
		CHECK(x.entries[i].file >= 0 && x.entries[i].file < x.nfiles);
		CHECK(shard_index_find(&x, x.entries[i].tensor) == &x.entries[i]);
	}
	CHECK(!shard_index_find(&x, "no tensor of this name"));
	shard_index_release(&x);
	return 0;
}
