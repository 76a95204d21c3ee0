/* The settings of struct coll_request: names, kinds, limits, defaults. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/coll/request/request.h"
#include "lib/coll/request/setting.h"
#include "lib/data/formats/format.h"

#define AT(member) offsetof(struct coll_request, member)
#define S(...)     SETTING(struct coll_request, __VA_ARGS__),

#define OPS                                                                                     \
	"sum|prod|min|max|avg|band|bor|bxor|land|lor|lxor|median|trimmed:F|ties:D|dare:D,SEED|" \
	"slerp:T"
#define DTYPES_ALL         "f16|bf16|f32|f64|f8e4m3|f8e5m2|i8|i16|i32|i64|u8|u16|u32|u64|bool|c64|c128"
#define DTYPES_FLOAT       "f16|bf16|f32|f64|f8e4m3|f8e5m2"
#define DTYPES_FLOAT_NUMPY "float16|bfloat16|float32|float64"
#define DTYPES_NUMPY                                                                               \
	"float16|bfloat16|float32|float64|float8_e4m3fn|float8_e5m2|int8|int16|int32|int64|uint8|" \
	"uint16|uint32|uint64|bool_|complex64|complex128"

const struct setting request_settings[] = {
#include "lib/coll/request/setting_rows.h"
};
const size_t request_settings_len = sizeof request_settings / sizeof request_settings[0];

/* Is the result defined without the parts of some ranks? */
static bool may_miss(enum coll_kind kind)
{
	return kind == COLL_ALLREDUCE || kind == COLL_REDUCE || kind == COLL_BROADCAST;
}

uint64_t request_groups(enum coll_work work, enum coll_kind kind)
{
	const struct coll_rules *rules = coll_rules(kind);

	switch (work) {
	case WORK_BARRIER:
		return FOR_JOIN | FOR_CHOICE | FOR_FEWER;
	case WORK_VERIFY:
		return FOR_JOIN | FOR_INPUT | FOR_BYTES | FOR_VERIFY;
	case WORK_CHECK:
		return FOR_JOIN | FOR_CHECK;
	case WORK_BENCH:
		return FOR_JOIN | FOR_CHOICE | FOR_ROOT | FOR_BENCH;
	case WORK_COLLECTIVE:
		break;
	}
	return FOR_JOIN | FOR_CHOICE | FOR_MOVES | FOR_INPUT | FOR_STATS |
	       (kind == COLL_EXCHANGE ? FOR_STEPS : FOR_OUTPUT) |
	       (kind == COLL_EXCHANGE || kind == COLL_BROADCAST ? 0 : FOR_CONVERT) |
	       (rules->sets ? FOR_SETS : 0) |
	       (rules->sets && kind != COLL_BROADCAST ? FOR_SHARDS : 0) |
	       (coll_reduces(kind) ? FOR_REDUCE : 0) | (rules->averages ? FOR_AVERAGE : 0) |
	       (may_miss(kind) ? FOR_FEWER : 0) | (rules->rooted ? FOR_ROOT : 0) |
	       (rules->cut == CUT_ROWS ? FOR_ROWS : 0) |
	       (rules->cut == CUT_JOINED ? FOR_JOINED : 0) |
	       (kind == COLL_SCATTER ? FOR_SCATTER : 0) |
	       (kind == COLL_BROADCAST ? FOR_UPDATE : 0) |
	       (rules->bytes ? FOR_BYTES | FOR_COPIES : 0) | (rules->radix ? FOR_RADIX : 0);
}

const struct setting *request_setting(const struct coll_request *r, const char *name)
{
	const struct setting *found = NULL;

	for (size_t i = 0; i < request_settings_len; i++) {
		const struct setting *s = &request_settings[i];
		if (strcmp(s->name, name) == 0 && (!found || request_takes(r, s)))
			found = s;
	}
	return found;
}

bool request_takes(const struct coll_request *r, const struct setting *s)
{
	return (s->groups & request_groups(r->work, r->kind)) != 0;
}

void request_init(struct coll_request *r, enum coll_work work)
{
	*r = (struct coll_request){.work = work,
	                           .settings = {.rank = -1,
	                                        .secret_fd = -1,
	                                        .started = clock_ns(),
	                                        .tls_key_password_fd = -1,
	                                        .cancel_fd = -1},
	                           .files.dtype = DTYPE_NONE};
	for (size_t i = 0; i < request_settings_len; i++)
		setting_default(&request_settings[i], r);
}

void request_release(struct coll_request *r)
{
	for (size_t i = 0; i < request_settings_len; i++)
		setting_release(&request_settings[i], r);
	*r = (struct coll_request){0};
}
