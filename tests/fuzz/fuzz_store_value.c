/* Hostile answers of a store: whatever is accepted has an index and a value within its cap. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/store/store_value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct store_value v;
	struct err e = {0};

	if (store_value_parse(&v, (const char *)data, size, &e) < 0) {
		if (!e.code || v.data || v.len || v.index)
			abort();
		return 0;
	}
	if (v.index == 0 || v.len > STORE_VALUE_MAX || (v.len && !v.data))
		abort();
	if (v.data && v.data[v.len] != '\0')
		abort();
	free(v.data);
	return 0;
}
