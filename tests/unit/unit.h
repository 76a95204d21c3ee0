/* For every unit test: cmocka, behind the headers that it needs. */
#ifndef COLLCTL_TESTS_UNIT_H
#define COLLCTL_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The elements of an array. */
#define LENGTH(array) (sizeof(array) / sizeof *(array))

#endif
