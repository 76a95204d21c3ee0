/* Element types. The command line and --json use their names: "f32", "bf16", "i64", ... Any
 * thread. */
#ifndef COLLCTL_DATA_DTYPE_H
#define COLLCTL_DATA_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "collctl needs a little-endian processor: elements lie in memory as in files and on the wire"
#endif

/* The values are sent in messages (lib/net/PROTOCOL.md): add new types at the end. */
enum dtype {
	DTYPE_NONE, /* unknown; also the type of a barrier */
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
	DTYPE_F8E4M3, /* torch.float8_e4m3fn: no infinities, NaN 0x7f and 0xff, largest 448 */
	DTYPE_F8E5M2, /* like IEEE 754 */
	DTYPE_BOOL,   /* a byte, 0 or 1; any other byte counts as 1 */
	DTYPE_C64,    /* two f32: real, imaginary */
	DTYPE_C128,
	DTYPE_I128, /* only for sums of 64-bit integers; never in a file */
	/* Only for broadcast; no arithmetic. */
	DTYPE_F4,
	DTYPE_F6_E2M3,
	DTYPE_F6_E3M2,
	DTYPE_F8_E8M0,
	DTYPE_F8_E4M3FNUZ,
	DTYPE_F8_E5M2FNUZ,
	DTYPE_Q8, /* a block of values (q8.h), of 136 bytes; only on the wire, never in a file */
	DTYPES
};

unsigned dtype_bits(enum dtype); /* bits of an element */
size_t dtype_size(enum dtype);   /* bytes of an element; 0: not a whole number */
const char *dtype_name(enum dtype);
enum dtype dtype_by_name(
        const char *name);       /* also numpy's names ("float32"); DTYPE_NONE: unknown */
bool dtype_is_float(enum dtype); /* types that round: floats of any width and complex */
bool dtype_is_complex(enum dtype);
bool dtype_is_integer(enum dtype); /* i8 to u64 and bool */
/* The type of an output of @dtype that is to have floats of type @to (DTYPE_NONE: unchanged): @to
 * for a float that is not complex, else @dtype. */
enum dtype dtype_converted(enum dtype dtype, enum dtype to);
bool dtype_has_arithmetic(enum dtype); /* types for reductions and --dtype */

#endif
