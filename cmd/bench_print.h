/* Prints the results of a bench: a table, CSV, or with --json one object per case. */
#ifndef COLLCTL_CMD_BENCH_PRINT_H
#define COLLCTL_CMD_BENCH_PRINT_H

#include <jansson.h>

#include "lib/coll/bench.h"

enum bench_form { BENCH_TABLE, BENCH_CSV, BENCH_JSON };

void bench_print_head(const struct bench_head *, enum bench_form);
void bench_print_row(const struct bench_head *, const struct bench_row *, enum bench_form);
json_t *bench_row_json(const struct bench_head *, const struct bench_row *);

#endif
