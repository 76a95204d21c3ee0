/* The subject of an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/err.h"

static void assert_subject(const struct err *e, const char *want)
{
	char subject[sizeof e->text];
	snprintf(subject, sizeof subject, "%.*s", e->subject, e->text);
	assert_string_equal(subject, want);
}

#define SUBJECT_OF(call, want)                                \
	do {                                                  \
		struct err err = {.rank = ERR_RANK_SELF}, *e; \
		e = &err;                                     \
		errno = EACCES;                               \
		assert_int_equal(call, -1);                   \
		assert_subject(e, want);                      \
	} while (0)

static void the_first_argument(void **state)
{
	char longest[2 * sizeof((struct err *)0)->text];
	(void)state;
	memset(longest, 'x', sizeof longest);
	longest[sizeof longest - 1] = '\0';
	SUBJECT_OF(err_set(e, ERR_INPUT, "%s: is a directory", "a b"), "a b");
	SUBJECT_OF(err_set(e, ERR_INPUT, "%s:%d: names no host", "hosts", 3), "hosts");
	SUBJECT_OF(err_errno(e, ERR_INPUT, "%s", "in.npy"), "in.npy");
	SUBJECT_OF(err_errno(e, ERR_INPUT, "%s: cannot open", "in.npy"), "in.npy");
	SUBJECT_OF(err_set(e, ERR_INPUT, "%s: is a directory", "--op: x"), "--op: x");
	SUBJECT_OF(err_set(e, ERR_INPUT, "%s: is a directory", longest), "");
	SUBJECT_OF(err_set(e, ERR_INPUT, "%s", "whatever"), "");
	SUBJECT_OF(err_set(e, ERR_INPUT, "it is %s: so", "whatever"), "");
}

static void an_option(void **state)
{
	(void)state;
	SUBJECT_OF(err_set(e, ERR_USAGE, "--op: unknown"), "--op");
	SUBJECT_OF(err_set(e, ERR_USAGE, "--%s: unknown", "raw-file"), "--raw-file");
	SUBJECT_OF(err_set(e, ERR_USAGE, "%s takes no argument", "--each"), "--each");
	SUBJECT_OF(err_set(e, ERR_USAGE, "--rank %d: too large", 7), "--rank");
	SUBJECT_OF(err_set(e, ERR_USAGE, "%s", "--size 3 differs"), "--size");
	SUBJECT_OF(err_set(e, ERR_USAGE, "--"), "");
	SUBJECT_OF(err_set(e, ERR_USAGE, "-- op"), "");
	SUBJECT_OF(err_set(e, ERR_USAGE, "%s", "--op.npy is missing"), "");
}

static void an_error_passed_on(void **state)
{
	struct err why = {0}, e = {0};
	(void)state;
	err_set(&why, ERR_RENDEZVOUS, "%s: HTTP 500", "http://store");
	assert_int_equal(err_pass(&e, &why), -1);
	assert_subject(&e, "http://store");
	assert_int_equal(e.code, ERR_RENDEZVOUS);
	assert_int_equal(e.rank, ERR_RANK_SELF);
	struct err other = {0};
	err_set(&other, ERR_INPUT, "%s: is a directory", "in");
	err_pass(&e, &other); /* the first error stays */
	assert_subject(&e, "http://store");
	assert_int_equal(err_pass(NULL, &why), -1);
}

static void a_text_that_is_too_long_keeps_its_end(void **state)
{
	struct err e = {0};
	char path[2000];
	(void)state;
	memset(path, 'x', sizeof path - 1);
	path[sizeof path - 1] = '\0';
	errno = ENOENT;
	err_errno(&e, ERR_INPUT, "%s: cannot open", path);
	assert_int_equal(strlen(e.text), sizeof e.text - 1);
	assert_non_null(strstr(e.text, "xxx...xxx"));
	assert_non_null(strstr(e.text, "xxx: cannot open: No such file or directory"));
	assert_int_equal(e.subject, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(the_first_argument),
	        cmocka_unit_test(an_option),
	        cmocka_unit_test(an_error_passed_on),
	        cmocka_unit_test(a_text_that_is_too_long_keeps_its_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
