/*
 * For tests of stores: a client, and what it says.
 */
#ifndef COLLCTL_TESTS_STORE_CLIENT_H
#define COLLCTL_TESTS_STORE_CLIENT_H

#include <string.h>

#include "lib/base/clock.h"
#include "lib/store/store.h"
#include "tests/unit/unit.h"

#define SEC(n) (clock_ns() + (int64_t)(n)*NS_PER_SEC)

static inline struct store *must_open(const char *url, const char *token)
{
	struct err e = {0};
	struct store *st = store_open(&(struct store_conf){.url = url, .token = token}, &e);

	if (!st)
		fail_msg("%s", e.text);
	return st;
}

static inline void assert_says(const struct err *e, int code, const char *text)
{
	if (e->code != code || !strstr(e->text, text))
		fail_msg("%d '%s' is not %d '%s'", e->code, e->text, code, text);
}

#endif
