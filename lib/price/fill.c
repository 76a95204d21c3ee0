/* The parts of unequal hosts. See fill.h. */
#include "lib/price/fill.h"

#include <stdbool.h>

/* Until the end, share[i] says whether host i owns a part. Those that would have less than nothing
 * own none; this makes the others' parts smaller, so that it is repeated. Returns the time T of
 * S = 1 for the others. */
static double fill(const double *rate, int n, uint32_t *share)
{
	for (;;) {
		double sum = 0, time;
		int owners = 0;
		bool again = false;

		for (int i = 0; i < n; i++) {
			sum += share[i] ? rate[i] : 0;
			owners += share[i] > 0;
		}
		time = (n - 2 + owners) / sum;
		for (int i = 0; i < n; i++)
			if (share[i] && time * rate[i] < 1) {
				share[i] = 0;
				again = true;
			}
		if (!again)
			return time;
	}
}

void fill_shares(const double *rate, int n, uint32_t *share)
{
	uint32_t left = FILL_ALL;
	int fastest = 0;

	for (int i = 0; i < n; i++) {
		share[i] = 1;
		fastest = rate[i] > rate[fastest] ? i : fastest;
	}
	const double time = n > 2 ? fill(rate, n, share) : 0;
	for (int i = 0; i < n; i++) {
		const double part = n > 2 ? (time * rate[i] - 1) / (n - 2) : 1.0 / n;
		const double whole = share[i] ? part * FILL_ALL : 0;

		share[i] = whole < left ? (uint32_t)whole : left;
		left -= share[i];
	}
	share[fastest] += left; /* what rounding has left */
}

void fill_cuts(const uint32_t *share, int n, uint64_t count, unsigned esize, uint64_t *off)
{
	uint64_t unit = esize && FILL_ALIGN % esize == 0 ? FILL_ALIGN / esize : 1;
	uint32_t before = 0;

	if (count / (uint64_t)n < 16 * unit) /* too short to round much */
		unit = 1;
	for (int i = 0; i < n; i++) {
		const uint64_t at =
		        (uint64_t)((__extension__(unsigned __int128) count * before) / FILL_ALL);

		off[i] = before == FILL_ALL ? count : at / unit * unit;
		before += share[i];
	}
	off[n] = count;
}
