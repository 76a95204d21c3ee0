/* Columns of texts: decoded, cut and shortened; whatever the locale is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/text/report.h"
#include "cmd/text/terminal.h"
#include "lib/base/text.h"
#include "tests/unit/unit.h"

#define WIDE  "\346\250\241\345\236\213" /* two characters of two columns each */
#define ACUTE "e\314\201"                /* e, and an accent that combines with it */

TEST(test_columns)
{
	assert_int_equal(terminal_columns(""), 0);
	assert_int_equal(terminal_columns("abc"), 3);
	assert_int_equal(terminal_columns("\303\251"), 1);
	assert_int_equal(terminal_columns(ACUTE "t" ACUTE), 3);
	assert_int_equal(terminal_columns(WIDE "a"), 5);
	assert_int_equal(terminal_columns("\360\237\230\200"), 2);
	assert_int_equal(terminal_columns("\377"), 1);
}

static void cuts(const char *text, int columns, const char *want)
{
	char buf[64];

	snprintf(buf, sizeof buf, "%s", text);
	assert_string_equal(terminal_cut(buf, columns), want);
}

TEST(test_cut)
{
	cuts("abc", 3, "abc");
	cuts("abc", 2, "ab");
	cuts("abc", 0, "");
	cuts("abc", -1, "");
	cuts(WIDE "a", 4, WIDE);
	cuts(WIDE, 3, "\346\250\241");
	cuts(ACUTE "t", 1, ACUTE);
}

static void shortens(const char *text, int columns, const char *want)
{
	char buf[64];

	assert_string_equal(terminal_shorten(buf, sizeof buf, text, columns), want);
}

TEST(test_shorten)
{
	shortens("layer.0.weight", 14, "layer.0.weight");
	shortens("layer.0.weight", 9, "laye…ight");
	shortens("layer.0.weight", 8, "laye…ght");
	shortens("abc", 1, "…");
	shortens("abc", 2, "a…");
	shortens(WIDE WIDE WIDE, 7, "\346\250\241…\345\236\213");
	/* An accent stays with its letter. */
	shortens("aaaa" ACUTE, 3, "a…" ACUTE);
	shortens(ACUTE "aaaa", 3, ACUTE "…a");
	shortens("abcdefgh" ACUTE "i", 3, "a…i");
}

/* At every width and in every buffer: no more columns and bytes than there are, whole characters.
 */
TEST(test_limits)
{
	static const char *const texts[] = {
	        "",
	        "a",
	        "model.layers.0.weight",
	        WIDE WIDE WIDE "." WIDE,
	        ACUTE "t" ACUTE ".w",
	        "\314\201\314\201",
	        "\360\237\230\200" ACUTE WIDE "\\x1b",
	};
	char buf[64], again[4 * sizeof buf];

	for (size_t i = 0; i < LENGTH(texts); i++)
		for (int columns = 1; columns < 30; columns++)
			for (size_t cap = 1; cap < sizeof buf; cap++) {
				memset(buf, '!', sizeof buf);
				terminal_shorten(buf, cap, texts[i], columns);
				assert_true(strlen(buf) < cap);
				assert_true(terminal_columns(buf) <= columns);
				text_escape(again, sizeof again, buf);
				assert_string_equal(again, buf);
				if (cap > strlen(texts[i]) + 3 &&
				    terminal_columns(texts[i]) <= columns)
					assert_string_equal(buf, texts[i]);
			}
}

TEST(test_no_terminal)
{
	FILE *f = tmpfile();

	assert_non_null(f);
	setenv("COLUMNS", "60", 1);
	assert_int_equal(terminal_width(fileno(f)), 0);
	assert_int_equal(terminal_width(-1), 0);
	assert_false(terminal_can_draw(fileno(f)));
	assert_string_equal(terminal_begin(fileno(f), TERMINAL_ERROR), "");
	assert_string_equal(terminal_end(fileno(f), TERMINAL_ERROR), "");
	fclose(f);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
