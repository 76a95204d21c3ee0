/* A promise that a fuzzer holds the code to. */
#ifndef COLLCTL_TESTS_FUZZ_CHECK_H
#define COLLCTL_TESTS_FUZZ_CHECK_H

#include <stdlib.h>

#define CHECK(x)                 \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

#endif
