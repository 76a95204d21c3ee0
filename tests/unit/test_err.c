/* The subject of an error. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/err.h"
#include "tests/unit/unit.h"

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

TEST(the_first_argument)
{
	char longest[2 * sizeof((struct err *)0)->text];
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

TEST(an_option)
{
	SUBJECT_OF(err_set(e, ERR_USAGE, "--op: unknown"), "--op");
	SUBJECT_OF(err_set(e, ERR_USAGE, "--%s: unknown", "raw-file"), "--raw-file");
	SUBJECT_OF(err_set(e, ERR_USAGE, "%s takes no argument", "--each"), "--each");
	SUBJECT_OF(err_set(e, ERR_USAGE, "--rank %d: too large", 7), "--rank");
	SUBJECT_OF(err_set(e, ERR_USAGE, "%s", "--size 3 differs"), "--size");
	SUBJECT_OF(err_set(e, ERR_USAGE, "--"), "");
	SUBJECT_OF(err_set(e, ERR_USAGE, "-- op"), "");
	SUBJECT_OF(err_set(e, ERR_USAGE, "%s", "--op.npy is missing"), "");
}

TEST(an_error_passed_on)
{
	struct err why = {0}, e = {0};
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

TEST(several_ranks_that_are_named)
{
	static const struct {
		const char *text;
		bool named;
	} cases[] = {{"ranks 1-3 did not join", true},
	             {"ranks may have committed", false},
	             {"ranks ", false},
	             {"rank 1 did not join", false},
	             {"", false}};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct err e = ERR_INIT;
		err_rank(&e, ERR_RENDEZVOUS, 1, "%s", cases[i].text);
		assert_int_equal(err_names_ranks(&e), cases[i].named);
	}
}

TEST(a_text_that_is_too_long_keeps_its_end)
{
	struct err e = {0};
	char path[2000];
	memset(path, 'x', sizeof path - 1);
	path[sizeof path - 1] = '\0';
	errno = ENOENT;
	err_errno(&e, ERR_INPUT, "%s: cannot open", path);
	assert_int_equal(strlen(e.text), sizeof e.text - 1);
	assert_non_null(strstr(e.text, "xxx...xxx"));
	assert_non_null(strstr(e.text, "xxx: cannot open: No such file or directory"));
	assert_int_equal(e.subject, 0);
}

/* A sanitizer ends a program that asks for too much memory, unless NULL is what the program
 * expects. */
#define DEFAULT __attribute__((visibility("default")))
DEFAULT const char *__asan_default_options(void);
DEFAULT const char *__tsan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}
const char *__tsan_default_options(void)
{
	return "allocator_may_return_null=1";
}

TEST(what_lacks_memory_is_named)
{
	const size_t huge = SIZE_MAX / 2;
	struct err e = ERR_INIT;
	assert_null(err_calloc(huge, 3, "the table", &e)); /* the product overflows */
	assert_int_equal(e.code, ERR_RESOURCE);
	assert_string_equal(e.text, "out of memory: the table needs 18446744073709551615 bytes");
	err_clear(&e);
	assert_null(err_realloc(NULL, huge, 2, "the list", &e));
	assert_string_equal(e.text, "out of memory: the list needs 18446744073709551614 bytes");
	char *text = err_asprintf("a path", &e, "%s/%d", "folder", 7);
	assert_string_equal(text, "folder/7");
	free(text);
}

TEST(a_list_grows_by_one)
{
	struct err e = ERR_INIT;
	size_t *list = NULL;
	for (size_t n = 0; n < 1000; n++) {
		list = err_grow(list, n, sizeof *list, "a list", &e);
		list[n] = n;
	}
	for (size_t n = 0; n < 1000; n++)
		assert_int_equal(list[n], n);
	free(list);
}

TEST(a_cleared_error_is_as_new)
{
	struct err e = {.host = "a"};
	errno = ENOENT;
	err_errno(&e, ERR_INPUT, "%s", "in");
	err_clear(&e);
	assert_int_equal(e.code | e.system | e.subject | e.text[0] | e.host[0], 0);
	assert_int_equal(e.rank, ERR_RANK_SELF);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
