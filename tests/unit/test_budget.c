/* Shares of --memory: windows, streams, connections' buffers. */
#include <stdlib.h>
#include <string.h>

#include "lib/exec/budget.h"
#include "lib/exec/coded.h"
#include "tests/unit/unit.h"

#define MIB (UINT64_C(1) << 20)

/* Whatever is asked for: windows of all streams fit half of the memory, unless that is so little
 * that windows have their least size. */
TEST(windows_fit_the_memory)
{
	static const uint64_t memories[] = {1, 4096, MIB, 256 * MIB, UINT64_C(1) << 40};
	static const uint64_t bytes[] = {0, 1, 4096, 5 * MIB, 3000 * MIB};
	for (size_t m = 0; m < LENGTH(memories); m++)
		for (uint64_t asked = 0; asked < 5; asked++) {
			uint32_t windows[5];
			uint32_t streams = budget_windows(memories[m], asked, false, 0, NULL, bytes,
			                                  NULL, 5, windows);
			assert_true(streams >= 1 && (!asked || streams <= asked));
			for (int i = 0; i < 5; i++) {
				uint64_t of_all = bytes[i] / windows[i] * streams;
				assert_true(windows[i] >= 1);
				assert_true(of_all <= memories[m] / 2 ||
				            bytes[i] / windows[i] <= 1024);
			}
		}
}

/* One small vector has one window and one stream; streams are no more than windows. */
TEST(streams_need_windows)
{
	const uint64_t small[] = {1000}, large[] = {64 * MIB};
	uint32_t windows[1];
	assert_int_equal(budget_windows(256 * MIB, 0, false, 0, NULL, small, NULL, 1, windows), 1);
	assert_int_equal(windows[0], 1);
	assert_int_equal(budget_windows(256 * MIB, 8, false, 0, NULL, small, NULL, 1, windows), 1);
	assert_true(budget_windows(256 * MIB, 0, false, 0, NULL, large, NULL, 1, windows) > 1);
	assert_true(windows[0] > 1);
	assert_int_equal(budget_windows(256 * MIB, 2, false, 0, NULL, large, NULL, 1, windows), 2);
}

/* In shared memory a short vector has more windows, a long one as many as elsewhere. */
TEST(shared_windows_are_small)
{
	const uint64_t bytes[] = {64 * MIB, 4096 * MIB, 1000};
	uint32_t shared[3], own[3];
	budget_windows(1024 * MIB, 0, true, 0, NULL, bytes, NULL, 3, shared);
	budget_windows(1024 * MIB, 0, false, 0, NULL, bytes, NULL, 3, own);
	assert_true(shared[0] > own[0]);
	assert_int_equal(shared[1], own[1]);
	assert_int_equal(shared[2], 1);
}

/* The windows of a long vector are so large that each task of a device has 512 KiB, within bounds;
 * those of a short one are smaller, because their memory is pinned. Memory still bounds them. */
TEST(windows_of_devices_have_large_tasks)
{
	static const struct {
		uint64_t memory, bytes, tasks;
		bool shared;
		uint64_t least, most; /* bytes of a window */
	} cases[] = {
	        {4096 * MIB, 65536 * MIB, BUDGET_TASKS(64, 1), false, 60 * MIB, 64 * MIB},
	        {4096 * MIB, 65536 * MIB, BUDGET_TASKS(256, 1), false, 60 * MIB, 64 * MIB},
	        {4096 * MIB, 65536 * MIB, BUDGET_TASKS(16, 1), true, 15 * MIB, 16 * MIB},
	        {4096 * MIB, 65536 * MIB, BUDGET_TASKS(16, 3), true, 47 * MIB, 49 * MIB},
	        {4096 * MIB, 64 * MIB, BUDGET_TASKS(64, 1), false, 4 * MIB, 8 * MIB},
	        {4096 * MIB, 64 * MIB, BUDGET_TASKS(4, 1), true, 1 * MIB, 2 * MIB},
	        {4096 * MIB, 64 * MIB, BUDGET_TASKS(2, 1), false, 4 * MIB, 4 * MIB},
	        {60 * MIB, 65536 * MIB, BUDGET_TASKS(64, 1), false, 9 * MIB, 10 * MIB},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint32_t windows;
		assert_int_equal(budget_windows(cases[i].memory, 0, cases[i].shared, cases[i].tasks,
		                                NULL, &cases[i].bytes, NULL, 1, &windows),
		                 BUDGET_STREAMS);
		assert_in_range(cases[i].bytes / windows, cases[i].least, cases[i].most);
	}
}

/* A link that holds more than the usual streams carry gets as many as fill it, within bounds. */
TEST(streams_fill_a_far_link)
{
	static const struct {
		uint64_t bdp, socket, memory;
		int size;
		uint32_t expected;
	} cases[] = {
	        {0, 2 * MIB, 256 * MIB, 4, 0},
	        {6 * MIB, 2 * MIB, 256 * MIB, 4, 0}, /* the usual ones do */
	        {6 * MIB + 1, 2 * MIB, 256 * MIB, 4, 4},
	        {25000000, 2 * MIB, 256 * MIB, 2, 12}, /* 1 Gbit/s, 200 ms */
	        {25000000, 0, 256 * MIB, 2, 12},
	        {25000000, 16 * MIB, 256 * MIB, 2, 0}, /* a kernel with large buffers */
	        {250000000, 32 * MIB, 256 * MIB, 2, 8},
	        {UINT64_MAX, 1, 256 * MIB, 2, 16},
	        {UINT64_MAX, UINT64_MAX, 256 * MIB, 2, 0},
	        {1u << 30, 2 * MIB, 256 * MIB, 1, 16},
	        {1u << 30, 2 * MIB, 256 * MIB, 17, 16}, /* 512 connections of a rank */
	        {1u << 30, 2 * MIB, 256 * MIB, 33, 8},
	        {1u << 30, 2 * MIB, 256 * MIB, 100, 0},
	        {1u << 30, 2 * MIB, 16 * MIB, 4, 7}, /* 42 buffers of 48 KiB each way */
	        {1u << 30, 2 * MIB, MIB, 4, 0},
	        {1u << 30, 2 * MIB, 0, 65536, 0},
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		const struct budget_far far = {cases[i].bdp, cases[i].socket};
		assert_int_equal(budget_far_streams(&far, cases[i].memory, cases[i].size),
		                 cases[i].expected);
	}
}

/* There each stream has a window as soon as the data allow it; a window is as long as what its
 * connection carries at once. */
TEST(windows_fill_a_far_link)
{
	static const struct {
		uint64_t bdp, socket, bytes, streams;
		uint32_t windows, of;
	} cases[] = {
	        {32 * MIB, 2 * MIB, 256 * MIB, 16, 64, 16}, /* as near ones */
	        {32 * MIB, 2 * MIB, 16 * MIB, 16, 16, 16},
	        {32 * MIB, 2 * MIB, MIB, 16, 4, 4},
	        {32 * MIB, 2 * MIB, 1000, 16, 1, 1},
	        {32 * MIB, 2 * MIB, 0, 16, 1, 1},
	        {32 * MIB, 2 * MIB, 16 * MIB, 2, 4, 2}, /* --streams 2 */
	        {1024 * MIB, 64 * MIB, 4096 * MIB, 16, 64, 16},
	        {1024 * MIB, 256 * MIB, 4096 * MIB, 4, 16, 4},
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		const struct budget_far far = {cases[i].bdp, cases[i].socket};
		uint32_t windows[1];
		assert_int_equal(budget_windows(UINT64_C(1) << 40, cases[i].streams, false, 0, &far,
		                                &cases[i].bytes, NULL, 1, windows),
		                 cases[i].of);
		assert_int_equal(windows[0], cases[i].windows);
	}
}

/* A slow link gets small windows: of a time, not less than the latency of the rounds. */
TEST(windows_of_a_slow_link_take_a_time)
{
	static const struct {
		double rate, latency;
		uint64_t window;
	} cases[] = {
	        {0, 0, 4 * MIB}, /* not known */
	        {1e9, 1e-4, 4 * MIB}, {1.2e8, 1e-4, 4 * MIB}, {5e7, 1e-4, MIB},
	        {5e6, 1e-4, MIB / 2}, {1, 0, MIB / 2},        {5e6, 0.3, 2 * MIB},
	        {5e6, 10, 4 * MIB},
	};
	const uint64_t bytes = 64 * MIB;
	for (size_t i = 0; i < LENGTH(cases); i++) {
		const uint64_t most = budget_link_window(cases[i].rate, cases[i].latency);
		uint32_t windows;
		assert_int_equal(most, cases[i].window);
		budget_windows(256 * MIB, 0, false, 0, NULL, &bytes, &most, 1, &windows);
		assert_int_equal(bytes / windows, most);
	}
}

TEST(shares_are_less_than_the_whole)
{
	for (uint64_t m = 1; m < UINT64_C(1) << 62; m *= 3) {
		assert_true(budget_connections(m, false) + m / 2 <= m);
		assert_true(budget_turning(m) <= m);
	}
}

/* The three pieces of each pair's ends have half of the share, unless they are very small. */
TEST(pieces_fit_the_share)
{
	assert_int_equal(budget_piece(256 * MIB, 4, 3), CODED_PIECE_MAX);
	for (int size = 2; size <= 1024; size *= 2)
		for (uint32_t k = 1; k <= 64; k *= 4) {
			const uint64_t piece = budget_piece(1024 * MIB, size, k);
			assert_int_equal(piece % BUDGET_PIECE_UNIT, 0);
			assert_true(piece >= 16384 && piece <= CODED_PIECE_MAX);
			if (piece > 16384)
				assert_true(3 * piece * (uint64_t)(size - 1) * k <=
				            budget_connections(1024 * MIB, true));
		}
}

/* With devices: a third of what they leave, or what fits them. Windows that have no memory are
 * small, and there are as many as that takes. */
TEST(devices_leave_a_third)
{
	const uint64_t bytes[] = {5 * MIB};
	uint32_t windows[1];
	assert_int_equal(budget_with_devices(96 * MIB, 0, UINT64_MAX), 32 * MIB);
	assert_int_equal(budget_with_devices(96 * MIB, 48 * MIB, UINT64_MAX), 16 * MIB);
	assert_int_equal(budget_with_devices(96 * MIB, 48 * MIB, 10 * MIB), 10 * MIB);
	assert_int_equal(budget_with_devices(96 * MIB, 96 * MIB - 3, 10 * MIB), 1);
	assert_int_equal(budget_with_devices(16 * MIB, 16 * MIB, 10 * MIB), 0);
	assert_int_equal(budget_with_devices(16 * MIB, UINT64_MAX, 10 * MIB), 0);
	assert_int_equal(budget_windows(0, 0, false, 0, NULL, bytes, NULL, 1, windows), 1);
	assert_true(bytes[0] / windows[0] >= 512 && bytes[0] / windows[0] <= 1024);
}

/* Buffers share what connections may take, within their bounds. */
TEST(buffers_share_the_memory)
{
	assert_int_equal(budget_connection(1 << 30, 1 << 30, 1), 256 << 10);
	assert_int_equal(budget_connection(1 << 30, 0, 1), 48 << 10);
	assert_int_equal(budget_connection(0, 1 << 30, 1000), 48 << 10);
	assert_int_equal(budget_connection(64 * MIB, 1 << 30, 320), 64 * MIB / 640);
	assert_int_equal(budget_connection(1 << 30, 100000, 2), 204096);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
