/* Prints the results of a bench: a table, CSV, with --json one object per case, and a picture. */
#ifndef COLLCTL_CMD_TEXT_BENCH_PRINT_H
#define COLLCTL_CMD_TEXT_BENCH_PRINT_H

#include <jansson.h>

#include "lib/coll/bench/bench.h"

/* BENCH_SILENT: print nothing, because the picture is written to stdout. */
enum bench_form { BENCH_TABLE, BENCH_CSV, BENCH_JSON, BENCH_SILENT };

void bench_print_head(const struct bench_head *, enum bench_form);
void bench_print_row(const struct bench_head *, const struct bench_row *, enum bench_form);
json_t *bench_row_json(const struct bench_head *, const struct bench_row *);

/* Draw a self-contained SVG: the bus bandwidth against the size, a line for each algorithm; rows
 * with size 0 are ignored. Malloced, *len bytes; NULL: out of memory. */
char *bench_svg(const struct bench_head *, const struct bench_row *, size_t n, size_t *len);

/* "TLS", "plain TCP", "memory", "memory and TLS": how the ranks are connected. */
const char *bench_way(const struct bench_head *);

#endif
