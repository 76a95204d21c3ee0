/*
 * Filling: how much of the vector each host owns in a direct exchange between hosts whose links
 * have different rates. Pure functions; any thread.
 *
 * Allreduce. Host i of n owns the part f_i of a vector of S bytes: it receives the contributions of
 * the n - 1 others to this part, adds them, and sends the sum to the others. So it sends
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
 * Broadcast. The root sends its part f_r to all n - 1 others, and every other part to its owner
 * alone, which sends it to the n - 2 others that lack it. So the root sends S(1 + f_r(n - 2)), and
 * another host S f_i(n - 2); every other host receives S. If all stop sending at time T, then
 * T = S(n - 1) / sum up: the filling is the same, but of the rates out, and the root alone has
 * something to send beside its part. If T up_r < S, the root owns nothing, and T is S / up_r. So
 *
 *     T = max(S(n - 1) / sum up, S / up_r, S / min down),
 *
 * which no broadcast can be below (Kumar, Ross, Peer-Assisted File Distribution: The Minimum
 * Distribution Time, HOTWEB 2006): n - 1 copies leave hosts, one leaves the root, one enters each
 * other host. A chain takes max(S / up, S / down) of its slowest link. If every host receives as
 * fast as it sends, this is the same bound, because S(n - 1) / sum up < S / min up. So parts by
 * rates pay only where hosts send more slowly than they receive: lines of homes and offices, and
 * --limit-rate. A root of 100 Mbit/s and three hosts that receive 100 and send 20 need S / 53 where
 * the root sends 3 copies in S / 33 and a chain takes S / 20.
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

/* The shares of @n hosts, n >= 1, of rates @rate[n] > 0, into @share[n]: for a broadcast from host
 * @root, with the rates out; with @root -1 for an allreduce, with the lower of both rates. */
void fill_shares(const double *rate, int n, int root, uint32_t *share);

/* Cut @count elements of @esize bytes (0: unknown) by @share[n], which add up to FILL_ALL: part i
 * is [off[i], off[i + 1]). */
void fill_cuts(const uint32_t *share, int n, uint64_t count, unsigned esize, uint64_t *off);

#endif
