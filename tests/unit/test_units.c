/* Sizes and durations for people. */
#include <string.h>

#include "lib/base/units.h"
#include "tests/unit/unit.h"

TEST(durations)
{
	static const struct {
		double seconds;
		const char *text;
	} cases[] = {
	        {0, "0.0 ms"},           {0.00324, "3.2 ms"},  {0.9996, "999.6 ms"},
	        {0.99999, "1.0 s"},      {19.7, "19.7 s"},     {59.94, "59.9 s"},
	        {59.96, "1 min 00 s"},   {200, "3 min 20 s"},  {3599.4, "59 min 59 s"},
	        {3599.6, "1 h 00 min"},  {3900, "1 h 05 min"}, {359999, "99 h 59 min"},
	        {359999.9, "over 99 h"}, {1e300, "over 99 h"},
	};
	char text[UNITS_TEXT];

	for (size_t i = 0; i < LENGTH(cases); i++)
		assert_string_equal(duration_text(cases[i].seconds, text), cases[i].text);
}

TEST(sizes)
{
	char text[UNITS_TEXT];

	assert_string_equal(size_text(0, text), "0 bytes");
	assert_string_equal(size_text(1023, text), "1023 bytes");
	assert_string_equal(size_text(1536, text), "1.5 KiB");
	assert_string_equal(size_text(UINT64_MAX, text), "16.0 EiB");
}

TEST(digits)
{
	static const uint64_t numbers[] = {0, 7, 10, 99, 100, UINT32_MAX, UINT64_MAX};
	for (size_t i = 0; i < LENGTH(numbers); i++) {
		char digits[DIGITS_MAX + 1] = "";
		const char *at = digits;
		uint64_t read;
		const size_t n = digits_put(digits, numbers[i]);
		assert_int_equal(n, strlen(digits));
		assert_true(digits_read(&at, &read) && !*at && read == numbers[i]);
		assert_true(digits[0] != '0' || !digits[1]);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
