#include <inttypes.h>
#include <stdio.h>

#include "cmd/bench_print.h"
#include "cmd/commands.h"
#include "lib/base/json.h"

static const char rule[] = "#\n"
                           "#       size        count   type    op  algorithm               "
                           "       time (us)                algbw     busbw  #wrong\n"
                           "#        (B)   (elements)                                      "
                           "min        p50        p99    (GB/s)    (GB/s)\n";

void bench_print_head(const struct bench_head *h, enum bench_form form)
{
	if (form == BENCH_CSV)
		puts("size,count,type,op,algorithm,min_us,p50_us,p99_us,algbw,busbw,wrong");
	if (form == BENCH_TABLE)
		printf("# %s of %d ranks, %s, %d iterations after %d for warm-up\n%s# time of an "
		       "iteration on the slowest rank; no barrier between iterations\n# bandwidths "
		       "computed from p50; GB = 10^9 bytes\n%s",
		       h->collective, h->size, h->insecure ? "plain TCP" : "TLS", h->iters,
		       h->warmup, h->barrier_auto ? "# " BARRIER_AUTO "\n" : "", rule);
	fflush(stdout);
}

void bench_print_row(const struct bench_head *h, const struct bench_row *r, enum bench_form form)
{
	char wrong[24] = "N/A";
	if (form == BENCH_CSV)
		wrong[0] = '\0';
	if (r->checked)
		snprintf(wrong, sizeof wrong, "%" PRIu64, r->wrong);
	if (form == BENCH_CSV)
		printf("%" PRIu64 ",%" PRIu64 ",%s,%s,%s,%.3f,%.3f,%.3f,%.6f,%.6f,%s\n", r->size,
		       r->count, dtype_name(h->dtype), h->op, r->algorithm->name, r->min * 1e6,
		       r->p50 * 1e6, r->p99 * 1e6, r->algbw / 1e9, r->busbw / 1e9, wrong);
	if (form == BENCH_TABLE)
		printf("%12" PRIu64 " %12" PRIu64 " %6s %5s  %-20s %10.1f %10.1f %10.1f %9.3f "
		       "%9.3f %7s\n",
		       r->size, r->count, dtype_name(h->dtype), h->op, r->algorithm->name,
		       r->min * 1e6, r->p50 * 1e6, r->p99 * 1e6, r->algbw / 1e9, r->busbw / 1e9,
		       wrong);
	fflush(stdout);
}

json_t *bench_row_json(const struct bench_head *h, const struct bench_row *r)
{
	return json_pack("{s:I, s:I, s:s, s:s, s:s, s:{s:o, s:o, s:o}, s:o, s:o, s:o}", "size",
	                 (json_int_t)r->size, "count", (json_int_t)r->count, "type",
	                 dtype_name(h->dtype), "op", h->op, "algorithm", r->algorithm->name,
	                 "seconds", "min", json_measured(r->min), "p50", json_measured(r->p50),
	                 "p99", json_measured(r->p99), "algbw", json_measured(r->algbw / 1e9),
	                 "busbw", json_measured(r->busbw / 1e9), "wrong",
	                 r->checked ? json_integer((json_int_t)r->wrong) : json_null());
}
