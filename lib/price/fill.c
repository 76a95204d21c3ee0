/* The parts of unequal hosts. See fill.h. */
#include "lib/price/fill.h"

#include <stdbool.h>

/* What host @i sends beside the part that it owns: S = 1, its contribution or the root's vector, or
 * nothing. */
static int beside(int root, int i)
{
	return root < 0 || root == i;
}

/* Until the end, share[i] says whether host i owns a part. Those that would have less than nothing
 * own none; this makes the others' parts smaller, so that it is repeated. Returns the time T of
 * S = 1 for the others. */
static double fill(const double *rate, int n, int root, uint32_t *share)
{
	for (;;) {
		double sum = 0, sent = n - 2, time;
		bool again = false;

		for (int i = 0; i < n; i++) {
			sum += share[i] ? rate[i] : 0;
			sent += share[i] ? beside(root, i) : 0;
		}
		time = sent / sum;
		for (int i = 0; i < n; i++)
			if (share[i] && time * rate[i] < beside(root, i)) {
				share[i] = 0;
				again = true;
			}
		if (!again)
			return time;
	}
}

void fill_shares(const double *rate, int n, int root, uint32_t *share)
{
	uint32_t left = FILL_ALL;
	int fastest = -1;

	for (int i = 0; i < n; i++)
		share[i] = 1;
	const double time = n > 2 ? fill(rate, n, root, share) : 0;
	for (int i = 0; i < n; i++) {
		const double part = n > 2 ? (time * rate[i] - beside(root, i)) / (n - 2) : 1.0 / n;
		const double whole = share[i] ? part * FILL_ALL : 0;

		if (share[i] && (fastest < 0 || rate[i] > rate[fastest]))
			fastest = i;
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
