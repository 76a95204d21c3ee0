#include "lib/data/dtype.h"

#include <string.h>

static const struct {
	const char *name, *numpy;
	size_t size;
	bool is_float;
} types[DTYPES] = {
        [DTYPE_NONE] = {"none", "none", 0, false},    [DTYPE_I8] = {"i8", "int8", 1, false},
        [DTYPE_I16] = {"i16", "int16", 2, false},     [DTYPE_I32] = {"i32", "int32", 4, false},
        [DTYPE_I64] = {"i64", "int64", 8, false},     [DTYPE_U8] = {"u8", "uint8", 1, false},
        [DTYPE_U16] = {"u16", "uint16", 2, false},    [DTYPE_U32] = {"u32", "uint32", 4, false},
        [DTYPE_U64] = {"u64", "uint64", 8, false},    [DTYPE_F16] = {"f16", "float16", 2, true},
        [DTYPE_BF16] = {"bf16", "bfloat16", 2, true}, [DTYPE_F32] = {"f32", "float32", 4, true},
        [DTYPE_F64] = {"f64", "float64", 8, true},
};

size_t dtype_size(enum dtype t)
{
	return types[t].size;
}

const char *dtype_name(enum dtype t)
{
	return types[t].name;
}

enum dtype dtype_by_name(const char *name)
{
	for (int t = DTYPE_NONE + 1; t < DTYPES; t++)
		if (!strcmp(name, types[t].name) || !strcmp(name, types[t].numpy))
			return (enum dtype)t;
	return DTYPE_NONE;
}

bool dtype_is_float(enum dtype t)
{
	return types[t].is_float;
}
