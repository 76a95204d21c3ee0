/*
 * The shares of --memory, and the sizes that depend on them: windows, streams, connection buffers.
 * Pure functions; all sizes are bytes.
 *
 * Half of the memory is for the windows' buffers, a quarter for connections; threads, schedules and
 * tables use the rest. Before data move, half is for the conversion of arrays from Fortran order.
 */
#ifndef COLLCTL_EXEC_BUDGET_H
#define COLLCTL_EXEC_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The share for the buffers of all connections (@coded: half of it); the share for the conversion
 * from Fortran order; the share for what the ranks tell of their files before data move, at least
 * 4 MiB. */
uint64_t budget_connections(uint64_t memory, bool coded);
uint64_t budget_turning(uint64_t memory);
uint64_t budget_lists(uint64_t memory);

/*
 * The memory that a rank with devices offers (intent.memory). The planner chooses windows by the
 * buffers that a rank without devices needs. A rank with devices needs at most three times as much
 * host memory, because file data pass through it, and twice as much device memory. @memory:
 * --memory; @pinned: the part of it that the devices hold for themselves; @device_memory: on each
 * device. If nothing is left for windows, the result leads to windows of the least size.
 */
uint64_t budget_with_devices(uint64_t memory, uint64_t pinned, uint64_t device_memory);

/* The size of each connection's buffer, if @nconns connections have their share of @memory, and
 * each carries at most @lane_bytes. */
size_t budget_connection(uint64_t memory, uint64_t lane_bytes, int nconns);

/* What one thread codes, of weights, in bytes per second, about; its decoder is faster. A link is
 * slow if it is slower. */
#define BUDGET_CODER_RATE 250000000

/* The most bytes of a coded piece (coded.h), a multiple of BUDGET_PIECE_UNIT, if any two of @size
 * ranks have @streams connections in both directions. Connections and coded pieces each have half
 * of the connections' share. @memory: --memory. */
#define BUDGET_PIECE_UNIT 64
uint32_t budget_piece(uint64_t memory, int size, uint32_t streams);

/* Bytes of a task of a device, at least, unless a step ends: it takes long to start, and what
 * depends on it begins when it is complete. */
#define DEVICE_TASK (512u << 10)
/* The most tasks of one kind that devices have for a window of @size ranks with @inputs each: an
 * algorithm sends two parts of each block, one while it adds the other. */
#define BUDGET_TASKS(size, inputs) (2 * (uint64_t)(size) * (uint64_t)(inputs))

#define BUDGET_STREAMS     3  /* streams: one window is read, one moves, one is written */
#define BUDGET_FAR_STREAMS 16 /* the most, to fill a far link */

/* The most bytes of a window between near hosts whose slowest link carries @rate bytes/s (0: not
 * known), and whose messages take @latency seconds for all rounds: a power of 2 from 512 KiB, which
 * takes 20 ms or the latency. The bytes of larger windows wait in queues of the slow
 * link, where they are dropped, and what depends on them waits as long. */
uint64_t budget_link_window(double rate, double latency);

/* How far apart the hosts are, in bytes. */
struct budget_far {
	uint64_t bdp; /* on the way, that fill the longest link: bandwidth times delay; 0: near */
	uint64_t socket; /* that one connection can have on its way; 0: not known */
};

/* socket or, if it is not known, what is usual. */
uint64_t budget_socket(const struct budget_far *);

/* The streams that fill the longest link: more than BUDGET_STREAMS, at most BUDGET_FAR_STREAMS, and
 * at most as many as the connections' share of @memory and a process's usual descriptors allow if
 * each of @size ranks sends to all others. 0: the hosts are near, or no more than usual are needed
 * or allowed. */
uint32_t budget_far_streams(const struct budget_far *, uint64_t memory, int size);

/*
 * Choose the number of windows of each of @n vectors, into @windows[n], each >= 1; returns the
 * number of streams. @bytes[n]: the buffer size of each vector as one window (exec_footprint).
 * @shared: the windows are in memory that ranks share. @streams: the requested number; 0:
 * automatic. A window is so large that it fits the processor's cache; smaller if memory is short,
 * for a short vector in shared memory, or if it takes long on a slow link: @most[n], the most bytes
 * of a window of each vector there (budget_link_window), NULL: no limit. There is more than one
 * stream only if windows can overlap. @tasks: BUDGET_TASKS, if devices copy the windows; those of
 * long vectors are so large that a task has 512 KiB, but at most 64 MiB; 0: no devices. @far: NULL,
 * or budget_far_streams is not 0: each of @streams has a window as long as the data allow, which
 * then fills its connections.
 */
uint32_t budget_windows(uint64_t memory, uint64_t streams, bool shared, uint64_t tasks,
                        const struct budget_far *far, const uint64_t *bytes, const uint64_t *most,
                        int n, uint32_t *windows);

#endif
