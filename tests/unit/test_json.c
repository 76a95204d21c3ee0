/* JSON as text: numbers are short, and read back as the same double. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/json.h"
#include "tests/unit/unit.h"

static void is(json_t *value, size_t flags, const char *want)
{
	char *text = json_text(value, flags);

	assert_non_null(text);
	assert_string_equal(text, want);
	free(text);
	json_decref(value);
}

TEST(reals_are_short)
{
	is(json_pack("[f,f,f,f,f,f]", 0.1, 1.0, -0.0, 1e300, 2.5e-7, 100000.0), JSON_COMPACT,
	   "[0.1,1.0,-0.0,1e300,2.5e-7,100000.0]");
	is(json_pack("[f,f]", 1.0 / 3, 0.1 + 0.2), JSON_COMPACT,
	   "[0.3333333333333333,0.30000000000000004]");
	is(json_pack("{s:f, s:[i,f]}", "a", 19.7, "b", 7, 0.25), 0,
	   "{\"a\": 19.7, \"b\": [7, 0.25]}");
	is(json_pack("[f]", 0.3), JSON_INDENT(2), "[\n  0.3\n]");
	assert_null(json_text(NULL, 0));
}

TEST(measured_reals_have_six_digits)
{
	is(json_pack("[o,o,o,o,o]", json_measured(1.0 / 3), json_measured(0.00012345678),
	             json_measured(19.7), json_measured(1234567.8), json_measured(0)),
	   JSON_COMPACT, "[0.333333,0.000123457,19.7,1234570.0,0.0]");
	assert_null(json_measured(INFINITY));
}

TEST(the_rest_stays)
{
	is(json_pack("[s,s,I,b,n]", "0.10000000000000001", "a\"0.10000000000000001\\", INT64_MIN,
	             1),
	   JSON_COMPACT,
	   "[\"0.10000000000000001\",\"a\\\"0.10000000000000001\\\\\",-9223372036854775808,true,"
	   "null]");
	is(json_pack("{s:s}", "0.10000000000000001", "\\"), JSON_COMPACT,
	   "{\"0.10000000000000001\":\"\\\\\"}");
}

/* What a terminal would obey: DEL, C1, marks of direction, separators of lines. */
TEST(what_is_not_printable_is_escaped)
{
	const char *const text = "a\177\302\205\302\237\302\240\303\251\342\200\250"
	                         "\342\200\256\342\201\251\330\234\033z";
	is(json_pack("[s]", text), JSON_COMPACT,
	   "[\"a\\u007F\\u0085\\u009F\302\240\303\251\\u2028\\u202E\\u2069\\u061C\\u001Bz\"]");
	is(json_pack("{s:f}", "\302\233", 0.1), JSON_COMPACT, "{\"\\u009B\":0.1}");
	json_t *value = json_pack("[s]", text);
	char *written = json_text(value, 0);
	json_t *back = json_loads(written, 0, NULL);
	assert_true(json_equal(value, back));
	free(written);
	json_decref(value);
	json_decref(back);
}

TEST(every_double_reads_back)
{
	static const double edges[] = {
	        DBL_MIN,     DBL_MAX,         DBL_TRUE_MIN,       -DBL_MIN,
	        DBL_EPSILON, 1 - DBL_EPSILON, 9007199254740993.0, 123456789012345678.0};
	uint64_t x = 88172645463325252u;

	for (size_t i = 0; i < 20000; i++) {
		double want, got;
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(&want, &x, sizeof want);
		if (i < LENGTH(edges))
			want = edges[i];
		if (!isfinite(want))
			continue;
		json_t *array = json_pack("[f]", want), *back;
		char *text = json_text(array, JSON_COMPACT);
		back = json_loads(text, 0, NULL);
		got = json_real_value(json_array_get(back, 0));
		assert_memory_equal(&got, &want, sizeof got);
		json_decref(back);
		json_decref(array);
		free(text);
	}
}

static void assert_u64(uint64_t x, size_t flags, const char *want)
{
	json_t *value = json_pack("{s:s, s:[o, i]}", "{\001u64", "}", "n", json_u64(x), 1);
	char *text = json_text(value, flags);

	assert_string_equal(text, want);
	json_decref(value);
	free(text);
}

TEST(whole_numbers_of_64_bits_are_exact)
{
	assert_u64(INT64_MAX, JSON_COMPACT,
	           "{\"{\\u0001u64\":\"}\",\"n\":[9223372036854775807,1]}");
	assert_u64(UINT64_MAX, JSON_COMPACT,
	           "{\"{\\u0001u64\":\"}\",\"n\":[18446744073709551615,1]}");
	assert_u64((UINT64_C(1) << 63) + 1, JSON_INDENT(2),
	           "{\n  \"{\\u0001u64\": \"}\",\n  \"n\": [\n    9223372036854775809,\n    1\n  "
	           "]\n}");
}

TEST(text_that_looks_like_a_large_number_stays)
{
	static const char *const texts[] = {
	        "[\"\\u0001u64\",{\"b\":\"1\"}]",
	        "{\"\\u0001u64\":\"1x\"}",
	        "{\"\\u0001u64\":\"\"}",
	        "{\"\\u0001u64\":1}",
	        "{\"\\u0001u64\":\"1\",\"a\":\"\\u0001u64\"}",
	};
	for (size_t i = 0; i < LENGTH(texts); i++) {
		json_t *value = json_loads(texts[i], 0, NULL);
		assert_non_null(value);
		char *text = json_text(value, JSON_COMPACT);
		assert_string_equal(text, texts[i]);
		free(text);
		json_decref(value);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
