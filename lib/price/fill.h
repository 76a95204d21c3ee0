/*
 * Filling: how much of the vector each host owns in a direct exchange between hosts whose links
 * have different rates. Pure functions; any thread.
 *
 * Host i of n owns the part f_i of a vector of S bytes: it receives the contributions of the n - 1
 * others to this part, adds them, and sends the sum to the others. So it sends
 *
 *     its contributions to the other parts, S(1 - f_i), and its sum n - 1 times, S f_i (n - 1),
 *
 * and receives S f_i (n - 1) and then S(1 - f_i): in both directions S(1 + f_i(n - 2)). A direct
 * exchange loads both directions alike, so the slower one decides: b_i = min(up, down).
 *
 * If all end at time T, then f_i = (T b_i / S - 1) / (n - 2), and because the parts add up to 1,
 * T = 2S(n - 1) / sum b. A host with T b_i < S cannot even send its contribution in that time: its
 * part is 0, and the others share the vector in the same way among themselves. The time is then
 * that of the slowest host, S / min b. So T = max(2S(n - 1) / sum b, S / min b), which no direct
 * exchange can be below. With two hosts every division takes the same time.
 *
 * Shares are whole numbers that add up to FILL_ALL, so that all ranks that have the same shares
 * make the same cuts.
 */
#ifndef COLLCTL_PRICE_FILL_H
#define COLLCTL_PRICE_FILL_H

#include <stdint.h>

#define FILL_ALL (UINT32_C(1) << 30)
#define FILL_ALIGN \
	64 /* bytes: cuts of long vectors are at multiples, if the elements' size allows */

/* The shares of @n hosts, n >= 1, of rates @rate[n] > 0, into @share[n]. */
void fill_shares(const double *rate, int n, uint32_t *share);

/* Cut @count elements of @esize bytes (0: unknown) by @share[n], which add up to FILL_ALL: part i
 * is [off[i], off[i + 1]). */
void fill_cuts(const uint32_t *share, int n, uint64_t count, unsigned esize, uint64_t *off);

#endif
