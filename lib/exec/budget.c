#include "lib/exec/budget.h"

#include <math.h>

#include "lib/exec/coded.h"

#define BUFFER_MAX   (256u << 10) /* bytes of a connection's buffer */
#define BUFFER_MIN   (48u << 10)
#define PIECE_MIN    (16u << 10) /* of a coded piece */
#define WINDOW_BYTES (4u << 20)  /* of a window, about: the last-level cache holds several */
#define SHARED_LEAST (1u << 20)  /* of a window in shared memory */
#define SHARED       32 /* windows of a vector there: fewer pages are touched for the first time */
#define DEVICE_MOST  (64u << 20)  /* of a window that devices copy */
#define DEVICE_PINS  (3u << 10)   /* of a window, that are pinned in the time of a task's start */
#define WINDOW_LEAST 1024         /* if memory is short: each window costs a latency */
#define FAR_LEAST    (256u << 10) /* of a window, if a link needs more streams than usual ... */
#define SLOW_LEAST   (512u << 10) /* ... or is slow */
#define SLOW_TIME    20e-3        /* s of a window there, of which three are under way */
#define FAR_CONNS    512 /* connections of a rank there: half of the usual limit of descriptors */
#define SOCKET_USUAL (2u << 20) /* of a connection: half of Linux's default tcp_wmem */

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

uint64_t budget_socket(const struct budget_far *f)
{
	return f->socket ? f->socket : SOCKET_USUAL;
}

uint32_t budget_far_streams(const struct budget_far *f, uint64_t memory, int size)
{
	const uint64_t socket = budget_socket(f), ends = 2 * (uint64_t)(size - 1);
	const uint64_t conns = budget_connections(memory, false) / (2 * BUFFER_MIN);
	uint64_t streams = f->bdp / socket + (f->bdp % socket != 0);
	if (streams > BUDGET_FAR_STREAMS)
		streams = BUDGET_FAR_STREAMS;
	if (ends && streams > (conns < FAR_CONNS ? conns : FAR_CONNS) / ends)
		streams = (conns < FAR_CONNS ? conns : FAR_CONNS) / ends;
	return streams > BUDGET_STREAMS ? (uint32_t)streams : 0;
}

/* Every window has @tasks tasks, each of which takes a time to start; and the memory of a window,
 * which all that follow use again, is pinned. Both together take least with the square root; larger
 * tasks gain nothing. */
static uint64_t device_window(uint64_t bytes, bool shared, uint64_t tasks)
{
	const double window = sqrt((double)bytes * (double)tasks * DEVICE_PINS);
	const uint64_t least = shared ? SHARED_LEAST : WINDOW_BYTES;
	uint64_t most = tasks * DEVICE_TASK < DEVICE_MOST ? tasks * DEVICE_TASK : DEVICE_MOST;
	if (window < (double)most)
		most = (uint64_t)window;
	return most < least ? least : most;
}

/* The size of a window, if memory is not short: of a vector of @bytes, at most @limit. */
static uint64_t near_window(uint64_t bytes, bool shared, uint64_t tasks, uint64_t limit)
{
	uint64_t window = shared ? bytes / SHARED : WINDOW_BYTES;
	if (tasks)
		return device_window(bytes, shared, tasks);
	if (window < SHARED_LEAST)
		window = SHARED_LEAST;
	if (window > WINDOW_BYTES)
		window = WINDOW_BYTES;
	return window > limit ? limit : window;
}

uint64_t budget_link_window(double rate, double latency)
{
	const double least = rate * fmax(SLOW_TIME, latency);
	uint64_t window = WINDOW_BYTES;
	while (rate > 0 && window > SLOW_LEAST && (double)window / 2 >= least)
		window /= 2;
	return window;
}

/* ... of vectors of @bytes together, over a far link. */
static uint64_t far_window(const struct budget_far *f, uint64_t streams, uint64_t bytes)
{
	uint64_t window = f->bdp / streams; /* what its connection carries at once */
	if (window > budget_socket(f))
		window = budget_socket(f);
	if (window < WINDOW_BYTES)
		window = WINDOW_BYTES;
	if (window > bytes / streams)
		window = bytes / streams;
	return window < FAR_LEAST ? FAR_LEAST : window;
}

static uint64_t windows_of(uint64_t bytes, uint64_t window)
{
	const uint64_t windows = (bytes + window / 2) / window;
	return windows < 1 ? 1 : windows;
}

uint32_t budget_windows(uint64_t memory, uint64_t streams, bool shared, uint64_t tasks,
                        const struct budget_far *far, const uint64_t *bytes, const uint64_t *most,
                        int n, uint32_t *windows)
{
	uint64_t total = 0, all = 0;
	for (int i = 0; i < n; i++) {
		const uint64_t limit = most ? most[i] : UINT64_MAX;
		total += windows_of(bytes[i], near_window(bytes[i], shared, tasks, limit));
		all += bytes[i];
	}
	if (!streams)
		streams = total > 1 ? BUDGET_STREAMS : 1;
	uint64_t room = memory / 2 / streams;
	if (room < WINDOW_LEAST)
		room = WINDOW_LEAST;
	total = 0;
	for (int i = 0; i < n; i++) {
		const uint64_t limit = most ? most[i] : UINT64_MAX;
		uint64_t w =
		        windows_of(bytes[i], far ? far_window(far, streams, all)
		                                 : near_window(bytes[i], shared, tasks, limit));
		if (bytes[i] / w > room)
			w = bytes[i] / room + 1;
		windows[i] = w > UINT32_MAX ? UINT32_MAX : (uint32_t)w;
		total += windows[i];
	}
	return (uint32_t)(streams < total ? streams : total);
}
