/* Element types. Names are those of the command line and of --json: "f32", "bf16", "i64", ... */
#ifndef COLLCTL_DATA_DTYPE_H
#define COLLCTL_DATA_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

enum dtype {
	DTYPE_NONE, /* unknown; also what a barrier carries */
	DTYPE_I8,
	DTYPE_I16,
	DTYPE_I32,
	DTYPE_I64,
	DTYPE_U8,
	DTYPE_U16,
	DTYPE_U32,
	DTYPE_U64,
	DTYPE_F16,
	DTYPE_BF16,
	DTYPE_F32,
	DTYPE_F64,
	DTYPES
};

size_t dtype_size(enum dtype); /* bytes of an element */
const char *dtype_name(enum dtype);
enum dtype dtype_by_name(const char *name); /* also numpy's names ("float32"); else DTYPE_NONE */
bool dtype_is_float(enum dtype);

#endif
