#include "lib/data/dtype.h"

#include <string.h>

enum class { CARRIED, INTEGER, FLOAT, COMPLEX, INNER };

static const struct {
	const char *name, *numpy;
	unsigned bits;
	enum class class;
} types[DTYPES] = {
        [DTYPE_NONE] = {"none", "none", 0, CARRIED},
        [DTYPE_I8] = {"i8", "int8", 8, INTEGER},
        [DTYPE_I16] = {"i16", "int16", 16, INTEGER},
        [DTYPE_I32] = {"i32", "int32", 32, INTEGER},
        [DTYPE_I64] = {"i64", "int64", 64, INTEGER},
        [DTYPE_U8] = {"u8", "uint8", 8, INTEGER},
        [DTYPE_U16] = {"u16", "uint16", 16, INTEGER},
        [DTYPE_U32] = {"u32", "uint32", 32, INTEGER},
        [DTYPE_U64] = {"u64", "uint64", 64, INTEGER},
        [DTYPE_F16] = {"f16", "float16", 16, FLOAT},
        [DTYPE_BF16] = {"bf16", "bfloat16", 16, FLOAT},
        [DTYPE_F32] = {"f32", "float32", 32, FLOAT},
        [DTYPE_F64] = {"f64", "float64", 64, FLOAT},
        [DTYPE_F8E4M3] = {"f8e4m3", "float8_e4m3fn", 8, FLOAT},
        [DTYPE_F8E5M2] = {"f8e5m2", "float8_e5m2", 8, FLOAT},
        [DTYPE_BOOL] = {"bool", "bool_", 8, INTEGER},
        [DTYPE_C64] = {"c64", "complex64", 64, COMPLEX},
        [DTYPE_C128] = {"c128", "complex128", 128, COMPLEX},
        [DTYPE_I128] = {"i128", "i128", 128, INNER},
        [DTYPE_Q8] = {"q8", "q8", 1088, INNER},
        [DTYPE_F4] = {"f4", "float4_e2m1fn", 4, CARRIED},
        [DTYPE_F6_E2M3] = {"f6e2m3", "float6_e2m3fn", 6, CARRIED},
        [DTYPE_F6_E3M2] = {"f6e3m2", "float6_e3m2fn", 6, CARRIED},
        [DTYPE_F8_E8M0] = {"f8e8m0", "float8_e8m0fnu", 8, CARRIED},
        [DTYPE_F8_E4M3FNUZ] = {"f8e4m3fnuz", "float8_e4m3fnuz", 8, CARRIED},
        [DTYPE_F8_E5M2FNUZ] = {"f8e5m2fnuz", "float8_e5m2fnuz", 8, CARRIED},
};

unsigned dtype_bits(enum dtype t)
{
	return types[t].bits;
}

size_t dtype_size(enum dtype t)
{
	return types[t].bits % 8 ? 0 : types[t].bits / 8;
}

const char *dtype_name(enum dtype t)
{
	return types[t].name;
}

enum dtype dtype_by_name(const char *name)
{
	for (int t = DTYPE_NONE + 1; t < DTYPES; t++)
		if (dtype_has_arithmetic((enum dtype)t) &&
		    (!strcmp(name, types[t].name) || !strcmp(name, types[t].numpy)))
			return (enum dtype)t;
	return DTYPE_NONE;
}

bool dtype_is_float(enum dtype t)
{
	return types[t].class == FLOAT || types[t].class == COMPLEX;
}

bool dtype_is_complex(enum dtype t)
{
	return types[t].class == COMPLEX;
}

bool dtype_is_integer(enum dtype t)
{
	return types[t].class == INTEGER;
}

enum dtype dtype_converted(enum dtype dtype, enum dtype to)
{
	return to && dtype_is_float(dtype) && !dtype_is_complex(dtype) ? to : dtype;
}

bool dtype_has_arithmetic(enum dtype t)
{
	return types[t].class == INTEGER || dtype_is_float(t);
}
