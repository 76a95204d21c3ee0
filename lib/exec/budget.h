/*
 * The shares of --memory, and the sizes that depend on them: windows, streams, connection buffers.
 *
 * Half of the memory is for the windows' buffers and a quarter for connections; threads, schedules
 * and tables use the rest. Before data move, half is for converting arrays from Fortran order.
 */
#ifndef COLLCTL_EXEC_BUDGET_H
#define COLLCTL_EXEC_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes for the buffers of all connections, and for converting an array from Fortran order. */
uint64_t budget_connections(uint64_t memory);
uint64_t budget_turning(uint64_t memory);

/*
 * The memory that a rank with devices offers. Windows are chosen by the buffers that a rank without
 * devices needs. One with devices needs at most three times as much host memory, as files reach
 * device memory through it, and twice as much device memory. @pinned: bytes of @memory that the
 * devices hold for themselves; if none is left for windows, windows have their least size.
 */
uint64_t budget_with_devices(uint64_t memory, uint64_t pinned, uint64_t device_memory);

/* Bytes of each connection's buffer, if @nconns connections share @memory and each carries at most
 * @lane_bytes. */
size_t budget_connection(uint64_t memory, uint64_t lane_bytes, int nconns);

#define BUDGET_STREAMS 3 /* windows at a time: one is read, one moves, one is written */

/*
 * Choose the number of windows of each vector and the number of streams. @bytes[n]: buffer bytes of
 * each vector as one window. @shared: the windows are in memory that ranks share. A window fits the
 * cache; it is smaller if memory is short, and for a short vector in shared memory. There is more
 * than one stream only if windows can overlap. @streams: requested; 0: automatic. Returns the
 * number of streams and fills @windows[n], each >= 1.
 */
uint32_t budget_windows(uint64_t memory, uint64_t streams, bool shared, const uint64_t *bytes,
                        int n, uint32_t *windows);

#endif
