#include "lib/exec/budget.h"

#include "lib/exec/coded.h"

#define BUFFER_MAX   (256u << 10) /* bytes of a connection's buffer */
#define BUFFER_MIN   (48u << 10)
#define PIECE_MIN    (16u << 10) /* of a coded piece */
#define WINDOW_BYTES (4u << 20)  /* of a window, about: the last-level cache holds several */
#define SHARED_LEAST (1u << 20)  /* of a window in shared memory */
#define SHARED       64 /* windows of a vector there: fewer pages are touched for the first time */
#define WINDOW_LEAST 1024 /* if memory is short: each window costs a latency */

uint64_t budget_connections(uint64_t memory, bool coded)
{
	return memory / (coded ? 8 : 4);
}

uint32_t budget_piece(uint64_t memory, int size, uint32_t streams)
{
	/* The two ends of a pair have three pieces (coded_new). */
	uint64_t piece = budget_connections(memory, true) / 3 / (uint64_t)size / streams;
	if (piece < PIECE_MIN)
		piece = PIECE_MIN;
	if (piece > CODED_PIECE_MAX)
		piece = CODED_PIECE_MAX;
	return (uint32_t)(piece - piece % BUDGET_PIECE_UNIT);
}

uint64_t budget_turning(uint64_t memory)
{
	return memory / 2;
}

uint64_t budget_lists(uint64_t memory)
{
	const uint64_t least = 4u << 20;
	return memory / 4 > least ? memory / 4 : least;
}

uint64_t budget_with_devices(uint64_t memory, uint64_t pinned, uint64_t device_memory)
{
	const uint64_t third = pinned < memory ? (memory - pinned) / 3 : 0;
	return third < device_memory ? third : device_memory;
}

size_t budget_connection(uint64_t memory, uint64_t lane_bytes, int nconns)
{
	uint64_t want = 2 * lane_bytes + 4096, most = memory;
	if (nconns)
		most /= (uint64_t)nconns * 2; /* for sending and for receiving */
	if (want > most)
		want = most;
	if (want > BUFFER_MAX)
		want = BUFFER_MAX;
	return want < BUFFER_MIN ? BUFFER_MIN : (size_t)want;
}

/* The number of windows of a vector, if memory is not short. */
static uint64_t wanted(uint64_t bytes, bool shared)
{
	uint64_t window = shared ? bytes / SHARED : WINDOW_BYTES;
	if (window < SHARED_LEAST)
		window = SHARED_LEAST;
	if (window > WINDOW_BYTES)
		window = WINDOW_BYTES;
	uint64_t windows = (bytes + window / 2) / window;
	return windows < 1 ? 1 : windows;
}

uint32_t budget_windows(uint64_t memory, uint64_t streams, bool shared, const uint64_t *bytes,
                        int n, uint32_t *windows)
{
	uint64_t total = 0;
	for (int i = 0; i < n; i++)
		total += wanted(bytes[i], shared);
	if (!streams)
		streams = total > 1 ? BUDGET_STREAMS : 1;
	uint64_t room = memory / 2 / streams;
	if (room < WINDOW_LEAST)
		room = WINDOW_LEAST;
	total = 0;
	for (int i = 0; i < n; i++) {
		uint64_t w = wanted(bytes[i], shared);
		if (bytes[i] / w > room)
			w = bytes[i] / room + 1;
		windows[i] = w > UINT32_MAX ? UINT32_MAX : (uint32_t)w;
		total += windows[i];
	}
	return (uint32_t)(streams < total ? streams : total);
}
